//! What a daemon measures, and how it tells who asks.
//!
//! | module | what it holds |
//! |---|---|
//! | [`table`] | every metric there is: name, kind, unit, what it means, whose it is |
//! | [`delta`] | the bytes in which changes are told |
//! | [`subscription`] | who is told what next, and what that costs at most |
//! | [`store`] | the other side: what was told, put together again |
//!
//! An owner (endpoint, node, link, ...) fills the structure of its group, field by field, so that
//! none can be forgotten. A *series* is one group of one thing: an association, a task. A
//! subscriber is told of all series, then every so often of what changed since it was told last.
//! A label is a host, a task, a link or a channel by its number: no names, arguments or keys.

pub mod delta;
pub mod store;
pub mod subscription;
pub mod table;

pub use delta::MetricsError;
pub use store::Store;
pub use subscription::{Source, Subscription};
pub use table::{
    Association, Channel, Coding, Daemon, Endpoint, Group, HostChannel, Kind, Label, Link,
    METRICS_MAX, Metric, Node, PURPOSES, Path, Row, Series, Task, Unit, Values, part_of,
};
