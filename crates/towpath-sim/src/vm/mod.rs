//! Virtual machines with tasks: programs that spawn, send, watch, join groups, stop reading and
//! die at random, on hosts that do the same, and a checker for every promise made to tasks.
//!
//! | promise | checked by |
//! |---|---|
//! | each message arrives once, whole and in its pair's order | `ledger` |
//! | an end is told after the last message, unless a host or connection was lost | `ledger` |
//! | whoever depends on a task hears of its end, once | `ledger`, `run` |
//! | each question has one answer | `program` |
//! | a group's list holds each member once, the asker in its place | `program` |
//! | a frozen group is the same for all of its members | `ledger` |
//! | a node keeps its bounds and leaves nothing behind whatever its tasks say | `hostile` |
//! | every host knows all hosts in the end | `settle` |
//! | only hosts that something struck are lost, and their tasks end with them | `fenced` |
//! | no host is sent what it did not grant, nor anything else that nobody may send it | `settle` |
//! | nothing is left of tasks that ended, at no daemon and in no memory | `settle` |
//! | a daemon holds what it may for its tasks, and no more | `settle` |

mod acts;
mod faults;
mod fenced;
mod hostile;
mod ledger;
mod lines;
mod outcome;
mod program;
mod restarts;
mod run;
mod scenario;
mod settle;

pub use hostile::hostile;
pub use outcome::{Growth, VmOutcome};
pub use run::{run, run_with};
pub use scenario::VmScenario;
