//! Heat spreads over a plate that several tasks share: a stencil in two dimensions with an
//! exchange of halos.
//!
//! ```text
//! cargo build --release --example heat && towpath up --hosts 2
//! towpath run -n 4 -- target/release/examples/heat
//! ```
//!
//! The temperature is fixed at the border. Each task owns a block of the plate; in each step it
//! sends the four edges of its block to its neighbours and computes with theirs:
//!
//! ```text
//! u'(x, y) = u(x, y) + a (u(x-1, y) + u(x+1, y) + u(x, y-1) + u(x, y+1) - 4 u(x, y))
//! ```
//! (explicit Euler for the heat equation; stable for a ≤ 1/4). The first member gathers the plate,
//! computes it alone, and compares bit by bit: exit status 0 says that they are the same.

use std::error::Error;
use std::process::ExitCode;

use towpath::task::plain::{Tile, TileMut};
use towpath::{Grid, Job};

/// Points inside the border, across and down.
const WIDTH: usize = 192;
const HEIGHT: usize = 160;
const STEPS: usize = 200;
const A: f64 = 0.2;

/// Tag of the gathered blocks; the halos of step s travel with tags 4 s to 4 s + 3.
const GATHER: i64 = -1;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A block of the plate with a rim of one point around it.
struct Block {
    /// Where it begins, in the plate's points inside the border.
    x: usize,
    y: usize,
    w: usize,
    h: usize,
    /// `(w + 2) (h + 2)` temperatures, row by row.
    u: Vec<f64>,
    next: Vec<f64>,
}

/// Sides of a block: in which direction of the grid (0: rows, 1: columns) the neighbour there is,
/// and which way. Opposite sides differ in the last bit of their number.
const SIDES: [(usize, i64); 4] = [(1, -1), (1, 1), (0, -1), (0, 1)];

/// Temperature at the beginning, inside and at the border.
fn initial(x: isize, y: isize) -> f64 {
    let inside = (0..WIDTH.cast_signed()).contains(&x) && (0..HEIGHT.cast_signed()).contains(&y);
    match (inside, y) {
        (true, _) => ((x * 31 + y * 17) % 97) as f64 / 97.0,
        (false, -1) => 1.0,
        _ => 0.25,
    }
}

impl Block {
    /// Left column, top row, width and height.
    fn new([x, y]: [usize; 2], [w, h]: [usize; 2]) -> Self {
        let mut heat = Vec::with_capacity((w + 2) * (h + 2));
        for row in y..y + h + 2 {
            for column in x..x + w + 2 {
                heat.push(initial(column.cast_signed() - 1, row.cast_signed() - 1));
            }
        }
        Self { x, y, w, h, next: heat.clone(), u: heat }
    }

    /// The block of the member with this rank.
    fn of(rank: usize, members: usize) -> Self {
        let grid = grid(members);
        let [rows, columns] = [0, 1].map(|direction| grid.extents()[direction] as usize);
        let (column, row) = (rank % columns, rank / columns);
        let (x, right) = (WIDTH * column / columns, WIDTH * (column + 1) / columns);
        let (y, bottom) = (HEIGHT * row / rows, HEIGHT * (row + 1) / rows);
        Self::new([x, y], [right - x, bottom - y])
    }

    const fn at(&self, column: usize, row: usize) -> usize {
        row * (self.w + 2) + column
    }

    fn step(&mut self) {
        let stride = self.w + 2;
        for row in 1..=self.h {
            for at in self.at(1, row)..=self.at(self.w, row) {
                let u = &self.u;
                let around = u[at - 1] + u[at + 1] + u[at - stride] + u[at + stride];
                self.next[at] = u[at] + A * (around - 4.0 * u[at]);
            }
        }
        // The rim is fixed or comes from neighbours: it stays what it was.
        for side in 0..SIDES.len() {
            let (start, rows, columns) = self.side(side, true);
            for at in (0..rows).flat_map(|row| start + row * stride..start + row * stride + columns)
            {
                self.next[at] = self.u[at];
            }
        }
        std::mem::swap(&mut self.u, &mut self.next);
    }

