use std::time::Duration;

use super::command::{SteerArgs, Steered, rounds};
use super::subject::Subject;
use crate::exchange::local::run;

fn args(of: Subject, rounds: usize) -> SteerArgs {
    SteerArgs { of, rounds, every: Duration::ZERO, panel: None, listen: false }
}

/// Three tasks; the root gets these lines before its third round.
fn steered(of: Subject, lines: &'static [&'static str]) -> Steered {
    let all = run(3, |exchange| {
        let is_root = exchange.rank() == 0;
        rounds(exchange, &args(of, 6), |helm, round| {
            if round == 2 && is_root {
                for line in lines {
                    helm.take(line);
                }
            }
        })
    });
    all.into_iter().next().unwrap().unwrap()
}

#[test]
fn a_change_counts_from_the_next_round_on_and_a_bad_one_is_left_out() {
    let still = steered(Subject::Prices, &[]);
    let lines = &["maturity = 1", "volatility=NaN", "depth=3", "rate", "strike=-1"];
    let longer = steered(Subject::Prices, lines);
    assert!(still.log.is_empty() && still.rounds == 6);
    assert_eq!(
        longer.log,
        [
            "left out: volatility: NaN is not from 0.001 to 10",
            "left out: no parameter `depth`: one of strike, rate, maturity, volatility, spot, \
             running",
            "left out: `rate` is no change: NAME=VALUE, NAME one of strike, rate, maturity, \
             volatility, spot, running",
            "left out: strike: -1 is not from 0.01 to 1000000",
            "maturity = 1",
        ]
    );
    let (still, longer) = (still.last.unwrap().values, longer.last.unwrap().values);
    assert!(longer.iter().zip(&still).skip(1).all(|(long, short)| long > short));
}

#[test]
fn what_cannot_be_together_is_taken_back_at_all_ranks() {
    let still = steered(Subject::Slots, &[]);
    let overlap = steered(Subject::Slots, &["distance=0.1"]);
    assert_eq!(overlap.log.len(), 2, "{:?}", overlap.log);
    assert!(
        overlap.log[1].starts_with("left out: the slots' distance is 0.5"),
        "{:?}",
        overlap.log
    );
    assert_eq!(overlap.last.unwrap().values, still.last.unwrap().values);
    let turned = steered(Subject::Slots, &["angle=90", "network=line"]);
    assert_eq!(turned.log, ["angle = 90", "network = line"]);
    let values = turned.last.unwrap().values;
    assert_eq!(values.len(), 181);
    // Straight from above, both sides see the same.
    let differ = |(a, b): (&f64, &f64)| (a - b).abs() / a.max(1e-12);
    let worst = values.iter().zip(values.iter().rev()).map(differ).fold(0.0, f64::max);
    assert!(worst < 1e-9, "{worst}");
}

#[test]
fn it_ends_where_it_is_told_to() {
    let ended = steered(Subject::Prices, &["running=off"]);
    assert_eq!((ended.rounds, &ended.log[..]), (2, &["running = off".to_owned()][..]));
    let none = run(1, |exchange| rounds(exchange, &args(Subject::Prices, 0), |_, _| {}).map(drop));
    let why = none[0].as_ref().unwrap_err().to_string();
    assert_eq!(why, "0 rounds: from 1 to 1000000000");
}
