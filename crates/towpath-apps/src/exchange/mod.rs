//! What an application needs of the machine: its rank, messages, and collectives.
//!
//! Applications are written against [`Exchange`]. [`machine::Machine`] is a task of a virtual
//! machine; [`local`] runs all ranks as threads of this process, for tests and where no virtual
//! machine is up. Collectives have one body here, over messages; a machine does better.
//! Numbers are exchanged as borrowed arrays ([`Arrays`]), all else as bytes.

mod arrays;
pub(crate) mod bytes;
mod contract;
pub(crate) mod local;
pub(crate) mod machine;
mod part;
mod pool;
pub(crate) mod record;
mod router;
mod share;

pub(crate) use arrays::{Arrays, Messages, Number};
pub(crate) use contract::{Exchange, ExchangeError, MESSAGE_MAX, Result};
pub(crate) use part::Part;
pub(crate) use router::{Parcel, route};
pub(crate) use share::{map_all, share, share_counts};
