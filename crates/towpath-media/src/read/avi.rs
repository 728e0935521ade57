//! AVI (RIFF) with and without `OpenDML` extensions. The chunks are walked in file order, so the
//! indexes, which a damaged or unfinished file lacks, are not needed to find frames; they tell at
//! which of them decoding can start.

use alloc::vec::Vec;

use super::avi_index::{Index, Part};
use super::event::{AudioInfo, Codec, Frame, FrameType, STAMP_HZ, Sink, StreamInfo, VideoInfo};
use super::fault::FaultKind;

/// Streams of a file; a chunk's name has two digits for them.
const STREAMS_MAX: usize = 100;
/// Longest chunk of a stream that is believed.
const CHUNK_MAX: u32 = 1 << 30;
/// Bytes of a stream header or format that are looked at.
const HEADER_MAX: usize = 56;
/// A chunk's name and length.
const HEAD: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Collecting name and length of a chunk.
    Head,
    /// Collecting the type of a list.
    ListType,
    /// Collecting a stream header (`strh`) or format (`strf`); then so many bytes are passed.
    Header { format: bool, left: u32, pad: bool },
    /// Passing the bytes of a chunk, then the one that makes its length even.
    Chunk { held: Held, left: u64, pad: bool },
    /// Collecting a part of an index; so many bytes of its chunk are left with it.
    Index { part: Part, left: u64, pad: bool },
    /// Looking for the name of a chunk.
    Search,
}

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Frame,
    /// Bytes of a stream that is no pictures.
    Data,
    Other,
}

/// Reads an AVI file. Memory: 100 streams of 64 B and a few hundred bytes.
#[derive(Debug)]
pub(super) struct Avi {
    state: State,
    offset: u64,
    head: [u8; HEADER_MAX],
    head_len: usize,
    /// Where the list of frames ends, if its length is to be believed.
    frames_end: Option<u64>,
    /// Where the last of the files in this one ends, as its length says.
    riff_end: u64,
    streams: Vec<StreamInfo>,
    /// Chunks of each stream so far: the time of the next frame.
    counts: Vec<u64>,
    /// `strh` of the stream whose `strf` comes: handler, frame time as a fraction.
    header: Option<([u8; 4], u32, u32)>,
    /// Whether the `strf` that comes is of sound.
    sound: bool,
    frame: Frame,
    index: Index,
}

