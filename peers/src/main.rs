//! LU and products of the applications (`crates/towpath-apps/src/kernels`) beside faer, on one
//! processor, in one run: medians of rounds in turn, by processor time.
#![allow(dead_code)] // of the applications' files a part is used

mod exchange;
mod kernels;
#[path = "../../crates/towpath-apps/src/rated.rs"]
mod rated;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

use crate::exchange::Alone;
use crate::kernels::alone::{factored, multiplied};
use crate::rated::{Rated, Work};

const ROUNDS: u32 = 15;
const SIDES: [(usize, &str, &str); 3] = [
    (512, "LU of 512 equations", "product of 512 x 512"),
    (1024, "LU of 1024 equations", "product of 1024 x 1024"),
    (1536, "LU of 1536 equations", "product of 1536 x 1536"),
];

/// Numbers from -1 to 1 without a pattern (SplitMix64).
fn cells(count: usize) -> Vec<f64> {
    let number = |at: usize| {
        let mut z = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as f64 / (1_u64 << 63) as f64 - 1.0
    };
    (0..count).map(number).collect()
}

fn whole(side: usize) -> Mat<f64> {
    let all = cells(side * side);
    Mat::from_fn(side, side, |row, column| all[column * side + row])
}

fn factored_by_faer(side: usize) -> Work {
    let all = whole(side);
    let need = lu_in_place_scratch::<usize, f64>(side, side, Par::Seq, Default::default());
    let mut room = MemBuffer::new(need);
    let [mut there, mut back] = [vec![0_usize; side], vec![0_usize; side]];
    Box::new(move |_| {
        let mut cells = all.clone();
        let (of, stack) = (cells.as_mut(), MemStack::new(&mut room));
        lu_in_place(of, &mut there, &mut back, Par::Seq, stack, Default::default());
        std::hint::black_box(cells);
        Ok(())
    })
}

fn multiplied_by_faer(side: usize) -> Work {
    let all = whole(side);
    Box::new(move |_| {
        let mut out = Mat::<f64>::zeros(side, side);
        matmul(out.as_mut(), Accum::Replace, all.as_ref(), all.as_ref(), 1.0, Par::Seq);
        std::hint::black_box(out);
        Ok(())
    })
}

fn main() -> anyhow::Result<()> {
    for (side, lu, product) in SIDES {
        let (cube, unit) = ((side * side * side) as f64 / 1e9, "Gflop a second");
        let peers = vec![("faer", factored_by_faer(side))];
        let amount = 2.0 / 3.0 * cube;
        let ours = factored(side, &cells(side * side));
        let lu = Rated { what: lu, amount, unit, ours, peers };
        let peers = vec![("faer", multiplied_by_faer(side))];
        let amount = 2.0 * cube;
        let ours = multiplied(side, cells(side * side));
        let product = Rated { what: product, amount, unit, ours, peers };
        for mut rated in [lu, product] {
            let times = rated.times(&mut Alone, ROUNDS)?;
            let (rate, theirs) = (rated.amount / times.ours, rated.amount / times.peers[0]);
            let (what, unit, ratio) = (rated.what, rated.unit, rate / theirs);
            println!("{what}: {rate:.1} {unit}, faer {theirs:.1}, ratio {ratio:.2}");
        }
    }
    Ok(())
}
