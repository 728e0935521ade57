//! `towpath tap`: a process between two links that has them behave as a script says, in real time.
//!
//! What becomes of a frame, and when, is [`towpath_sim::tap`]'s; here are devices, clock and
//! thread. Tests use it as a library: a [`Bed`] of hosts, each a network namespace, with a tap for
//! each link between them.
//!
//! ```no_run
//! use towpath_bench::tap::{Bed, Script};
//!
//! let mut bed = Bed::new(&["a", "b"])?;
//! let script = Script::parse("[link.both]\nrate_bps = 100_000_000\ndelay_us = 1000")?;
//! let links = [bed.link("a", "b", &script)?, bed.link("a", "b", &script)?];
//! let ping = ["ping", "-c", "1", "10.214.1.2"]; // `b`, by the second link
//! assert!(bed.command("a", "ping").args(&ping[1..]).status()?.success());
//! bed.tap(links[1]).kill()?; // from now on it is dead, and says nothing of it
//! assert!(!bed.command("a", "ping").args(&ping[1..]).status()?.success());
//! # Ok::<(), anyhow::Error>(())
//! ```

mod bed;
mod ceiling;
mod device;
mod end;
mod reading;
mod running;
mod work;

pub use bed::{Bed, LinkNumber};
pub use ceiling::{Ceiling, ceiling};
pub(crate) use device::Device;
pub use end::{End, Kind, Namespace};
pub use reading::{Reading, WayReading};
pub use running::{Options, Tap};
pub use towpath_sim::link::LinkSpec;
pub use towpath_sim::tap::{
    Direction, Script, ScriptError, Setting, WayState, WayStats, Ways, Why,
};
pub use work::{Outcome, Watch};