impl Avi {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
            offset: 0,
            head: [0; HEADER_MAX],
            head_len: 0,
            frames_end: None,
            riff_end: 0,
            index: Index::default(),
            streams: Vec::new(),
            counts: Vec::new(),
            header: None,
            sound: false,
            frame: Frame::default(),
        }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], sink: &mut impl Sink) {
        while !bytes.is_empty() {
            let used = match self.state {
                State::Head | State::Search => {
                    let used = self.collect(bytes, HEAD);
                    if self.head_len == HEAD {
                        self.chunk(self.offset + used as u64, sink);
                    }
                    used
                }
                State::ListType => {
                    let used = self.collect(bytes, HEAD + 4);
                    if self.head_len == HEAD + 4 {
                        self.list(self.offset + used as u64);
                    }
                    used
                }
                State::Header { format, left, pad } => {
                    let wanted = HEADER_MAX.min(left as usize);
                    let used = self.collect(bytes, wanted);
                    if self.head_len == wanted {
                        let start = self.offset + used as u64 - wanted as u64;
                        self.stream_header(format, start, sink);
                        self.pass(u64::from(left) - wanted as u64 + u64::from(pad));
                    }
                    used
                }
                State::Index { part, left, pad } => self.index(part, (left, pad), bytes, sink),
                State::Chunk { held, left, pad } => {
                    let take = (bytes.len() as u64).min(left);
                    if take < left {
                        self.state = State::Chunk { held, left: left - take, pad };
                    } else {
                        self.end(held, sink);
                        self.pass(u64::from(pad));
                    }
                    take as usize
                }
            };
            self.offset += used as u64;
            bytes = &bytes[used..];
        }
    }

    pub(super) fn finish(&mut self, sink: &mut impl Sink) {
        let inside = matches!(self.state, State::Chunk { .. } | State::Index { .. });
        if self.head_len > 0 || inside || self.offset + 1 < self.riff_end {
            sink.fault(FaultKind::Truncated, self.offset);
        }
        if let State::Chunk { held, left, .. } = self.state {
            self.frame.size -= left.min(self.frame.size);
            self.frame.damaged = true;
            if self.frame.size > 0 {
                self.end(held, sink);
            }
        }
    }

    fn collect(&mut self, bytes: &[u8], wanted: usize) -> usize {
        let take = bytes.len().min(wanted - self.head_len);
        self.head[self.head_len..self.head_len + take].copy_from_slice(&bytes[..take]);
        self.head_len += take;
        take
    }

    /// Passes bytes to the next chunk.
    fn pass(&mut self, left: u64) {
        self.head_len = 0;
        self.state = match left {
            0 => State::Head,
            left => State::Chunk { held: Held::Other, left, pad: false },
        };
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(core::array::from_fn(|i| self.head[at + i]))
    }

    fn name(&self) -> [u8; 4] {
        core::array::from_fn(|i| self.head[i])
    }

    /// Name and length of a chunk are there; its content starts at `start`.
    fn chunk(&mut self, start: u64, sink: &mut impl Sink) {
        let (name, length) = (self.name(), self.word(4));
        let padded = u64::from(length) + u64::from(length & 1);
        if !plausible(name) {
            return self.lose(start, FaultKind::Garbage, sink);
        }
        let beyond = self.frames_end.is_some_and(|e| start < e && start + padded > e + 1);
        match &name {
            b"RIFF" | b"LIST" => self.state = State::ListType,
            b"strh" | b"strf" => {
                self.head_len = 0;
                let pad = length & 1 == 1;
                self.state = State::Header { format: &name == b"strf", left: length, pad };
                if length == 0 {
                    self.state = State::Head;
                }
            }
            // Without its end in sight a chunk that is no frame is not believed.
            _ if beyond && self.stream_of(name).is_none() => {
                self.lose(start, FaultKind::ChunkLength, sink);
            }
            b"idx1" => self.begin_index(Part::Old, length),
            [b'i', b'x', _, _] => self.begin_index(Part::Head, length),
            _ => match self.stream_of(name) {
                Some(stream) => {
                    let end = start + u64::from(length);
                    let beyond = self.frames_end.is_some_and(|e| start < e && end > e);
                    if length > CHUNK_MAX || beyond {
                        return self.lose(start, FaultKind::ChunkLength, sink);
                    }
                    self.begin_frame(stream, start, length);
                }
                None => self.pass(padded),
            },
        }
    }

    fn begin_frame(&mut self, stream: u16, start: u64, length: u32) {
        let info = &self.streams[usize::from(stream)];
        let count = &mut self.counts[usize::from(stream)];
        let time = info.video.and_then(|video| frame_time(*count, video));
        *count += 1;
        // An empty chunk means that the picture before stays: it takes time and no bytes.
        if length == 0 {
            return self.pass(0);
        }
        let image = info.codec == Codec::Mjpeg;
        self.frame = Frame {
            stream,
            kind: if image { FrameType::I } else { FrameType::Unknown },
            key: image,
            damaged: core::mem::take(&mut self.frame.damaged),
            size: length.into(),
            start,
            dts: time,
            pts: time.filter(|_| image),
            ..Frame::default()
        };
        let held = if info.video.is_some() { Held::Frame } else { Held::Data };
        self.head_len = 0;
        self.state = State::Chunk { held, left: length.into(), pad: length & 1 == 1 };
    }

    /// A chunk is over, or the file.
    fn end(&mut self, held: Held, sink: &mut impl Sink) {
        match held {
            Held::Frame => sink.frame(&self.frame),
            Held::Data => return sink.data(self.frame.stream, self.frame.size),
            Held::Other => return,
        }
        self.frame.damaged = false;
    }

    fn begin_index(&mut self, part: Part, length: u32) {
        self.go_on(part, length.into(), length & 1 == 1);
    }

    /// Collects the next part of an index, or passes what is too short for one.
    fn go_on(&mut self, part: Part, left: u64, pad: bool) {
        if left < part.bytes() as u64 {
            return self.pass(left + u64::from(pad));
        }
        self.head_len = 0;
        self.state = State::Index { part, left, pad };
    }

    /// Takes bytes of an index. Gives back how many were used.
    fn index(
        &mut self,
        part: Part,
        (left, pad): (u64, bool),
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> usize {
        let used = self.collect(bytes, part.bytes());
        if self.head_len < part.bytes() {
            return used;
        }
        let mut index = core::mem::take(&mut self.index);
        let stream = |name| self.stream_of(name).filter(|&stream| self.tells_no_keys(stream));
        let (next, told) = index.take(part, &self.head, stream);
        self.index = index;
        if let Some((stream, key)) = told {
            sink.indexed(stream, key);
        }
        let left = left - part.bytes() as u64;
        match next {
            Some(part) => self.go_on(part, left, pad),
            None => self.pass(left + u64::from(pad)),
        }
        used
    }

    /// Pictures of which only the index tells at which decoding can start.
    fn tells_no_keys(&self, stream: u16) -> bool {
        let info = &self.streams[usize::from(stream)];
        info.video.is_some() && info.codec != Codec::Mjpeg
    }

    /// Stream of a chunk of data: two digits and its kind.
    fn stream_of(&self, name: [u8; 4]) -> Option<u16> {
        let [tens, ones, k1, k0] = name;
        if !tens.is_ascii_digit() || !ones.is_ascii_digit() {
            return None;
        }
        let number = u16::from(tens - b'0') * 10 + u16::from(ones - b'0');
        let known = matches!(&[k1, k0], b"dc" | b"db" | b"wb");
        (known && usize::from(number) < self.streams.len()).then_some(number)
    }

    /// The type of a list is there; its content starts at `start`.
    fn list(&mut self, start: u64) {
        let (name, length) = (self.name(), self.word(4));
        let kind: [u8; 4] = core::array::from_fn(|i| self.head[HEAD + i]);
        let content = u64::from(length).saturating_sub(4);
        self.head_len = 0;
        self.state = State::Head;
        match (&name, &kind) {
            (b"LIST", b"movi") => {
                // An unfinished file has 0 here.
                self.frames_end = (content > 0).then_some(start + content);
            }
            (b"RIFF", _) => {
                self.frames_end = None;
                // An unfinished file has 0 here, too.
                self.riff_end = start + content;
            }
            (_, b"hdrl" | b"strl" | b"rec " | b"odml") => {}
            _ => self.pass(content + (content & 1)),
        }
    }

    /// A stream's header or format is there; it starts at `start`.
    fn stream_header(&mut self, format: bool, start: u64, sink: &mut impl Sink) {
        let len = self.head_len;
        if !format {
            self.header = None;
            if len < 28 {
                return sink.fault(FaultKind::StreamHeader, start);
            }
            if self.name() != *b"vids" {
                self.sound = self.name() == *b"auds";
                self.add(Codec::Other, None, start, sink);
                return;
            }
            self.sound = false;
            let handler = core::array::from_fn(|i| self.head[4 + i]);
            self.header = Some((handler, self.word(20), self.word(24)));
            return;
        }
        let Some((handler, scale, rate)) = self.header.take() else {
            if core::mem::take(&mut self.sound) && len >= 12 {
                self.sound_format(sink);
            }
            return;
        };
        if len < 20 {
            return sink.fault(FaultKind::StreamHeader, start);
        }
        let compression = core::array::from_fn(|i| self.head[16 + i]);
        let known = scale != 0 && rate != 0;
        let video = VideoInfo {
            width: self.word(4),
            height: self.word(8).cast_signed().unsigned_abs(),
            fps_num: if known { rate } else { 0 },
            fps_den: if known { scale } else { 0 },
            ..VideoInfo::default()
        };
        let codec = match codec(compression) {
            Codec::Other => codec(handler),
            known => known,
        };
        self.add(codec, Some(video), start, sink);
    }

    /// The format of the last stream, which is sound: `WAVEFORMATEX`.
    fn sound_format(&mut self, sink: &mut impl Sink) {
        let (tag, layer) = (self.word(0) as u16, u8::from(self.word(0) as u16 == 0x55) * 3);
        let audio = AudioInfo {
            channels: u8::try_from(self.word(0) >> 16).unwrap_or(0),
            sample_rate_hz: self.word(4),
            rate_bps: self.word(8).saturating_mul(8),
            frame_samples: 0,
            layer,
        };
        let Some(info) = self.streams.last_mut() else { return };
        info.codec = match tag {
            0x01 => Codec::Pcm,
            0x50 | 0x55 => Codec::MpegAudio,
            0xFF | 0x1600 | 0x1610 => Codec::Aac,
            0x2000 => Codec::Ac3,
            _ => Codec::Other,
        };
        info.audio = Some(audio);
        sink.stream(info);
    }

    fn add(&mut self, codec: Codec, video: Option<VideoInfo>, start: u64, sink: &mut impl Sink) {
        if self.streams.len() == STREAMS_MAX {
            return sink.fault(FaultKind::Limit, start);
        }
        let index = self.streams.len() as u16;
        let info = StreamInfo { video, ..StreamInfo::new(index, index, codec) };
        sink.stream(&info);
        self.streams.push(info);
        self.counts.push(0);
    }

    /// The head, whose content would start at `start`, is none: looks on from its second byte.
    fn lose(&mut self, start: u64, kind: FaultKind, sink: &mut impl Sink) {
        if self.state != State::Search {
            sink.fault(kind, start - HEAD as u64);
            self.frame.damaged = true;
            self.state = State::Search;
        }
        self.head.copy_within(1..HEAD, 0);
        self.head_len = HEAD - 1;
    }
}

