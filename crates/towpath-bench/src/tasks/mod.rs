//! `bench echo`, `barrier`, `multicast`, `exchange` and `spawn`: what tasks of a virtual machine
//! can do, beside what the operating system alone can do between as many processes in the same run.
//!
//! The measuring process starts a virtual machine of its own (`world`) and as many *members* as it
//! needs: processes that each are a task and also the far end of every floor (`member`), so that a
//! figure and its floor are of the same processes on the same processors. They agree by lines of
//! JSON over a Unix socket (`line`). A *pipe* (`pipe`) carries messages of one length there and
//! back, whatever it is made of.
//!
//! How figures are kept honest: every received byte is copied out, timed or not; before a row is
//! timed, random contents go through it and are compared at both ends; buffers take turns; sleeps
//! are counted (`voluntary_ctxt_switches`), so that "asleep" and "awake" are seen, not believed;
//! what several processes do together ends when the last of them is done.

mod args;
mod barrier;
mod counts;
mod echo;
mod exchange;
mod line;
mod member;
mod metrics;
mod multicast;
mod peers;
mod pipe;
mod report;
mod sample;
mod spaces;
mod spawn;
mod trips;
mod world;

pub(super) use args::{BarrierArgs, EchoArgs, ExchangeArgs, MemberArgs, MulticastArgs, SpawnArgs};
pub(super) use barrier::barrier;
pub(super) use echo::echo;
pub(super) use exchange::exchange;
pub(super) use member::member;
pub(super) use multicast::multicast;
pub(super) use spawn::spawn;
