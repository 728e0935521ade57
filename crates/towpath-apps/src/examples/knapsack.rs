//! Knapsack by branch and bound, on the frame that the travelling salesman uses.
//!
//! Things stand by value per weight; each is taken or left. What a beginning can still bring is at
//! most what filling the rest with the next things brings, the last of them in part (G. Dantzig,
//! 1957).

use anyhow::ensure;
use clap::Args;

use crate::exchange::Exchange;
use crate::kernels::branch::{Problem, explore};
use crate::options::splitmix;
use crate::report::Report;

const THINGS_MAX: usize = 64;
const WEIGHT_MAX: u64 = 1 << 32;

#[derive(Clone, Debug, Args)]
pub(crate) struct KnapsackArgs {
    /// Things, made up
    #[arg(long, default_value_t = 40)]
    things: usize,
    /// Of the things
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Things to choose from. 1 to 64 of them, weights and values below 2^32.
pub(super) struct Knapsack {
    /// Weight and value, the most value per weight first.
    things: Vec<(u64, u64)>,
    /// Where each was before.
    order: Vec<usize>,
    capacity: u64,
}

/// Things decided so far, and what was taken.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    decided: usize,
    weight: u64,
    value: u64,
}

impl Knapsack {
    pub(super) fn new(things: &[(u64, u64)], capacity: u64) -> anyhow::Result<Self> {
        let count = things.len();
        ensure!((1..=THINGS_MAX).contains(&count), "{count} things: from 1 to {THINGS_MAX}");
        for (weight, value) in things {
            let good = (1..WEIGHT_MAX).contains(weight) && *value < WEIGHT_MAX;
            ensure!(good, "weight {weight}, value {value}: at least 1 and 0, below {WEIGHT_MAX}");
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| {
            let ((wa, va), (wb, vb)) = (things[*a], things[*b]);
            (vb * wa).cmp(&(va * wb)).then(a.cmp(b))
        });
        let things = order.iter().map(|at| things[*at]).collect();
        Ok(Self { things, order, capacity })
    }

    fn total(&self) -> u64 {
        self.things.iter().map(|(_, value)| value).sum()
    }

    /// The greatest value, and which things, in their first order; at every rank.
    pub(super) fn best(&self, exchange: &mut dyn Exchange) -> anyhow::Result<(u64, Vec<usize>)> {
        let best = explore(exchange, self)?.best.expect("taking nothing is possible");
        let taken = self.order.iter().zip(&best.choices).filter(|(_, choice)| **choice == 0);
        let mut taken: Vec<usize> = taken.map(|(at, _)| *at).collect();
        taken.sort_unstable();
        Ok((self.total() - best.cost, taken))
    }
}

/// Choice 0 takes a thing, 1 leaves it. What a solution costs is the value that is left.
impl Problem for Knapsack {
    type State = Taken;

    fn width(&self) -> u8 {
        2
    }

    fn depth(&self) -> usize {
        self.things.len()
    }

    fn start(&self) -> Taken {
        Taken { decided: 0, weight: 0, value: 0 }
    }

    fn choose(&self, taken: &Taken, choice: u8) -> Option<Taken> {
        let decided = taken.decided + 1;
        if choice == 1 {
            return Some(Taken { decided, ..*taken });
        }
        let (weight, value) = self.things[taken.decided];
        let next = Taken { decided, weight: taken.weight + weight, value: taken.value + value };
        (next.weight <= self.capacity).then_some(next)
    }

    fn bound(&self, taken: &Taken) -> Option<u64> {
        let (mut room, mut value) = (self.capacity - taken.weight, taken.value);
        for (weight, worth) in &self.things[taken.decided..] {
            if *weight > room {
                value += worth * room / weight;
                break;
            }
            room -= weight;
            value += worth;
        }
        Some(self.total() - value)
    }

    fn cost(&self, taken: &Taken) -> u64 {
        self.total() - taken.value
    }
}

/// The whole example; the root gets the report.
pub(super) fn knapsack(
    exchange: &mut dyn Exchange,
    args: &KnapsackArgs,
) -> anyhow::Result<Option<Report>> {
    let count = args.things;
    ensure!((1..=THINGS_MAX).contains(&count), "{count} things: from 1 to {THINGS_MAX}");
    let thing = |at: usize| {
        let weight = 20 + splitmix(args.seed ^ splitmix(2 * at as u64)) % 980;
        (weight, weight + splitmix(args.seed ^ splitmix(2 * at as u64 + 1)) % 100)
    };
    let things: Vec<(u64, u64)> = (0..count).map(thing).collect();
    let capacity = things.iter().map(|(weight, _)| weight).sum::<u64>() / 2;
    let (value, taken) = Knapsack::new(&things, capacity)?.best(exchange)?;
    let weight: u64 = taken.iter().map(|at| things[*at].0).sum();
    let right: u64 = taken.iter().map(|at| things[*at].1).sum();
    ensure!(weight <= capacity && value == right, "wrong: {weight} of {capacity}, {value}");
    let lead = format!("{count} things, room for {capacity}, {} tasks", exchange.size());
    let mut report = Report::new("Knapsack", &lead);
    report.say("The greatest value", &format!("{value}, of weight {weight}"));
    report.say("Things", &format!("{taken:?}"));
    Ok((exchange.rank() == 0).then_some(report))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::exchange::local::run;

    /// data/kernels/known.json: the optimum is another program's.
    #[test]
    fn known_optimum_of_sixty_things_for_any_number_of_tasks() {
        let known: Value =
            serde_json::from_str(include_str!("../../data/kernels/known.json")).unwrap();
        let known = &known["knapsack60"];
        let numbers = |name: &str| -> Vec<u64> {
            known[name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
        };
        let things: Vec<(u64, u64)> =
            numbers("weights").into_iter().zip(numbers("values")).collect();
        let knapsack = Knapsack::new(&things, known["capacity"].as_u64().unwrap()).unwrap();
        let mut first = None;
        for size in [1, 2, 3, 4, 7, 8] {
            for said in run(size, |exchange| knapsack.best(exchange)) {
                let (value, taken) = said.unwrap();
                assert_eq!(value, known["optimum"].as_u64().unwrap());
                assert_eq!(taken.iter().map(|at| things[*at].1).sum::<u64>(), value);
                assert_eq!(*first.get_or_insert(taken.clone()), taken, "{size} tasks");
            }
        }
    }

    #[test]
    fn small_ones_are_as_all_subsets_say_and_bad_ones_are_named() {
        for seed in 0..20 {
            let thing =
                |at: u64| (1 + splitmix(seed * 40 + at) % 9, splitmix(seed * 40 + 20 + at) % 9);
            let things: Vec<(u64, u64)> = (0..10).map(thing).collect();
            let sums = |set: u32| {
                let own = (0..10).filter(|at| set >> at & 1 == 1).map(|at: usize| things[at]);
                own.fold((0, 0), |(w, v), thing| (w + thing.0, v + thing.1))
            };
            let right = (0..1 << 10).map(sums).filter(|(w, _)| *w <= 17).map(|(_, v)| v).max();
            let knapsack = Knapsack::new(&things, 17).unwrap();
            let got = run(3, |exchange| knapsack.best(exchange)).swap_remove(0).unwrap().0;
            assert_eq!(Some(got), right);
        }
        let said =
            |things: &[(u64, u64)]| Knapsack::new(things, 5).map(drop).unwrap_err().to_string();
        assert_eq!(said(&[]), "0 things: from 1 to 64");
        assert!(said(&[(0, 3)]).starts_with("weight 0, value 3: at least 1 and 0"));
    }
}
