//! MPEG-1 system streams (ISO/IEC 11172-1) and MPEG-2 program streams (13818-1 §2.5).

use alloc::vec::Vec;

use super::clock::Clock;
use super::es::Elementary;
use super::event::{CLOCK_HZ, ClockReference, Codec, Sink, StreamInfo};
use super::fault::FaultKind;
use super::pes::{self, PADDING, PROGRAM_STREAM_MAP, Parsed, PesHeader};
use super::start_code::StartCodes;
use super::stream_map;

const PROGRAM_END: u8 = 0xB9;
const PACK: u8 = 0xBA;
const SYSTEM_HEADER: u8 = 0xBB;
/// Below are the codes of elementary streams.
const SYSTEM_FIRST: u8 = PROGRAM_END;

/// Longest head that is looked at: start code, length and PES header of MPEG-1.
const HEAD_MAX: usize = 40;
/// Longest step from an SCR to the next: 700 ms (§2.7.1).
const STEP_MAX: i64 = CLOCK_HZ.cast_signed() * 7 / 10;
/// Where a pack holds the last bit of its clock's base.
const CLOCK_BYTE: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Collecting a head.
    Head,
    /// Passing so many bytes.
    Skip(u32),
    /// Bytes of a stream that are left in its packet, after some of header that are passed.
    Payload { stream: usize, skip: u32, left: u32 },
    /// Collecting a program stream map.
    Map(u32),
    /// Something is wrong: looking for the next start code.
    Search,
}

/// What a head turned out to be.
enum Head {
    More,
    Bad,
    /// Its length, and what comes then.
    Known(usize, State),
}

/// Reads a program stream. Memory: at most 256 streams of 2 KiB and a map of 64 KiB.
#[derive(Debug)]
pub(super) struct ProgramStream {
    state: State,
    offset: u64,
    head: [u8; HEAD_MAX],
    head_len: usize,
    codes: StartCodes,
    clock: Clock,
    streams: Vec<Elementary>,
    map: Vec<u8>,
    /// Codec by stream id, as the map told.
    codecs: Vec<(u8, u8, Codec)>,
}

