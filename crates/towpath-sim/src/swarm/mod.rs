//! Swarm: random runs of a scenario, with faults while data is under way, and a checker for
//! every promise.
//!
//! | promise | checked by |
//! |---|---|
//! | each message intact and at most once within one association, in order where that is promised | `flows` |
//! | each message of a reliable flow arrives; each other one arrives, or is dropped, and is counted as such on both sides | `flows` |
//! | every send is acknowledged, or given up where the class allows it, once; every flow ends | `flows`, the time limit |
//! | each request ends exactly once; a task that exits has told all its output, in order | `work` |
//! | all living hosts agree on the host table; crashed ones are lost, living ones up | `run` |
//! | no message memory is left over, and never more than the bound was in use | `run` |
//! | what repeats is in proportion to what was lost | `run` |

mod fault;
mod flows;
mod run;
mod work;

pub use run::{MakeCrypto, Outcome, Violation, run, run_watched, stand_in};
