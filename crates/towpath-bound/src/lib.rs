//! Worst-case bounds by min-plus calculus, in exact arithmetic.
//!
//! Build a [`Network`] from [`Server`]s and [`Flow`]s, prepare an [`Analysis`], ask for the
//! [`Least`] bound of a flow; a [`Trace`] shows how it came about. [`service`] holds the service
//! curves of the packet schedulers and the end-to-end formulas; [`Curve`] is for single servers
//! whose curves have any shape.
//!
//! | methods | for | cost in hops |
//! |---|---|---|
//! | [`Method::TfaPerHop`], [`Method::SfaPerHop`] | every network, with lines | linear |
//! | [`Method::FifoProgram`] | FIFO servers | a linear program per path |
//! | [`Method::Tfa`], [`Method::Sfa`], [`Method::Pmoo`] | blind servers, small networks | capped |
//!
//! **Exactness.** Every number is a [`Rational`]; nothing is computed in floating point except the
//! search for a basis of the linear program, whose dual solution is then checked exactly. Rounding
//! happens in three places, always so that a bound can only grow: a burst, or a sum of bursts, that
//! needs a long fraction goes up by less than a part in 10¹² ([`Rational::coarse_up`]), the linear
//! program knows a sum of curves by six of its pieces, and a caller who wants nanoseconds gets them
//! rounded up ([`Rational::seconds_up`]).
//!
//! **Model.** Service curves are strict, flows are fluid and obey their arrival curve, paths form
//! no cycle. A packetised source counts whole packets in its burst; a server that forwards whole
//! packets is told so ([`Server::store_and_forward`]).
//!
//! ```
//! use towpath_bound::{Analysis, Envelope, Flow, Multiplexing, Network, Rational, Server};
//!
//! // Bit/s and seconds: two flows of 5 Mbit/s with bursts of 12 kbit through one 10 Mbit/s port.
//! let megabit = |count: i64| Rational::integer(count * 1_000_000);
//! let port = Server::new("port", megabit(10), Rational::ZERO, Multiplexing::Fifo);
//! let source = || Envelope::token_bucket(megabit(5), Rational::integer(12_000));
//! let flows = vec![Flow::new("a", source(), vec![0]), Flow::new("b", source(), vec![0])];
//! let analysis = Analysis::new(&Network::new(vec![port], flows)?)?;
//! let least = analysis.least(0).expect("a stable port");
//! assert_eq!(least.delay.seconds_up(), Some(core::time::Duration::from_micros(2_400)));
//! # Ok::<(), towpath_bound::NetworkError>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod analysis;
mod convolution;
mod curve;
mod envelope;
mod fifo;
mod grouped;
mod least;
mod network;
mod per_hop;
mod pmoo;
mod priority;
mod program;
mod rational;
pub mod service;
mod trace;

pub use analysis::{Bound, Method, Step};
pub use convolution::PRODUCT_MAX;
pub use curve::{CURVE_PIECES_MAX, Curve, CurveError, Piece};
pub use envelope::{Envelope, PIECES_MAX, RateLatency, TokenBucket};
pub use fifo::{NODES_MAX, ProgramSize};
pub use grouped::{Bounding, CrossTraffic, GROUPS_MAX, Interest};
pub use least::{Analysis, BoundError, GROUPED_FLOWS_MAX, Least, ServerBound};
pub use network::{
    FLOWS_MAX, Flow, HOPS_MAX, Multiplexing, Network, NetworkError, SERVERS_MAX, Server,
};
pub use per_hop::PerHop;
pub use program::{ROWS_MAX, VARIABLES_MAX};
pub use rational::{Rational, RationalError, TEXT_BYTES_MAX};
pub use trace::Trace;
