//! Collective operations of a fixed team of tasks, without IO.
//!
//! A [`Team`] is a list of members, each with its host, as one of them sees it. A [`Collective`]
//! is one operation as one member takes part in it. The caller moves its messages:
//!
//! 1. Each team has a context of its own, and each operation a number that all members count
//!    alike; the number is the tag of all its messages. So consecutive operations never mix, even
//!    when one member is ahead.
//! 2. Do what [`Collective::poll_send`] says until it says nothing.
//! 3. Give every message with this context and tag, from whomever, to [`Collective::handle`], in
//!    the order of its pair, and say when a member has ended ([`Collective::member_lost`]); then
//!    go on with 2.
//! 4. When [`Collective::poll_result`] has the result, do 2 once more.
//! 5. When it is an error, no more operation of the team can be relied on: [`Standing`] says what
//!    to tell whom, and which operations fail when another member tells so. Drop what still comes
//!    of those that have failed.
//!
//! Three members on two hosts, their messages moved by hand:
//!
//! ```
//! use std::collections::VecDeque;
//! use towpath_vm::collective::*;
//!
//! let team = |rank| Team::new(rank, &[0, 0, 1], Settings::default()).unwrap();
//! let sum = || Operator::built_in(Function::Sum, Element::U64).unwrap();
//! let start = |rank: u32| {
//!     let data = u64::from(rank + 1).to_le_bytes().to_vec().into();
//!     Collective::new(&team(rank), Operation::AllReduce { data, operator: sum() }).unwrap()
//! };
//! let mut members: Vec<Collective> = (0..3).map(start).collect();
//! let mut network = VecDeque::new();
//! loop {
//!     for (rank, member) in (0..).zip(&mut members) {
//!         while let Some(step) = member.poll_send() {
//!             match step {
//!                 Step::Send { to, message } => network.push_back((rank, to, message)),
//!                 Step::Multicast { to, message } => {
//!                     network.extend(to.iter().map(|to| (rank, *to, message.clone())));
//!                 }
//!                 Step::Host(_) => unreachable!("only with Settings::host_stage"),
//!             }
//!         }
//!     }
//!     let Some((from, to, message)) = network.pop_front() else { break };
//!     let body: Vec<u8> = message.parts.iter().flat_map(|part| part.to_vec()).collect();
//!     members[to as usize].handle(from, message.format, body.into());
//! }
//! for mut member in members {
//!     let Some(Ok(Output::One(result))) = member.poll_result() else { panic!("not ended") };
//!     assert_eq!(*result, 6u64.to_le_bytes());
//! }
//! ```
//!
//! Messages, and how many follow each other at most (the critical path), of n members on h hosts;
//! d is the depth of the tree within a host, 1 for up to 9 members ([`Settings::local_fan`] + 1)
//! and on the way down if the caller multicasts within a host:
//!
//! | operation | messages | critical path |
//! |---|---|---|
//! | barrier | 2 (n − h) + h ⌈log₂ h⌉ | 2 d + ⌈log₂ h⌉ |
//! | the same, with a [`HostStage`] | h ⌈log₂ h⌉ | ⌈log₂ h⌉ |
//! | broadcast, short | n − 1 | ⌈log₂ h⌉ + d |
//! | broadcast, long, s ≤ 8 h segments | (n − 1) (s + 1) | ⌈log₂ h⌉ + d, s + h − 2 + d of 1/s |
//! | reduce, short | n − 1 | d + ⌈log₂ h⌉ |
//! | the same, by rank | n − 1 (+ 1 if the root is not 0) | ⌈log₂ n⌉ (+ 1) |
//! | allreduce, short | 2 (n − h) + h' log₂ h' + 2 (h − h') | 2 d + log₂ h' (+ 2) |
//! | the same, by rank | n' log₂ n' + 2 (n − n') | log₂ n' (+ 2) |
//! | reduce, long | n − g + g² − 1 | d + 2 |
//! | allreduce, long | 2 (n − g) + 2 g (g − 1) | 2 d + 2 |
//! | gather, scatter | n − 1, and one for each long part from or to another host | 2 (+ 1) |
//! | allgather | 2 (n − h) + h ⌈log₂ h⌉, and n − 1 for each long part | 2 + ⌈log₂ h⌉ (+ 2) |
//! | all-to-all, of one host, or h = n | n (n − 1) | 1 |
//! | the same, m on each host | n (m − 1) + 2 (n − h) + h (h − 1), 1 for a long part | 3 (+ 1) |
//! | scan, exclusive scan | Σ (n − 2ᵏ) over 2ᵏ < n | ⌈log₂ n⌉ |
//!
//! h' and n' are the largest powers of two ≤ h and ≤ n. Of long vectors g members combine a share
//! each: one of each host, or all where there is one host. An operator that does not commute goes
//! by rank. A multicast counts as one message for each receiver.
//!
//! **Failure.** An operation fails at a member that still needs something from one that has ended,
//! or that notices that members disagree on the operation or on lengths; then the team is broken
//! for everyone ([`Standing`]). Operations that need nothing more of the lost member succeed until
//! then: members may differ in what they have got.
//!
//! **Memory.** A machine holds the messages that came before their turn, at most 16 n + 256 of
//! them; passing on, splitting and bundling copy nothing.

mod all_to_all;
mod barrier;
mod broadcast;
mod bundle;
mod error;
mod format;
mod gather;
mod machine;
mod operation;
mod operator;
mod payload;
mod reduce;
mod scan;
mod scatter;
mod standing;
mod team;
#[cfg(test)]
mod tests;

pub use error::{CollectiveError, StartError};
pub use format::Call;
pub use machine::{Collective, HostStage, Message, Step};
pub use operation::{Lengths, Operation, Output};
pub use operator::{Commutes, Element, Function, Operator, OperatorError};
pub use payload::Payload;
pub use standing::{NOTICE, Standing};
pub use team::{Reach, Settings, TEAM_MAX, Team, TeamError};
