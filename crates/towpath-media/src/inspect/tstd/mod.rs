//! The model decoder's buffers (T-STD, ISO/IEC 13818-1 §2.4.2), packet by packet.
//!
//! A packet arrives at once, at the time that its clock references give it. The transport buffer
//! TB serves packets in order at its leak, and a packet's payload enters what lies behind TB as
//! the packet's last byte leaves. What lies behind:
//!
//! | of | buffer | bytes leave it |
//! |---|---|---|
//! | video | multiplexing buffer MB, by the leak method | at the transfer rate into EB |
//! | video with `vbv_delay` | MB, by that method | each start code `vbv_delay` before its picture |
//! | video | elementary stream buffer EB | a frame at its decoding instant |
//! | sound | main buffer B | a frame at its instant, with the PES headers before it |
//! | tables of a program: PAT, CAT and map in one | main buffer Bsys | at Rsys |
//!
//! By the leak method what does not fit into a full EB stays in MB, so that only a frame that is
//! larger than EB overflows it. PES headers in MB are not counted: they are gone with the next
//! byte of the stream. Fills are overstated by less than a packet.
//!
//! | file | what is there |
//! |---|---|
//! | `model` | [`Model`]: the buffers of a stream |
//! | `leak`, `delay` | what lies behind TB: at a rate; by `vbv_delay` |
//! | `units` | frames that wait to be decoded |
//! | `system` | [`System`]: the buffers of a program's tables |
//! | `server`, `fill` | bytes served at a rate; how full a buffer got |

mod delay;
mod fill;
mod leak;
mod model;
mod server;
mod system;
mod units;

pub(super) use model::{Model, Packet, Unit};
pub(super) use system::System;
