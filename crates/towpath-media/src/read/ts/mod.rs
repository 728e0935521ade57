//! MPEG transport streams (ISO/IEC 13818-1 §2.4).
//!
//! | file | what is there |
//! |---|---|
//! | `framing` | packets out of bytes: rhythm, loss and regain of sync |
//! | `packet` | the header and adaptation field of a packet |
//! | `counter` | the continuity counter of a PID |
//! | `section` | tables out of packets |
//! | `tables` | program association and program map |
//! | `programs` | programs and streams as the tables tell them |
//! | `demux` | what belongs to whom: continuity, clocks, tables, PES |

mod counter;
mod demux;
mod framing;
mod packet;
mod programs;
mod section;
mod tables;

pub(super) use demux::TransportStream;
pub(crate) use framing::{Framing, Packets};
pub(crate) use packet::{PACKET, Packet};
pub(super) use tables::codec;
