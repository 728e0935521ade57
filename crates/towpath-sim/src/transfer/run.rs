//! The event loop of a transfer.

use std::time::Duration;

use towpath_proto::{AssociationStats, Config, Connect, Grant, Machine, Psk, RxMeta, TxBatch};
use towpath_wire::frame::DATA_OVERHEAD;
use towpath_wire::packet::{DATA_HEADER, TAG};
use towpath_wire::{Admission, Instant, LinkId};

use super::flow::Flow;
use super::host::Host;
use super::report::{FlowReport, LinkReport, Sample, TransferReport};
use super::scenario::{Side, TransferScenario, congestion};
use crate::hash::Trace;
use crate::kernel::Kernel;
use crate::network::{Network, Tap, Transit};
use crate::scenario::ScenarioError;
use crate::world::{address, index_of};

/// Datagrams in one train at most.
const TRAIN: usize = 16;
/// Datagrams that the socket of a host holds that does not run.
const SOCKET_MAX: usize = 256;
/// Once every flow is done: time for what is still under way.
const LINGER: Duration = Duration::from_secs(2);

enum Happening {
    Datagram(Transit),
    Timer(usize),
    Start(usize),
    Change(usize),
    Stop(usize),
    Resume(usize),
    Step(usize),
    Sample,
}

/// Hosts 2 n and 2 n + 1 are sender and receiver of flow n.
struct Run<'a> {
    scenario: &'a TransferScenario,
    kernel: Kernel<Happening>,
    network: Network,
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    /// Counters of the senders' associations, as last seen.
    stats: Vec<AssociationStats>,
    trace: Trace,
    datagrams: u64,
    buf: Vec<u8>,
}

/// Runs a scenario. `tap` sees every datagram sent; nothing in them is encrypted.
pub fn run(scenario: &TransferScenario, tap: Option<Tap>) -> Result<TransferReport, ScenarioError> {
    scenario.check()?;
    let mut run = Run::prepare(scenario);
    if let Some(tap) = tap {
        run.network.set_tap(tap);
    }
    run.go();
    Ok(run.report())
}

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

const fn side_of(host: usize) -> Side {
    if host.is_multiple_of(2) { Side::Sender } else { Side::Receiver }
}

impl<'a> Run<'a> {
    fn prepare(scenario: &'a TransferScenario) -> Self {
        let mut network = Network::new(scenario.seed);
        let names: Vec<&String> = scenario.link.keys().collect();
        scenario.link.values().for_each(|spec| _ = network.add_link(*spec));
        // Links are numbered in order of name.
        let number =
            |name: &String| names.binary_search(&name).expect("checked: every link has a name");
        let mut kernel = Kernel::new();
        let (mut hosts, mut flows) = (Vec::new(), Vec::new());
        for (n, spec) in scenario.flow.iter().enumerate() {
            let default = Config::default();
            let chosen = spec.congestion.as_deref().and_then(congestion);
            let config = Config {
                datagram: spec.datagram_bytes,
                window: spec.window_bytes,
                window_max: default.window_max.max(spec.window_bytes),
                credit_max: default.credit_max.max(spec.window_bytes.into()),
                congestion: chosen.unwrap_or(default.congestion),
                ..default
            };
            for index in [2 * n, 2 * n + 1] {
                let (seed, real) = (scenario.seed, scenario.real_bytes);
                let mut host = Host::new(index, seed, config.clone(), real);
                host.wake = Duration::from_micros(spec.wake_us);
                host.stamps = spec.stamps;
                hosts.push(host);
            }
            let route = |names: &[String]| names.iter().map(number).collect::<Vec<_>>();
            network.set_route(2 * n, 2 * n + 1, &route(&spec.forward));
            network.set_route(2 * n + 1, 2 * n, &route(&spec.backward));
            flows.push(Flow::new(n, spec));
            kernel.schedule(at_ms(spec.start_ms), Happening::Start(n));
        }
        for (n, change) in scenario.change.iter().enumerate() {
            kernel.schedule(at_ms(change.at_ms), Happening::Change(n));
        }
        for (n, stop) in scenario.stop.iter().enumerate() {
            kernel.schedule(at_ms(stop.at_ms), Happening::Stop(n));
        }
        for (n, step) in scenario.step.iter().enumerate() {
            kernel.schedule(at_ms(step.at_ms), Happening::Step(n));
        }
        kernel.schedule(Instant::ZERO, Happening::Sample);
        let largest = scenario.flow.iter().map(|f| f.datagram_bytes).max().unwrap_or(1472);
        Self {
            scenario,
            kernel,
            network,
            stats: vec![AssociationStats::default(); flows.len()],
            hosts,
            flows,
            trace: Trace::new(scenario.seed),
            datagrams: 0,
            buf: vec![0; TRAIN * usize::from(largest)],
        }
    }

