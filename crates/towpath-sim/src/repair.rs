//! How lost packets are repaired: the scheme of 1997 ([`crate::segments`]) and an
//! association, over the same link, with packets of the same size.
//!
//! The link's queue holds more than either ever has under way, so that nothing is lost but what
//! the specification says; as much is lost on the way back. An association says hello, seals, and
//! has to find out what the link carries; the scheme of 1997 does none of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::segments::{
    DATA_HEADER, MAP_LEN, SEGMENT_PACKETS, SegmentConfig, SegmentReceiver, SegmentSender,
};
use serde::Serialize;
use towpath_proto::Memory;
use towpath_wire::frame::{DATA_OVERHEAD, MESSAGE_CHARGE};
use towpath_wire::packet::{DATA_HEADER as PACKET_HEADER, TAG};
use towpath_wire::{ByteSize, Instant};

use crate::kernel::{Handle, Kernel};
use crate::link::LinkSpec;
use crate::memory::{SimMemory, VIRTUAL_LABEL};
use crate::network::{Network, Transit};
use crate::scenario::ScenarioError;
use crate::transfer::{FlowSpec, TransferScenario};

/// Simulated seconds after which a run is given up.
const SECONDS_MAX: u64 = 3600;

/// What is sent over which link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairSpec {
    /// Rate of the link in bits per second, each way.
    pub rate_bps: u64,
    /// Its delay each way, in microseconds.
    pub delay_us: u64,
    /// Datagrams lost, each way.
    pub loss_ppm: u32,
    /// Bytes to send.
    pub bytes: u64,
    /// Length of each message but the last.
    pub message_bytes: u32,
    /// Sizes, times and retries of the scheme of 1997. An association sends packets with as many
    /// content bytes.
    pub segments: SegmentConfig,
    /// Congestion controller of the association, as in a scenario; absent: the default.
    pub congestion: Option<String>,
    /// Feeds every random draw.
    pub seed: u64,
}

/// Whose repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Segments of 64 packets and maps, as in 1997.
    #[serde(rename = "1997")]
    Segments,
    /// An association with its default options.
    Association,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepairOutcome {
    /// Whose repair.
    pub scheme: Scheme,
    /// Datagrams lost, each way.
    pub loss_ppm: u32,
    /// Bytes that arrived, each counted once.
    pub bytes: u64,
    /// From the first packet of data to the last acknowledgement.
    pub seconds: f64,
    /// Bytes that the link there carried, framing and lost datagrams included.
    pub there_bytes: u64,
    /// Bytes that the link back carried.
    pub back_bytes: u64,
    /// Data packets sent again.
    pub repeated: u64,
    /// Segments repeated whole because no map came; probes of an association.
    pub timeouts: u64,
    /// Why it did not come to its end, if it did not.
    pub failed: Option<String>,
}

impl RepairSpec {
    fn link(&self) -> LinkSpec {
        let segment = u64::from(SEGMENT_PACKETS) * (u64::from(self.segments.packet_bytes) + 100);
        LinkSpec {
            rate_bps: self.rate_bps,
            delay_us: self.delay_us,
            loss_ppm: self.loss_ppm,
            queue_bytes: (2 * u64::from(self.window())).max(2 * segment),
            ..LinkSpec::PLAIN
        }
    }

    /// Credit of an association's channel: the usual, or four messages.
    fn window(&self) -> u32 {
        let needed = 4 * (u64::from(self.message_bytes) + MESSAGE_CHARGE);
        FlowSpec::default().window_bytes.max(u32::try_from(needed).unwrap_or(u32::MAX))
    }

    fn datagram(&self) -> usize {
        usize::from(self.segments.packet_bytes) + PACKET_HEADER + TAG + DATA_OVERHEAD
    }

    /// The same as flow over links.
    fn scenario(&self) -> TransferScenario {
        let link = BTreeMap::from(["back", "there"].map(|n| (n.to_string(), self.link())));
        let flow = FlowSpec {
            forward: vec!["there".into()],
            backward: vec!["back".into()],
            bytes: Some(self.bytes),
            message_bytes: self.message_bytes,
            congestion: self.congestion.clone(),
            window_bytes: self.window(),
            datagram_bytes: self.datagram() as u16,
            ..FlowSpec::default()
        };
        TransferScenario {
            seed: self.seed,
            seconds_max: SECONDS_MAX,
            sample_ms: 1000,
            link,
            flow: vec![flow],
            ..TransferScenario::default()
        }
    }

    /// Whether every value is in range.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let range = |field: &str, value: String, must| {
            Err(ScenarioError::Range { field: field.into(), value, must })
        };
        if !(1200..=8192).contains(&self.segments.packet_bytes) {
            let value = self.segments.packet_bytes.to_string();
            return range("packet_bytes", value, "between 1200 and 8192");
        }
        if self.bytes > 1 << 32 {
            return range("bytes", self.bytes.to_string(), "at most 2^32");
        }
        if self.message_bytes > 1 << 27 {
            return range("message_bytes", self.message_bytes.to_string(), "at most 2^27");
        }
        self.scenario().check()
    }
}

