//! The virtual machine, as the PVM interface needs it: what stands between PVM's meaning and
//! Towpath's tasks. Tasks and hosts have PVM's 32-bit numbers here.

mod codes;
mod contract;
#[cfg(test)]
mod daemon;
#[cfg(test)]
pub(crate) mod fake;
mod names;
mod places;
#[cfg(test)]
mod registry;
mod shapes;
mod start;
mod tasker;
mod towpath;

pub(crate) use contract::{
    Answer, Envelope, Event, HostRow, Identity, Incoming, MailRules, MailWanted, Mailbox, Members,
    Nap, Place, Question, SpawnRequest, TaskRow, Vm, Watched,
};
#[cfg(test)]
pub(crate) use fake::connect_either as connect;
pub(crate) use start::start;
#[cfg(not(test))]
pub(crate) use towpath::connect;
pub(crate) use towpath_task::aside;