    fn go(&mut self) {
        let end = at_ms(self.scenario.seconds_max * 1000);
        while self.kernel.next_at().is_some_and(|at| at <= end) {
            let Some((now, happening)) = self.kernel.pop() else { break };
            match happening {
                Happening::Datagram(transit) => self.arrive(now, transit),
                Happening::Timer(host) => {
                    self.hosts[host].timer = None;
                    if let Some(at) = self.hosts[host].wakes(now) {
                        self.kernel.schedule(at, Happening::Resume(host));
                    }
                    self.wake(now, host);
                }
                Happening::Start(flow) => self.start(now, flow),
                Happening::Change(n) => self.change(n),
                Happening::Stop(n) => self.stop(now, n),
                Happening::Resume(host) => self.resume(now, host),
                Happening::Step(n) => self.step(now, n),
                Happening::Sample => {
                    self.sample(now);
                    let done = |f: &Flow| f.done_at.is_some_and(|at| now >= at + LINGER);
                    if self.flows.iter().all(done) {
                        break;
                    }
                    let next = now + Duration::from_millis(self.scenario.sample_ms);
                    self.kernel.schedule(next, Happening::Sample);
                }
            }
        }
    }

    fn start(&mut self, now: Instant, flow: usize) {
        let (from, to) = (2 * flow, 2 * flow + 1);
        let connect = Connect {
            link: LinkId(0),
            remote: address(to),
            key: self.hosts[to].endpoint.public_key(),
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello: b"",
        };
        let sender = &mut self.hosts[from];
        if let Err(refusal) = sender.endpoint.connect(sender.clock.local(now), &connect) {
            self.flows[flow].break_promise(|| format!("cannot begin to connect: {refusal:?}"));
        }
        self.drain(now, from);
    }

    fn change(&mut self, n: usize) {
        let change = &self.scenario.change[n];
        let number = self.scenario.link.keys().position(|name| *name == change.link);
        let link = self.network.link(number.expect("checked: a change names a link"));
        link.set_spec(change.apply(link.spec()));
        if let Some(up) = change.up {
            link.set_up(up);
        }
    }

    fn host(&self, flow: &str, side: Side) -> usize {
        let flow = self.scenario.flow.iter().position(|f| f.name == flow);
        let flow = flow.expect("checked: stops and steps name a flow");
        2 * flow + usize::from(side == Side::Receiver)
    }

    fn step(&mut self, now: Instant, n: usize) {
        let step = &self.scenario.step[n];
        let host = self.host(&step.flow, step.side);
        self.hosts[host].clock.step(now, Duration::from_millis(step.ahead_ms));
        self.wake(now, host);
    }

    fn stop(&mut self, now: Instant, n: usize) {
        let stop = &self.scenario.stop[n];
        let host = self.host(&stop.flow, stop.side);
        let until = now + Duration::from_millis(stop.for_ms);
        let h = &mut self.hosts[host];
        h.stopped_until = h.stopped_until.max(until);
        self.kernel.schedule(until, Happening::Resume(host));
    }

    fn resume(&mut self, now: Instant, host: usize) {
        if self.hosts[host].stopped_until > now {
            return;
        }
        while let Some((came, transit)) = self.hosts[host].socket.pop_front() {
            let late = if self.hosts[host].stamps { now.since(came) } else { Duration::ZERO };
            self.deliver(now, late, transit);
        }
        self.wake(now, host);
    }

    fn arrive(&mut self, now: Instant, transit: Transit) {
        let Self { kernel, network, .. } = self;
        let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
        let Some(transit) = network.arrive(now, transit, go_on) else { return };
        let h = &mut self.hosts[transit.to];
        if let Some(at) = h.wakes(now) {
            self.kernel.schedule(at, Happening::Resume(transit.to));
        }
        if h.stopped_until <= now {
            self.deliver(now, Duration::ZERO, transit);
            self.drain(now, transit.to);
        } else if h.socket.len() < SOCKET_MAX {
            h.socket.push_back((now, transit));
        } else {
            h.socket_dropped += 1;
            self.network.release(transit);
        }
    }

