//! Associations over links, without the layers above: how fast, how fair, at what cost.
//!
//! A scenario names links and flows; each flow is an association of its own between two hosts of
//! its own, over a route of links that flows may share. Every message is checked byte for byte
//! (or by its descriptor, where bytes are virtual), number by number.
//!
//! | module | what it holds |
//! |---|---|
//! | `scenario` | the experiment as a file |
//! | `host` | an endpoint, its memory, its socket |
//! | `run` | the event loop |
//! | `flow` | one association's load, and the checker of its promises |
//! | `curve` | sequence, acknowledgement and credit over time, read from the packets |
//! | `report` | what came of it |

mod curve;
mod flow;
mod host;
mod report;
mod run;
mod scenario;

pub use curve::{Curve, Point};
pub use report::{FlowReport, LinkReport, Sample, TransferReport};
pub use run::run;
pub use scenario::{Change, ClockStep, FlowSpec, Side, Stop, TransferScenario, congestion};
