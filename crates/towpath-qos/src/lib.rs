//! Quality of service: traffic specifications, packet schedulers, topology, admission. No IO.
//!
//! A specification and what it lets through; what a network promises it stands at
//! [`admission::Admission`]:
//!
//! ```
//! use towpath_qos::spec::{TSpec, TSpecForm};
//!
//! let form = TSpecForm::SigmaRho { sigma_bytes: 1500, rho_bps: 1_000_000 };
//! let spec = TSpec::try_from(form).expect("valid");
//! // In a millisecond: the burst, and what comes meanwhile.
//! assert_eq!(spec.bits_in(1_000_000), 12_000 + 1_000);
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// Tests of schedulers speak of the crate by its name, as its users do.
#[cfg(test)]
extern crate self as towpath_qos;

pub mod admission;
pub mod file;
pub mod scheduler;
pub mod spec;
pub mod topology;
