//! A file of any format: bytes in, events out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::avi::Avi;
use super::es::Elementary;
use super::event::{Codec, Format, Sink, StreamInfo};
use super::ps::ProgramStream;
use super::sniff::{PROBE, sniff, unsupported_container};
use super::ts::TransportStream;

/// A file that cannot be read at all. Everything else is a fault that the reader goes on after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No byte.
    #[error("the file is empty")]
    Empty,
    /// Nothing that is known in the bytes that are looked at.
    #[error(
        "{}: not MPEG-TS, MPEG program stream, AVI, MPEG-1/2, H.264, HEVC or JPEG video",
        Found(*.container, *.looked_at)
    )]
    UnknownFormat {
        /// How many: all of a short file, else 64 KiB.
        looked_at: usize,
        /// A container of video or sound that is not read, but whose streams other programs can
        /// put into a transport stream as they are.
        container: Option<&'static str>,
    },
}

/// What the first bytes show.
struct Found(Option<&'static str>, usize);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(container) => write!(f, "unsupported container {container}"),
            None => write!(f, "no known format in the first {} bytes", self.1),
        }
    }
}

/// Reads a stored video.
///
/// Bytes are pushed in slices of any cut; a [`Sink`] gets the same events in the same order
/// whatever the cut. Memory does not depend on the length of the file: 64 KiB until the format is
/// known, then what the format's reader needs, at most a few MiB for a transport stream with
/// thousands of PIDs (the formulas stand at the readers).
///
/// ```
/// use towpath_media::read::{FrameLists, Reader};
///
/// let mut reader = Reader::new();
/// let mut lists = FrameLists::new();
/// for image in [[0xFF, 0xD8, 0xFF, 0xD9], [0xFF, 0xD8, 0xFF, 0xD9]] {
///     reader.push(&image, &mut lists)?;
/// }
/// reader.finish(&mut lists)?;
/// assert_eq!(lists.frames.iter().map(|f| f.size).collect::<Vec<_>>(), [4, 4]);
/// # Ok::<(), towpath_media::read::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    state: State,
    bytes: u64,
    /// The sink was told of an elementary stream.
    begun: bool,
}

#[derive(Debug)]
enum State {
    /// The first bytes.
    Probe(Vec<u8>),
    Known(Format, Box<Container>),
    Failed(ReadError),
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per file, behind a box")]
enum Container {
    Transport(TransportStream),
    Program(ProgramStream),
    Avi(Avi),
    Elementary(Elementary),
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Finds out the format by itself.
    pub const fn new() -> Self {
        Self { state: State::Probe(Vec::new()), bytes: 0, begun: false }
    }

    /// Takes the format as given; a transport stream's first packet is at byte 0 (192: 4).
    pub fn with_format(format: Format) -> Self {
        let lead = if format == Format::Ts192 { 4 } else { 0 };
        Self {
            state: State::Known(format, Box::new(Container::new(format, lead))),
            bytes: 0,
            begun: false,
        }
    }

    /// What the file is, once that is known.
    pub const fn format(&self) -> Option<Format> {
        match self.state {
            State::Known(format, _) => Some(format),
            _ => None,
        }
    }

    /// Bytes so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next bytes. An error stays: there is no use in going on.
    pub fn push(&mut self, mut bytes: &[u8], sink: &mut impl Sink) -> Result<(), ReadError> {
        self.bytes += bytes.len() as u64;
        if let State::Probe(probe) = &mut self.state {
            let take = bytes.len().min(PROBE - probe.len());
            probe.extend_from_slice(&bytes[..take]);
            if probe.len() < PROBE {
                return Ok(());
            }
            bytes = &bytes[take..];
            self.decide(sink);
        }
        match &mut self.state {
            State::Known(_, container) => {
                if !core::mem::replace(&mut self.begun, true) {
                    container.begin(sink);
                }
                container.push(bytes, sink);
                Ok(())
            }
            State::Failed(error) => Err(*error),
            State::Probe(_) => Ok(()),
        }
    }

    /// The file ends here. Gives its format.
    pub fn finish(&mut self, sink: &mut impl Sink) -> Result<Format, ReadError> {
        if matches!(self.state, State::Probe(_)) {
            self.decide(sink);
        }
        match &mut self.state {
            State::Known(format, container) => {
                container.finish(sink);
                Ok(*format)
            }
            State::Failed(error) => Err(*error),
            State::Probe(_) => Err(ReadError::Empty),
        }
    }

    /// Looks at the first bytes and reads them.
    fn decide(&mut self, sink: &mut impl Sink) {
        let State::Probe(probe) = &mut self.state else { return };
        let probe = core::mem::take(probe);
        self.state = match sniff(&probe) {
            Some((format, lead)) => {
                let mut container = Box::new(Container::new(format, lead));
                self.begun = true;
                container.begin(sink);
                container.push(&probe, sink);
                State::Known(format, container)
            }
            None if probe.is_empty() => State::Failed(ReadError::Empty),
            None => {
                let (looked_at, container) = (probe.len(), unsupported_container(&probe));
                State::Failed(ReadError::UnknownFormat { looked_at, container })
            }
        };
    }
}

impl Container {
    fn new(format: Format, lead: usize) -> Self {
        let elementary = |codec| Self::Elementary(Elementary::new(StreamInfo::new(0, 0, codec)));
        match format {
            Format::Ts188 => Self::Transport(TransportStream::new(188, lead)),
            Format::Ts192 => Self::Transport(TransportStream::new(192, lead)),
            Format::Ts204 => Self::Transport(TransportStream::new(204, lead)),
            Format::ProgramStream => Self::Program(ProgramStream::new()),
            Format::Avi => Self::Avi(Avi::new()),
            Format::MpegVideo => elementary(Codec::Mpeg1Video),
            Format::H264 => elementary(Codec::H264),
            Format::Hevc => elementary(Codec::Hevc),
            Format::Mjpeg => elementary(Codec::Mjpeg),
        }
    }

    /// An elementary stream is told before its first frame, as the others are.
    fn begin(&self, sink: &mut impl Sink) {
        if let Self::Elementary(elementary) = self {
            sink.stream(elementary.info());
        }
    }

    fn push(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        match self {
            Self::Transport(ts) => ts.push(bytes, sink),
            Self::Program(ps) => ps.push(bytes, sink),
            Self::Avi(avi) => avi.push(bytes, sink),
            Self::Elementary(elementary) => elementary.push(bytes, sink),
        }
    }

    fn finish(&mut self, sink: &mut impl Sink) {
        match self {
            Self::Transport(ts) => ts.finish(sink),
            Self::Program(ps) => ps.finish(sink),
            Self::Avi(avi) => avi.finish(sink),
            Self::Elementary(elementary) => elementary.finish(sink),
        }
    }
}