/// Frame number times frame duration, 90 kHz.
fn frame_time(number: u64, video: VideoInfo) -> Option<i64> {
    let (num, den) = (u128::from(video.fps_num), u128::from(video.fps_den));
    if num == 0 {
        return None;
    }
    i64::try_from(u128::from(number) * u128::from(STAMP_HZ) * den / num).ok()
}

/// Names of chunks consist of letters, digits and spaces; while searching this must not be
/// mistaken for data, so that only names of the format count.
fn plausible(name: [u8; 4]) -> bool {
    match &name {
        b"RIFF" | b"LIST" | b"JUNK" | b"idx1" | b"indx" | b"strh" | b"strf" | b"strd" | b"strn"
        | b"avih" | b"vprp" | b"dmlh" | b"ISFT" | b"IDIT" => true,
        [b'i', b'x', d1, d0] => d1.is_ascii_digit() && d0.is_ascii_digit(),
        [d1, d0, kind @ ..] => {
            d1.is_ascii_digit()
                && d0.is_ascii_digit()
                && matches!(kind, b"dc" | b"db" | b"wb" | b"pc" | b"tx" | b"sb")
        }
    }
}

/// By the names that encoders write.
fn codec(four: [u8; 4]) -> Codec {
    match &four.map(|b| b.to_ascii_uppercase()) {
        b"MJPG" | b"AVRN" | b"JPEG" | b"IJPG" => Codec::Mjpeg,
        b"H264" | b"X264" | b"AVC1" => Codec::H264,
        b"HEVC" | b"H265" | b"HVC1" => Codec::Hevc,
        b"MPG1" | b"MPEG" => Codec::Mpeg1Video,
        b"MPG2" => Codec::Mpeg2Video,
        b"XVID" | b"DIVX" | b"DX50" | b"FMP4" | b"MP4V" => Codec::Mpeg4Video,
        _ => Codec::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_data_name_a_stream_that_there_is() {
        let mut avi = Avi::new();
        let stream = |index| StreamInfo::new(index, index, Codec::Other);
        avi.streams = (0..13).map(stream).collect();
        for (name, stream) in [
            (b"00dc", Some(0)),
            (b"07db", Some(7)),
            (b"10wb", Some(10)),
            (b"12dc", Some(12)),
            (b"13dc", None),
            (b"99dc", None),
            (b"01pc", None),
            (b"x1dc", None),
            (b"1xdc", None),
            (b"LIST", None),
        ] {
            assert_eq!(avi.stream_of(*name), stream, "{name:?}");
        }
    }

    #[test]
    fn only_names_of_the_format_are_looked_for() {
        for name in [b"RIFF", b"LIST", b"idx1", b"ix00", b"ix99", b"00dc", b"31wb", b"05tx"] {
            assert!(plausible(*name), "{name:?}");
        }
        for name in [b"riff", b"ixx0", b"ix0x", b"jx00", b"0xdc", b"x0dc", b"00zz", b"dc00"] {
            assert!(!plausible(*name), "{name:?}");
        }
    }
}
