//! One stream on its way out.

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::Serialize;
use towpath_wire::{Instant, Rate};

use super::flow::{Feedback, Flow};
use super::groups::Groups;
use super::timing::{Cut, Planned, Timing};
use crate::read::{CLOCK_HZ, FaultKind, Format, Framing, PACKET, Packet, Packets};

/// Bytes of a datagram at most: seven packets, what a frame of 1500 bytes takes.
pub const DATAGRAM: usize = 7 * PACKET;
/// Bytes that wait at least, as long as there are more.
pub const WINDOW_FILL: usize = 32 * 1024;
/// Bytes that wait at most.
pub const WINDOW_MAX: usize = 4 << 20;

/// How a stream is sent.
#[derive(Debug)]
pub struct Config {
    /// Of which format the bytes are: [`Format::Ts188`], 192 or 204.
    pub format: Format,
    /// When datagrams are due.
    pub timing: Timing,
    /// So much of the stream waits before the first datagram leaves: what de-jitters a live
    /// source. No time for a stored one.
    pub delay: Duration,
    /// So much of the stream is asked for ahead; twice `delay` at least.
    pub ahead: Duration,
    /// A datagram that is later than this shifts the stream (rule 5).
    pub late_max: Duration,
    /// By which rate a stream is sent that tells no clock.
    pub fallback: Option<Rate>,
}

impl Config {
    /// A stored stream of packets of 188 bytes, by its own clock.
    pub const fn stored() -> Self {
        Self {
            format: Format::Ts188,
            timing: Timing::Interpolated,
            delay: Duration::ZERO,
            ahead: Duration::ZERO,
            late_max: Duration::from_millis(500),
            fallback: None,
        }
    }
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Not enough is there to begin.
    Filling,
    /// Datagrams are due one after the other.
    Sending,
    /// Held by its owner.
    Paused,
    /// More would be due, but its source gives no more.
    Starved,
    /// No clock and no rate: it cannot be sent.
    Clockless,
    /// All is sent.
    Finished,
}

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SendCounters {
    /// Datagrams handed out.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Clock references met.
    pub references: u64,
    /// Breaks of the clock (rule 3).
    pub breaks: u64,
    /// Groups cut since no reference came in [`WINDOW_MAX`] bytes.
    pub forced_groups: u64,
    /// Times that the stream was shifted for lateness (rule 5).
    pub shifts: u64,
    /// Of them: its source had given nothing to send.
    pub starved: u64,
    /// Bytes left out since they were no packets.
    pub faults: u64,
}

/// A datagram that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its bytes.
    pub len: usize,
    /// When it was due.
    pub at: Instant,
    /// It starts with a clock reference.
    pub clock: bool,
}

/// Sends one stream. Memory: what waits, which is [`WINDOW_FILL`] and two groups for a stored
/// stream, `ahead` for a live one, never more than [`WINDOW_MAX`] and what was pushed last.
///
/// ```
/// use towpath_media::send::{Config, DATAGRAM, Sender};
/// use towpath_wire::Instant;
///
/// let file = include_bytes!("../../data/mpeg2.ts");
/// let mut sender = Sender::new(Config::stored());
/// let (mut at, mut now, mut sent) = (0, Instant::ZERO, Vec::new());
/// while !sender.is_finished() {
///     let room = sender.room().min(file.len() - at);
///     sender.push(&file[at..at + room]);
///     at += room;
///     if at == file.len() {
///         sender.finish();
///     }
///     let mut out = [0; DATAGRAM];
///     while let Some(due) = sender.poll_transmit(now, &mut out) {
///         sent.extend_from_slice(&out[..due.len]);
///     }
///     now = sender.poll_timeout().unwrap_or(now);
/// }
/// assert_eq!(sent, file);
/// assert_eq!(now.as_nanos() / 1_000_000, 1970);
/// ```
#[derive(Debug)]
pub struct Sender {
    framing: Framing,
    window: VecDeque<u8>,
    groups: Groups,
    cut: Cut,
    flow: Flow,
    planned: Option<Planned>,
    ended: bool,
    clockless: bool,
    /// It found nothing to plan.
    empty: bool,
    /// What is planned came after it was due.
    starved: bool,
    format: Format,
    delay_ticks: u64,
    ahead_ticks: u64,
    late_max: Duration,
    fallback: Option<(u64, u64)>,
    counters: SendCounters,
}

