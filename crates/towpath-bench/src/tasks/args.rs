//! The command lines of the benches of tasks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use towpath_report::units;
use towpath_wire::Rate;

use super::super::machine::processors;
use super::super::netns;

/// What all of them take.
#[derive(Clone, Debug, Args)]
pub(in super::super) struct Common {
    /// Processors that the processes are pinned to, in turn, or `none` (default: 0,1)
    #[arg(long, value_parser = cpus, value_name = "LIST")]
    cpus: Option<Cpus>,
    /// Hosts of the virtual machine, each a daemon of its own on this machine
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    #[arg(value_name = "N")]
    pub(super) hosts: u16,
    /// Each host in a network namespace of its own, at one switch; gone when it ends
    #[arg(long)]
    pub(super) netns: bool,
    /// It runs in the first of them already
    #[arg(long, hide = true, conflicts_with = "netns")]
    pub(super) inside: bool,
    /// What each host's link takes each way, as `tc` writes it: 100mbit (with --netns)
    #[arg(long, value_parser = rate, value_name = "RATE")]
    pub(super) rate: Option<String>,
    /// The rate that each host is paced at, as `towpath up --link-rate` takes it [default: none]
    #[arg(long, value_parser = units::rate, value_name = "RATE")]
    pub(super) link_rate: Option<Rate>,
    /// Rounds, 5 to 101: each measures every row once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=101))]
    #[arg(value_name = "N")]
    pub(super) runs: u32,
    /// Only rows with this in their names, and the floors they are held to
    #[arg(long, value_name = "WORDS")]
    pub(super) only: Option<String>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print the table as CSV
    #[arg(long)]
    pub(super) csv: bool,
}

impl Common {
    /// Starts this command anew in a network namespace of its own, where that is asked for.
    pub(super) fn in_own_namespace(&self) -> anyhow::Result<()> {
        if self.netns {
            return Err(netns::enter().context("cannot make a network namespace"));
        }
        ensure!(self.inside || self.rate.is_none(), "--rate is of links made by --netns");
        Ok(())
    }

    /// Where process `n` runs.
    pub(super) fn cpu(&self, n: usize) -> Option<usize> {
        let list = self.list();
        (!list.is_empty()).then(|| list[n % list.len()])
    }

    /// The same, not pinned unless that was asked for: what a pinned daemon starts stays where it
    /// is.
    pub(super) fn loose(&self) -> Self {
        Self { cpus: Some(self.cpus.clone().unwrap_or(Cpus(Vec::new()))), ..self.clone() }
    }

    /// The processors in turn; empty: not pinned.
    pub(super) fn list(&self) -> Vec<usize> {
        let all = || (0..processors().min(2)).collect();
        self.cpus.clone().map_or_else(all, |cpus| cpus.0)
    }
}

/// Processors; none where the kernel may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpus(Vec<usize>);

fn cpus(text: &str) -> Result<Cpus, String> {
    if text == "none" {
        return Ok(Cpus(Vec::new()));
    }
    let count = processors();
    let one = |t: &str| {
        let bad = || format!("{text:?} is neither processors such as 0,1 nor `none`");
        let n: usize = t.parse().map_err(|_| bad())?;
        if n < count { Ok(n) } else { Err(format!("processor {n} of {count}, counted from 0")) }
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Cpus)
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench echo                          two tasks on one host, all sizes and routes
  towpath bench echo --hosts 2                two tasks on two hosts
  towpath bench echo --hosts 2 --netns        the same between two network namespaces
  towpath bench echo --cpus 0,0               both on one processor: neither can spin
  towpath bench echo --sizes 16,1MiB --only direct --json
  towpath bench echo --one-way --sizes 1MiB   how much goes one way

A virtual machine is started for it and gone when it ends. Each round measures every row once; the
table shows medians over all rounds. `sleeps` counts how often the two processes slept per round
trip: 0 where both stay awake, 2 where both sleep each time. On one host an MPI that is installed
(mpirun, mpicc) is measured in the same rounds. Below the table: t0 (the trip of 16 B), r_max (the
most payload per second) and n1/2 (the length that moves half of it), beside those of Hsieh 1997.

Exit status: 0 measured, 255 could not.")]
pub(in super::super) struct EchoArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Sizes of messages, 16 B to 64 MiB
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "SIZES")]
    #[arg(default_value = "16,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MB")]
    pub(super) sizes: Vec<usize>,
    /// Messages one way, one after another, instead of there and back
    #[arg(long)]
    pub(super) one_way: bool,
    /// How long each measurement takes, 10ms to 60s
    #[arg(long, default_value = "0.2", value_name = "TIME")]
    #[arg(value_parser = units::duration_between("10ms", "60s"))]
    pub(super) seconds: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench barrier                       8 tasks on one host
  towpath bench barrier --tasks 16 --hosts 4
  towpath bench barrier --load 2              beside two processes that compute

