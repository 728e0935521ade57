//! Swarm: random runs of a scenario, with faults while data is under way, and a checker for
//! every promise.
//!
//! | promise | checked by |
//! |---|---|
//! | each message intact, at most once, in order where promised, within one association | `flows` |
//! | each message of a reliable flow arrives, each other one arrives or is dropped | `flows` |
//! | both sides count alike what arrived and what was given up | `flows` |
//! | every send has one end: acknowledged, or given up where the class allows it | `flows` |
//! | every flow ends | `flows`, the time limit |
//! | each request ends exactly once; a task that exits has told all its output, in order | `work` |
//! | all living hosts agree on the host table; crashed ones are lost, living ones up | `run` |
//! | no message memory is left over, and never more than the bound was in use | `run` |
//! | what repeats is in proportion to what was lost | `run` |
//! | no key seals two packets under one nonce | `watched` |
//! | a key of the past is dropped once its time is over | `run` |
//! | on networks that are well each association has a path on each, and all of them carry | `run` |
//! | nobody is taken for silent who was not, and what is said of it is true | `silence` |

mod fault;
mod flows;
mod run;
mod silence;
mod watched;
mod work;

pub use run::{MakeCrypto, Outcome, Violation, run, run_watched, stand_in};
