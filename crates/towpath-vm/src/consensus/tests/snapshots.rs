use super::*;

fn away(net: &mut Net) {
    net.elect(1);
    net.cut.insert(3);
    for n in 0..10 {
        net.propose(1, &std::format!("{n}"));
    }
    net.settle();
    let state: Vec<u8> = (0..5000u16).map(|n| n as u8).collect();
    net.at(1).config.piece_bytes = 700;
    net.at(1).compact(state);
    net.settle();
    assert_eq!(net.at(1).snapshot_index(), net.at(1).commit());
    net.cut.clear();
}

#[test]
fn who_lacks_what_is_gone_is_sent_a_snapshot_and_goes_on_from_there() {
    let mut net = Net::of(3);
    away(&mut net);
    net.ticks(4);
    let installed = net.at(3).snapshot_index();
    assert_eq!(installed, net.at(1).snapshot_index());
    net.propose(1, "after");
    net.settle();
    assert_eq!(net.commands(3), ["after"]);
}

#[test]
fn pieces_that_are_lost_or_damaged_are_sent_again() {
    let mut net = Net::of(3);
    away(&mut net);
    let mut spoiled = 0;
    for round in 0..200 {
        net.tick(1, 1);
        let messages = core::mem::take(&mut net.under_way);
        for (n, mut message) in messages.into_iter().enumerate() {
            if let Payload::Piece(piece) = &mut message.payload {
                if (n + round) % 5 == 0 {
                    spoiled += 1;
                    continue;
                }
                if round == 2 {
                    piece.bytes[0] ^= 1;
                    spoiled += 1;
                }
            }
            net.at(message.to.0).step(message);
        }
        for id in [2, 3] {
            net.take(id);
        }
        if net.at(3).snapshot_index() > 1 {
            break;
        }
    }
    assert!(spoiled > 2 && net.at(3).snapshot_index() > 1, "{spoiled}");
    net.settle();
    assert_eq!(net.replicas[&3].log.snapshot(), net.replicas[&1].log.snapshot());
}

#[test]
fn a_snapshot_that_is_not_on_the_disk_is_not_acknowledged() {
    let mut net = Net::of(3);
    away(&mut net);
    net.stalled.insert(3, 0);
    net.ticks(1);
    net.settle();
    let index = net.at(1).snapshot_index();
    let matched = |net: &mut Net| net.at(1).followers().find(|f| f.0 == ReplicaId(3)).unwrap().1;
    assert_eq!(net.at(3).snapshot_index(), index);
    assert!(matched(&mut net) < index);
    net.disk_back(3);
    net.settle();
    assert_eq!(matched(&mut net), index);
}

#[test]
fn what_a_replica_has_written_is_what_it_starts_from() {
    let head = journal::Head { generation: GENERATION, id: ReplicaId(1), salt: 5 };
    let (mut file, mut bytes) = journal::Journal::begin(&head, 1, 9);
    let members = Members::of([ReplicaId(1)]);
    let mut replica = Replica::new(config(), identity(1), Stored::found(members, Vec::new()));
    replica.keep_all();
    replica.campaign();
    for n in 0..40u64 {
        if n % 7 == 3 {
            replica.compact(n.to_le_bytes().into());
        }
        let _ = replica.propose(Proposal::Open { nonce: n });
        while let Some(write) = replica.take().write {
            if write.replaces {
                (file, bytes) = journal::Journal::begin(&head, 1, 9);
            }
            file.write(&write, &mut bytes);
            replica.durable(write.number);
        }
        while replica.decided().is_some() {}
        let found = journal::recover(&bytes).unwrap().stored;
        assert_eq!((found.term, found.vote), (replica.term, replica.vote));
        assert_eq!(found.snapshot, **replica.log.snapshot());
        assert!(found.entries.iter().eq(replica.log.from(0)), "after {n}");
    }
}
