//! Experiments as files: a network, channels, who is admitted, and what a source measured.
//!
//! [`Scenario::parse`] reads one (`scenarios/qos/*.toml`), [`run`] runs it, [`Report`] holds what
//! came of it beside the source's own tables.

mod build;
mod report;
mod run;
mod scenario;

pub use report::{ChannelReport, Comparison, HostReport, PortReport, Report, Smooth};
pub use run::run;
pub use scenario::{
    Admission, Channel, HostNode, LinkNode, Quantity, Queues, Reference, Scenario, ScenarioError,
    Send, SwitchNode,
};
