use super::*;
use crate::consensus::config::{CAUGHT_UP, PIECES_UNDER_WAY};
use crate::consensus::entry::{LEARNERS_MAX, VOTERS_MAX};

/// What a leader has sent to one other since the last look.
fn sent_to(net: &mut Net, id: u64) -> Vec<Payload> {
    net.take(1);
    let (to, rest) =
        core::mem::take(&mut net.under_way).into_iter().partition(|m| m.to == ReplicaId(id));
    net.under_way = rest;
    let to: Vec<Message> = to;
    to.into_iter().map(|m| m.payload).collect()
}

fn is_beat(payload: &Payload) -> bool {
    matches!(payload, Payload::Beat { .. })
}

/// Opens sessions until there is no room for another; how many those were.
fn fill(net: &mut Net) -> usize {
    (0..1000).take_while(|n| net.at(1).propose(Proposal::Open { nonce: *n }).is_ok()).count()
}

#[test]
fn what_is_committed_makes_room_for_as_much_again() {
    let mut net = Net::of(3);
    net.elect(1);
    net.at(1).config.uncommitted_bytes = 1000;
    let first = fill(&mut net);
    assert!(first > 5, "{first}");
    for _ in 0..3 {
        net.settle();
        assert_eq!(fill(&mut net), first, "all of it is committed, and counts no longer");
    }
    // Half of it is as much room.
    net.settle();
    net.cut.extend([2, 3]);
    for nonce in 0..first as u64 / 2 {
        net.at(1).propose(Proposal::Open { nonce }).unwrap();
    }
    net.settle();
    assert_eq!(fill(&mut net), first - first / 2);
}

#[test]
fn beats_go_out_at_their_intervals_and_no_sooner() {
    let mut net = Net::of(3);
    net.elect(1);
    net.at(1).config.beat_ticks = 3;
    net.at(1).config.election_ticks = 100;
    net.ticks(3);
    let mut beats = Vec::new();
    for tick in 0..9 {
        net.tick(1, 1);
        let sent = sent_to(&mut net, 2).iter().filter(|p| is_beat(p)).count();
        let same = sent_to(&mut net, 3).iter().filter(|p| is_beat(p)).count();
        assert_eq!(sent, same, "to all alike");
        if sent > 0 {
            assert_eq!(sent, 1);
            beats.push(tick);
        }
    }
    assert_eq!(beats.len(), 3);
    assert!(beats.windows(2).all(|pair| pair[1] - pair[0] == 3), "{beats:?}");
}

#[test]
fn a_leader_gives_up_after_an_election_time_in_which_no_majority_was_heard() {
    for (cut, goes_on) in [(&[2, 3][..], false), (&[3], true), (&[], true)] {
        let mut net = Net::of(3);
        net.elect(1);
        // The first count finds those that elected it.
        net.ticks(config().election_ticks);
        net.cut.extend(cut);
        let mut led = 0;
        while net.at(1).role() == RoleName::Leader && led < 30 {
            net.tick(1, 1);
            net.settle();
            led += 1;
        }
        let most = 2 * config().election_ticks;
        assert_eq!(led == 30, goes_on, "{cut:?}");
        assert!(goes_on || (config().election_ticks..=most).contains(&led), "{led} ticks");
    }
}

#[test]
fn the_lead_stays_after_an_election_time_in_which_it_was_not_taken() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(3);
    net.at(1).hand_over(ReplicaId(3)).unwrap();
    for _ in 1..config().election_ticks {
        net.ticks(1);
        let refused = net.at(1).propose(Proposal::Open { nonce: 1 });
        assert_eq!(refused, Err(ProposeError::HandingOver(ReplicaId(3))));
    }
    net.ticks(1);
    assert!(net.at(1).propose(Proposal::Open { nonce: 1 }).is_ok());
    // Neither a stranger nor itself.
    for id in [1, 4, 0] {
        let unfit = net.at(1).hand_over(ReplicaId(id));
        assert_eq!(unfit, Err(ChangeError::Unfit(ReplicaId(id))));
    }
    let not = net.at(2).hand_over(ReplicaId(3));
    assert_eq!(not, Err(ProposeError::NotLeader(Some(ReplicaId(1))).into()));
}

#[test]
fn who_is_to_lead_is_told_so_when_it_has_everything_and_not_before() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(3);
    net.propose(1, "lacking");
    net.settle();
    let hands_over = |sent: &[Payload]| sent.iter().any(|p| matches!(p, Payload::HandOver));
    net.at(1).hand_over(ReplicaId(3)).unwrap();
    assert!(!hands_over(&sent_to(&mut net, 3)), "it lacks an entry");
    net.cut.clear();
    net.tick(1, 1);
    net.settle();
    net.settle();
    assert_eq!(net.at(3).role(), RoleName::Leader, "it was told when it had that");
    assert_eq!(net.at(3).commit(), net.at(3).last_index());
}

#[test]
fn entries_go_out_in_messages_of_the_length_that_is_set_each_once() {
    let mut net = Net::of(3);
    net.elect(1);
    net.at(1).config.append_bytes = 1000;
    let first = net.at(1).last_index() + 1;
    for n in 0..40 {
        net.propose(1, &std::format!("{n:0>100}"));
    }
    // One longer than the whole length goes alone.
    let long = "x".repeat(3000);
    net.propose(1, &long);
    let (mut next, mut messages) = (first, 0);
    for payload in sent_to(&mut net, 2) {
        let Payload::Append { prev_index, entries, .. } = payload else { panic!("{payload:?}") };
        let bytes: usize = entries.iter().map(Entry::size).sum();
        assert!(bytes <= 1000 || entries.len() == 1, "{bytes} bytes");
        assert_eq!((prev_index + 1, entries[0].index), (next, next), "in order, each once");
        next += entries.len() as u64;
        messages += 1;
    }
    assert_eq!(next, net.at(1).last_index() + 1, "all of them");
    // As few as can be: the next would not have fitted.
    let size = 100 + 60;
    assert!(messages <= 2 + 40 * size / (1000 - size), "{messages} messages");
}

