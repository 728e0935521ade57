//! The command line of `bench relay`.

use std::time::Duration;

use clap::Args;
use towpath_report::units;
use towpath_sim::link::LinkSpec;
use towpath_wire::{ByteSize, Rate};

use super::path::{ETHERNET, MTU};

/// Fastest path in bits per second; what the tap itself can do is measured and shown.
const RATE_MAX: u64 = 10_000_000_000;
const PPM: f64 = 1e6;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bench relay                                    300 Mbit/s, 10 ms each way, no loss
  towpath bench relay --loss 1% --tcp cubic,bbr          beside what TCP keeps there
  towpath bench relay --loss 5% --reorder 2% --bytes 1GB 1 GB of checked messages
  towpath bench relay --delay 500us --buffer 0.5         a short path with half a buffer

Needs the right to make network namespaces and TUN devices (root, or user namespaces), `ip` and
`unshare`. Loss and reordering strike in both directions. Rates are of bytes that came through
the bottleneck, repeats and Ethernet's framing included, as a share of the path; the fair share of
two is half of it each. Our own payload is shown beside that.

Exit status: 0 measured, 255 could not.")]
pub(crate) struct RelayArgs {
    /// Rate of the path
    #[arg(long, default_value = "300Mbps", value_parser = units::rate)]
    rate: Rate,
    /// Delay of each direction
    #[arg(long, default_value = "10ms", value_parser = delay)]
    delay: Duration,
    /// Buffer before the bottleneck, in products of rate and round trip, 0.01 to 100
    #[arg(long, default_value = "1", value_parser = factor, value_name = "X")]
    buffer: f64,
    /// Packets lost at random
    #[arg(long, default_value = "0%", value_parser = share, value_name = "PERCENT")]
    loss: u32,
    /// Packets that others overtake
    #[arg(long, default_value = "0%", value_parser = share, value_name = "PERCENT")]
    reorder: u32,
    /// By how much they are late at most
    #[arg(long, default_value = "2ms", value_parser = delay, value_name = "TIME")]
    reorder_by: Duration,
    /// Kernel congestion controls to measure alone and beside us; `none` for no TCP
    #[arg(long, default_value = "cubic", value_delimiter = ',', value_name = "NAMES")]
    tcp: Vec<String>,
    /// How long is measured, after as long to settle as --settle says
    #[arg(long, default_value = "20", value_name = "TIME")]
    #[arg(value_parser = units::duration_between("0.1s", "10min"))]
    pub(super) seconds: Duration,
    /// How long before that
    #[arg(long, default_value = "10", value_name = "TIME")]
    #[arg(value_parser = units::duration_between("0.1s", "10min"))]
    pub(super) settle: Duration,
    /// Send so many bytes in checked messages of 1 B to 16 MB, too
    #[arg(long, value_parser = units::size_between("1B", "1TiB"), value_name = "SIZE")]
    pub(super) bytes: Option<ByteSize>,
    /// Only that transfer
    #[arg(long, requires = "bytes")]
    pub(super) only_bytes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// It runs in the first namespace already
    #[arg(long, hide = true)]
    pub(super) inside: bool,
}

impl RelayArgs {
    /// The path, in one direction.
    pub(super) fn spec(&self) -> LinkSpec {
        LinkSpec {
            rate_bps: self.rate.as_bps(),
            delay_us: self.delay.as_micros() as u64,
            queue_bytes: self.queue(),
            loss_ppm: self.loss,
            reorder_ppm: self.reorder,
            reorder_us: (self.reorder_by.as_micros() as u64).max(1),
            framing_bytes: ETHERNET,
            ..LinkSpec::PLAIN
        }
    }

    /// Rate times round trip, in bytes.
    pub(super) fn product(&self) -> u64 {
        (self.rate.as_bps() as f64 / 8.0 * 2.0 * self.delay.as_secs_f64()) as u64
    }

    fn queue(&self) -> u64 {
        ((self.product() as f64 * self.buffer) as u64).max(2 * MTU as u64)
    }

    /// The kernel's congestion controls to set beside us.
    pub(super) fn tcp(&self) -> impl Iterator<Item = &str> {
        self.tcp.iter().map(String::as_str).filter(|name| *name != "none")
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    let time = units::duration_between("0", "2s")(text)?;
    if time.subsec_nanos() % 1000 == 0 {
        Ok(time)
    } else {
        Err(format!("{text} is finer than 1us"))
    }
}

fn share(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent: f64 = number.parse().map_err(|_| format!("{text:?} is no share such as 5%"))?;
    if (0.0..=50.0).contains(&percent) {
        Ok((percent / 100.0 * PPM).round() as u32)
    } else {
        Err(format!("{text}, limits 0% and 50%"))
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let x: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.01..=100.0).contains(&x) { Ok(x) } else { Err(format!("{text}, limits 0.01 and 100")) }
}

impl RelayArgs {
    /// What is wrong with the path as a whole.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.rate.as_bps() <= RATE_MAX,
            "--rate {} bit/s, limit {RATE_MAX}",
            self.rate.as_bps()
        );
        if let Some((field, value, must)) = self.spec().out_of_range() {
            anyhow::bail!("{field} = {value}: {must}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: RelayArgs,
    }

    fn parse(line: &str) -> Result<RelayArgs, String> {
        let words = std::iter::once("relay").chain(line.split_whitespace());
        Only::try_parse_from(words).map(|o| o.args).map_err(|e| e.to_string())
    }

    #[test]
    fn a_path_is_what_was_said() {
        let args = parse("--rate 100Mbps --delay 500us --buffer 0.5 --loss 1.5%").unwrap();
        let spec = args.spec();
        assert_eq!((spec.rate_bps, spec.delay_us, spec.loss_ppm), (100_000_000, 500, 15_000));
        // 100 Mbit/s for 1 ms are 12500 bytes.
        assert_eq!((args.product(), spec.queue_bytes), (12_500, 6250));
        assert!(args.check().is_ok());
        assert_eq!(parse("--tcp none").unwrap().tcp().count(), 0);
    }

    #[test]
    fn limits_are_named() {
        for (line, named) in [
            ("--loss 51%", "50%"),
            ("--delay 3s", "3s is not between 0 and 2s"),
            ("--delay 3slots", "unknown unit"),
            ("--buffer 0", "0.01"),
            ("--seconds 0", "0 is not between 0.1s and 10min"),
            ("--bytes 0", "0 is not between 1B and 1TiB"),
            ("--rate 1Gpbs", "unknown unit"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
        assert!(parse("--rate 11Gbps").unwrap().check().is_err());
    }
}