/// Runs one scheme.
pub fn run(spec: &RepairSpec, scheme: Scheme) -> Result<RepairOutcome, ScenarioError> {
    spec.check()?;
    match scheme {
        Scheme::Segments => Ok(Segments::new(spec).go()),
        Scheme::Association => association(spec),
    }
}

fn association(spec: &RepairSpec) -> Result<RepairOutcome, ScenarioError> {
    let report = crate::transfer::run(&spec.scenario(), None)?;
    let flow = &report.flows[0];
    // Links stand in order of name.
    let [back, there] = [0, 1].map(|n| report.links[n].stats.carried_bytes);
    Ok(RepairOutcome {
        scheme: Scheme::Association,
        loss_ppm: spec.loss_ppm,
        bytes: flow.bytes,
        seconds: flow.seconds,
        there_bytes: there,
        back_bytes: back,
        repeated: flow.repaired,
        timeouts: flow.probes,
        failed: report.broken.first().cloned(),
    })
}

enum Happening {
    Datagram(Transit),
    /// One of the two may have a time-out.
    Wake,
}

/// Host 0 sends, host 1 receives.
struct Segments<'a> {
    spec: &'a RepairSpec,
    kernel: Kernel<Happening>,
    network: Network,
    sender: SegmentSender,
    receiver: SegmentReceiver,
    memory: [SimMemory; 2],
    queued: u64,
    delivered: u64,
    failed: Option<String>,
    wake: Option<(Handle, Instant)>,
    buf: Vec<u8>,
}

impl<'a> Segments<'a> {
    fn new(spec: &'a RepairSpec) -> Self {
        let mut network = Network::new(spec.seed);
        for (from, to) in [(0, 1), (1, 0)] {
            let link = network.add_link(spec.link());
            network.set_route(from, to, &[link]);
        }
        let memory = || SimMemory::new(ByteSize::from_mib(1024), false);
        Self {
            spec,
            kernel: Kernel::new(),
            network,
            sender: SegmentSender::new(spec.segments),
            receiver: SegmentReceiver::new(spec.segments, VIRTUAL_LABEL),
            memory: [memory(), memory()],
            queued: 0,
            delivered: 0,
            failed: None,
            wake: None,
            buf: vec![0; DATA_HEADER.max(MAP_LEN) + usize::from(spec.segments.packet_bytes)],
        }
    }

    fn len(&self, sent: u64) -> u32 {
        (self.spec.bytes - sent).min(self.spec.message_bytes.into()) as u32
    }

    fn go(mut self) -> RepairOutcome {
        let end = Instant::ZERO + Duration::from_secs(SECONDS_MAX);
        let mut over = !self.send_next();
        self.turn(Instant::ZERO);
        while !over {
            let Some((now, happening)) = self.kernel.pop().filter(|(at, _)| *at <= end) else {
                self.failed = Some(format!("no end within {SECONDS_MAX} simulated seconds"));
                break;
            };
            match happening {
                Happening::Datagram(transit) => self.arrive(now, transit),
                Happening::Wake => {
                    self.wake = None;
                    self.sender.handle_timeout(now);
                    self.receiver.handle_timeout(now);
                }
            }
            over = self.look();
            self.turn(now);
        }
        self.outcome()
    }

    /// Takes up the next message; false when there is none.
    fn send_next(&mut self) -> bool {
        let len = self.len(self.queued);
        let block = if len > 0 { self.memory[0].bulk(self.queued, len) } else { None };
        let Some(block) = block else { return false };
        self.queued += u64::from(len);
        self.sender.send(block, len).is_ok()
    }

    fn arrive(&mut self, now: Instant, transit: Transit) {
        let Self { kernel, network, .. } = self;
        let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
        let Some(transit) = network.arrive(now, transit, go_on) else { return };
        if transit.to == 0 {
            self.sender.handle_datagram(network.bytes(transit));
        } else {
            let datagram = network.bytes(transit);
            self.receiver.handle_datagram(now, datagram, &mut self.memory[1]);
        }
        self.network.release(transit);
    }

    /// What the two say; true when all is over.
    fn look(&mut self) -> bool {
        while let Some(r) = self.receiver.poll_event() {
            if r.len != self.len(self.delivered)
                || !self.memory[1].is_bulk(r.block, self.delivered, r.len)
            {
                self.failed = Some(format!("message {} is not what was sent", r.message));
            }
            self.delivered += u64::from(r.len);
            self.memory[1].release(r.block);
        }
        let Some(event) = self.sender.poll_event() else { return self.failed.is_some() };
        self.memory[0].release(event.block);
        if let Err(gave_up) = event.outcome {
            self.failed = Some(gave_up.to_string());
        }
        self.failed.is_some() || !self.send_next()
    }