#[test]
fn followers_hear_of_what_is_committed_without_a_tick() {
    let mut net = Net::of(3);
    net.elect(1);
    for n in 0..5 {
        let place = net.propose(1, &std::format!("{n}"));
        net.settle();
        let commits = [1, 2, 3].map(|id| net.replicas[&id].commit());
        assert_eq!(commits, [place.index; 3]);
    }
    // Once each knows, there is nothing to say.
    assert!(sent_to(&mut net, 2).is_empty() && net.under_way.is_empty());
}

#[test]
fn a_snapshot_goes_out_in_pieces_of_the_set_size_a_few_at_a_time() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(3);
    for n in 0..10 {
        net.propose(1, &std::format!("{n}"));
    }
    net.settle();
    let (size, pieces) = (100, 20_u64);
    net.at(1).config.piece_bytes = size;
    let state: Vec<u8> = (0..size as u64 * pieces - 7).map(|n| n as u8).collect();
    net.at(1).compact(state.clone());
    net.settle();
    net.cut.clear();
    let (mut got, mut at_once) = (Vec::new(), 0_u64);
    for _ in 0..100 {
        net.tick(1, 1);
        for payload in sent_to(&mut net, 3) {
            if let Payload::Piece(piece) = &payload {
                if piece.offset == got.len() as u64 {
                    got.extend_from_slice(&piece.bytes);
                }
                let end = piece.offset + piece.bytes.len() as u64;
                assert!(end == state.len() as u64 || piece.bytes.len() == size);
                assert_eq!((piece.len, piece.index), (state.len() as u64, net.at(1).commit()));
                at_once = at_once.max(end.saturating_sub(got.len() as u64) + size as u64);
            }
            let Identity { generation, id: from, boot, life } = identity(1);
            let (to, term) = (ReplicaId(3), net.at(1).term());
            net.at(3).step(Message { generation, from, to, boot, life, term, payload });
        }
        net.settle();
        if net.at(3).snapshot_index() > 1 {
            break;
        }
    }
    assert!(at_once <= PIECES_UNDER_WAY * size as u64, "{at_once}");
    assert_eq!(net.replicas[&3].log.snapshot().state, state);
}

#[test]
fn there_are_so_many_voters_and_learners_and_no_more() {
    let mut net = Net::of(1);
    net.elect(1);
    let mut change = |change| {
        let changed = net.at(1).change(change);
        net.settle();
        changed.map(drop)
    };
    for id in [0, 1] {
        let unfit = change(Change::Learn(ReplicaId(id)));
        assert_eq!(unfit, Err(ChangeError::Unfit(ReplicaId(id))), "nobody, and who is one already");
    }
    let learners = LEARNERS_MAX as u64;
    for id in 2..2 + learners {
        change(Change::Learn(ReplicaId(id))).unwrap();
    }
    let many = Err(ChangeError::Many { what: "learners", limit: LEARNERS_MAX });
    assert_eq!(change(Change::Learn(ReplicaId(2 + learners))), many);
    assert_eq!(change(Change::Learn(ReplicaId(2))), Err(ChangeError::Unfit(ReplicaId(2))));
    change(Change::Remove(ReplicaId(1 + learners))).unwrap();
    change(Change::Learn(ReplicaId(2 + learners))).unwrap();
    assert_eq!(net.at(1).members().learners.len(), LEARNERS_MAX);
}

#[test]
fn a_learner_that_lacks_no_more_than_it_may_becomes_a_voter_up_to_the_limit() {
    let voters = VOTERS_MAX as u64;
    let mut net = Net::of(voters);
    net.elect(1);
    for id in [voters + 1, voters + 2] {
        net.replicas.insert(id, Replica::new(config(), identity(id), Stored::empty()));
        net.at(1).change(Change::Learn(ReplicaId(id))).unwrap();
        net.ticks(3);
    }
    let (one, other) = (ReplicaId(voters + 1), ReplicaId(voters + 2));
    let many = Err(ChangeError::Many { what: "voters", limit: VOTERS_MAX });
    assert_eq!(net.at(1).change(Change::Promote(one)), many);
    net.at(1).change(Change::Remove(ReplicaId(2))).unwrap();
    net.ticks(1);
    net.cut.insert(one.0);
    for n in 0..CAUGHT_UP {
        net.propose(1, &std::format!("{n}"));
    }
    net.settle();
    let lacks = |net: &Net, id| {
        let leader = &net.replicas[&1];
        leader.last_index() - leader.followers().find(|(f, _)| *f == id).unwrap().1
    };
    assert_eq!((lacks(&net, one), lacks(&net, other)), (CAUGHT_UP, 0));
    net.propose(1, "one too many");
    net.settle();
    let behind = net.at(1).change(Change::Promote(one));
    assert_eq!(behind, Err(ChangeError::Behind { id: one, lacks: CAUGHT_UP + 1 }));
    let strange = net.at(1).change(Change::Promote(ReplicaId(99)));
    assert_eq!(strange, Err(ChangeError::Unfit(ReplicaId(99))));
    net.at(1).change(Change::Promote(other)).unwrap();
    net.settle();
    let members = net.at(1).members();
    assert!(members.voters.contains(&other) && !members.learners.contains(&other));
    assert_eq!(members.voters.len(), VOTERS_MAX);
}
