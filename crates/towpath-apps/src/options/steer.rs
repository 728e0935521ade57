//! Parameters that change while tasks compute: a surface of 10 000 prices, again and again.
//!
//! Any task sends the root a change as a message ([`STEER`]); the root takes what has come before
//! each round and tells everyone with the round's beginning. Standard input is such a sender, too:
//! lines like `volatility=0.4`.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use anyhow::bail;
use clap::Args;

use super::contract::{Contract, Kind};
use super::demo::{SIDE, surface};
use crate::exchange::{Exchange, bytes};
use crate::picture::Field;
use crate::report::Report;

/// Tag of a change: the number of the parameter, and its value.
pub(crate) const STEER: i32 = 7;
/// Parameters in the order of their numbers.
const NAMES: [&str; 4] = ["strike", "rate", "maturity", "volatility"];
/// Lines that nobody has taken yet are not read on.
const ROUNDS_MAX: usize = 1_000_000;

#[derive(Clone, Debug, Args)]
pub(crate) struct SteerArgs {
    /// How often the surface is computed
    #[arg(long, default_value_t = 50)]
    pub(crate) rounds: usize,
    /// Take changes from standard input, one a line (`volatility=0.4`)
    #[arg(long)]
    pub(crate) listen: bool,
}

/// A change in words, as number and value.
pub(crate) fn understood(line: &str) -> anyhow::Result<(usize, f64)> {
    let Some((name, value)) = line.split_once('=') else {
        bail!("`{line}` is no change\nhint: NAME=VALUE, NAME one of {}", NAMES.join(", "));
    };
    let Some(number) = NAMES.iter().position(|known| *known == name.trim()) else {
        bail!("no parameter `{}`\nhint: one of {}", name.trim(), NAMES.join(", "));
    };
    Ok((number, value.trim().parse()?))
}

fn with(of: &Contract, number: usize, value: f64) -> anyhow::Result<Contract> {
    let mut next = *of;
    match number {
        0 => next.strike = value,
        1 => next.rate = value,
        2 => next.maturity = value,
        3 => next.volatility = value,
        _ => bail!("a change of parameter {number}: there are {}", NAMES.len()),
    }
    Ok(next.checked()?)
}

fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in lines.take(ROUNDS_MAX) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Takes what has come; a change that cannot be is told and left out.
fn taken(
    exchange: &mut dyn Exchange,
    input: Option<&Receiver<String>>,
    mut of: Contract,
    log: &mut Vec<String>,
) -> anyhow::Result<Contract> {
    let mut changes = Vec::new();
    while let Some((_, message)) = exchange.try_recv(None, STEER)? {
        match bytes::to::<f64>(&message)?[..] {
            [number, value] => changes.push(Ok((number as usize, value))),
            _ => bail!("a change of {} bytes", message.len()),
        }
    }
    while let Some(Ok(line)) = input.map(Receiver::try_recv) {
        changes.push(understood(&line));
    }
    for change in changes {
        match change.and_then(|(number, value)| Ok((number, value, with(&of, number, value)?))) {
            Ok((number, value, next)) => {
                log.push(format!("{} = {value}", NAMES[number]));
                of = next;
            }
            Err(error) => log.push(format!("left out: {error}")),
        }
    }
    Ok(of)
}

/// Computes `rounds` surfaces; `before` may send changes before each round.
pub(crate) fn rounds(
    exchange: &mut dyn Exchange,
    args: &SteerArgs,
    mut before: impl FnMut(&mut dyn Exchange, usize) -> anyhow::Result<()>,
) -> anyhow::Result<Option<(Vec<f64>, Vec<String>)>> {
    if args.rounds == 0 || args.rounds > ROUNDS_MAX {
        bail!("{} rounds: from 1 to {ROUNDS_MAX}", args.rounds);
    }
    let input = (args.listen && exchange.rank() == 0).then(lines);
    let mut of = Contract {
        kind: Kind::Call,
        spot: 100.0,
        strike: 100.0,
        rate: 0.05,
        carry: 0.0,
        volatility: 0.3,
        maturity: 0.5,
    };
    let (mut log, mut last) = (Vec::new(), None);
    for round in 0..args.rounds {
        before(exchange, round)?;
        if exchange.rank() == 0 {
            of = taken(exchange, input.as_ref(), of, &mut log)?;
        }
        let mut told = [of.strike, of.rate, of.maturity, of.volatility];
        exchange.broadcast_slice(0, &mut told)?;
        let [strike, rate, maturity, volatility] = told;
        of = Contract { strike, rate, volatility, maturity, ..of };
        last = surface(exchange, &of)?;
    }
    Ok(last.map(|prices| (prices, log)))
}

/// The whole demonstration.
pub(crate) fn steer(
    exchange: &mut dyn Exchange,
    args: &SteerArgs,
) -> anyhow::Result<Option<Report>> {
    let begun = Instant::now();
    let Some((prices, log)) = rounds(exchange, args, |_, _| Ok(()))? else { return Ok(None) };
    let each = begun.elapsed().as_secs_f64() / args.rounds as f64;
    let lead = format!("{} surfaces of {} prices", args.rounds, SIDE * SIDE);
    let mut report = Report::new("Steering", &lead);
    report.say("Each took", &towpath_report::units::time_text(each));
    report.say("Changes", &if log.is_empty() { "none".to_owned() } else { log.join("\n") });
    report.field("The last one: spot across, volatility down", &Field::new(SIDE, prices));
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    #[test]
    fn a_change_counts_from_the_next_round_on_and_a_bad_one_is_left_out() {
        let args = SteerArgs { rounds: 6, listen: false };
        let steered = |changes: &'static [(f64, f64)]| {
            let all = run(3, |exchange| {
                rounds(exchange, &args, |exchange, round| {
                    if round == 2 && exchange.rank() == 1 {
                        for (number, value) in changes {
                            exchange.send(0, STEER, &bytes::of(&[*number, *value]))?;
                        }
                    }
                    Ok(())
                })
            });
            all.into_iter().next().unwrap().unwrap().unwrap()
        };
        let (still, none) = steered(&[]);
        let (longer, said) = steered(&[(2.0, 1.0), (3.0, f64::NAN), (9.0, 1.0)]);
        assert!(none.is_empty());
        assert_eq!(said[0], "maturity = 1");
        assert!(said[1].starts_with("left out: the volatility is NaN"), "{said:?}");
        assert_eq!(said[2], "left out: a change of parameter 9: there are 4");
        assert!(longer.iter().zip(&still).skip(1).all(|(long, short)| long > short));
        assert!(understood("depth=3").is_err() && understood("rate").is_err());
        assert_eq!(understood("rate = 0.1").unwrap(), (1, 0.1));
    }
}