    /// `late`: so long ago it reached the socket.
    fn deliver(&mut self, now: Instant, late: Duration, transit: Transit) {
        self.datagrams += 1;
        let h = &mut self.hosts[transit.to];
        let flow = &mut self.flows[transit.to / 2];
        let taken = |h: &Host| {
            h.endpoint.associations().next().map_or(0, |(_, a)| a.stats().packets_received)
        };
        let before = taken(h);
        let remote = address(transit.from);
        let rx = RxMeta { link: LinkId(0), remote, ecn: transit.ecn, late };
        let data = self.network.bytes(transit);
        h.endpoint.handle_datagram(h.clock.local(now), rx, data, &mut h.memory);
        // Opened in place: what authenticated can be read now.
        if let Some(channel) = flow.channel()
            && taken(h) > before
        {
            match side_of(transit.to) {
                Side::Sender => flow.curve.arrived(now, channel, data),
                Side::Receiver => flow.curve.taken(data),
            }
        }
        self.network.release(transit);
    }

    fn wake(&mut self, now: Instant, host: usize) {
        let h = &mut self.hosts[host];
        if h.stopped_until <= now {
            h.endpoint.handle_timeout(h.clock.local(now), &mut h.memory);
            self.drain(now, host);
        }
    }

    /// Carries out what an endpoint wants: tell, send, wake it in time.
    fn drain(&mut self, now: Instant, host: usize) {
        if self.hosts[host].stopped_until > now {
            return;
        }
        loop {
            let (h, flow) = (&mut self.hosts[host], &mut self.flows[host / 2]);
            if let Some(event) = h.endpoint.poll_event() {
                flow.event(now, side_of(host), h, event);
            } else if !self.transmit(now, host) {
                break;
            }
        }
        let h = &mut self.hosts[host];
        let at = h.endpoint.poll_timeout().map(|(at, _)| h.clock.global(at));
        if h.timer.map(|(_, t)| t) == at {
            return;
        }
        if let Some((handle, _)) = h.timer.take() {
            self.kernel.cancel(handle);
        }
        if let Some(at) = at {
            let handle = self.kernel.schedule(at, Happening::Timer(host));
            self.hosts[host].timer = Some((handle, at));
        }
    }

    fn transmit(&mut self, now: Instant, host: usize) -> bool {
        let Self { hosts, flows, kernel, network, buf, trace, .. } = self;
        let (h, flow) = (&mut hosts[host], &mut flows[host / 2]);
        let mut batch = TxBatch::new(buf, &h.memory, TRAIN);
        let grant = Grant::free(LinkId(0));
        let Some(t) = h.endpoint.poll_transmit(h.clock.local(now), grant, &mut batch) else {
            return false;
        };
        let Some(to) = index_of(t.remote) else { return true };
        for datagram in buf[..t.len].chunks(t.segment) {
            trace.word(now.as_nanos());
            trace.word((host as u64) << 32 | datagram.len() as u64);
            trace.bytes(&datagram[..datagram.len().min(64)]);
            h.sent += 1;
            if let Some(channel) = flow.channel()
                && side_of(host) == Side::Sender
            {
                flow.curve.departed(now, channel, datagram);
            }
            let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
            network.send(now, host, to, datagram, t.tos & 3, go_on);
        }
        true
    }

    fn sample(&mut self, now: Instant) {
        for n in 0..self.flows.len() {
            let flow = &mut self.flows[n];
            let sender = &self.hosts[2 * n].endpoint;
            let association = flow.association().and_then(|id| sender.association(id));
            let (mut rtt, mut stats) = (Duration::ZERO, self.stats[n]);
            if let Some(a) = association {
                (rtt, stats) = (a.rtt(), *a.stats());
            }
            self.stats[n] = stats;
            let route = self.network.route(2 * n, 2 * n + 1).to_vec();
            let queues = route.into_iter().map(|l| self.network.link(l).queued(now));
            let at_ms = now.as_nanos() / 1_000_000;
            flow.samples.pop_if(|last| last.at_ms == at_ms);
            flow.samples.push(Sample {
                at_ms,
                delivered_bytes: flow.delivered_bytes,
                rtt_us: rtt.as_micros() as u64,
                repaired: stats.repaired,
                lost: stats.packets_lost,
                queue_bytes: queues.max().unwrap_or(0),
            });
        }
    }

    fn report(mut self) -> TransferReport {
        let now = self.kernel.now();
        self.sample(now);
        self.check_all();
        let seconds = now.as_nanos() as f64 / 1e9;
        let named = self.scenario.link.iter().enumerate();
        let links = named.map(|(n, (name, spec))| {
            let link = self.network.link(n);
            let left = link.stats.carried_bytes.saturating_sub(link.queued(now));
            let load = left as f64 * 8.0 / spec.rate_bps as f64 / seconds;
            LinkReport { name: name.clone(), load, stats: link.stats }
        });
        let links = links.collect();
        let broken = self.flows.iter_mut().flat_map(|f| std::mem::take(&mut f.broken)).collect();
        let (hosts, stats) = (&self.hosts, &self.stats);
        let flows = self.flows.into_iter().enumerate();
        let flows = flows.map(|(n, flow)| {
            let memory = [2 * n, 2 * n + 1].map(|h| hosts[h].memory.used_max());
            flow_report(flow, now, memory, hosts[2 * n].sent, &stats[n])
        });
        TransferReport {
            about: self.scenario.about.clone(),
            seed: self.scenario.seed,
            seconds,
            trace_hash: format!("{:016x}", self.trace.value()),
            datagrams: self.datagrams,
            flows: flows.collect(),
            links,
            broken,
        }
    }

