use super::*;
use crate::consensus::message::Piece;

/// A message of replica 2 to replica 1.
fn from_two(term: u64, payload: Payload) -> Message {
    let Identity { generation, id: from, boot, life } = identity(2);
    Message { generation, from, to: ReplicaId(1), boot, life, term, payload }
}

/// What replica 1 says to that.
fn answers(net: &mut Net, term: u64, payload: Payload) -> Vec<Payload> {
    net.at(1).step(from_two(term, payload));
    net.take(1);
    core::mem::take(&mut net.under_way).into_iter().map(|m| m.payload).collect()
}

#[test]
fn who_speaks_of_an_earlier_term_is_told_where_it_must_know() {
    let mut net = Net::of(3);
    net.elect(1);
    let term = net.at(1).term();
    assert_eq!(term, 2, "the first one was founded with it");
    let beat = answers(&mut net, term - 1, Payload::Beat { commit: 0, round: 3 });
    assert_eq!(beat, [Payload::BeatAnswer { round: 0 }]);
    let asks = Payload::PreVote { last_index: 99, last_term: term - 1 };
    let before = answers(&mut net, term - 1, asks);
    assert_eq!(before, [Payload::PreVoteAnswer { granted: false }]);
    assert_eq!(answers(&mut net, term - 1, Payload::HandOver), []);
    assert_eq!((net.at(1).refused().old_term, net.at(1).refused().led), (3, 0));
    assert_eq!((net.at(1).term(), net.at(1).role()), (term, RoleName::Leader));
    // A later one is taken on, but not for a vote that somebody wants while there is a leader.
    let vote = |handed_over| Payload::Vote { last_index: 99, last_term: term, handed_over };
    assert_eq!(answers(&mut net, term + 1, vote(false)), []);
    assert_eq!((net.at(1).refused().led, net.at(1).term()), (1, term));
    let granted = answers(&mut net, term + 1, vote(true));
    assert_eq!(granted, [Payload::VoteAnswer { granted: true }]);
    assert_eq!((net.at(1).term(), net.at(1).role()), (term + 1, RoleName::Follower));
}

#[test]
fn what_one_holds_is_told_as_it_is() {
    let mut net = Net::of(3);
    net.elect(1);
    let before = net.at(1).log_bytes();
    let place = net.propose(1, "four");
    let size = net.at(1).entry(place.index).unwrap().size();
    assert_eq!(net.at(1).log_bytes(), before + size);
    assert_eq!(net.at(1).term_at(place.index), Some(place.term));
    assert_eq!(net.at(1).term_at(place.index + 1), None);
    net.settle();
    assert_eq!((net.at(1).dropped(), net.at(1).handed()), (0, place.index));
    net.at(1).compact(alloc::vec![1, 2, 3]);
    assert_eq!((net.at(1).log_bytes(), net.at(1).snapshot_index()), (0, place.index));
    assert_eq!(net.at(1).term_at(place.index), Some(place.term), "of the snapshot's last");
    assert_eq!(net.at(1).term_at(place.index - 1), None);
    assert_eq!(net.at(1).entry(place.index), None);
    // A change of members is settled once it is committed.
    assert!(net.at(1).is_settled());
    net.cut.extend([2, 3]);
    net.at(1).change(Change::Learn(ReplicaId(4))).unwrap();
    assert!(!net.at(1).is_settled());
    net.cut.clear();
    net.ticks(2);
    assert!(net.at(1).is_settled());
}

#[test]
fn so_many_reads_wait_and_each_is_answered_once() {
    let mut net = Net::of(3);
    net.elect(1);
    net.cut.extend([2, 3]);
    for ticket in 0..config::READS_MAX as u64 {
        net.at(1).read(ticket).unwrap();
    }
    assert_eq!(net.at(1).read(0), Err(ProposeError::Reads));
    net.cut.clear();
    net.ticks(2);
    let mut tickets: Vec<u64> = net.reads[&1].iter().map(|read| read.ticket).collect();
    tickets.sort_unstable();
    assert!(tickets.into_iter().eq(0..config::READS_MAX as u64));
    net.at(1).read(7).expect("there is room again");
}

#[test]
fn entries_in_pieces_are_those_of_one_snapshot() {
    let mut net = Net::of(3);
    net.elect(2);
    let (term, founded) = (net.at(2).term(), net.at(1).snapshot_index());
    let piece = |index, offset, bytes: &[u8]| {
        let members = Members::of([1, 2, 3].map(ReplicaId));
        let state = b"abcdef";
        let checksum = receiving::checksum_of(&members, state);
        let (len, bytes) = (state.len() as u64, bytes.into());
        Payload::Piece(Piece { index, term, len, offset, checksum, members, bytes })
    };
    let first = answers(&mut net, term, piece(50, 0, b"abc"));
    assert_eq!(first, [Payload::PieceAnswer { index: 50, offset: 3 }]);
    // Half of another one is no part of it.
    let other = answers(&mut net, term, piece(60, 3, b"def"));
    assert_eq!(other, [Payload::PieceAnswer { index: 60, offset: 0 }]);
    assert_eq!(net.at(1).snapshot_index(), founded);
    let again = answers(&mut net, term, piece(60, 0, b"abc"));
    assert_eq!(again, [Payload::PieceAnswer { index: 60, offset: 3 }]);
    answers(&mut net, term, piece(60, 3, b"def"));
    assert_eq!((net.at(1).snapshot_index(), net.at(1).commit()), (60, 60));
}
