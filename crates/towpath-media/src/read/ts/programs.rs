//! Programs and streams as the tables tell them.

use alloc::vec::Vec;

use super::counter::Counter;
use super::packet::NULL_PID;
use super::section::SectionReader;
use super::tables::{self, MapEntry, PAT_PID};
use crate::read::es::Elementary;
use crate::read::event::{NO_STREAM, ProgramInfo, Sink, StreamInfo};
use crate::read::fault::FaultKind;
use crate::read::pes::PesReader;
use crate::read::pids::PidMap;

/// Programs of a transport stream. A full multiplex has a few dozen.
pub(super) const PROGRAMS_MAX: usize = 256;
/// Streams of all programs together.
pub(super) const STREAMS_MAX: usize = 1024;

/// PIDs of tables that are not told by another table: access, description, and those of DVB.
const FIXED_TABLES: [u16; 7] = [PAT_PID, 1, 2, 0x10, 0x11, 0x12, 0x14];

/// What the payload of a PID is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Unknown,
    /// Index into [`Programs::sections`].
    Table(u16),
    /// Index into [`Programs::streams`], the same as [`StreamInfo::index`].
    Stream(u16),
}

/// What is known of a PID.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pid {
    pub(super) role: Role,
    pub(super) counter: Counter,
}

/// A stream with the PES packets it comes in.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) elementary: Elementary,
    pub(super) pes: PesReader,
    /// PID of its program's clock.
    pub(super) clock_pid: u16,
}

#[derive(Debug)]
struct Program {
    info: ProgramInfo,
    mapped: bool,
}

/// All that the tables told so far.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) pids: PidMap<Pid>,
    pub(super) sections: Vec<SectionReader>,
    pub(super) streams: Vec<Stream>,
    known: Vec<Program>,
    association: Option<u8>,
}

impl Programs {
    pub(super) fn new() -> Self {
        let mut programs = Self {
            pids: PidMap::new(),
            sections: Vec::new(),
            streams: Vec::new(),
            known: Vec::new(),
            association: None,
        };
        for pid in FIXED_TABLES {
            programs.table_on(pid);
        }
        programs
    }

    /// Makes a PID carry tables, if it does not carry a stream.
    fn table_on(&mut self, pid: u16) {
        let role = &mut self.pids.get(pid).role;
        if pid != NULL_PID && *role == Role::Unknown {
            *role = Role::Table(self.sections.len() as u16);
            self.sections.push(SectionReader::default());
        }
    }

    /// A whole section whose CRC is right. False if it contradicts itself.
    pub(super) fn section(
        &mut self,
        pid: u16,
        section: &[u8],
        offset: u64,
        sink: &mut impl Sink,
    ) -> bool {
        match section[0] {
            tables::PAT_TABLE if pid == PAT_PID => self.association(section, offset, sink),
            tables::MAP_TABLE if self.known.iter().any(|p| p.info.map_pid == pid) => {
                self.map(pid, section, offset, sink)
            }
            _ => true,
        }
    }

    fn association(&mut self, section: &[u8], offset: u64, sink: &mut impl Sink) -> bool {
        let Some(table) = tables::table(section) else { return false };
        if !table.current {
            return true;
        }
        for (number, map_pid) in tables::associations(table.body) {
            self.table_on(map_pid);
            if number == 0 {
                continue;
            }
            let count = self.known.len();
            match self.known.iter_mut().find(|p| p.info.number == number) {
                Some(program) if program.info.map_pid == map_pid => {}
                Some(program) => {
                    program.info.map_pid = map_pid;
                    program.mapped = false;
                }
                None if count == PROGRAMS_MAX => {
                    // Once per version, not for each of its repetitions.
                    if self.association != Some(table.version) {
                        sink.fault(FaultKind::Limit, offset);
                    }
                    break;
                }
                None => {
                    let info = ProgramInfo {
                        number,
                        map_pid,
                        clock_pid: NULL_PID,
                        version: 0,
                        streams: Vec::new(),
                    };
                    sink.program(&info);
                    self.known.push(Program { info, mapped: false });
                }
            }
        }
        self.association = Some(table.version);
        true
    }

    fn map(&mut self, pid: u16, section: &[u8], offset: u64, sink: &mut impl Sink) -> bool {
        let Some(table) = tables::table(section) else { return false };
        let Some((clock_pid, entries)) = tables::map(table.body) else { return false };
        let of_this = |p: &Program| p.info.number == table.id && p.info.map_pid == pid;
        let Some(at) = self.known.iter().position(of_this) else { return true };
        let program = &self.known[at];
        if !table.current || program.mapped && program.info.version == table.version {
            return true;
        }
        let mut streams = Vec::new();
        let mut whole = true;
        for entry in entries {
            match self.stream_on(entry, table.id, clock_pid, sink) {
                Ok(index) => streams.push(index),
                Err(FaultKind::Limit) => sink.fault(FaultKind::Limit, offset),
                Err(_) => whole = false,
            }
        }
        let info = ProgramInfo {
            number: table.id,
            map_pid: pid,
            clock_pid,
            version: table.version,
            streams,
        };
        sink.program(&info);
        self.known[at] = Program { info, mapped: true };
        whole
    }

    /// The stream of a map's entry: the one that is there, or a new one.
    fn stream_on(
        &mut self,
        entry: MapEntry,
        program: u16,
        clock_pid: u16,
        sink: &mut impl Sink,
    ) -> Result<u16, FaultKind> {
        match self.pids.get(entry.pid).role {
            Role::Table(_) => return Err(FaultKind::Section),
            _ if entry.pid == NULL_PID => return Err(FaultKind::Section),
            Role::Stream(index) => {
                let stream = &mut self.streams[usize::from(index)];
                if stream.elementary.info().stream_type == entry.stream_type {
                    stream.clock_pid = clock_pid;
                    return Ok(index);
                }
                stream.elementary.finish(sink);
            }
            Role::Unknown => {}
        }
        if self.streams.len() == STREAMS_MAX {
            return Err(FaultKind::Limit);
        }
        let index = self.streams.len() as u16;
        let stream_type = entry.stream_type;
        let info =
            StreamInfo { program, stream_type, ..StreamInfo::new(index, entry.pid, entry.codec) };
        sink.stream(&info);
        let elementary = Elementary::new(info);
        self.streams.push(Stream { elementary, pes: PesReader::new(), clock_pid });
        self.pids.get(entry.pid).role = Role::Stream(index);
        Ok(index)
    }
}

impl Role {
    pub(super) const fn stream(self) -> u16 {
        match self {
            Self::Stream(index) => index,
            _ => NO_STREAM,
        }
    }
}
