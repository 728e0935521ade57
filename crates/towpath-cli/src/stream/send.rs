//! One stream to an address.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use towpath::pacing::{
    Kind, Outlet, Pacing, PacingOptions, Priority, Repeat, Source, Status, StreamControl,
    StreamOptions, title,
};
use towpath_io::udp::Multicast;
use towpath_media::pace::{Follow, Pacer, Pcbr, Pdcbr};
use towpath_media::read::CLOCK_HZ;
use towpath_media::rtsp::sdp;
use towpath_media::schedule::pdcbr::DualRate;
use towpath_media::send::{Config, DATAGRAM, Standing, Timing};
use towpath_media::trace::ExactRate;
use towpath_wire::Rate;

use super::command::{SendArgs, Way};
use crate::files::{shown, write_file};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::units::{rate_text, size_text};
use crate::words::counted;

const STEP: Duration = Duration::from_millis(50);

pub(super) fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    if !(0.1..=16.0).contains(&args.speed) {
        bail!("--speed {} is not between 0.1 and 16", args.speed);
    }
    let interrupt = Interrupt::heeded()?;
    let (source, config) = source(args, &interrupt)?;
    let pacing = Pacing::start(&options(args.to.at.ip(), &args.way))?;
    tell_priority(pacing.real_time(), args.way.ordinary);
    let (to, next) = (args.to.at, args.to.at.port().wrapping_add(1));
    let outlet = if args.to.rtp { Outlet::rtp(to)? } else { Outlet::udp(to) };
    let receiver = (args.to.rtp && !args.deaf).then(|| SocketAddr::new(to.ip(), next));
    if let Some(out) = &args.sdp {
        if !args.to.rtp {
            bail!(
                "--sdp describes rtp:// streams\nhint: players open udp:// addresses as they are"
            );
        }
        write_file(out, sdp(&shown(&args.file), Some((to.ip(), to.port())), None))?;
    }
    let paused = (args.speed - 1.0).abs() > f64::EPSILON;
    let deaf = args.deaf;
    let ticket = pacing.add(StreamOptions { source, config, outlet, receiver, paused, deaf })?;
    if paused {
        pacing.control(ticket, StreamControl::Speed((args.speed * 1e6) as u32));
        pacing.control(ticket, StreamControl::Resume);
    }
    while !interrupt.is_set() && !pacing.wait(ticket, STEP) {}
    let status = pacing.status(ticket).context("the stream is gone")?;
    report(args, &status)?;
    if interrupt.is_set() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(e) = &status.error {
        eprintln!("error: {}: {e}: {}", shown(&args.file), e.why);
        return Ok(ExitCode::FAILURE);
    }
    Ok(if status.kind == Kind::Over && status.standing == Standing::Finished {
        ExitCode::SUCCESS
    } else {
        eprintln!(
            "error: {}: no clock reference in it by which it could be sent\n\
             hint: --rate gives it a rate",
            shown(&args.file)
        );
        ExitCode::FAILURE
    })
}

/// How streams to an address of this family leave.
pub(super) fn options(to: IpAddr, way: &Way) -> PacingOptions {
    let from: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    PacingOptions {
        from: SocketAddr::new(from, 0),
        multicast: Multicast { interface: way.interface, ttl: way.ttl },
        priority: if way.ordinary { Priority::Ordinary } else { Priority::RealTime },
        streams_max: 1,
    }
}

/// What it costs that the thread does not go first.
pub(super) fn tell_priority(real_time: &Result<(), String>, wanted: bool) {
    if let (Err(why), false) = (real_time, wanted) {
        eprintln!(
            "warning: no real-time priority ({why}): on a busy machine datagrams leave some 30 ms \
             late, on an idle one within 0.1 ms\nhint: give the command CAP_SYS_NICE"
        );
    }
}