    /// What must hold in the end, beside what each message's arrival showed.
    fn check_all(&mut self) {
        let lost: u64 = self
            .network
            .links()
            .iter()
            .map(|l| {
                let s = &l.stats;
                s.lost + s.cut + s.oversized + s.corrupted
            })
            .sum();
        let dropped: u64 = self.hosts.iter().map(|h| h.socket_dropped).sum();
        let seconds = self.kernel.now().as_nanos() / 1_000_000_000 + 1;
        for (n, flow) in self.flows.iter_mut().enumerate() {
            if let Some(bytes) = flow.spec.bytes
                && flow.done_at.is_none()
            {
                let acked = flow.acked_bytes;
                flow.break_promise(|| format!("{acked} of {bytes} bytes acknowledged in time"));
            }
            // Every message's block came back, and no more than credit and queue allow was used.
            let spec = &flow.spec;
            let (window, message) =
                (u64::from(spec.window_bytes), u64::from(spec.message_bytes) + 64);
            let bound = 4 * window + 3 * message + 64 * 16_384;
            for h in [2 * n, 2 * n + 1] {
                let (used, max) = (self.hosts[h].memory.used(), self.hosts[h].memory.used_max());
                if flow.done_at.is_some() && used > 0 {
                    flow.break_promise(|| format!("{used} bytes of messages are left over"));
                }
                if max > bound {
                    flow.break_promise(|| format!("held {max} bytes of messages, bound {bound}"));
                }
            }
            // No livelock: what repeats is in proportion to what was lost. What overflowed a queue
            // was sent in vain: of that, no more than what was needed.
            let needed = packets_needed(flow, flow.delivered_bytes + 4 * window);
            let back = if flow.spec.echo { 2 } else { 1 };
            let limit = 2 * back * (needed + lost + dropped) + 100 * seconds;
            let sent = self.hosts[2 * n].sent;
            if sent > limit {
                flow.break_promise(|| format!("sent {sent} packets, bound {limit}"));
            }
        }
    }
}

fn packets_needed(flow: &Flow, bytes: u64) -> u64 {
    let content = usize::from(flow.spec.datagram_bytes) - DATA_HEADER - TAG - DATA_OVERHEAD;
    let messages = bytes.div_ceil(flow.spec.message_bytes.into());
    // Small messages share packets: a header each.
    let bytes = bytes + messages * DATA_OVERHEAD as u64;
    bytes.div_ceil(content as u64)
}

fn flow_report(
    flow: Flow,
    now: Instant,
    memory_bytes_max: [u64; 2],
    packets_sent: u64,
    stats: &AssociationStats,
) -> FlowReport {
    let begin = flow.connected_at.unwrap_or(now);
    let seconds = flow.done_at.unwrap_or(now).since(begin).as_secs_f64();
    let rate = |bytes: u64, seconds: f64| {
        if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
    };
    // What comes after a flow's end is not its rate.
    let done_ms = flow.done_at.unwrap_or(now).as_nanos() / 1_000_000;
    let until = flow.samples.partition_point(|s| s.at_ms <= done_ms).max(1);
    let (half, last) = (&flow.samples[until / 2], &flow.samples[until - 1]);
    let later = (last.at_ms - half.at_ms) as f64 / 1000.0;
    let rtts: Vec<u64> = flow.samples.iter().map(|s| s.rtt_us).filter(|r| *r > 0).collect();
    FlowReport {
        bytes: flow.delivered_bytes,
        seconds,
        goodput_bps: rate(flow.delivered_bytes, seconds),
        later_half_bps: rate(last.delivered_bytes - half.delivered_bytes, later),
        packets_sent,
        packets_needed: packets_needed(&flow, flow.delivered_bytes),
        packets_lost: stats.packets_lost,
        spurious: stats.spurious,
        repaired: stats.repaired,
        probes: stats.probes,
        rtt_ms_mean: rtts.iter().sum::<u64>() as f64 / 1000.0 / rtts.len().max(1) as f64,
        memory_bytes_max,
        samples: flow.samples,
        curve: flow.curve.finish(),
        name: flow.spec.name,
    }
}
