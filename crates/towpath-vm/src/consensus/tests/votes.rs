//! Who is given a vote, and what of others is not looked at, message by message.

use super::*;

/// What somebody says to the first replica.
fn says(from: u64, term: u64, payload: Payload) -> Message {
    let Identity { generation, id, boot, life } = identity(from);
    Message { generation, from: id, to: ReplicaId(1), boot, life, term, payload }
}

/// What the first replica says to that, once its disk has what it wants written.
fn answers(net: &mut Net, message: Message) -> Vec<Payload> {
    net.at(1).step(message);
    net.take(1);
    core::mem::take(&mut net.under_way).into_iter().map(|answer| answer.payload).collect()
}

/// Three voters, the first of which has entries of the terms up to the second.
fn net() -> (Net, (u64, u64)) {
    let mut net = Net::of(3);
    net.elect(2);
    net.propose(2, "a");
    net.settle();
    let last = (net.at(1).log.last_term(), net.at(1).last_index());
    assert!(last.0 > 1 && last.1 > 2);
    // It hears of no leader for as long as an election takes.
    for _ in 0..2 {
        net.at(1).tick(2);
    }
    net.at(1).elapsed = config().election_ticks;
    (net, last)
}

#[test]
fn one_would_be_elected_in_a_later_term_with_all_that_this_one_has() {
    let (_, (last_term, last_index)) = net();
    for (term, last, granted) in [
        (3, (last_term, last_index), true),
        (3, (last_term + 1, 1), true),
        (3, (last_term, last_index + 1), true),
        (3, (last_term, last_index - 1), false),
        (3, (last_term - 1, last_index + 9), false),
        (2, (last_term, last_index + 9), false),
    ] {
        let (mut net, _) = net();
        let (last_term, last_index) = last;
        let said = answers(&mut net, says(3, term, Payload::PreVote { last_index, last_term }));
        assert_eq!(said, [Payload::PreVoteAnswer { granted }], "{term}, {last:?}");
        assert_eq!((net.at(1).term(), net.at(1).vote), (2, net.at(1).vote), "it is only asked");
    }
    let (mut net, _) = net();
    net.at(1).elapsed = config().election_ticks - 1;
    let said = answers(&mut net, says(3, 3, Payload::PreVote { last_index, last_term }));
    assert_eq!((said, net.at(1).refused().led), (Vec::new(), 1), "it hears a leader");
}

#[test]
fn a_vote_is_given_once_in_a_term_and_again_to_the_same() {
    let (mut net, (last_term, last_index)) = net();
    let vote = |last_index| Payload::Vote { last_index, last_term, handed_over: false };
    for (from, last, granted) in [
        (3, last_index - 1, false),
        (2, last_index, true),
        (3, last_index + 5, false),
        (2, last_index, true),
        (2, last_index - 1, false),
    ] {
        let said = answers(&mut net, says(from, 3, vote(last)));
        assert_eq!(said, [Payload::VoteAnswer { granted }], "{from}");
        let voted = net.at(1).vote;
        assert_eq!(voted, Some(ReplicaId(2)).filter(|_| granted || from != 3 || last > last_index));
    }
    let said = answers(&mut net, says(3, 4, vote(last_index)));
    assert_eq!(said, [Payload::VoteAnswer { granted: true }], "in a later term");
    assert_eq!((net.at(1).term(), net.at(1).vote), (4, Some(ReplicaId(3))));
}

#[test]
fn a_vote_is_written_once_and_one_that_follows_gives_none() {
    let (mut net, (last_term, last_index)) = net();
    let vote = Payload::Vote { last_index, last_term, handed_over: true };
    let votes = |net: &mut Net| {
        let write = net.at(1).take().write;
        let records = write.as_ref().map_or(0, |write| {
            net.at(1).durable(write.number);
            write.records.iter().filter(|r| matches!(r, Record::Vote { .. })).count()
        });
        net.take(1);
        net.under_way.clear();
        records
    };
    net.at(1).step(says(2, 3, vote.clone()));
    assert!(votes(&mut net) > 0);
    net.at(1).step(says(2, 3, vote.clone()));
    assert_eq!(votes(&mut net), 0, "it is on the disk already");
    // In this term somebody else leads, for whom it did not vote.
    let (mut net, _) = self::net();
    net.at(1).step(says(3, 3, Payload::Beat { commit: 0, round: 0 }));
    assert_eq!((net.at(1).leader(), net.at(1).vote), (Some(ReplicaId(3)), None));
    net.take(1);
    net.under_way.clear();
    let said = answers(&mut net, says(2, 3, vote));
    assert_eq!(said, [Payload::VoteAnswer { granted: false }]);
}

#[test]
fn what_is_of_no_term_there_is_or_for_others_is_counted_and_dropped() {
    let (mut net, _) = net();
    let beat = || Payload::Beat { commit: 0, round: 0 };
    let last = u64::MAX >> 1;
    let (generation, misdirected) = (GENERATION + 1, ReplicaId(3));
    let other = Message { generation, ..says(2, 3, beat()) };
    let astray = Message { to: misdirected, ..says(2, 3, beat()) };
    for (message, counts) in [
        (other, (1, 0, 0, 0)),
        (astray, (1, 1, 0, 0)),
        (says(2, last + 1, beat()), (1, 1, 1, 0)),
        (says(2, 1, beat()), (1, 1, 1, 1)),
        (says(2, last, beat()), (1, 1, 1, 1)),
    ] {
        net.at(1).step(message);
        let Refused { generation, misdirected, beyond, old_term, .. } = net.at(1).refused();
        assert_eq!((generation, misdirected, beyond, old_term), counts);
    }
    assert_eq!((net.at(1).term(), net.at(1).leader()), (last, Some(ReplicaId(2))));
}

#[test]
fn a_command_may_be_so_long_and_waits_for_the_disk() {
    let mut net = Net::of(1);
    net.elect(1);
    assert!(!net.at(1).waits_for_disk());
    let command = |len| {
        let bytes = alloc::vec![7; len];
        Proposal::Command(Command { session: 1, number: 1, settled: 0, bytes })
    };
    assert!(net.at(1).propose(command(65_536)).is_ok());
    let long = net.at(1).propose(command(65_537));
    assert_eq!(long, Err(ProposeError::Long { len: 65_537 }));
    let write = net.at(1).take().write.expect("an entry");
    assert!(net.at(1).waits_for_disk());
    net.at(1).durable(write.number);
    assert!(!net.at(1).waits_for_disk());
}

#[test]
fn who_takes_part_is_known_as_of_each_entry() {
    let mut net = Net::of(1);
    net.elect(1);
    let before = net.at(1).last_index();
    let place = net.at(1).change(Change::Learn(ReplicaId(2))).expect("it leads");
    net.settle();
    let log = &net.at(1).log;
    let learners = |index| log.members_at(index).learners.len();
    assert_eq!([before, place.index - 1, place.index, place.index + 9].map(learners), [0, 0, 1, 1]);
    assert_eq!(log.members_since(), place.index);
}
