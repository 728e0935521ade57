//! The command line of `tap`, and the script that comes of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use towpath_bench::tap::{End, Kind, Script, Setting, WayState};
use towpath_wire::{ByteSize, Rate};

use crate::topology::{at_line, read_text};
use crate::units;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ip netns add h1; ip netns add h2
  towpath tap h1:wan0=10.9.0.1/24 h2:wan0=10.9.0.2/24 --rate 20Mbps --delay 40ms --loss 0.5%
  towpath tap h1:r0=10.9.1.1/24 h2:r0=10.9.1.2/24 --bursts 2%:20 --jitter 5ms --seed 7
  towpath tap h1:up0=10.9.2.1/24 h2:up0=10.9.2.2/24 --script dead-cable.toml --for 60s --json
  towpath tap --packet eth1 eth2 --delay 5ms --capture frames.pcapng
  towpath tap h1:l0 h2:l0 --rate 10Mbps --set back.rate_bps=1000000

An end is [NAMESPACE:]DEVICE[=ADDRESS/LENGTH,...]; a namespace is a name that `ip netns` lists, a
path, or @PROCESS. What is said holds for both directions; --set and a script part them: `there` is
from the first end to the second. docs/tap.md has recipes, and the script's fields; a script goes
before options, --set before both. It ends with Ctrl-C, after --for, or when a device is gone, and
tells then what it did, and how late it was itself.

Exit status: 0 it ran, 255 it could not.")]
pub(crate) struct TapArgs {
    /// The first end
    #[arg(value_name = "END")]
    first: End,
    /// The second end
    #[arg(value_name = "END")]
    second: End,
    /// Pass Ethernet frames (TAP devices), not IP packets (TUN devices)
    #[arg(long, conflicts_with = "packet")]
    ethernet: bool,
    /// The devices are there: take their frames by packet sockets
    #[arg(long)]
    packet: bool,
    /// Longest IP packet, in bytes, 68 to 65000
    #[arg(long, default_value_t = 1500, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(68..=65_000))]
    pub(super) mtu: u32,
    /// What happens when (TOML); `-`: standard input
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Feeds all chances: the same frames meet the same fate
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// One thing of one direction, by the script's names
    #[arg(long, value_name = "WAY.FIELD=VALUE")]
    set: Vec<String>,
    /// End by itself after so long
    #[arg(long = "for", value_name = "TIME")]
    #[arg(value_parser = units::duration_between("1ms", "24h"))]
    pub(super) time: Option<Duration>,
    /// Tell the counters again and again
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = units::duration_between("100ms", "1h"))]
    pub(super) every: Option<Duration>,
    /// Write every frame, with what became of it
    #[arg(long, value_name = "FILE")]
    pub(super) capture: Option<PathBuf>,
    /// Most bytes of that file; further frames are counted only
    #[arg(long, default_value = "1GiB", value_name = "SIZE", requires = "capture")]
    #[arg(value_parser = units::size_between("1kB", "1TiB"))]
    pub(super) capture_size: ByteSize,
    /// Run before all ordinary processes (`SCHED_FIFO`)
    #[arg(long)]
    pub(super) realtime: bool,
    /// How long its own ceiling is measured at first; 0: not
    #[arg(long, default_value = "200ms", value_name = "TIME")]
    #[arg(value_parser = units::duration_between("0", "10s"))]
    pub(super) ceiling: Duration,
    /// Print one JSON object, and one a line with --every
    #[arg(long)]
    pub(super) json: bool,
    // Last: its heading holds for what follows it.
    #[command(flatten)]
    link: LinkArgs,
}

