//! The receiver: datagrams as they come in, a transport stream in order out.
//!
//! A [`Receiver`] puts datagrams in order, keeps them in a ring and watches how full it is: by
//! [`Marks`] it asks its sender for less before the ring is full (or when it is). A [`Playout`]
//! sends on what a receiver got, in the rhythm of the sender's clock, which it recovers.
//! [`Arrivals`] judges when datagrams came. Neither knows sockets or clocks.
//!
//! | file | what is there |
//! |---|---|
//! | `order` | RTP's numbers: duplicates, late ones, lost ones |
//! | `marks` | when to ask the sender for less or more |
//! | `receiver` | the ring between network and consumer |
//! | `recovery` | the sender's clock, from references and when they came |
//! | `playout` | de-jittered, on that clock |
//! | `arrival` | how well a stream was paced |

mod arrival;
mod marks;
mod order;
mod playout;
mod receiver;
mod recovery;

pub use arrival::{ArrivalReport, Arrivals, Errors, SAMPLES_MAX};
pub use marks::{Marks, When};
pub use order::{HELD_MAX, Order, OrderCounters};
pub use playout::{Playout, PlayoutConfig};
pub use receiver::{Framing, ReceiveConfig, ReceiveCounters, Receiver};
pub use recovery::Recovery;
