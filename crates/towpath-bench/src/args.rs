//! The command line of `bench link`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};
use towpath_report::units;

use super::machine::processors;
use super::relay::RelayArgs;
use super::tasks::{BarrierArgs, EchoArgs, ExchangeArgs, MemberArgs, MulticastArgs, SpawnArgs};

/// What to measure.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(super) command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Throughput and latency of one association, beside what the kernel alone can do
    Link(LinkArgs),
    /// One association over a path with rate, delay and loss, alone and beside kernel TCP
    Relay(RelayArgs),
    /// Messages there and back between two tasks, beside what the system alone can do
    Echo(EchoArgs),
    /// Barriers of many tasks
    Barrier(BarrierArgs),
    /// One message to many tasks
    Multicast(MulticastArgs),
    /// What the kernels of the suite tell each other, beside MPI
    Exchange(ExchangeArgs),
    /// Tasks that are started, say something and end
    Spawn(SpawnArgs),
    /// A process of these benches
    #[command(hide = true)]
    Member(MemberArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench link                          two processes on this machine's loopback
  towpath bench link --netns --poll           two network namespaces, gone when it ends
  towpath bench link --message 64KiB,1MiB --trusted --json
  towpath bench link --listen 0.0.0.0:7100    on one machine, and then on another
  towpath bench link --connect 10.0.0.7:7100

Each round measures every row once, so that a row and its floor see the same machine; the table
shows the median of all rounds. A listener serves whoever connects first, once, unauthenticated:
on a network that others use, bind it to an address that they do not reach.

Exit status: 0 measured, 255 could not.")]
pub(super) struct LinkArgs {
    /// Measure to the listener at this address
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["listen", "netns"])]
    pub(super) connect: Option<SocketAddr>,
    /// Serve one measurement at this address, then end
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["netns", "json"])]
    pub(super) listen: Option<SocketAddr>,
    /// Between two network namespaces made for the purpose
    #[arg(long)]
    pub(super) netns: bool,
    /// It runs in the first of them already
    #[arg(long, hide = true, conflicts_with = "netns")]
    pub(super) inside: bool,
    /// It ends with the process that started it
    #[arg(long, hide = true, requires = "listen")]
    pub(super) child: bool,
    /// How long each measurement takes, 50ms to 60s
    #[arg(long, default_value = "1", value_name = "TIME")]
    #[arg(value_parser = units::duration_between("50ms", "60s"))]
    pub(super) seconds: Duration,
    /// Rounds, 1 to 101; an odd number has a median that was measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=101))]
    #[arg(value_name = "N")]
    pub(super) runs: u32,
    /// Sizes of bulk messages, 1 B to 16 MiB
    #[arg(long, default_value = "1MiB", value_delimiter = ',', value_parser = message)]
    #[arg(value_name = "SIZES")]
    pub(super) message: Vec<u32>,
    /// Only packets in clear, as between hosts that trust their link
    #[arg(long, conflicts_with = "encrypted")]
    pub(super) trusted: bool,
    /// Only sealed packets
    #[arg(long)]
    pub(super) encrypted: bool,
    /// Latency with both ends polling, too
    #[arg(long)]
    pub(super) poll: bool,
    /// Only rows with this in their names, and no floors unless they have it, too
    #[arg(long, value_name = "WORDS", conflicts_with = "listen")]
    pub(super) only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Processors for the measuring and the serving process, or `none` (default: 0,1)
    #[arg(long, value_parser = pins, value_name = "A,B")]
    pin: Option<Pins>,
}

impl LinkArgs {
    /// Where both processes run; a machine with one processor has them take turns.
    pub(super) fn pins(&self) -> Pins {
        self.pin.unwrap_or(Pins(Some((0, 1 % processors()))))
    }
}

/// A processor for either process; nothing where the kernel may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pins(pub(super) Option<(usize, usize)>);

fn pins(text: &str) -> Result<Pins, String> {
    if text == "none" {
        return Ok(Pins(None));
    }
    let bad = || format!("{text:?} is neither two processors such as 0,1 nor `none`");
    let (a, b) = text.split_once(',').ok_or_else(bad)?;
    let count = processors();
    let one = |t: &str| {
        let n: usize = t.parse().map_err(|_| bad())?;
        if n < count { Ok(n) } else { Err(format!("processor {n} of {count}, counted from 0")) }
    };
    Ok(Pins(Some((one(a)?, one(b)?))))
}

fn message(text: &str) -> Result<u32, String> {
    Ok(units::size_between("1B", "16MiB")(text)?.as_bytes() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named() {
        assert_eq!(message("1MiB"), Ok(1 << 20));
        for text in ["0", "17MiB"] {
            assert_eq!(message(text), Err(format!("{text} is not between 1B and 16MiB")));
        }
        assert_eq!(pins("none"), Ok(Pins(None)));
        assert_eq!(pins("0,0"), Ok(Pins(Some((0, 0)))));
        assert!(pins("0").is_err() && pins("a,b").is_err() && pins("0,4096").is_err());
    }
}
