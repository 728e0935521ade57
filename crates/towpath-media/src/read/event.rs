//! What the readers tell: streams, frames, clock references, packets, tables, faults.

use alloc::vec::Vec;

use serde::Serialize;

use super::fault::FaultKind;

/// Ticks per second of PCR and SCR (ISO/IEC 13818-1 §2.4.2.1).
pub const CLOCK_HZ: u64 = 27_000_000;
/// Ticks per second of PTS and DTS.
pub const STAMP_HZ: u64 = 90_000;

/// What a file is, found from its bytes and never from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// MPEG transport stream in packets of 188 bytes.
    Ts188,
    /// The same with a 4-byte arrival time before each packet (`.m2ts`).
    Ts192,
    /// The same with 16 parity bytes after each packet (DVB).
    Ts204,
    /// MPEG-1 system stream or MPEG-2 program stream.
    ProgramStream,
    /// MPEG-1 or MPEG-2 video, elementary.
    MpegVideo,
    /// H.264 byte stream (Annex B).
    H264,
    /// H.265 byte stream (Annex B).
    Hevc,
    /// JPEG images one after the other.
    Mjpeg,
    /// AVI with or without `OpenDML` extensions.
    Avi,
}

impl Format {
    /// Distance in bytes from one packet to the next, if this is a transport stream.
    pub const fn packet_stride(self) -> Option<usize> {
        match self {
            Self::Ts188 => Some(188),
            Self::Ts192 => Some(192),
            Self::Ts204 => Some(204),
            _ => None,
        }
    }
}

/// What an elementary stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Codec {
    /// ISO/IEC 11172-2.
    Mpeg1Video,
    /// ISO/IEC 13818-2.
    Mpeg2Video,
    /// ISO/IEC 14496-2.
    Mpeg4Video,
    /// ISO/IEC 14496-10.
    H264,
    /// ISO/IEC 23008-2.
    Hevc,
    /// JPEG images.
    Mjpeg,
    /// ISO/IEC 11172-3 and 13818-3.
    MpegAudio,
    /// ISO/IEC 13818-7 and 14496-3.
    Aac,
    /// ETSI TS 102 366.
    Ac3,
    /// Uncompressed audio.
    Pcm,
    /// Anything else: its frames are not looked for, except that an AVI chunk is a frame.
    Other,
}

impl Codec {
    /// Whether it is pictures.
    pub const fn is_video(self) -> bool {
        matches!(
            self,
            Self::Mpeg1Video
                | Self::Mpeg2Video
                | Self::Mpeg4Video
                | Self::H264
                | Self::Hevc
                | Self::Mjpeg
        )
    }

    /// Whether it is sound.
    pub const fn is_audio(self) -> bool {
        matches!(self, Self::MpegAudio | Self::Aac | Self::Ac3 | Self::Pcm)
    }
}

/// What a sequence header, a sequence parameter set or a stream header tells of the pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VideoInfo {
    /// Width of the picture in luma samples, cropping applied.
    pub width: u32,
    /// Height, likewise.
    pub height: u32,
    /// Frames per second as a fraction, 0/0 where the stream does not say.
    pub fps_num: u32,
    /// Its denominator.
    pub fps_den: u32,
    /// Profile, as the codec numbers it; 0 where there is none.
    pub profile: u8,
    /// Level, as the codec numbers it; 0 where there is none. HEVC: the high tier sets bit 8.
    pub level: u16,
    /// Bit rate in the header, 0 where there is none or it says "variable".
    pub rate_bps: u64,
    /// Decoder buffer in the header (VBV or CPB) in bytes, 0 where there is none.
    pub buffer_bytes: u64,
    /// MPEG-1 and MPEG-2: the first picture tells its `vbv_delay`.
    pub vbv_delay: bool,
}

