use super::*;

#[test]
fn a_newcomer_learns_votes_and_the_first_one_leaves() {
    let mut net = Net::of(1);
    net.elect(1);
    net.propose(1, "a");
    net.settle();
    for id in [2, 3] {
        net.replicas.insert(id, Replica::new(config(), identity(id), Stored::empty()));
        assert_eq!(
            net.at(1).change(Change::Promote(ReplicaId(id))),
            Err(ChangeError::Unfit(ReplicaId(id)))
        );
        net.at(1).change(Change::Learn(ReplicaId(id))).unwrap();
        net.ticks(3);
        assert_eq!(net.commands(id), ["a"]);
        net.ticks(12);
        assert_eq!(net.at(id).role(), RoleName::Follower, "a learner does not stand");
        net.at(1).change(Change::Promote(ReplicaId(id))).unwrap();
        net.settle();
    }
    assert_eq!(*net.at(3).members(), Members::of([1, 2, 3].map(ReplicaId)));
    net.at(1).change(Change::Remove(ReplicaId(1))).unwrap();
    net.settle();
    assert_eq!(net.at(1).role(), RoleName::Follower, "it led until that was committed");
    net.ticks(12);
    let leader = [2, 3].into_iter().find(|id| net.replicas[id].role() == RoleName::Leader);
    net.propose(leader.expect("the two go on"), "b");
    net.settle();
    assert_eq!(net.commands(2), ["a", "b"]);
    let last = net.at(leader.unwrap()).change(Change::Remove(ReplicaId(9)));
    assert_eq!(last, Err(ChangeError::Unfit(ReplicaId(9))));
}

#[test]
fn one_change_at_a_time_and_only_after_an_entry_of_the_own_term() {
    let mut net = Net::of(3);
    net.cut.insert(3);
    net.at(1).campaign();
    net.take(1);
    // Elected, and its first entry has reached nobody.
    while net.at(1).role() != RoleName::Leader {
        for message in core::mem::take(&mut net.under_way) {
            if message.to != ReplicaId(3) {
                net.at(message.to.0).step(message);
            }
        }
        net.take(1);
        net.take(2);
    }
    let early = net.at(1).change(Change::Learn(ReplicaId(4)));
    assert_eq!(early, Err(ChangeError::Propose(ProposeError::New(2))));
    net.settle();
    net.cut.insert(2);
    let place = net.at(1).change(Change::Remove(ReplicaId(3))).unwrap();
    let second = net.at(1).change(Change::Learn(ReplicaId(4)));
    assert_eq!(second, Err(ChangeError::Pending(place.index)));
    net.settle();
    assert!(net.at(1).commit() < place.index, "of the two that are left, both are needed");
    net.cut.clear();
    net.ticks(2);
    assert!(net.at(1).commit() >= place.index);
}

#[test]
fn a_change_that_is_taken_back_holds_no_longer() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.insert(1);
    net.at(1).change(Change::Remove(ReplicaId(3))).unwrap();
    net.settle();
    assert_eq!(net.at(1).members().voters.len(), 2);
    net.ticks(10);
    net.cut.clear();
    net.ticks(6);
    assert_eq!(net.at(1).members().voters.len(), 3);
}

#[test]
fn a_learner_that_lacks_much_is_no_voter_yet() {
    let mut net = Net::of(1);
    net.elect(1);
    net.at(1).change(Change::Learn(ReplicaId(2))).unwrap();
    net.settle();
    for _ in 0..100 {
        net.propose(1, "x");
    }
    net.settle();
    let behind = net.at(1).change(Change::Promote(ReplicaId(2)));
    assert!(matches!(behind, Err(ChangeError::Behind { lacks: 103.., .. })), "{behind:?}");
    assert_eq!(
        net.at(1).change(Change::Remove(ReplicaId(1))),
        Err(ChangeError::Last(ReplicaId(1)))
    );
    assert_eq!(net.at(1).followers().collect::<Vec<_>>(), [(ReplicaId(2), 0)]);
}
