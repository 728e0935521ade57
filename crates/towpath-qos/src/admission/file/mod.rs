//! Files of requests: channels that are asked for, in TOML, checked.
//!
//! ```toml
//! [framing]
//! counts = "messages"
//!
//! [[request]]
//! name = "camera"
//! from = "h1"
//! to = "h4"
//! delay_ns = 5_000_000
//! tspec = { kind = "sigma_rho", sigma_bytes = 20_000, rho_bps = 8_000_000 }
//! ```
//!
//! All keys stand in docs/admission.md. A class of another architecture sets the service; what it
//! says must not be contradicted, and what it leaves open must be given.

mod check;
mod fault;
mod form;
#[cfg(test)]
mod tests;
mod wish;

pub use check::{Asked, BYTES_MAX, CHANNELS_MAX, Units, parse};
pub use fault::{RequestFault, RequestsError};
pub use form::{Measured, ServiceForm};
pub use wish::Want;
