//! What the virtual machine has promised of its network: part of the [control
//! state](crate::control).
//!
//! A network is a topology: hosts, switches, the links between them, each port's packet scheduler.
//! Hosts of the virtual machine are those of the same names in it, or of their numbers (`h2`). A
//! host asks for a [`Promise`] in the name of one of its tasks' channels; whether every port on the
//! way can keep it, and both processors, is decided when the command is applied, by `towpath_qos`'s
//! admission. So whoever leads decides as the one before would have, and nothing is ever promised
//! twice.
//!
//! **What can be kept.** Promised datagrams have one mark, so a switch can put them before all else
//! and serves them in the order in which they come: `scheduler = "priority"` with one budget is
//! what its ports are to be. A host's own port is earliest deadline first, as its egress is, and
//! has what that keeps back of the link ([`own_port`]).
//!
//! **Who gives back.** The host that asked, once nothing of the channel is on its way any more: by
//! its own clock, since a state has none. What a host had that is gone is an *orphan*: it counts on
//! until whoever leads has waited for as long. A host that hears of nobody who leads for
//! [`HOLD`] gives up what it was promised, so that this is a time that can be waited for.
//!
//! **Each once.** A host numbers what it asks for, ever higher. To whoever comes to lead it says
//! which of them it has ([`Holds`]); all others up to the last number are over, and one that comes
//! late is refused.
//!
//! **A state that may be behind**, of a virtual machine that has begun again or was just told what
//! its network is, promises nothing before every host has said what it has, and takes up again what
//! it did not know of.

mod core;
mod network;
#[cfg(test)]
mod tests;

pub use core::{
    Again, Granted, HOLD, Holds, PROMISES_MAX, PROMISES_OF_HOST_MAX, PROMISES_OF_TASK_MAX, Promise,
    Promises, Release, Standing, Terms,
};
pub use network::{
    NODES_MAX, OWN_BEFORE, OWN_LATE, OWN_PERCENT, TOPOLOGY_MAX, name_in, own_port, usable,
};