fn source(args: &SendArgs, interrupt: &Interrupt) -> anyhow::Result<(Source, Config)> {
    let stored = Config { fallback: args.rate, ..Config::stored() };
    if args.file.as_os_str() == "-" {
        if args.again || args.schedule.is_some() || args.pcbr.is_some() || !args.pdcbr.is_empty() {
            bail!(
                "--loop, --schedule, --pcbr and --pdcbr are for files\n\
                 hint: standard input leaves in the rhythm of its own clock"
            );
        }
        let input =
            io::stdin().as_fd().try_clone_to_owned().context("cannot read standard input")?;
        let config = Config { delay: args.delay, ..stored };
        return Ok((Source::Pipe(File::from(input)), config));
    }
    let name = shown(&args.file);
    let file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    let title = title(file).with_context(|| name.clone())?;
    let timing = timing(args, title.size, title.format.packet_stride().unwrap_or(188), interrupt)?;
    let repeat = if args.again { Repeat::Forever } else { Repeat::Once };
    let config = Config { format: title.format, timing, ..stored };
    Ok((Source::File { file: title.file, from: 0, repeat }, config))
}

fn timing(
    args: &SendArgs,
    size: u64,
    stride: usize,
    interrupt: &Interrupt,
) -> anyhow::Result<Timing> {
    let datagram = DATAGRAM as u32;
    let paced = |pacer, ticks_per_second| Ok(Timing::Paced { pacer, ticks_per_second });
    if let Some(path) = &args.schedule {
        return follow(path, size / stride as u64 * 188, args.again, interrupt);
    }
    if let Some(rate) = args.pcbr {
        let policy = Pcbr::new(exact(rate)?).context("--pcbr is a rate of nothing")?;
        return paced(Box::new(Pacer::new(policy, datagram)), CLOCK_HZ);
    }
    if let [high, low] = args.pdcbr[..] {
        if low >= high {
            bail!("--pdcbr {high},{low}: the first rate must be the higher one");
        }
        // In thousandths of the higher one.
        let share = (u128::from(low.as_bps()) * 1000 / u128::from(high.as_bps())).max(1) as u32;
        let rates = DualRate::new(exact(high)?, share, 1000).context("--pdcbr out of range")?;
        return paced(Box::new(Pacer::new(Pdcbr::new(rates), datagram)), CLOCK_HZ);
    }
    Ok(Timing::Interpolated)
}

fn follow(path: &Path, bytes: u64, again: bool, stop: &Interrupt) -> anyhow::Result<Timing> {
    if again {
        bail!("--schedule is for one pass\nhint: leave --loop out");
    }
    let schedule = crate::plan::load_schedule(path, stop)?;
    if schedule.total != bytes {
        bail!(
            "{} is for {} bytes, the file has {bytes} in its packets\n\
             hint: towpath plan --pcr --schedule writes one for all of a transport stream",
            shown(path),
            schedule.total
        );
    }
    let ticks_per_second = schedule.ticks_per_second;
    let pacer = Box::new(Pacer::new(Follow::owned(schedule), DATAGRAM as u32));
    Ok(Timing::Paced { pacer, ticks_per_second })
}

/// Bytes per tick.
fn exact(rate: Rate) -> anyhow::Result<ExactRate> {
    let rate = ExactRate::new(rate.as_bps().into(), u128::from(CLOCK_HZ) * 8);
    rate.context("a rate out of range")
}

fn report(args: &SendArgs, status: &Status) -> anyhow::Result<()> {
    if args.json {
        let said = json!({ "schema": 1, "file": shown(&args.file), "stream": status });
        crate::files::print(&format!("{said}\n"))?;
        return Ok(());
    }
    let c = &status.counters;
    let mut line =
        format!("sent {} in {}", size_text(c.bytes as f64), counted(c.datagrams, "datagram"));
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            line = format!("{line}, {}", counted(count, what));
        }
    };
    add(c.breaks, "clock break");
    add(c.shifts, "shift for lateness");
    add(status.dropped, "datagram not taken by the kernel");
    add(c.faults, "fault in the file");
    eprintln!("{line}");
    if status.gap_ppm != 1_000_000 {
        let rate = rate_text(1e6 / status.gap_ppm as f64).replace(" bit/s", "");
        eprintln!("note: its receiver had it at {rate} times its speed at the end");
    }
    Ok(())
}
