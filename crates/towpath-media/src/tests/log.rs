//! A sink that keeps everything, to compare two readings of the same bytes.

use std::prelude::rust_2024::*;

use towpath_media::read::{
    ClockReference, FaultKind, Format, Frame, PacketSeen, PesSeen, ProgramInfo, ReadError, Reader,
    Sink, StreamInfo, TableSeen,
};

/// What a reader told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Stream(StreamInfo),
    Program(ProgramInfo),
    Frame(Frame),
    Clock(ClockReference),
    Packet(PacketSeen),
    Pes(PesSeen),
    Table(TableSeen),
    Fault(FaultKind, u64),
    Indexed(u16, bool),
    Data(u16, u64),
}

/// All of it, in order.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Log {
    pub(crate) told: Vec<Told>,
    pub(crate) end: Option<Result<Format, ReadError>>,
}

impl Sink for Log {
    fn stream(&mut self, stream: &StreamInfo) {
        self.told.push(Told::Stream(stream.clone()));
    }
    fn program(&mut self, program: &ProgramInfo) {
        self.told.push(Told::Program(program.clone()));
    }
    fn frame(&mut self, frame: &Frame) {
        self.told.push(Told::Frame(*frame));
    }
    fn clock(&mut self, clock: &ClockReference) {
        self.told.push(Told::Clock(*clock));
    }
    fn packet(&mut self, packet: &PacketSeen) {
        self.told.push(Told::Packet(*packet));
    }
    fn pes(&mut self, pes: &PesSeen) {
        self.told.push(Told::Pes(*pes));
    }
    fn table(&mut self, table: &TableSeen) {
        self.told.push(Told::Table(*table));
    }
    fn indexed(&mut self, stream: u16, key: bool) {
        self.told.push(Told::Indexed(stream, key));
    }
    fn data(&mut self, stream: u16, bytes: u64) {
        self.told.push(Told::Data(stream, bytes));
    }
    fn fault(&mut self, kind: FaultKind, offset: u64) {
        self.told.push(Told::Fault(kind, offset));
    }
}

/// Reads bytes in pieces of these lengths, over and over.
pub(crate) fn read(format: Option<Format>, bytes: &[u8], cuts: &[usize]) -> Log {
    let mut reader = format.map_or_else(Reader::new, Reader::with_format);
    let mut log = Log::default();
    let (mut at, mut cuts) = (0, cuts.iter().cycle());
    while at < bytes.len() {
        let length = cuts.next().map_or(bytes.len(), |&cut| cut.max(1));
        let end = bytes.len().min(at + length);
        if let Err(error) = reader.push(&bytes[at..end], &mut log) {
            log.end = Some(Err(error));
            return log;
        }
        at = end;
    }
    log.end = Some(reader.finish(&mut log));
    log
}

/// What holds for every reading, whatever the bytes.
pub(crate) fn check(log: &Log, bytes: &[u8]) {
    let len = bytes.len() as u64;
    let mut ends: Vec<u64> = Vec::new();
    let mut streams = 0;
    for told in &log.told {
        match told {
            Told::Stream(info) => {
                assert!(info.index <= streams, "streams are told in order of their index");
                streams = streams.max(info.index + 1);
            }
            Told::Frame(frame) => {
                assert!(frame.stream < streams, "a stream is told before its frames");
                assert!(frame.size > 0 && frame.size <= len, "{frame:?}");
                let stream = usize::from(frame.stream);
                ends.resize(ends.len().max(stream + 1), 0);
                assert!(frame.start >= ends[stream], "frames do not overlap: {frame:?}");
                ends[stream] = frame.start + frame.size;
                assert!(ends[stream] <= len, "{frame:?}");
            }
            Told::Clock(clock) => assert!(clock.offset < len && clock.raw_ticks < (1 << 33) * 300),
            Told::Packet(packet) => assert!(packet.offset + 188 <= len && packet.payload <= 184),
            Told::Pes(pes) => assert!(pes.stream < streams && pes.offset < len),
            Told::Table(table) => assert!(table.offset < len),
            Told::Fault(_, offset) => assert!(*offset <= len),
            Told::Indexed(stream, _) => assert!(*stream < streams, "told before its index"),
            Told::Data(stream, bytes) => assert!(*stream < streams && *bytes <= len),
            Told::Program(_) => {}
        }
    }
}
