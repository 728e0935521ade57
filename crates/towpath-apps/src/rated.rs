//! What is timed beside a library that does the same, in the same run.

use crate::exchange::Exchange;
use crate::exchange::record::thread_ns;

/// Some work, alone on one task.
pub(crate) type Work = Box<dyn FnMut(&mut dyn Exchange) -> anyhow::Result<()>>;

/// Ours, and what others make of the same.
pub(crate) struct Rated {
    pub(crate) what: &'static str,
    /// How much is done, in units such as Gflop.
    pub(crate) amount: f64,
    pub(crate) unit: &'static str,
    pub(crate) ours: Work,
    /// Others, by name.
    pub(crate) peers: Vec<(&'static str, Work)>,
}

/// Seconds of processor time, so that other programs count for little: medians of ours and of each
/// peer.
pub(crate) struct Times {
    pub(crate) ours: f64,
    pub(crate) peers: Vec<f64>,
}

fn seconds(work: &mut Work, exchange: &mut dyn Exchange) -> anyhow::Result<f64> {
    let begun = thread_ns();
    work(exchange)?;
    Ok((thread_ns() - begun) as f64 / 1e9)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

impl Rated {
    /// Takes turns for so many rounds, forwards and backwards, so that a machine that gets slower
    /// or faster does so for all. What is done for the first time counts for none.
    pub(crate) fn times(
        &mut self,
        exchange: &mut dyn Exchange,
        rounds: u32,
    ) -> anyhow::Result<Times> {
        let mut all: Vec<&mut Work> = std::iter::once(&mut self.ours)
            .chain(self.peers.iter_mut().map(|(_, work)| work))
            .collect();
        let mut times = vec![Vec::new(); all.len()];
        for work in &mut all {
            work(exchange)?;
        }
        for round in 0..rounds {
            for place in 0..all.len() {
                let at = if round % 2 == 0 { place } else { all.len() - 1 - place };
                times[at].push(seconds(all[at], exchange)?);
            }
        }
        let mut medians = times.into_iter().map(median);
        let ours = medians.next().expect("ours");
        Ok(Times { ours, peers: medians.collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::exchange::local::run;

    #[test]
    fn all_take_turns_forwards_and_backwards() {
        let told = run(1, |exchange| {
            let order = Rc::new(RefCell::new(String::new()));
            let work = |name: char| -> Work {
                let order = Rc::clone(&order);
                Box::new(move |_| {
                    order.borrow_mut().push(name);
                    Ok(())
                })
            };
            let peers = vec![("b", work('b')), ("c", work('c'))];
            let mut rated = Rated { what: "a", amount: 1.0, unit: "", ours: work('a'), peers };
            let times = rated.times(exchange, 3)?;
            assert!(times.ours >= 0.0 && times.peers.len() == 2);
            Ok(order.take())
        });
        assert_eq!(told[0].as_ref().unwrap(), "abcabccbaabc");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
