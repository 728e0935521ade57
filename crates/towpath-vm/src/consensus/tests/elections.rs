use super::*;

#[test]
fn one_alone_leads_and_commits_once_its_disk_has_it() {
    let mut net = Net::of(1);
    net.stalled.insert(1, 0);
    net.at(1).campaign();
    net.settle();
    assert_eq!(net.at(1).role(), RoleName::Candidate, "its own vote is not on the disk");
    net.disk_back(1);
    net.settle();
    assert_eq!(net.at(1).role(), RoleName::Leader);
    net.stalled.insert(1, 0);
    let place = net.propose(1, "a");
    net.settle();
    assert!(net.at(1).commit() < place.index);
    net.disk_back(1);
    net.settle();
    assert_eq!((net.at(1).commit(), net.commands(1)), (place.index, ["a"].into()));
}

#[test]
fn an_entry_is_committed_by_two_disks_of_three_whichever() {
    let mut net = Net::of(3);
    net.elect(1);
    net.stalled.insert(1, 0);
    net.propose(1, "without the leader's");
    net.settle();
    assert_eq!(net.commands(1), ["without the leader's"]);
    net.stalled.insert(2, 0);
    net.propose(1, "by one alone");
    net.settle();
    assert_eq!(net.commands(1).len(), 1);
    net.disk_back(2);
    net.settle();
    assert_eq!(net.commands(1).len(), 2);
}

#[test]
fn a_vote_leaves_when_it_is_on_the_disk() {
    let mut net = Net::of(3);
    net.cut.insert(3);
    net.stalled.insert(2, 0);
    net.at(1).campaign();
    net.settle();
    assert_eq!(net.at(1).role(), RoleName::Candidate);
    net.disk_back(2);
    net.settle();
    assert_eq!(net.at(1).role(), RoleName::Leader);
}

#[test]
fn who_is_cut_off_raises_no_term_and_disturbs_nobody_when_it_is_back() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(3);
    net.ticks(40);
    let term = net.at(3).term();
    net.cut.clear();
    net.ticks(6);
    assert_eq!((term, net.at(1).role(), net.at(1).term()), (2, RoleName::Leader, 2));
    assert_eq!(net.at(3).leader(), Some(ReplicaId(1)));
}

#[test]
fn a_leader_without_a_majority_steps_down_and_its_entry_is_dropped() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(1);
    let lost = net.propose(1, "lost");
    net.at(1).read(9).expect("it does not know yet");
    net.settle();
    net.ticks(7);
    assert_ne!(net.at(1).role(), RoleName::Leader);
    assert!(net.reads[&1].is_empty(), "no majority heard the question");
    let leader = [2, 3].into_iter().find(|id| net.replicas[id].role() == RoleName::Leader);
    let leader = leader.expect("the others have elected one");
    net.propose(leader, "kept");
    net.cut.clear();
    net.ticks(6);
    assert_eq!([1, 2, 3].map(|id| net.commands(id).join(" ")), ["kept"; 3]);
    let now = net.at(1).entry(lost.index).map(|e| e.term);
    assert_ne!(now, Some(lost.term), "that place has another entry");
}

#[test]
fn a_leader_whose_disk_takes_nothing_gives_up_and_one_whose_disk_is_slow_does_not() {
    let mut net = Net::of(3);
    net.elect(1);
    for stall in [4, 8] {
        net.stalled.insert(1, 0);
        net.propose(1, "x");
        net.settle();
        net.ticks(stall);
        let leads = net.at(1).role() == RoleName::Leader;
        assert_eq!(leads, stall < config().disk_ticks, "after {stall} ticks");
        if leads {
            net.disk_back(1);
            net.settle();
        }
    }
    net.ticks(8);
    assert!([2, 3].iter().any(|id| net.replicas[id].role() == RoleName::Leader));
    assert_ne!(net.at(1).role(), RoleName::Leader, "it does not stand either");
}

#[test]
fn a_read_is_answered_after_a_round_that_began_after_it() {
    let mut net = Net::of(3);
    net.elect(1);
    net.at(1).tick(0);
    net.take(1);
    let beats = core::mem::take(&mut net.under_way);
    assert!(beats.iter().all(|m| matches!(m.payload, Payload::Beat { round: 0, .. })));
    net.at(1).read(5).unwrap();
    for beat in beats {
        net.at(beat.to.0).step(beat);
    }
    for id in [2, 3] {
        net.take(id);
    }
    for answer in core::mem::take(&mut net.under_way) {
        net.at(1).step(answer);
    }
    assert!(net.at(1).out.reads.is_empty(), "these answers are older than the question");
    net.settle();
    let index = net.at(1).commit();
    assert_eq!(net.reads[&1], [Read { ticket: 5, index }]);
    assert_eq!(net.at(2).read(1), Err(ProposeError::NotLeader(Some(ReplicaId(1)))));
}

#[test]
fn the_lead_is_handed_over_at_once_and_nothing_is_taken_meanwhile() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(3);
    net.propose(1, "before");
    net.settle();
    net.at(1).hand_over(ReplicaId(3)).unwrap();
    let refused = net.at(1).propose(Proposal::Open { nonce: 1 });
    assert_eq!(refused, Err(ProposeError::HandingOver(ReplicaId(3))));
    // It cannot be had: the lead stays.
    net.ticks(3);
    assert!(net.at(1).propose(Proposal::Open { nonce: 1 }).is_ok());
    net.cut.clear();
    net.ticks(2);
    net.at(1).hand_over(ReplicaId(3)).unwrap();
    net.settle();
    assert_eq!(net.at(3).role(), RoleName::Leader, "no time-out went by");
    let to_nobody = net.at(3).hand_over(ReplicaId(9));
    assert_eq!(to_nobody, Err(ChangeError::Unfit(ReplicaId(9))));
}

#[test]
fn what_is_too_much_is_refused_with_the_limit() {
    let mut net = Net::of(3);
    net.elect(1);
    net.at(1).config.uncommitted_bytes = 100;
    net.cut.extend([2, 3]);
    let long = Command { session: 1, number: 1, settled: 0, bytes: alloc::vec![0; 65_537] };
    let refused = net.at(1).propose(Proposal::Command(long)).unwrap_err();
    assert_eq!(std::format!("{refused}"), "a command has 65537 bytes, limit 65536");
    for nonce in 0..5 {
        let _ = net.at(1).propose(Proposal::Open { nonce });
    }
    let refused = net.at(1).propose(Proposal::Open { nonce: 1 }).unwrap_err();
    assert!(matches!(refused, ProposeError::Full { limit: 100, .. }), "{refused}");
}

#[test]
fn a_follower_that_is_away_holds_nobody_up_and_is_sent_no_more_than_may_be_under_way() {
    let mut net = Net::of(3);
    net.elect(1);
    net.at(1).config.under_way_bytes = 2000;
    net.at(1).config.append_bytes = 500;
    net.cut.insert(3);
    for n in 0..100 {
        net.propose(1, &std::format!("{n:0>100}"));
    }
    net.take(1);
    let to_three = net.under_way.iter().filter(|m| m.to == ReplicaId(3));
    let sent: usize = to_three.map(|m| m.encode().len()).sum();
    assert!((1500..3500).contains(&sent), "{sent}");
    net.settle();
    assert_eq!(net.commands(1).len(), 100);
    net.cut.clear();
    net.ticks(4);
    assert_eq!(net.commands(3).len(), 100);
}
