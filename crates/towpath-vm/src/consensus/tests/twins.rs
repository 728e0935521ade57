use super::*;

/// A message of replica 2 as another start of it would send it.
fn from_two(boot: u32, life: u64) -> Message {
    let payload = Payload::PreVote { last_index: 9, last_term: 9 };
    let (from, to) = (ReplicaId(2), ReplicaId(1));
    Message { generation: GENERATION, from, to, boot, life, term: 2, payload }
}

fn told_to_end(net: &mut Net) -> Vec<(u32, u64)> {
    net.take(1);
    let told = core::mem::take(&mut net.under_way).into_iter().filter_map(|m| match m.payload {
        Payload::Superseded { boot, life } => Some((boot, life)),
        _ => None,
    });
    told.collect()
}

#[test]
fn of_two_starts_with_one_boot_number_neither_is_heard_until_one_starts_again() {
    let mut net = Net::of(3);
    net.at(1).step(from_two(1, 7));
    assert_eq!(told_to_end(&mut net), []);
    net.at(1).step(from_two(1, 8));
    net.at(1).step(from_two(1, 7));
    assert_eq!(told_to_end(&mut net), [(1, 8), (1, 7)], "on both");
    net.at(1).step(from_two(2, 9));
    assert_eq!(told_to_end(&mut net), []);
    net.at(1).step(from_two(1, 7));
    assert_eq!((told_to_end(&mut net), net.at(1).refused().superseded), ([(1, 7)].into(), 3));
}

#[test]
fn who_is_told_ends_itself_and_nobody_else_does() {
    let mut net = Net::of(3);
    net.elect(1);
    let mut message = from_two(1, 102);
    for (boot, life, ends) in [(1, 55, false), (2, 101, false), (1, 101, true)] {
        message.payload = Payload::Superseded { boot, life };
        net.at(1).step(message.clone());
        assert_eq!(net.at(1).halt().is_some(), ends);
    }
    let why = net.at(1).halt().unwrap();
    assert!(std::format!("{why}").starts_with("replica 1 was started twice"), "{why}");
    net.tick(1, 50);
    assert!(net.under_way.is_empty() && net.at(1).propose(Proposal::Open { nonce: 1 }).is_err());
}

#[test]
fn another_generation_and_another_addressee_are_not_heard() {
    let mut net = Net::of(3);
    net.at(1).step(Message { generation: 9, ..from_two(1, 102) });
    net.at(1).step(Message { to: ReplicaId(3), ..from_two(1, 102) });
    let refused = net.at(1).refused();
    assert_eq!((refused.generation, refused.misdirected), (1, 1));
    net.take(1);
    assert!(net.under_way.is_empty());
}

#[test]
fn a_leader_that_contradicts_what_is_committed_ends_the_replica_not_its_state() {
    let mut net = Net::of(3);
    net.elect(1);
    net.propose(1, "committed");
    net.settle();
    net.ticks(1);
    let commit = net.at(2).commit();
    let append = |prev_term| Payload::Append {
        prev_index: commit,
        prev_term,
        commit,
        entries: [Entry { term: 9, index: commit + 1, body: Body::Empty }].into(),
    };
    let (to, from) = (ReplicaId(2), ReplicaId(3));
    let mut message =
        Message { payload: append(2), to, from, term: 9, life: 103, ..from_two(1, 0) };
    net.at(2).step(message.clone());
    assert_eq!((net.at(2).halt(), net.at(2).last_index()), (None, commit + 1));
    message.payload = append(8);
    net.at(2).step(message);
    let why = std::format!("{}", net.at(2).halt().unwrap());
    assert!(why.contains("is committed, and the leader of term 9 has another one"), "{why}");
}
