//! What is particular to transport streams: PIDs, checks, buffers, all along the time axis.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::checks::{self, Check, Checks, Watch};
use super::levels::{self, Buffers};
use super::report::{BufferReport, PidReport};
use super::timeline::{Event, Happened, Stretch, Timeline};
use super::tstd::{Model, Packet, System, Unit};
use crate::read::{
    Codec, Frame, NO_STREAM, PacketSeen, PidMap, ProgramInfo, StreamInfo, TableSeen,
};

const NULL_PID: u16 = 0x1FFF;
const PAT_PID: u16 = 0;
const CAT_PID: u16 = 1;
const PAT_TABLE: u8 = 0;
const CAT_TABLE: u8 = 1;
const MAP_TABLE: u8 = 2;
/// Ticks of the clock per tick of a stamp.
const TICKS: i64 = 300;
/// No model of its buffers.
const NO_MODEL: u16 = 0;
/// `vbv_delay` of none.
const NO_DELAY: u16 = 0xFFFF;

/// What is counted per PID.
#[derive(Clone, Copy, Debug, Default)]
struct Pid {
    packets: u64,
    scrambled: u64,
    /// Only for PIDs of a program map.
    watch: Option<Watch>,
    /// 1 + index into [`Transport::models`], or [`NO_MODEL`].
    model: u16,
}

#[derive(Debug)]
struct StreamState {
    info: StreamInfo,
    pts: Option<Watch>,
    /// Bytes so far.
    bytes: u64,
    /// PID of its clock.
    clock_pid: u16,
}

/// State of an inspected transport stream.
///
/// Memory: 16 KiB and up to 8192 PIDs · 48 B, events of one stretch 32 768 · 40 B, and per
/// modelled PID or program 7 KiB and two series of 8 KiB, with a `vbv_delay` up to 1.5 MiB more.
#[derive(Debug)]
pub(super) struct Transport {
    pids: PidMap<Pid>,
    pub(super) timeline: Timeline,
    pub(super) checks: Checks,
    programs: Vec<ProgramInfo>,
    streams: Vec<StreamState>,
    models: Vec<Model>,
    /// Buffers of each program's tables.
    systems: Vec<System>,
    pat: Watch,
    /// PID of each map and when it came last.
    maps: Vec<(u16, Watch)>,
    /// Other clocks: ticks at time zero of the axis.
    zeros: Vec<(u16, i64)>,
    cat_seen: bool,
    first_scrambled: Option<u64>,
    offset: u64,
}

impl Transport {
    pub(super) fn new() -> Self {
        Self {
            pids: PidMap::new(),
            timeline: Timeline::default(),
            checks: Checks::default(),
            programs: Vec::new(),
            streams: Vec::new(),
            models: Vec::new(),
            systems: Vec::new(),
            pat: Watch::default(),
            maps: Vec::new(),
            zeros: Vec::new(),
            cat_seen: false,
            first_scrambled: None,
            offset: 0,
        }
    }

    #[inline]
    pub(super) fn packet(&mut self, packet: &PacketSeen) {
        self.offset = packet.offset;
        let pid = self.pids.get(packet.pid);
        pid.packets += 1;
        if packet.scrambled {
            pid.scrambled += 1;
            self.scrambled(packet);
        }
        if packet.pid != NULL_PID {
            let &PacketSeen { offset, pid, stream, payload, carried, .. } = packet;
            let what = Happened::Packet { pid, stream, payload, carried };
            self.timeline.happened(Event { offset, what });
        }
    }

    #[cold]
    fn scrambled(&mut self, packet: &PacketSeen) {
        if packet.pid == NULL_PID {
            return;
        }
        self.first_scrambled.get_or_insert(packet.offset);
        if packet.pid == PAT_PID {
            self.checks.fail(Check::Pat, packet.offset);
        }
        if self.maps.iter().any(|(pid, _)| *pid == packet.pid) {
            self.checks.fail(Check::Pmt, packet.offset);
        }
    }

    pub(super) fn table(&mut self, table: &TableSeen) {
        let &TableSeen { pid, table_id, offset, .. } = table;
        match (pid, table_id) {
            (PAT_PID, PAT_TABLE) => {}
            (PAT_PID, _) => self.checks.fail(Check::Pat, offset),
            (CAT_PID, CAT_TABLE) => self.cat_seen = true,
            (CAT_PID, _) => self.checks.fail(Check::Cat, offset),
            _ => {}
        }
        self.timeline.happened(Event { offset, what: Happened::Table { pid, table_id } });
    }