/// What a frame header tells of the sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AudioInfo {
    /// Samples per second and channel.
    pub sample_rate_hz: u32,
    /// Channels, low frequency effects counted; 0 where the header leaves it to the stream.
    pub channels: u8,
    /// Bit rate in bit/s, 0 where the header tells none (ADTS).
    pub rate_bps: u32,
    /// Samples per channel in a frame.
    pub frame_samples: u16,
    /// MPEG audio: layer 1 to 3; elsewhere 0.
    pub layer: u8,
}

/// An elementary stream of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamInfo {
    /// Number of the stream in the order of appearance; frames refer to it.
    pub index: u16,
    /// Program number (TS); 0 elsewhere.
    pub program: u16,
    /// PID (TS), stream id (program stream), stream number (AVI); 0 elsewhere.
    pub id: u16,
    /// `stream_type` of the program map, 0 where there is none.
    pub stream_type: u8,
    /// What it holds.
    pub codec: Codec,
    /// Known once a header came by; changes are told anew.
    pub video: Option<VideoInfo>,
    /// The same of sound.
    pub audio: Option<AudioInfo>,
}

impl StreamInfo {
    /// Nothing known but what it holds.
    pub(crate) const fn new(index: u16, id: u16, codec: Codec) -> Self {
        Self { index, program: 0, id, stream_type: 0, codec, video: None, audio: None }
    }

    /// Whether it is pictures: by its codec, or, where that is not known (raw video in AVI), by
    /// what the container tells of them.
    pub const fn has_pictures(&self) -> bool {
        self.codec.is_video() || self.video.is_some()
    }
}

/// How a picture is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameType {
    /// Could not be told.
    #[default]
    Unknown,
    /// From itself alone.
    I,
    /// From earlier pictures too.
    P,
    /// From two directions; its bytes can be spared.
    B,
}

/// An access unit: what a decoder takes out of its buffer at one instant. A picture, or a frame of
/// MPEG audio, ADTS or AC-3.
///
/// Boundaries lie where the standards put them: before the first header (sequence, group, access
/// unit delimiter, parameter set) that follows the last slice of the picture before. The two
/// fields of an MPEG-2 frame are one unit, those of an H.264 frame two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// [`StreamInfo::index`].
    pub stream: u16,
    /// How it is coded. H.264: over all slices, any B makes B, else any P makes P; two fields of an
    /// MPEG-2 frame: the first one's.
    pub kind: FrameType,
    /// Decoding can start here (I picture of MPEG and JPEG, IDR or recovery point, IRAP; sound).
    pub key: bool,
    /// Bytes were lost or corrupt on the way; the size counts those that came.
    pub damaged: bool,
    /// Bytes.
    pub size: u64,
    /// Byte of its elementary stream at which it starts; AVI: byte of the file.
    pub start: u64,
    /// Decoding instant, 90 kHz, wraps undone. The file's own value, never interpolated; a DTS
    /// that equals the PTS is not sent but is told here. AVI: number of the chunk times the
    /// frame duration; empty chunks, which repeat a picture, count but are no frames.
    pub dts: Option<i64>,
    /// Presentation instant, likewise.
    pub pts: Option<i64>,
    /// MPEG-1 and MPEG-2: the picture's `vbv_delay` in 90 kHz ticks, if it tells one.
    pub vbv_delay: Option<u16>,
    /// With it: bytes of the frame up to the end of its picture start code.
    pub head: u32,
    /// The time base of its stamps: those of frames with different numbers cannot be compared,
    /// since the clock broke between them.
    pub base: u16,
}

