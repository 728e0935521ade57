//! When the state takes the place of the entries, and what a voter that has none can do.

use towpath_vm::ControlLog;
use towpath_vm::control::Drain;

use super::*;
use crate::voters::tests::{host, id};

/// One that leads alone.
fn alone() -> Voter {
    let state = ControlState::new(ControlLog::found(host(1), 3000));
    Voter::found(Instant::ZERO, id(1), 3, &state, Rng::new(1, 1))
}

/// Has so many bytes decided that leave the state as it is.
fn say(voter: &mut Voter, bytes: usize) {
    let nothing = Command::Network("[[".repeat(bytes / 2));
    let ticket = voter.propose(nothing);
    let outcome = voter.poll();
    assert!(matches!(outcome, Some(Outcome::Committed(_, t, _)) if t == ticket), "{outcome:?}");
}

#[test]
fn the_state_takes_the_place_of_entries_that_are_longer_than_it_and_many() {
    let mut voter = alone();
    let before = voter.replica.snapshot_index();
    while voter.replica.log_bytes() + 50_100 < COMPACT_AFTER {
        say(&mut voter, 50_000);
        assert_eq!(voter.replica.snapshot_index(), before, "there are few");
    }
    say(&mut voter, 50_000);
    say(&mut voter, 50_000);
    let (_, last) = voter.kept_to().last;
    assert!(voter.replica.snapshot_index() >= last - 1 && voter.replica.log_bytes() < 60_000);
    assert_eq!(voter.compact_after, COMPACT_AFTER);
    assert!(voter.leads() && voter.has(id(1)));
    // As many as it waits for, to the byte.
    voter.compact_after = voter.replica.log_bytes() + 1;
    let before = voter.replica.snapshot_index();
    voter.turn();
    assert_eq!(voter.replica.snapshot_index(), before);
    voter.compact_after = voter.replica.log_bytes();
    say(&mut voter, 0);
    assert!(voter.replica.snapshot_index() > before);
}

#[test]
fn a_state_that_is_longer_than_the_entries_waits_until_as_much_was_said() {
    let mut voter = alone();
    let state = voter.state.encode().len();
    let (before, entries) = (voter.replica.snapshot_index(), voter.replica.log_bytes());
    assert!(entries < state);
    voter.compact_after = entries;
    voter.turn();
    assert_eq!((voter.replica.snapshot_index(), voter.compact_after), (before, COMPACT_AFTER));
    say(&mut voter, state);
    voter.compact_after = 0;
    voter.turn();
    assert!(voter.replica.snapshot_index() > before);
}

#[test]
fn one_that_cannot_read_the_state_that_it_was_sent_is_out() {
    let name = LogName { generation: 1, replica: replica_of(id(2), 7).0 };
    let stored = Stored::found(Members::of([ReplicaId(name.replica)]), b"no state".to_vec());
    let mut voter = Voter::new(Instant::ZERO, name, 3, stored, Rng::new(1, 1));
    assert!(voter.is_damaged && voter.is_out());
    assert!(!voter.leads() && voter.taken().is_none());
    let voter = Voter::newcomer(Instant::ZERO, name, 3, Rng::new(1, 1));
    assert!(!voter.is_out(), "it was sent nothing yet");
}

#[test]
fn what_was_said_before_is_what_everything_has_and_how_far_it_goes() {
    let mut voter = alone();
    let (term, index) = voter.kept_to().last;
    assert_eq!((voter.kept_to().term, voter.kept_to().lives), (voter.state.snapshot().term, true));
    let ticket = voter.propose(Command::Drain(Drain { host: id(1), on: true }));
    assert_eq!(voter.kept_to().last, (term, index + 1), "decided or not");
    assert!(!voter.state.table().get(id(1)).is_some_and(towpath_vm::Host::drains));
    assert!(voter.everything().table().get(id(1)).is_some_and(towpath_vm::Host::drains));
    assert!(matches!(voter.poll(), Some(Outcome::Committed(_, t, _)) if t == ticket));
    assert!(voter.state.table().get(id(1)).is_some_and(towpath_vm::Host::drains));
    let next = alone().after(&voter).propose(Command::Lead(id(1)));
    assert!(next > ticket, "no ticket is given out twice");
    voter.drop_all();
    assert!(voter.poll().is_none(), "nothing was under way");
}