    /// Something happened at the packet at hand.
    pub(super) fn happened(&mut self, what: Happened) {
        self.timeline.happened(Event { offset: self.offset, what });
    }

    pub(super) fn stream(&mut self, info: &StreamInfo) {
        let at = usize::from(info.index);
        if let Some(known) = self.streams.get_mut(at) {
            known.info = info.clone();
        } else if at == self.streams.len() {
            let info = info.clone();
            self.streams.push(StreamState { info, pts: None, bytes: 0, clock_pid: NULL_PID });
        }
        let bytes = self.streams.get(at).map_or(0, |state| state.bytes);
        self.model(info.id, levels::buffers(info), bytes);
    }

    pub(super) fn program(&mut self, program: &ProgramInfo) {
        let now = self.timeline.end().unwrap_or(0);
        if !self.maps.iter().any(|(pid, _)| *pid == program.map_pid) {
            self.maps.push((program.map_pid, Watch::from(now)));
            self.systems.push(System::new(program.map_pid));
        }
        for &stream in &program.streams {
            let Some(state) = self.streams.get_mut(usize::from(stream)) else { continue };
            state.clock_pid = program.clock_pid;
            let watch = &mut self.pids.get(state.info.id).watch;
            watch.get_or_insert(Watch::from(now));
        }
        match self.programs.iter_mut().find(|p| p.number == program.number) {
            Some(known) => *known = program.clone(),
            None => self.programs.push(program.clone()),
        }
    }

    /// Starts to model a PID's buffers, once it is known what they are.
    fn model(&mut self, pid: u16, buffers: Option<Buffers>, bytes: u64) {
        let Some(buffers) = buffers else { return };
        let place = &mut self.pids.get(pid).model;
        if *place == NO_MODEL {
            self.models.push(Model::new(pid, buffers, bytes));
            *place = self.models.len() as u16;
        } else {
            self.models[usize::from(*place) - 1].learn(buffers);
        }
    }

    /// A frame ended that is decoded at an instant in 90 kHz.
    pub(super) fn frame_ended(&mut self, frame: &Frame, dts: i64) {
        self.happened(Happened::Frame {
            stream: frame.stream,
            start: frame.start,
            end: frame.start.saturating_add(frame.size),
            dts,
            vbv_delay: frame.vbv_delay.unwrap_or(NO_DELAY),
            head: u16::try_from(frame.head).unwrap_or(u16::MAX),
        });
    }

    /// The time of what waits is known now.
    pub(super) fn stretch(&mut self, stretch: Stretch) {
        let events = self.timeline.take();
        for event in &events {
            self.at(stretch.time(event.offset), event, &stretch);
        }
        self.timeline.give_back(events);
        if stretch.broken {
            self.zeros.clear();
            self.models.iter_mut().for_each(Model::restart);
            self.systems.iter_mut().for_each(System::restart);
        }
    }

    #[inline]
    fn at(&mut self, now: u64, event: &Event, stretch: &Stretch) {
        match event.what {
            Happened::Packet { pid, stream, payload, carried } => {
                let state = self.pids.get(pid);
                if let Some(watch) = &mut state.watch
                    && watch.came(now, checks::PID_MAX)
                {
                    self.checks.fail(Check::Pid, event.offset);
                }
                if stream != NO_STREAM {
                    self.streams[usize::from(stream)].bytes += u64::from(payload);
                }
                let packet = Packet { offset: event.offset, payload, carried };
                if state.model != NO_MODEL {
                    self.models[usize::from(state.model) - 1].packet(now, &packet);
                } else if stream == NO_STREAM {
                    self.system(pid, now, &packet, stretch);
                }
            }
            Happened::Table { pid: PAT_PID, table_id: PAT_TABLE } => {
                if self.pat.came(now, checks::PAT_MAX) {
                    self.checks.fail(Check::Pat, event.offset);
                }
            }
            Happened::Table { pid, table_id: MAP_TABLE } => {
                let map = self.maps.iter_mut().find(|(of, _)| *of == pid);
                if map.is_some_and(|(_, watch)| watch.came(now, checks::PMT_MAX)) {
                    self.checks.fail(Check::Pmt, event.offset);
                }
            }
            Happened::Table { .. } => {}
            Happened::Pts { stream } => {
                let watch = &mut self.streams[usize::from(stream)].pts;
                if watch.get_or_insert(Watch::from(now)).came(now, checks::PTS_MAX) {
                    self.checks.fail(Check::Pts, event.offset);
                }
            }
            Happened::Frame { stream, start, end, dts, vbv_delay, head } => {
                let unit = Unit {
                    start,
                    end,
                    at: 0,
                    offset: event.offset,
                    vbv_delay: (vbv_delay != NO_DELAY).then_some(vbv_delay),
                    head: head.into(),
                };
                self.frame(stream, dts, unit, stretch);
            }
            Happened::Clock { pid, ticks } => {
                let zero = ticks.saturating_sub(now.cast_signed());
                match self.zeros.iter_mut().find(|(of, _)| *of == pid) {
                    Some(known) => known.1 = zero,
                    None => self.zeros.push((pid, zero)),
                }
            }
        }
    }