    /// Sends what there is, and sees to it that time-outs are noticed.
    fn turn(&mut self, now: Instant) {
        let Self { kernel, network, sender, receiver, memory, buf, .. } = self;
        while let Some(len) = sender.poll_transmit(now, buf, &memory[0]) {
            let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
            network.send(now, 0, 1, &buf[..len], 0, go_on);
        }
        while let Some(len) = receiver.poll_transmit(buf) {
            let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
            network.send(now, 1, 0, &buf[..len], 0, go_on);
        }
        let due = sender.poll_timeout().into_iter().chain(receiver.poll_timeout()).min();
        if self.wake.map(|(_, at)| at) == due {
            return;
        }
        if let Some((handle, _)) = self.wake.take() {
            self.kernel.cancel(handle);
        }
        self.wake = due.map(|at| (self.kernel.schedule(at, Happening::Wake), at));
    }

    fn outcome(self) -> RepairOutcome {
        let carried = |n: usize| self.network.links()[n].stats.carried_bytes;
        let stats = self.sender.stats();
        RepairOutcome {
            scheme: Scheme::Segments,
            loss_ppm: self.spec.loss_ppm,
            bytes: self.delivered,
            seconds: self.kernel.now().as_nanos() as f64 / 1e9,
            there_bytes: carried(0),
            back_bytes: carried(1),
            repeated: stats.repeated,
            timeouts: stats.whole,
            failed: self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: RepairSpec = RepairSpec {
        rate_bps: 100_000_000,
        delay_us: 1000,
        loss_ppm: 0,
        bytes: 4 << 20,
        message_bytes: 1 << 20,
        segments: SegmentConfig {
            packet_bytes: 4096,
            retries: 16,
            map_timeout: Duration::from_millis(200),
            gap_timeout: Duration::from_millis(100),
        },
        congestion: None,
        seed: 3,
    };

    #[test]
    fn without_loss_a_segment_takes_its_packets_and_a_round_trip() {
        let o = run(&SPEC, Scheme::Segments).unwrap();
        assert_eq!((o.bytes, o.repeated, o.timeouts, &o.failed), (4 << 20, 0, 0, &None));
        // 16 segments of 64 packets of 4096 + 16 + 66 bytes, and a map of 24 + 66 bytes each.
        assert_eq!((o.there_bytes, o.back_bytes), (16 * 64 * 4178, 16 * 90));
        let segment = 64.0 * 4178.0 * 8.0 / 1e8 + 90.0 * 8.0 / 1e8 + 0.002;
        assert!((o.seconds - 16.0 * segment).abs() < 1e-6, "{}", o.seconds);
        assert_eq!(run(&SPEC, Scheme::Segments).unwrap(), o);
    }

    #[test]
    fn with_loss_both_deliver_all_and_repeat_what_was_lost() {
        let spec = RepairSpec { loss_ppm: 100_000, ..SPEC };
        for scheme in [Scheme::Segments, Scheme::Association] {
            let o = run(&spec, scheme).unwrap();
            assert_eq!((o.bytes, &o.failed), (4 << 20, &None), "{scheme:?}");
            // A tenth of 1024 packets, and a tenth of what goes again.
            assert!((60..1024).contains(&o.repeated), "{o:?}");
        }
    }

    /// On the link that Hsieh's Figures 3.13 to 3.15 were measured on, with the source's packets
    /// and the waits that `sim repair` gives them by default.
    #[test]
    fn an_association_is_ahead_of_the_scheme_of_1997_up_to_20_percent() {
        for loss_ppm in [10_000, 20_000, 50_000, 100_000, 150_000, 200_000] {
            let median = |scheme| {
                let mut seconds: Vec<f64> = (1..=10)
                    .map(|seed| {
                        let spec = RepairSpec {
                            rate_bps: 135_632_000,
                            delay_us: 1375,
                            loss_ppm,
                            bytes: 16 << 20,
                            seed,
                            ..SPEC
                        };
                        let o = run(&spec, scheme).unwrap();
                        assert_eq!(o.failed, None, "{scheme:?} at {loss_ppm} ppm, seed {seed}");
                        o.seconds
                    })
                    .collect();
                seconds.sort_by(f64::total_cmp);
                f64::midpoint(seconds[4], seconds[5])
            };
            let (old, ours) = (median(Scheme::Segments), median(Scheme::Association));
            assert!(ours < old, "{loss_ppm} ppm: {ours:.3} s beside {old:.3} s");
        }
    }

    #[test]
    fn giving_up_is_told() {
        let segments = SegmentConfig { retries: 1, ..SPEC.segments };
        let spec = RepairSpec { loss_ppm: 500_000, segments, ..SPEC };
        let o = run(&spec, Scheme::Segments).unwrap();
        assert!(o.failed.as_ref().is_some_and(|f| f.contains("in 1 repetitions")), "{o:?}");
        let spec = RepairSpec { loss_ppm: 1_000_001, ..SPEC };
        let said = run(&spec, Scheme::Segments).unwrap_err().to_string();
        assert_eq!(said, "link.back.loss_ppm is 1000001, must be at most 1000000");
    }
}
