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

use towpath::task::{Task, TaskId, Wanted};

/// Points inside the border, across and down.
const WIDTH: usize = 192;
const HEIGHT: usize = 160;
const STEPS: usize = 200;
const A: f64 = 0.2;

/// Tag of the gathered blocks; the halos of step s travel with tags 4 s to 4 s + 3.
const GATHER: i32 = -1;

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

/// Sides of a block: the neighbour there is so many columns and rows away. Opposite sides differ
/// in the last bit of their number.
const SIDES: [(isize, isize); 4] = [(-1, 0), (1, 0), (0, -1), (0, 1)];

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
        let (columns, rows) = grid(members);
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
            for at in self.side(side, true) {
                self.next[at] = self.u[at];
            }
        }
        std::mem::swap(&mut self.u, &mut self.next);
    }

    /// Where a side's points are: the block's own edge, or the rim beyond it.
    fn side(&self, side: usize, rim: bool) -> Vec<usize> {
        let beyond = usize::from(rim);
        match side {
            0 => (1..=self.h).map(|row| self.at(1 - beyond, row)).collect(),
            1 => (1..=self.h).map(|row| self.at(self.w + beyond, row)).collect(),
            2 => (1..=self.w).map(|column| self.at(column, 1 - beyond)).collect(),
            _ => (1..=self.w).map(|column| self.at(column, self.h + beyond)).collect(),
        }
    }

    fn inside(&self) -> Vec<u8> {
        let row = |row| &self.u[self.at(1, row)..=self.at(self.w, row)];
        (1..=self.h).flat_map(row).flat_map(|t| t.to_le_bytes()).collect()
    }
}

fn temperatures(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().expect("8 bytes")))
}

/// Columns and rows of the grid of members: as square as it can be.
fn grid(members: usize) -> (usize, usize) {
    let rows =
        (1..=members).take_while(|r| r * r <= members).filter(|r| members.is_multiple_of(*r));
    let rows = rows.last().unwrap_or(1);
    (members / rows, rows)
}

fn neighbour(rank: usize, members: usize, (dx, dy): (isize, isize)) -> Option<usize> {
    let (columns, rows) = grid(members);
    let column = (rank % columns).checked_add_signed(dx).filter(|c| *c < columns)?;
    let row = (rank / columns).checked_add_signed(dy).filter(|r| *r < rows)?;
    Some(row * columns + column)
}

/// The members, and one's own rank among them.
fn meet(task: &mut Task, size: u32) -> Outcome<(Vec<TaskId>, usize)> {
    // Groups are the whole virtual machine's: the job's name keeps two runs apart.
    let group = format!("heat of {}", Task::job().unwrap_or_default());
    task.join_group(&group)?;
    let members = task.freeze_group(&group, size)?.members;
    let members: Vec<TaskId> = members.into_iter().flatten().collect();
    let rank = members.iter().position(|m| *m == task.id()).ok_or("not a member")?;
    Ok((members, rank))
}

const fn from_with(source: TaskId, tag: i32) -> Wanted {
    Wanted { source: Some(source), tag: Some(tag), context: 0 }
}

fn exchange(
    task: &mut Task,
    members: &[TaskId],
    rank: usize,
    block: &mut Block,
    step: usize,
) -> Outcome<()> {
    let tag = |side: usize| i32::try_from(4 * step + side).unwrap_or(i32::MAX);
    let mut bytes = Vec::new();
    for (side, away) in SIDES.into_iter().enumerate() {
        let Some(to) = neighbour(rank, members.len(), away) else { continue };
        bytes.clear();
        for at in block.side(side, false) {
            bytes.extend_from_slice(&block.u[at].to_le_bytes());
        }
        task.send(members[to], tag(side), &bytes)?;
    }
    for (side, away) in SIDES.into_iter().enumerate() {
        let Some(from) = neighbour(rank, members.len(), away) else { continue };
        // What is my left is its right.
        let halo = task.recv(&from_with(members[from], tag(side ^ 1)))?;
        for (at, t) in block.side(side, true).into_iter().zip(temperatures(halo.bytes())) {
            block.u[at] = t;
        }
    }
    Ok(())
}

fn gather(task: &mut Task, members: &[TaskId], block: &Block) -> Outcome<ExitCode> {
    let mut plate = Block::new([0, 0], [WIDTH, HEIGHT]);
    let mut put = |part: &Block, bytes: &[u8]| {
        for (n, t) in temperatures(bytes).enumerate() {
            let at = plate.at(part.x + n % part.w + 1, part.y + n / part.w + 1);
            plate.u[at] = t;
        }
    };
    put(block, &block.inside());
    for (rank, member) in members.iter().enumerate().skip(1) {
        let message = task.recv(&from_with(*member, GATHER))?;
        put(&Block::of(rank, members.len()), message.bytes());
    }
    let mut alone = Block::new([0, 0], [WIDTH, HEIGHT]);
    for _ in 0..STEPS {
        alone.step();
    }
    let (ours, right) = (plate.inside(), alone.inside());
    let differ = ours.chunks(8).zip(right.chunks(8)).filter(|(a, b)| a != b).count();
    println!(
        "{STEPS} steps of {WIDTH} x {HEIGHT} points by {} tasks: {:.6} in the middle, {differ} \
         points differ from the plate computed alone",
        members.len(),
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
    let mut task = Task::enrol()?;
    let size = Task::size().ok_or("TOWPATH_SIZE is not set\nhint: towpath run -n 4 -- …")?;
    let (members, rank) = meet(&mut task, size)?;
    let mut block = Block::of(rank, members.len());
    for step in 0..STEPS {
        exchange(&mut task, &members, rank, &mut block, step)?;
        block.step();
    }
    if rank == 0 {
        return gather(&mut task, &members, &block);
    }
    task.send(members[0], GATHER, &block.inside())?;
    task.leave()?;
    Ok(ExitCode::SUCCESS)
}