A barrier takes from when the last of them came to it until the last of them left it.

Exit status: 0 measured, 255 could not.")]
pub(in super::super) struct BarrierArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Tasks, 2 to 256
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=256))]
    #[arg(value_name = "N")]
    pub(super) tasks: u16,
    /// Barriers one after another in each measurement, 10 to 5000
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=5000))]
    #[arg(value_name = "N")]
    pub(super) barriers: u32,
    /// Processes that compute meanwhile, with the same priority
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=64))]
    #[arg(value_name = "N")]
    pub(super) load: u16,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench multicast                     to 5 tasks on one host
  towpath bench multicast --tasks 5 --hosts 6 --sizes 64KiB
  towpath bench multicast --tasks 5 --hosts 6 --sizes 64KiB --netns --rate 100mbit

A multicast takes from its start until the last receiver has copied the message out. Below the
table: how many times sooner it was there than a send to each, beside Hsieh 1997, equation 2.2.

Exit status: 0 measured, 255 could not.")]
pub(in super::super) struct MulticastArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Receivers, 1 to 256
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=256))]
    #[arg(value_name = "N")]
    pub(super) tasks: u16,
    /// Sizes of messages, 16 B to 64 MiB
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "SIZES")]
    #[arg(default_value = "16,4KiB,64KiB,1MiB")]
    pub(super) sizes: Vec<usize>,
    /// Multicasts one after another in each measurement, 5 to 5000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(5..=5000))]
    #[arg(value_name = "N")]
    pub(super) casts: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench exchange                      4 tasks on one host, beside the MPI that is there
  towpath bench exchange --tasks 8 --only fft
  towpath bench exchange --hosts 4 --netns --daemons

What the kernels of `towpath-apps kernel` tell each other at their default sizes, without their
arithmetic: fft, lu, matmul, nbody (a step), ep, sort, tsp, hough.

Exit status: 0 measured, 255 could not.")]
pub(in super::super) struct ExchangeArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Tasks, 2 to 64
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    #[arg(value_name = "N")]
    pub(super) tasks: u16,
    /// Exchanges one after another in each measurement, 20 to 5000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(20..=5000))]
    #[arg(value_name = "N")]
    pub(super) exchanges: u32,
    /// By the daemons alone, too
    #[arg(long)]
    pub(super) daemons: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench spawn                         16 and 1000 tasks at once
  towpath bench spawn --counts 16 --runs 21

Each task says something, hears something and ends. `first message` is from asking for them until
the last of them was heard; `reaped` until the end of the last of them is known.

Exit status: 0 measured, 255 could not.")]
pub(in super::super) struct SpawnArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// How many at once, 1 to 4096
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", default_value = "16,1000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) counts: Vec<u32>,
}

/// A member's own command line.
#[derive(Debug, Args)]
pub(in super::super) struct MemberArgs {
    /// Where to meet the measuring process
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["task", "pipe", "burn"])]
    pub(super) meet: Option<PathBuf>,
    /// Be a task: say something to the parent, hear something, end
    #[arg(long)]
    pub(super) task: bool,
    /// The same by standard output and input, without being a task
    #[arg(long)]
    pub(super) pipe: bool,
    /// Compute until the parent ends
    #[arg(long)]
    pub(super) burn: bool,
}

/// A rate that `tc` can read.
fn rate(text: &str) -> Result<String, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let fine = (1..=9).contains(&digits) && number.bytes().any(|b| b != b'0');
    let unit = unit.to_ascii_lowercase();
    if fine && ["kbit", "mbit", "gbit"].contains(&unit.as_str()) {
        Ok(format!("{number}{unit}"))
    } else {
        Err(format!("{text:?} is no rate such as 100mbit, 1gbit"))
    }
}

fn size(text: &str) -> Result<usize, String> {
    Ok(units::size_between("16B", "64MiB")(text)?.as_bytes() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named() {
        assert_eq!(size("16"), Ok(16));
        assert_eq!(size("4MB"), Ok(4_000_000));
        for text in ["15", "65MiB"] {
            assert_eq!(size(text), Err(format!("{text} is not between 16B and 64MiB")));
        }
        assert_eq!(cpus("none"), Ok(Cpus(vec![])));
        assert_eq!(cpus("0,0"), Ok(Cpus(vec![0, 0])));
        assert_eq!(rate("100Mbit"), Ok("100mbit".into()));
        assert!(rate("100").is_err() && rate("0mbit").is_err() && rate("mbit").is_err());
        assert!(cpus("0,9999").unwrap_err().contains("counted from 0") && cpus("").is_err());
    }
}
