//! `jobs` and `attach`: farms and commands that go on without whoever started them (`--detach`).

mod attach;
mod start;
mod table;

pub(crate) use attach::{AttachArgs, attach};
pub(crate) use start::{DetachArgs, Kind, client_of, start};
pub(crate) use table::{JobsArgs, jobs};
