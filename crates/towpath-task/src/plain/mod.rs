//! Messages of numbers: what can be sent as it lies in memory, and how receivers are kept from
//! reading it as something else.
//!
//! | module | what it holds |
//! |---|---|
//! | `value`, `record` | what can be sent: numbers, and structures of them |
//! | `code` | what a message's format field says of its type |
//! | `tile` | parts of arrays: columns, halos, blocks |
//! | `send`, `receive` | the calls of [`Task`](crate::Task) |
//!
//! A message sent by [`Task::send_slice`](crate::Task::send_slice) says in its format field of
//! which type its values are, and in which order its sender's machine has their bytes
//! ([`TypeCode`]).
//! Who receives it as another type gets an error that names both, and the message stays where it
//! is; bytes are turned round where the machines differ.
//!
//! ```
//! use towpath_task::plain::{Plain, TypeCode};
//!
//! towpath_task::record! {
//!     /// What the bodies of a simulation send each other.
//!     #[derive(Debug, PartialEq)]
//!     pub struct Body { pub mass: f64, pub at: [f64; 3] }
//! }
//! assert_eq!(TypeCode::of::<f64>().to_string(), "f64");
//! // An array counts as that of which it is one.
//! assert_eq!(TypeCode::of::<[f64; 3]>(), TypeCode::of::<f64>());
//! assert_ne!(TypeCode::of::<Body>(), TypeCode::of::<f64>());
//! ```

mod code;
mod receive;
mod record;
mod send;
#[cfg(test)]
mod tests;
mod tile;
mod value;

pub(crate) use code::check;
pub use code::{ContentError, Order, TypeCode};
pub use num_complex::{Complex32, Complex64};
pub use receive::Values;
pub use tile::{Tile, TileMut};
pub use value::Plain;