/// Where packets go.
struct Intake<'a> {
    window: &'a mut VecDeque<u8>,
    groups: &'a mut Groups,
    faults: &'a mut u64,
}

impl Packets for Intake<'_> {
    fn packet(&mut self, _offset: u64, packet: &[u8; PACKET]) {
        self.groups.packet(Packet { bytes: packet });
        self.window.extend(packet);
    }

    fn fault(&mut self, _kind: FaultKind, _offset: u64) {
        *self.faults += 1;
    }
}

impl Sender {
    /// A sender that has nothing yet.
    pub fn new(config: Config) -> Self {
        let ticks = |d: Duration| (d.as_nanos() * 27 / 1000) as u64;
        let fallback = config.fallback.map(|rate| (CLOCK_HZ * 8, rate.as_bps().max(1)));
        Self {
            framing: framing(config.format),
            window: VecDeque::new(),
            groups: Groups::default(),
            cut: Cut::new(config.timing),
            flow: Flow::new(),
            planned: None,
            ended: false,
            clockless: false,
            empty: false,
            starved: false,
            format: config.format,
            delay_ticks: ticks(config.delay),
            ahead_ticks: ticks(config.ahead.max(config.delay * 2)),
            late_max: config.late_max,
            fallback,
            counters: SendCounters::default(),
        }
    }

    /// How many bytes it would like to have now.
    pub fn room(&self) -> usize {
        if self.ended || self.clockless {
            return 0;
        }
        let waits = self.window.len();
        let enough = waits >= WINDOW_FILL
            && self.groups.ready() >= 2
            && self.groups.ticks() >= self.ahead_ticks;
        if enough { 0 } else { WINDOW_MAX.saturating_sub(waits).min(WINDOW_FILL) }
    }