/// What both directions are like.
#[derive(Debug, Args)]
#[command(next_help_heading = "The link")]
struct LinkArgs {
    /// Rate of what passes [default: 1 Gbit/s]
    #[arg(long, value_parser = units::rate)]
    rate: Option<Rate>,
    /// Bytes that pass at once after a pause
    #[arg(long, value_parser = units::size, value_name = "SIZE")]
    burst: Option<ByteSize>,
    /// Bytes that wait at most [default: 256 KiB]
    #[arg(long, value_parser = units::size, value_name = "SIZE")]
    queue: Option<ByteSize>,
    /// Delay of each direction
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    delay: Option<Duration>,
    /// Further delay of any frame, 0 to this; keeps their order
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    jitter: Option<Duration>,
    /// Frames lost at random
    #[arg(long, value_parser = share, value_name = "PERCENT")]
    loss: Option<u64>,
    /// Frames lost in bursts: their share, and how many in a row on average
    #[arg(long, value_parser = bursts, value_name = "PERCENT:N")]
    bursts: Option<Bursts>,
    /// Frames that others overtake
    #[arg(long, value_parser = share, value_name = "PERCENT")]
    reorder: Option<u64>,
    /// By how much they are late at most [default: 500us]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    reorder_by: Option<Duration>,
    /// Frames that come twice
    #[arg(long, value_parser = share, value_name = "PERCENT")]
    duplicate: Option<u64>,
    /// Frames in which one bit is changed
    #[arg(long, value_parser = share, value_name = "PERCENT")]
    corrupt: Option<u64>,
    /// Bytes that each frame costs beside its own (an IP packet on Ethernet: 38)
    #[arg(long, value_name = "BYTES")]
    framing: Option<u64>,
}

/// Bursts of loss as the model has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bursts {
    enter_ppm: u64,
    leave_ppm: u64,
}

fn share(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent: f64 = number.parse().map_err(|_| format!("{text:?} is no share such as 5%"))?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(format!("{text} is not between 0% and 100%"));
    }
    Ok((percent * 1e4).round() as u64)
}

fn bursts(text: &str) -> Result<Bursts, String> {
    let (percent, length) = text.split_once(':').ok_or("bursts are given as 2%:20")?;
    let lost = share(percent)? as f64 / 1e6;
    let length: f64 = length.parse().map_err(|_| format!("{length:?} is no number of frames"))?;
    if !(1.0..=1e6).contains(&length) {
        return Err(format!("{length} is not between 1 and 1000000 frames"));
    }
    let leave = 1.0 / length;
    let enter = leave * lost / (1.0 - lost);
    if !enter.is_finite() || enter > 1.0 {
        return Err(format!("{percent} cannot be lost in bursts of {length}"));
    }
    let ppm = |chance: f64| (chance * 1e6).round() as u64;
    Ok(Bursts { enter_ppm: ppm(enter), leave_ppm: ppm(leave).max(1) })
}

impl LinkArgs {
    fn settings(&self) -> Vec<Setting> {
        let us = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
        let bytes = |size: Option<ByteSize>| size.map(ByteSize::as_bytes);
        let all = [
            ("rate_bps", self.rate.map(Rate::as_bps)),
            ("rate_burst_bytes", bytes(self.burst)),
            ("queue_bytes", bytes(self.queue)),
            ("delay_us", us(self.delay)),
            ("jitter_us", us(self.jitter)),
            ("loss_ppm", self.loss),
            ("burst_enter_ppm", self.bursts.map(|bursts| bursts.enter_ppm)),
            ("burst_leave_ppm", self.bursts.map(|bursts| bursts.leave_ppm)),
            ("reorder_ppm", self.reorder),
            ("reorder_us", us(self.reorder_by)),
            ("duplicate_ppm", self.duplicate),
            ("corrupt_ppm", self.corrupt),
            ("framing_bytes", self.framing),
        ];
        all.into_iter().filter_map(|(key, value)| Some(Setting::Number(key, value?))).collect()
    }
}

impl TapArgs {
    pub(super) fn ends(&self) -> [End; 2] {
        [self.first.clone(), self.second.clone()]
    }

    pub(super) const fn kind(&self) -> Kind {
        match (self.packet, self.ethernet) {
            (true, _) => Kind::Packet,
            (_, true) => Kind::Tap,
            _ => Kind::Tun,
        }
    }

