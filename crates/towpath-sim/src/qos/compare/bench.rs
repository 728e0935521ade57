//! Ports in a row under one discipline, and channels over them.

use core::time::Duration;

use towpath_qos::scheduler::{Discipline, PortConfig, QueueConfig, QueueId, Service};
use towpath_qos::spec::{SigmaRho, TSpec};
use towpath_wire::{ByteSize, Instant, Rate};

use super::load::{Class, Load, LoadError, Sending};
use crate::qos::network::{
    FlowSpec, FlowStats, Gate, Hop, HostSpec, Network, Pacing, Pattern, PortSpec, Sizes, Source,
};

/// Packets a queue holds.
const QUEUE_PACKETS: u32 = 64;

/// A network of ports in a row; each channel has its own queue at each port it passes.
pub(super) struct Bench<'a> {
    load: &'a Load,
    discipline: Discipline,
    net: Network,
    ports: Vec<u32>,
    queues: u32,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        load: &'a Load,
        discipline: Discipline,
        hops: u32,
        queues: u32,
    ) -> Result<Self, LoadError> {
        let mut net = Network::new(load.seed);
        let fail = |error| LoadError::Scheduler { discipline: discipline.facts().name, error };
        net.add_host("host", HostSpec::default()).map_err(fail)?;
        let sizes = load.classes.iter().map(|c| c.packet_bytes);
        let largest = sizes.max().unwrap_or(0).max(load.bulk_packet_bytes);
        let mut bench = Self { load, discipline, net, ports: Vec::new(), queues: 0 };
        for hop in 0..hops {
            let config = PortConfig {
                rate: Rate::from_bps(load.link_bps),
                packet_bytes_max: largest,
                queues_max: queues,
                packets_max: QUEUE_PACKETS * queues,
            };
            let name = format!("port {hop}");
            let spec = PortSpec { name, discipline, config, latency_ns: 0 };
            bench.ports.push(bench.net.add_port(spec).map_err(fail)?);
        }
        Ok(bench)
    }

    fn add(
        &mut self,
        config: &QueueConfig,
        ports: core::ops::Range<usize>,
        source: Source,
        bound_us: u64,
        pacing: Pacing,
    ) -> Result<u32, LoadError> {
        let name = self.discipline.facts().name;
        let fail = |error| LoadError::Scheduler { discipline: name, error };
        let queue = QueueId(self.queues);
        self.queues += 1;
        let hops: Vec<Hop> = self.ports[ports].iter().map(|port| Hop::new(*port, queue)).collect();
        for hop in &hops {
            self.net.add_queue(hop.port, queue, config).map_err(fail)?;
        }
        let bound_ns = Some(bound_us * 1000);
        let spec = FlowSpec {
            name: format!("queue {}", queue.0),
            from: 0,
            to: 0,
            hops,
            source,
            pacing,
            shaper: None,
            bound_ns,
            series: (0, 0),
        };
        self.net.add_flow(spec).map_err(fail)
    }

    /// A channel of a class over all ports, starting at `phase_us`; `times` what it may: above 1
    /// it breaks its word.
    pub(super) fn channel(
        &mut self,
        class: &Class,
        phase_us: u64,
        times: u64,
    ) -> Result<u32, LoadError> {
        let config = self.config(class);
        let rate = Rate::from_bps(class.rate_bps * times);
        let spec = SigmaRho::new(ByteSize::from_bytes(class.burst_bytes * times), rate);
        let Ok(spec) = spec else {
            let (place, value) = (class.name.clone(), class.rate_bps);
            let must = "a rate of a specification";
            return Err(LoadError::Range { place, field: "rate_bps", value, must });
        };
        let spec = TSpec::SigmaRho(spec);
        let mut source = Source::greedy(spec, class.packet_bytes, phase_us * 1000);
        // After this long the bucket is full again.
        let refill_ns = class.burst_bytes * 8_000_000_000 / class.rate_bps;
        let packet_ns = u64::from(class.packet_bytes) * 8_000_000_000 / class.rate_bps;
        match class.sending {
            Sending::Greedy => {}
            Sending::OnOff => {
                let gate = Gate::Random { on: 2 * refill_ns, off: 2 * refill_ns };
                source.pattern = Pattern::Greedy(gate);
            }
            Sending::Periodic => {
                source.pattern = Pattern::Periodic { interval_ns: packet_ns, jitter_ns: 0 };
            }
        }
        let deadline_us = class.deadline_us * self.ports.len() as u64;
        self.add(&config, 0..self.ports.len(), source, deadline_us, Pacing::Open)
    }

    /// A channel that always has a packet for one port.
    pub(super) fn bulk(&mut self, port: usize, weight: u16) -> Result<u32, LoadError> {
        let load = self.load;
        let reserved: u64 =
            load.classes.iter().map(|c| c.rate_bps.saturating_mul(c.channels.into())).sum();
        let total: u64 = load.bulk_weights.iter().map(|w| u64::from(*w)).sum();
        let left = load.link_bps.saturating_sub(reserved).max(load.link_bps / 100);
        let config = QueueConfig {
            rate: Rate::from_bps((left * u64::from(weight) / total).max(1000)),
            weight,
            priority: 7,
            burst: ByteSize::from_bytes(load.bulk_packet_bytes.into()),
            delay: Duration::from_secs(1),
            packets_max: QUEUE_PACKETS,
            service: Service::BestEffort,
            ..QueueConfig::default()
        };
        let bytes = Sizes::Fixed(load.bulk_packet_bytes);
        let source = Source::new(Pattern::Greedy(Gate::Open), bytes);
        self.add(&config, port..port + 1, source, u64::MAX / 2000, Pacing::Blocking)
    }

    /// What a class asks of a port: deadline and burst for the disciplines that know them, and for
    /// those that know only rates the rate that clears the burst within the deadline.
    fn config(&self, class: &Class) -> QueueConfig {
        let load = self.load;
        let urgent = load.classes.iter().filter(|c| c.deadline_us < class.deadline_us).count();
        let clearing = (class.burst_bytes * 8_000_000).div_ceil(class.deadline_us);
        let rate = if self.knows_deadlines() {
            class.rate_bps
        } else {
            class.rate_bps.max(clearing).min(load.link_bps)
        };
        let weights = load.bulk_weights.iter().map(|w| u64::from(*w));
        let unit = (load.link_bps / 100 / weights.max().unwrap_or(1)).max(1);
        QueueConfig {
            rate: Rate::from_bps(rate),
            weight: (rate / unit).clamp(1, 1000) as u16,
            priority: urgent.min(6) as u8,
            burst: ByteSize::from_bytes(class.burst_bytes),
            delay: Duration::from_micros(class.deadline_us),
            packets_max: QUEUE_PACKETS,
            service: Service::Deterministic,
            ..QueueConfig::default()
        }
    }

    /// Whether it reads a deadline or service curve; the others (round robins and the
    /// rate-proportional ones) get delay only for rate.
    fn knows_deadlines(&self) -> bool {
        let name = self.discipline.facts().name;
        ["edf", "edd", "queue", "rcsp", "hfsc", "priority"].iter().any(|part| name.contains(part))
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        self.net.run_until(Instant::ZERO + Duration::from_millis(ms));
    }

    pub(super) fn stats(&self, flow: u32) -> Option<&FlowStats> {
        self.net.flow(flow)
    }
}