    /// Takes bytes, at most as many as there is room for or they wait beyond the limit. What comes
    /// after the end, as of a file that grows while it is read, is not sent.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.ended {
            return;
        }
        let Self { window, groups, counters, .. } = self;
        let mut intake = Intake { window, groups, faults: &mut counters.faults };
        self.framing.push(bytes, &mut intake);
        self.relieve();
    }

    /// Where no more may wait and nothing that waits has a time, it gets one.
    fn relieve(&mut self) {
        let is_stuck = self.window.len() >= WINDOW_MAX && self.groups.ready() == 0;
        if is_stuck && self.planned.is_none() && self.cut.is_empty() && !self.ended {
            self.clockless |= !self.groups.force(self.fallback);
        }
    }

    /// The next bytes are from another place, as where a file starts anew: they begin with a
    /// packet, and their clock is another.
    pub fn splice(&mut self) {
        self.drain_framing();
        self.groups.splice();
    }

    /// Everything that waits is dropped, as before play goes on elsewhere.
    pub fn flush(&mut self) {
        self.framing = framing(self.format);
        self.window.clear();
        self.groups.clear();
        self.cut.skip();
        self.planned = None;
        self.ended = false;
    }

    /// There is no more.
    pub fn finish(&mut self) {
        if self.ended {
            return;
        }
        self.drain_framing();
        self.clockless |= !self.groups.force(self.fallback) && !self.window.is_empty();
        self.ended = true;
    }

    fn drain_framing(&mut self) {
        let mut framing = core::mem::replace(&mut self.framing, framing(self.format));
        let Self { window, groups, counters, .. } = self;
        framing.finish(&mut Intake { window, groups, faults: &mut counters.faults });
    }

    /// The datagram that is due, written to the front of `out`, which holds [`DATAGRAM`] bytes.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Due> {
        let planned = self.plan(now)?;
        let mut at = self.flow.due(planned.ticks)?;
        if at > now {
            return None;
        }
        let late = now.since(at);
        let starved = core::mem::take(&mut self.starved);
        if late > self.late_max || starved {
            self.counters.shifts += 1;
            self.counters.starved += u64::from(starved);
            // A source that came too late needs its delay again.
            let again = if starved { self.delay_ticks } else { 0 };
            self.flow.shift(late + Duration::from_nanos(again * 1000 / 27));
            at = self.flow.due(planned.ticks)?;
            if at > now {
                return None;
            }
        }
        self.take(planned, out);
        Some(Due { len: planned.bytes, at, clock: planned.clock })
    }

    /// Plans the next datagram, and starts where enough is there.
    fn plan(&mut self, now: Instant) -> Option<Planned> {
        if self.planned.is_none() {
            while self.cut.is_empty() {
                let ready = self.flow.is_started() || self.ended || self.is_filled();
                let group = if ready { self.groups.next() } else { None };
                let Some(group) = group else {
                    self.empty = self.flow.is_started() && !self.ended;
                    return None;
                };
                self.cut.begin(group);
            }
            self.planned = self.cut.next();
            let due = self.planned.and_then(|planned| self.flow.due(planned.ticks));
            self.starved = core::mem::take(&mut self.empty) && due.is_some_and(|due| due < now);
        }
        let planned = self.planned?;
        if !self.flow.is_started() {
            self.flow.start(now, planned.ticks);
        }
        Some(planned)
    }

    fn is_filled(&self) -> bool {
        self.groups.ready() > 0 && self.groups.ticks() >= self.delay_ticks
            || self.window.len() >= WINDOW_MAX
    }

    fn take(&mut self, planned: Planned, out: &mut [u8]) {
        let (front, back) = self.window.as_slices();
        let split = front.len().min(planned.bytes);
        out[..split].copy_from_slice(&front[..split]);
        out[split..planned.bytes].copy_from_slice(&back[..planned.bytes - split]);
        self.window.drain(..planned.bytes);
        self.counters.datagrams += 1;
        self.counters.bytes += planned.bytes as u64;
        self.planned = self.cut.next();
        self.relieve();
    }

    /// When the next datagram is due; `None` while there is none, it is paused, or bytes must come
    /// first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.planned {
            Some(planned) => self.flow.due(planned.ticks),
            None if self.flow.is_paused() => None,
            None if self.groups.ready() == 0 => None,
            // At once: it has to be planned.
            None if self.flow.is_started() || self.ended || self.is_filled() => Some(Instant::ZERO),
            None => None,
        }
    }

    /// Holds the stream.
    pub fn pause(&mut self, now: Instant) {
        self.flow.pause(now);
    }

    /// Goes on where it was held.
    pub fn resume(&mut self, now: Instant) {
        self.flow.resume(now);
    }

    /// Sends so many millionths as fast as the stream's clock says, between
    /// [`SPEED_MIN_PPM`](super::SPEED_MIN_PPM) and [`SPEED_MAX_PPM`](super::SPEED_MAX_PPM).
    pub fn set_speed(&mut self, now: Instant, ppm: u32) {
        self.flow.speed(now, ppm);
    }

    /// Makes its seconds longer by so many thousand-millionths, to follow another clock.
    pub fn set_drift(&mut self, now: Instant, ppb: i64) {
        self.flow.drift(now, ppb);
    }

    /// Does what its receiver asks for.
    pub fn feedback(&mut self, now: Instant, feedback: Feedback) {
        self.flow.feedback(now, feedback);
    }

    /// Gaps between sends, in millionths of the stream's own.
    pub const fn gap_ppm(&self) -> u64 {
        self.flow.gap_ppm()
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing {
        if self.clockless {
            Standing::Clockless
        } else if self.is_finished() {
            Standing::Finished
        } else if self.flow.is_paused() {
            Standing::Paused
        } else if self.empty {
            Standing::Starved
        } else if self.flow.is_started() {
            Standing::Sending
        } else {
            Standing::Filling
        }
    }

    /// All is sent.
    pub fn is_finished(&self) -> bool {
        self.ended && self.planned.is_none() && self.cut.is_empty() && self.groups.ready() == 0
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.window.len()
    }

    /// The stream's time that waits.
    pub fn waiting_time(&self) -> Duration {
        Duration::from_nanos(self.groups.ticks() * 1000 / 27)
    }

    /// What it counted.
    pub fn counters(&self) -> SendCounters {
        SendCounters {
            references: self.groups.references,
            breaks: self.groups.breaks,
            forced_groups: self.groups.forced_ends,
            ..self.counters
        }
    }
}

fn framing(format: Format) -> Framing {
    let stride = format.packet_stride().unwrap_or(PACKET);
    Framing::new(stride, if format == Format::Ts192 { 4 } else { 0 })
}
