//! Hosts come and go: `init`, `up`, `join`, `host`, `unit`, and the daemon itself.

mod command;
mod daemon;
mod drain;
mod host;
mod join;
mod listed;
mod local;
mod remote;
mod unit;

pub(crate) use command::{InitArgs, UpArgs, init, up};
pub(crate) use daemon::{DaemonArgs, daemon};
pub(crate) use host::{HostArgs, exit, host};
pub(crate) use join::{JoinArgs, join};
pub(crate) use listed::{Added, ListedArgs};
pub(crate) use local::Interrupted;
pub(crate) use remote::read as read_hostfile;
pub(crate) use unit::{UnitArgs, unit};
