//! Readers of containers and elementary streams. Streaming: bytes go in as they come.
//!
//! A [`Reader`] takes the bytes of a file in slices of any cut and tells a [`Sink`] what it finds:
//! streams, frames with size, type and time stamps, clock references with their byte positions,
//! and faults with their offsets. [`FrameLists`] is a sink that keeps frames and references;
//! [`crate::inspect::Inspector`] one that makes a report.
//!
//! | file | what is there |
//! |---|---|
//! | `event`, `fault` | what readers tell |
//! | `reader`, `sniff` | a file of any format |
//! | `ts/`, `ps`, `avi` | containers |
//! | `es/` | elementary streams |
//! | `pes`, `clock`, `stamp` | what transport and program streams share |
//! | `pids` | state per PID of a transport stream |
//! | `start_code`, `bits`, `crc` | bytes and bits |

mod avi;
mod avi_index;
mod bits;
mod clock;
mod crc;
mod es;
mod event;
mod fault;
mod list;
mod pes;
mod pids;
mod ps;
mod reader;
mod sniff;
mod stamp;
mod start_code;
mod stream_map;
mod ts;

pub use event::{
    AudioInfo, CLOCK_HZ, ClockReference, Codec, Format, Frame, FrameType, NO_STREAM, PacketSeen,
    PesSeen, ProgramInfo, STAMP_HZ, Sink, StreamInfo, TableSeen, VideoInfo,
};
pub use fault::{FAULT_OFFSETS_MAX, FaultCount, FaultKind, Faults};
pub use list::{FrameLists, LIST_MAX};
pub(crate) use pids::PidMap;
pub use reader::{ReadError, Reader};
pub use sniff::{detect, unsupported_container};
pub(crate) use ts::{Framing, PACKET, Packet, Packets};