    /// Where a side begins, and how many rows and columns it has: the block's own edge, or the rim
    /// beyond it.
    const fn side(&self, side: usize, rim: bool) -> (usize, usize, usize) {
        let beyond = rim as usize;
        match side {
            0 => (self.at(1 - beyond, 1), self.h, 1),
            1 => (self.at(self.w + beyond, 1), self.h, 1),
            2 => (self.at(1, 1 - beyond), 1, self.w),
            _ => (self.at(1, self.h + beyond), 1, self.w),
        }
    }

    fn edge(&self, side: usize) -> Tile<'_, f64> {
        let (at, rows, columns) = self.side(side, false);
        Tile::new(&self.u[at..], rows, columns, self.w + 2)
    }

    fn rim(&mut self, side: usize) -> TileMut<'_, f64> {
        let ((at, rows, columns), stride) = (self.side(side, true), self.w + 2);
        TileMut::new(&mut self.u[at..], rows, columns, stride)
    }

    /// All of it without the rim.
    fn inside(&self) -> Tile<'_, f64> {
        Tile::new(&self.u[self.at(1, 1)..], self.h, self.w, self.w + 2)
    }

    /// The part of it that another block covers.
    fn part(&mut self, block: &Self) -> TileMut<'_, f64> {
        let (at, stride) = (self.at(block.x + 1, block.y + 1), self.w + 2);
        TileMut::new(&mut self.u[at..], block.h, block.w, stride)
    }
}

/// The grid of members, rows and columns: as square as it can be, and wide rather than high.
fn grid(members: usize) -> Grid {
    let balanced = Grid::balanced(members as u32, 2);
    let [most, least] = [0, 1].map(|direction| balanced.extents()[direction]);
    Grid::new(&[least, most])
}

fn exchange(job: &mut Job, grid: &Grid, block: &mut Block, step: usize) -> Outcome<()> {
    let tag = |side: usize| i32::try_from(4 * step + side).unwrap_or(i32::MAX);
    let rank = job.rank();
    for (side, (direction, way)) in SIDES.into_iter().enumerate() {
        let Some(to) = grid.neighbour(rank, direction, way) else { continue };
        let to = job.member(to);
        job.task.send_tile(to, tag(side), block.edge(side))?;
    }
    for (side, (direction, way)) in SIDES.into_iter().enumerate() {
        let Some(from) = grid.neighbour(rank, direction, way) else { continue };
        // What is my left is its right.
        let wanted = job.wanted(from).tag(tag(side ^ 1));
        job.task.recv_tile(&wanted, block.rim(side))?;
    }
    Ok(())
}

fn gather(job: &mut Job, block: &Block) -> Outcome<ExitCode> {
    let mut plate = Block::new([0, 0], [WIDTH, HEIGHT]);
    let members = job.size() as usize;
    for (to, from) in plate.part(block).rows().zip(block.inside().rows()) {
        to.copy_from_slice(from);
    }
    for rank in 1..members {
        let wanted = job.wanted(rank as u32).tag(GATHER);
        let part = plate.part(&Block::of(rank, members));
        job.task.recv_tile(&wanted, part)?;
    }
    let mut alone = Block::new([0, 0], [WIDTH, HEIGHT]);
    for _ in 0..STEPS {
        alone.step();
    }
    let (ours, right) = (plate.inside().to_vec(), alone.inside().to_vec());
    let differ = ours.iter().zip(&right).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    println!(
        "{STEPS} steps of {WIDTH} x {HEIGHT} points by {members} tasks: {:.6} in the middle, \
         {differ} points differ from the plate computed alone",
        plate.u[plate.at(WIDTH / 2, HEIGHT / 2)]
    );
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run() -> Outcome<ExitCode> {
    let mut job = Job::enrol()?;
    let members = job.size() as usize;
    let (grid, mut block) = (grid(members), Block::of(job.rank() as usize, members));
    for step in 0..STEPS {
        exchange(&mut job, &grid, &mut block, step)?;
        block.step();
    }
    if job.is_first() {
        return gather(&mut job, &block);
    }
    let first = job.member(0);
    job.task.send_tile(first, GATHER, block.inside())?;
    job.task.leave()?;
    Ok(ExitCode::SUCCESS)
}