/// A clock reference: PCR of a transport stream or SCR of a program stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClockReference {
    /// The PID that carries it; 0 in a program stream.
    pub pid: u16,
    /// 27 MHz ticks as sent, below 2³³ · 300.
    pub raw_ticks: u64,
    /// 27 MHz ticks with wraps undone; starts at the first `raw_ticks` and may be negative after a
    /// jump back. A jump stays a jump.
    pub ticks: i64,
    /// Byte of the file that holds the last bit of the clock's base: the byte whose arrival it
    /// times (§2.4.2.2).
    pub offset: u64,
    /// The same counted without what a 192 or 204 byte packet adds, from some zero: use this for
    /// rates.
    pub position: u64,
    /// The stream announced a new time base at this reference.
    pub discontinuity: bool,
    /// How many time bases its clock had before (modulo 2¹⁶): announced ones, and those that only a
    /// step back, or one ten times longer than the standard allows, can be.
    pub base: u16,
}

/// A packet of a transport stream, as the inspection needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketSeen {
    /// Number of the packet in the file from 0.
    pub index: u64,
    /// Byte of the file.
    pub offset: u64,
    /// Its PID.
    pub pid: u16,
    /// [`StreamInfo::index`], or [`NO_STREAM`].
    pub stream: u16,
    /// Bytes of an elementary stream in it, PES header not counted.
    pub payload: u8,
    /// Bytes behind its header and adaptation field; 0 where it repeats the packet before.
    pub carried: u8,
    /// `transport_scrambling_control` is not zero.
    pub scrambled: bool,
    /// It has a clock reference; the [`ClockReference`] was told before.
    pub clock: bool,
}

/// [`PacketSeen::stream`] of a packet that belongs to none.
pub const NO_STREAM: u16 = u16::MAX;

/// Start of a PES packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PesSeen {
    /// [`StreamInfo::index`].
    pub stream: u16,
    /// Byte of the file of the packet in which it starts.
    pub offset: u64,
    /// Decoding instant, 90 kHz, wraps undone.
    pub dts: Option<i64>,
    /// Presentation instant.
    pub pts: Option<i64>,
}

/// A section of program-specific information, complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSeen {
    /// The PID that carried it.
    pub pid: u16,
    /// Its `table_id`.
    pub table_id: u8,
    /// Its CRC-32 was right (or it has none).
    pub crc_ok: bool,
    /// Byte of the file of the packet in which it ended.
    pub offset: u64,
}

/// A program of a transport stream, as its map tells; without streams until the map came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramInfo {
    /// `program_number`.
    pub number: u16,
    /// PID of its map.
    pub map_pid: u16,
    /// PID that carries its clock; 0x1FFF where it has none.
    pub clock_pid: u16,
    /// `version_number` of the map.
    pub version: u8,
    /// [`StreamInfo::index`] of its streams.
    pub streams: Vec<u16>,
}

/// Takes what a reader finds, in file order. All have a default that does nothing.
///
/// A frame is told when its end is known, that is at the start of the next one.
pub trait Sink {
    /// A stream is new, or its [`VideoInfo`] or [`AudioInfo`] became known or changed.
    fn stream(&mut self, _stream: &StreamInfo) {}
    /// A program is new, or its map is new or changed; that is told after its streams.
    fn program(&mut self, _program: &ProgramInfo) {}
    /// A frame ended.
    fn frame(&mut self, _frame: &Frame) {}
    /// The file's index tells of the next frame of a stream, from its first on, whether decoding
    /// can start there (AVI, where its bytes are not looked at). Told after the frames.
    fn indexed(&mut self, _stream: u16, _key: bool) {}
    /// Bytes of a stream in which frames are not looked for (AVI).
    fn data(&mut self, _stream: u16, _bytes: u64) {}
    /// A clock reference came by.
    fn clock(&mut self, _clock: &ClockReference) {}
    /// A packet of a transport stream; after everything that it caused.
    fn packet(&mut self, _packet: &PacketSeen) {}
    /// A PES packet started.
    fn pes(&mut self, _pes: &PesSeen) {}
    /// A section ended.
    fn table(&mut self, _table: &TableSeen) {}
    /// Something is wrong at this byte of the file.
    fn fault(&mut self, _kind: FaultKind, _offset: u64) {}
}

/// Forgets everything.
impl Sink for () {}