impl ProgramStream {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
            offset: 0,
            head: [0; HEAD_MAX],
            head_len: 0,
            codes: StartCodes::default(),
            clock: Clock::default(),
            streams: Vec::new(),
            map: Vec::new(),
            codecs: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], sink: &mut impl Sink) {
        while !bytes.is_empty() {
            let used = match self.state {
                State::Head => self.head(bytes, sink),
                State::Skip(left) => {
                    let take = bytes.len().min(left as usize);
                    self.go(State::Skip(left - take as u32));
                    take
                }
                State::Payload { stream, skip, left } => {
                    let passed = bytes.len().min(skip as usize);
                    let take = (bytes.len() - passed).min(left as usize);
                    self.streams[stream].push(&bytes[passed..passed + take], sink);
                    let (skip, left) = (skip - passed as u32, left - take as u32);
                    self.go(State::Payload { stream, skip, left });
                    passed + take
                }
                State::Map(left) => {
                    let take = bytes.len().min(left as usize);
                    self.map.extend_from_slice(&bytes[..take]);
                    if take == left as usize {
                        self.codecs = stream_map::parse(&self.map);
                        self.map.clear();
                    }
                    self.go(State::Map(left - take as u32));
                    take
                }
                State::Search => self.search(bytes),
            };
            self.offset += used as u64;
            bytes = &bytes[used..];
        }
    }

    pub(super) fn finish(&mut self, sink: &mut impl Sink) {
        let zeros = self.head[..self.head_len].iter().all(|&b| b == 0);
        if self.state != State::Head || !zeros {
            sink.fault(FaultKind::Truncated, self.offset);
        }
        for stream in &mut self.streams {
            stream.finish(sink);
        }
    }

    /// Enters a state; one with nothing left is over.
    fn go(&mut self, state: State) {
        self.state = match state {
            State::Skip(0) | State::Map(0) | State::Payload { skip: 0, left: 0, .. } => State::Head,
            other => other,
        };
        if self.state == State::Head {
            self.head_len = 0;
        }
    }

    /// Adds bytes to the head, one by one: heads are short. Gives back how many were used.
    fn head(&mut self, bytes: &[u8], sink: &mut impl Sink) -> usize {
        for (i, &byte) in bytes.iter().enumerate() {
            self.head[self.head_len] = byte;
            self.head_len += 1;
            if self.head[..self.head_len] == [0; 3] {
                // Zeros before a start code fill the sectors of a Video CD.
                self.head_len = 2;
                continue;
            }
            let start = self.offset + i as u64 + 1 - self.head_len as u64;
            match self.look(start, sink) {
                Head::More if self.head_len < HEAD_MAX => {}
                Head::More | Head::Bad => {
                    sink.fault(FaultKind::Garbage, start);
                    let here = self.offset;
                    self.offset += i as u64 + 1;
                    self.lose(sink);
                    self.offset = here;
                    return i + 1;
                }
                Head::Known(length, state) => {
                    debug_assert_eq!(length, self.head_len, "heads grow byte by byte");
                    self.go(state);
                    return i + 1;
                }
            }
        }
        bytes.len()
    }

    /// What the head is, with what it tells.
    fn look(&mut self, start: u64, sink: &mut impl Sink) -> Head {
        let head = &self.head[..self.head_len];
        let known = head.len().min(3);
        if head[..known] != [0, 0, 1][..known] {
            return Head::Bad;
        }
        let Some(&id) = head.get(3) else { return Head::More };
        match id {
            PROGRAM_END => Head::Known(4, State::Skip(0)),
            PACK => self.pack(start, sink),
            SYSTEM_HEADER | PROGRAM_STREAM_MAP => {
                let &[_, _, _, _, l1, l0] = head else { return Head::More };
                let length = u32::from(u16::from_be_bytes([l1, l0]));
                let map = id == PROGRAM_STREAM_MAP;
                Head::Known(6, if map { State::Map(length) } else { State::Skip(length) })
            }
            ..SYSTEM_FIRST => Head::Bad,
            _ => match pes::parse(head) {
                Parsed::More => Head::More,
                Parsed::Bad => Head::Bad,
                Parsed::Header(header) => self.packet(header, start, sink),
            },
        }
    }

    fn pack(&mut self, start: u64, sink: &mut impl Sink) -> Head {
        let head = &self.head[..self.head_len];
        let Some(&first) = head.get(4) else { return Head::More };
        let field = |i: usize| u64::from(head[i]);
        let (base, extension, length, stuffing) = if first >> 6 == 0b01 {
            if head.len() < 14 {
                return Head::More;
            }
            let base = (field(4) >> 3 & 7) << 30
                | (field(4) & 3) << 28
                | field(5) << 20
                | field(6) >> 3 << 15
                | (field(6) & 3) << 13
                | field(7) << 5
                | field(8) >> 3;
            let extension = (field(8) & 3) << 7 | field(9) >> 1;
            (base, extension, 14, u32::from(head[13] & 7))
        } else if first >> 4 == 0b0010 {
            if head.len() < 12 {
                return Head::More;
            }
            (pes::stamp(&head[4..9]), 0, 12, 0)
        } else {
            return Head::Bad;
        };
        if extension < 300 {
            self.clock(base * 300 + extension, start, sink);
        } else {
            sink.fault(FaultKind::ClockExtension, start);
        }
        Head::Known(length, State::Skip(stuffing))
    }

    /// A pack's clock reference; the pack starts at `start`.
    fn clock(&mut self, raw: u64, start: u64, sink: &mut impl Sink) {
        let step = self.clock.take(raw, STEP_MAX);
        if step.jump {
            sink.fault(FaultKind::ClockJump, start);
        }
        let offset = start + CLOCK_BYTE;
        sink.clock(&ClockReference {
            pid: 0,
            raw_ticks: raw,
            ticks: step.ticks,
            offset,
            position: offset,
            discontinuity: false,
            base: step.base,
        });
    }

    fn packet(&mut self, header: PesHeader, start: u64, sink: &mut impl Sink) -> Head {
        let known = self.head_len;
        let Some(left) = header.payload else { return Head::Bad };
        let skip = (header.length - known.min(header.length)) as u32;
        if header.id == PADDING {
            return Head::Known(known, State::Skip(skip + left));
        }
        let stream = self.stream(header.id, sink);
        self.streams[stream].pes((header.pts, header.dts), self.clock, start, sink);
        Head::Known(known, State::Payload { stream, skip, left })
    }

    fn stream(&mut self, id: u8, sink: &mut impl Sink) -> usize {
        let same = |s: &Elementary| s.info().id == u16::from(id);
        if let Some(at) = self.streams.iter().position(same) {
            return at;
        }
        let told = self.codecs.iter().find(|(of, ..)| *of == id);
        let (stream_type, codec) = match (told, id) {
            (Some(&(_, stream_type, codec)), _) => (stream_type, codec),
            (None, 0xE0..=0xEF) => (0, Codec::Mpeg1Video),
            (None, 0xC0..=0xDF) => (0, Codec::MpegAudio),
            _ => (0, Codec::Other),
        };
        let index = self.streams.len() as u16;
        let info = StreamInfo { stream_type, ..StreamInfo::new(index, id.into(), codec) };
        sink.stream(&info);
        self.streams.push(Elementary::new(info));
        usize::from(index)
    }

    /// Goes looking for the next start code, first in the head itself, which ends at the offset.
    /// What lies behind the code is read again: fewer bytes than the head had.
    fn lose(&mut self, sink: &mut impl Sink) {
        self.state = State::Search;
        self.codes = StartCodes::default();
        for stream in &mut self.streams {
            stream.lost();
        }
        let head = self.head;
        let rest = &head[1..core::mem::take(&mut self.head_len)];
        if let Some(hit) = self.codes.next(rest, 0) {
            self.restart();
            let behind = &rest[hit.next..];
            self.offset -= behind.len() as u64;
            self.push(behind, sink);
        } else {
            self.codes.leave(rest);
        }
    }

    fn search(&mut self, bytes: &[u8]) -> usize {
        let Some(hit) = self.codes.next(bytes, 0) else {
            self.codes.leave(bytes);
            return bytes.len();
        };
        self.restart();
        hit.next
    }

    /// A start code was found.
    fn restart(&mut self) {
        self.state = State::Head;
        self.head[..3].copy_from_slice(&[0, 0, 1]);
        self.head_len = 3;
    }
}
