//! A transfer through a relay that limits, loses, delays and reorders, each of the three in a
//! network namespace of its own: real sockets, a simulated link between them.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_io::udp::SendBatch;
use towpath_io::{Clock, UdpLink};
use towpath_proto::{Rng, Transmit};
use towpath_sim::link::{Link, LinkSpec, LinkStats};
use towpath_wire::{Instant, LinkId};

use super::args::{Pins, RelayArgs};
use super::content::{Content, MESSAGE_MAX};
use super::far::{Far, Process};
use super::ours::{self, Peer};
use super::side::DATAGRAM;
use super::talk::Serve;
use super::{machine, netns, udp_train};

/// Datagrams on their way through the relay at most, each way; more are dropped.
const FLIGHT_MAX: usize = 65_536;

pub(super) fn run(args: &RelayArgs) -> anyhow::Result<ExitCode> {
    if let Some(to) = args.pass {
        pass(args, to)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.inside {
        return Err(netns::enter().context("cannot make a network namespace"));
    }
    let mut far = Far::start(true, Pins(None))?;
    let unlimited = LinkSpec { rate_bps: 1_000_000_000_000, queue_bytes: 1 << 30, ..args.spec() };
    let unlimited = LinkSpec { loss_ppm: 0, reorder_ppm: 0, delay_us: 0, ..unlimited };
    println!("{}", machine::description());
    ceiling(args, &mut far, &unlimited)?;
    transfer(args, &mut far)?;
    Ok(ExitCode::SUCCESS)
}

/// What the relay passes when nothing is to hold it up.
fn ceiling(args: &RelayArgs, far: &mut Far, spec: &LinkSpec) -> anyhow::Result<()> {
    let (to, _) = far.serve(Serve::UdpTrains)?;
    let relay = Relay::start(args, spec, far, to.port())?;
    let near = SocketAddr::new(netns::RELAY_NEAR, 0);
    let flow = udp_train::source(near, relay.addr, DATAGRAM as u16, Duration::from_secs(2))?;
    far.done()?;
    relay.end()?;
    println!(
        "the relay's own ceiling: {:.0} Mbit/s in datagrams of {DATAGRAM} B, {:.0} a second",
        flow.bytes as f64 * 8e-6 / flow.seconds,
        flow.datagrams.unwrap_or(0) as f64 / flow.seconds,
    );
    Ok(())
}

fn transfer(args: &RelayArgs, far: &mut Far) -> anyhow::Result<()> {
    let content = Content { seed: args.seed, bytes: args.bytes.as_bytes(), next: 0 };
    let (trusted, window) = (args.trusted, ours::window(MESSAGE_MAX));
    let serve = Serve::Association { trusted, poll: false, window, content: Some(content) };
    let (to, ready) = far.serve(serve)?;
    let relay = Relay::start(args, &args.spec(), far, to.port())?;
    let near = SocketAddr::new(netns::RELAY_NEAR, 0);
    let peer = Peer { remote: relay.addr, key: ready.key.unwrap_or_default() };
    let sent = ours::send(near, &peer, serve, content)?;
    let done = far.done()?;
    ensure!(done.checked == content.bytes, "{} of {} bytes came", done.checked, content.bytes);
    let stats = relay.end()?;
    let spec = args.spec();
    let floor = content.bytes as f64 * 8.0 / spec.rate_bps as f64;
    let loss = f64::from(spec.loss_ppm) / 1e6;
    println!(
        "the link: {} Mbit/s, {} us and {} B of queue each way, {} ppm lost, {} ppm late by up to \
         {} us; {} B more for each datagram",
        spec.rate_bps / 1_000_000,
        spec.delay_us,
        spec.queue_bytes,
        spec.loss_ppm,
        spec.reorder_ppm,
        spec.reorder_us,
        spec.framing_bytes,
    );
    println!(
        "{} bytes in {} messages, {}, byte-identical: {:.1} s, {:.1} Mbit/s; \
         {:.3} x bytes/(rate * (1 - loss)), {:.3} x bytes/rate",
        content.bytes,
        sent.messages,
        if trusted { "trusted" } else { "encrypted" },
        sent.seconds,
        content.bytes as f64 * 8e-6 / sent.seconds,
        sent.seconds / (floor / (1.0 - loss)),
        sent.seconds / floor,
    );
    let s = sent.stats;
    println!(
        "packets sent {}, counted lost {}, of these in vain {}; probes {}; memory of the sender \
         at most {} KiB; relay there: {stats}",
        s.packets_sent,
        s.packets_lost,
        s.spurious,
        s.probes,
        sent.memory_max >> 10,
        stats = stats.trim(),
    );
    Ok(())
}

/// The relay's process.
struct Relay {
    process: Process,
    /// Where it takes datagrams for the peer.
    addr: SocketAddr,
}

impl Relay {
    fn start(args: &RelayArgs, spec: &LinkSpec, far: &Far, port: u16) -> anyhow::Result<Self> {
        let mut c = netns::second();
        c.arg(std::env::current_exe()?).args(["bench", "relay"]);
        c.arg("--pass").arg(SocketAddr::new(netns::RELAY_PEER, port).to_string());
        let words = [
            ("--rate-mbps", spec.rate_bps / 1_000_000),
            ("--loss-ppm", spec.loss_ppm.into()),
            ("--reorder-ppm", spec.reorder_ppm.into()),
            ("--reorder-us", spec.reorder_us),
            ("--delay-us", spec.delay_us),
            ("--queue-bytes", spec.queue_bytes),
            ("--seed", args.seed),
        ];
        for (word, value) in words {
            c.arg(word).arg(value.to_string());
        }
        let (process, mut addr) = Process::start(&mut c)?;
        let peer = far.process().context("the peer is ours")?;
        netns::relay(process.id(), peer)?;
        addr.set_ip(netns::RELAY);
        Ok(Self { process, addr })
    }

    /// Ends it; what its links counted.
    fn end(mut self) -> anyhow::Result<String> {
        drop(self.process.input());
        self.process.line()
    }
}

/// Datagrams that left one side and are due on the other.
struct Way {
    link: Link,
    flight: BTreeMap<(Instant, u64), Vec<u8>>,
    sequence: u64,
    to: Option<SocketAddr>,
    batch: SendBatch,
}

impl Way {
    fn new(spec: LinkSpec, seed: u64, to: Option<SocketAddr>) -> Self {
        let (link, batch) = (Link::new(spec, Rng::new(seed, 7)), SendBatch::new());
        Self { link, flight: BTreeMap::new(), sequence: 0, to, batch }
    }

    fn take(&mut self, now: Instant, data: &[u8]) {
        if self.flight.len() >= FLIGHT_MAX {
            return;
        }
        for arrival in self.link.offer(now, data.len(), 0).into_iter().flatten() {
            self.sequence += 1;
            self.flight.insert((arrival.at, self.sequence), data.to_vec());
        }
    }

    /// Sends what is due; returns when something is due next.
    fn give(&mut self, now: Instant, out: &mut UdpLink) -> Instant {
        while let Some(entry) = self.flight.first_entry()
            && entry.key().0 <= now
        {
            let Some(remote) = self.to else { break };
            let Some(buffer) = self.batch.buffer() else {
                if out.flush(&mut self.batch) {
                    continue;
                }
                return now + Duration::from_millis(1);
            };
            let data = entry.remove();
            let len = data.len();
            buffer[..len].copy_from_slice(&data);
            self.batch.push(Transmit { link: out.id(), remote, segment: len, len, ecn: 0 });
        }
        out.flush(&mut self.batch);
        self.flight.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }
}

/// The relay itself: until its input ends.
fn pass(args: &RelayArgs, to: SocketAddr) -> anyhow::Result<()> {
    let signal = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal)?;
    let any = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0);
    let mut near = UdpLink::bind(LinkId(0), any)?;
    let mut far = UdpLink::bind(LinkId(1), any)?;
    println!("listening at {}", near.local_addr()?);
    std::io::stdout().flush()?;
    let mut there = Way::new(args.spec(), args.seed, Some(to));
    let mut back = Way::new(args.spec(), args.seed + 1, None);
    let (clock, input) = (Clock::start(), std::io::stdin());
    loop {
        let now = clock.now();
        let next = there.give(now, &mut far).min(back.give(now, &mut near));
        let wait = next.since(clock.now()).min(Duration::from_millis(100));
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let fds = &mut [
            PollFd::new(&near, PollFlags::IN),
            PollFd::new(&far, PollFlags::IN),
            PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
        ];
        poll(fds, Some(&timeout))?;
        if !fds[2].revents().is_empty() {
            break;
        }
        while near.receive(|rx, data| {
            back.to = Some(rx.remote);
            there.take(clock.now(), data);
        })? {}
        while far.receive(|_, data| back.take(clock.now(), data))? {}
    }
    let LinkStats { offered, lost, overflowed, reordered, .. } = there.link.stats;
    println!("{offered} datagrams, {lost} lost, {overflowed} overflowed, {reordered} late");
    Ok(())
}
