//! Hierarchical fair service curve.
//!
//! A leaf with a reserved `rate` has a real-time service curve S: linear, or with a `first` piece
//! of m1 for x, then `rate` (concave if m1 > rate, or flat, m1 = 0), or with a `burst` of u bytes
//! within `delay` d: u by d, then `rate` (concave if u/d > rate, else flat and then `rate`).
//! Real-time criterion: among leaves that must be served now to keep all curves (eligible), the one
//! whose head is due first. Otherwise link sharing: down the tree by least virtual time among
//! classes within their `ceiling`. What link sharing gives is not held against a leaf's real-time
//! curve.
//!
//! Bound: a leaf's deadline is missed by at most L/C when Σ Sᵢ(t) ≤ C·t for all t; so for
//! arrivals α the delay is the horizontal distance of α and S, plus L/C. Link sharing: siblings
//! that always have packets share in proportion to `share`. Work-conserving without a ceiling.
//! Cost: O(log V) in each of real-time and link-sharing part, times depth for the latter, over
//! many packets: an order is looked after when it is asked, and one packet may find work that
//! many before it left. Source:
//! Stoica, Zhang and Ng, "A hierarchical fair service curve algorithm for link-sharing,
//! real-time, and priority services" (1997, and IEEE/ACM Transactions on Networking, 2000). Two
//! departures: link-sharing curves are linear, and a class that joins starts at the least virtual
//! time of its siblings, where the paper takes the middle of least and greatest. Reads `rate`
//! (zero: no real-time curve), `first`, `burst`, `delay`, `share`, `ceiling`, `parent`.

mod curve;
mod policy;
mod sharing;

pub use curve::{Lines, ServiceCurve};
pub use policy::Hfsc;
pub use sharing::Class;
