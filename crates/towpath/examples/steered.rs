//! A rod that is heated at one end: who looks on may turn the heater up while it is computed.
//!
//! ```text
//! cargo build --release --example steered && towpath up --hosts 2
//! towpath run -n 3 -- target/release/examples/steered &
//! towpath panel rod                        what there is to see and to change
//! towpath panel rod heater=800 --follow    change it, and see what comes of it
//! towpath panel rod running=off            end it
//! ```
//!
//! All tasks make the same panel and agree on it once in a while: from there on all compute with
//! the same values. The first of them shows it. With an argument it ends after so many rounds.

use std::error::Error;
use std::time::{Duration, Instant};

use towpath::Job;
use towpath::task::panel::{Panel, Parameter, Series};

/// Points of each task; the heater is left of the first one's, and ice right of the last one's.
const POINTS: usize = 1000;
/// Steps between two agreements.
const STEPS: i32 = 200;
/// How fast heat spreads: stable up to a half.
const A: f64 = 0.4;
/// Nobody sees more than so many pictures a second.
const ROUND: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(u64::MAX), |word| word.parse())?;
    let mut job = Job::enrol()?;
    let (rank, size) = (job.rank(), job.size());
    let mut panel = Panel::new("rod")?;
    let heater =
        panel.parameter(Parameter::real("heater", 400.0).between(0.0, 3000.0).unit("K"))?;
    let running = panel.parameter(Parameter::switch("running", true))?;
    let mean = Series::curves("mean", &["rod"]).unit("K").over("round").keep(1000);
    let mean = panel.series(mean)?;
    let ends = panel.series(Series::curves("ends", &["hot", "cold"]).unit("K").over("round"))?;
    if job.is_first() {
        panel.show(&mut job.task)?;
    }
    let (mut rod, mut next) = (vec![273.0; POINTS + 2], vec![273.0; POINTS + 2]);
    for round in 0..rounds {
        let begun = Instant::now();
        panel.agree(&mut job.task, &mut job.team)?;
        if panel.value(running)? < 1.0 {
            break;
        }
        for step in 0..STEPS {
            if rank == 0 {
                rod[0] = panel.value(heater)?;
            } else {
                job.task.send_slice(job.member(rank - 1), step, &rod[1..2])?;
            }
            if rank + 1 < size {
                job.task.send_slice(job.member(rank + 1), step, &rod[POINTS..=POINTS])?;
                let right = job.wanted(rank + 1).tag(step);
                job.task.recv_slice_into(&right, &mut rod[POINTS + 1..])?;
            }
            if rank > 0 {
                let left = job.wanted(rank - 1).tag(step);
                job.task.recv_slice_into(&left, &mut rod[..1])?;
            }
            for at in 1..=POINTS {
                next[at] = rod[at] + A * (rod[at - 1] + rod[at + 1] - 2.0 * rod[at]);
            }
            rod[1..=POINTS].copy_from_slice(&next[1..=POINTS]);
        }
        let own = [rod[1..=POINTS].iter().sum::<f64>(), rod[1], rod[POINTS]];
        let all = job.team.gather_slice(&mut job.task, 0, &own)?;
        if let Some(all) = all {
            let sum: f64 = all.iter().map(|part| part[0]).sum();
            let count = (POINTS * size as usize) as f64;
            panel.push(&mut job.task, mean, round as f64, &[sum / count])?;
            panel.push(&mut job.task, ends, round as f64, &[all[0][1], all[all.len() - 1][2]])?;
            let left = ROUND.saturating_sub(begun.elapsed());
            job.task.wait(Some(left))?;
        }
    }
    panel.finish(&mut job.task)?;
    job.task.leave()?;
    Ok(())
}