    /// A packet that belongs to no stream: of the tables of one program, or of all.
    fn system(&mut self, pid: u16, now: u64, packet: &Packet, stretch: &Stretch) {
        let all = matches!(pid, PAT_PID | CAT_PID);
        for system in self.systems.iter_mut().filter(|s| all || s.map_pid() == pid) {
            system.packet(now, packet, stretch.rate_bps());
        }
    }

    fn frame(&mut self, stream: u16, dts: i64, unit: Unit, stretch: &Stretch) {
        let state = &self.streams[usize::from(stream)];
        let model = self.pids.get(state.info.id).model;
        let other = self.zeros.iter().find(|(pid, _)| *pid == state.clock_pid);
        let own = self.timeline.pid() == Some(state.clock_pid);
        let zero = match other {
            Some(&(_, zero)) if !own => zero,
            _ if own => stretch.zero,
            _ => return,
        };
        // An instant before the first reference is as late as one at it.
        let at = dts.saturating_mul(TICKS).saturating_sub(zero).max(0).cast_unsigned();
        if model != NO_MODEL {
            self.models[usize::from(model) - 1].frame(Unit { at, ..unit });
        }
    }

    /// The file ended: what should have come again?
    pub(super) fn finish(&mut self, offset: u64) {
        let Some(stretch) = self.timeline.rest(offset) else { return };
        self.stretch(stretch);
        let now = stretch.end;
        if self.pat.came(now, checks::PAT_MAX) {
            self.checks.fail(Check::Pat, offset);
        }
        for (_, watch) in &mut self.maps {
            if watch.came(now, checks::PMT_MAX) {
                self.checks.fail(Check::Pmt, offset);
            }
        }
        for (_, pid) in self.pids.iter() {
            if pid.watch.is_some_and(|mut watch| watch.came(now, checks::PID_MAX)) {
                self.checks.fail(Check::Pid, offset);
            }
        }
        if let (Some(first), false) = (self.first_scrambled, self.cat_seen) {
            self.checks.fail(Check::Cat, first);
        }
    }

    pub(super) fn buffers(&mut self) -> Vec<BufferReport> {
        let models = core::mem::take(&mut self.models).into_iter().map(Model::report);
        let systems = core::mem::take(&mut self.systems).into_iter().map(System::report);
        let used = models.chain(systems).filter(|report| report.transport.max_bytes > 0);
        let mut reports: Vec<BufferReport> = used.collect();
        reports.sort_unstable_by_key(|report| report.pid);
        reports
    }

    pub(super) fn pid_reports(&self) -> Vec<PidReport> {
        let seen = self.pids.iter().filter(|(_, pid)| pid.packets > 0);
        seen.map(|(pid, counts)| PidReport {
            pid,
            packets: counts.packets,
            scrambled: counts.scrambled,
            label: self.label(pid),
        })
        .collect()
    }

    fn label(&self, pid: u16) -> String {
        let fixed = match pid {
            PAT_PID => "PAT",
            CAT_PID => "CAT",
            2 => "TSDT",
            0x10 => "NIT",
            0x11 => "SDT",
            0x12 => "EIT",
            0x14 => "TDT",
            NULL_PID => "null",
            _ => "",
        };
        if !fixed.is_empty() {
            return fixed.to_string();
        }
        if let Some(program) = self.programs.iter().find(|p| p.map_pid == pid) {
            return format!("PMT {}", program.number);
        }
        let clock = self.programs.iter().any(|p| p.clock_pid == pid);
        let stream = self.streams.iter().find(|s| s.info.id == pid);
        let what = match stream.map(|s| s.info.codec) {
            Some(codec) if codec.is_video() => "video",
            Some(codec) if codec.is_audio() => "audio",
            Some(Codec::Other) => "data",
            Some(_) => "stream",
            None if clock => return "clock".to_string(),
            None => return "unreferenced".to_string(),
        };
        format!("{what}{}", if clock { " and clock" } else { "" })
    }
}