    /// What the tap does: options, then the script, then --set.
    pub(super) fn tap_script(&self) -> anyhow::Result<Script> {
        let mut state = WayState::default();
        for setting in self.link.settings() {
            setting.apply(&mut state);
        }
        if let Some((field, value, must)) = state.link.out_of_range() {
            bail!("{field} = {value}, must be {must}");
        }
        let mut script = Script::of(state);
        if let Some(path) = &self.script {
            let text = read_text(path, towpath_sim::tap::BYTES_MAX)?;
            script = Script::parse_over(&text, script)
                .map_err(|e| anyhow!("{}", at_line(path, &text, e.line, &e.message, &e.hint)))?;
        }
        for set in &self.set {
            let changed = one(set, script).with_context(|| format!("--set {set}"))?;
            script = changed;
        }
        script.seed = self.seed.unwrap_or(script.seed);
        Ok(script)
    }
}

/// `back.rate_bps=1000000`, as a script of one line.
fn one(set: &str, base: Script) -> anyhow::Result<Script> {
    let parts = set.split_once('=').and_then(|(key, value)| Some((key.split_once('.')?, value)));
    let Some(((way, field), value)) = parts else {
        bail!("it is no WAY.FIELD=VALUE\nhint: as back.rate_bps=1000000");
    };
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain(way) || !plain(field) || !plain(value) {
        bail!("it is no WAY.FIELD=VALUE\nhint: as back.rate_bps=1000000");
    }
    let script = Script::parse_over(&format!("[link.{way}]\n{field} = {value}"), base);
    script.map_err(|e| anyhow!("{}\nhint: {}", e.message, e.hint))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: TapArgs,
    }

    fn parse(line: &str) -> Result<Script, String> {
        let words = ["tap", "h1:t0", "h2:t0"].into_iter().chain(line.split_whitespace());
        let args = Only::try_parse_from(words).map_err(|e| e.to_string())?.args;
        args.tap_script().map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn options_hold_for_both_ways_and_set_for_one() {
        let script = parse(
            "--rate 20Mbps --delay 40ms --loss 0.5% --seed 7 --set back.rate_bps=1000000 --set \
             there.up=false",
        );
        let script = script.unwrap();
        let [there, back] = script.begin;
        assert_eq!((there.link.rate_bps, back.link.rate_bps), (20_000_000, 1_000_000));
        assert_eq!((there.link.delay_us, back.link.delay_us), (40_000, 40_000));
        assert_eq!((there.link.loss_ppm, script.seed), (5000, 7));
        assert_eq!((there.up, back.up), (false, true));
    }

    #[test]
    fn bursts_are_the_share_that_is_said() {
        // 2 % in rows of 20: left with 1/20, entered with 1/980.
        let of = Bursts { enter_ppm: 1020, leave_ppm: 50_000 };
        assert_eq!(bursts("2%:20"), Ok(of));
        for text in ["2%", "2%:0", "100%:3", "60%:1", "x:3", "2%:x"] {
            assert!(bursts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_script_goes_before_options() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.toml");
        std::fs::write(&file, "[link.both]\ndelay_us = 5").unwrap();
        let line = |more: &str| format!("--delay 40ms --script {} {more}", file.display());
        assert_eq!(parse(&line("")).unwrap().begin[0].link.delay_us, 5);
        assert_eq!(parse(&line("--set there.delay_us=6")).unwrap().begin[0].link.delay_us, 6);
        std::fs::write(&file, "[link.both]\ndelay_us = 'x'").unwrap();
        let error = parse(&line("")).unwrap_err();
        for said in ["s.toml, line 2:", "link.both.delay_us is \"x\"", "| delay_us = 'x'", "hint:"]
        {
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("--loss 101%", "101% is not between 0% and 100%"),
            ("--rate 10bps", "rate_bps = 10, must be between 1000 and 10^12"),
            ("--set rate_bps=3", "hint: as back.rate_bps=1000000"),
            ("--set back.rate_bps=x", "string values must be quoted"),
            ("--set back.loss_ppm=1000001", "must be at most 1000000"),
            ("--mtu 67", "67"),
            ("--packet --ethernet", "cannot be used with"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
