//! What replicas of the log tell each other, and a journal.

use towpath_vm::consensus::journal::{Head, Journal};
use towpath_vm::consensus::{
    Config, Identity, Members, Message, Proposal, Replica, ReplicaId, ReplicatedLog, Stored,
};

const ID: ReplicaId = ReplicaId(1);

/// A replica that leads alone, and all that it has written.
fn alone() -> (Replica, Vec<u8>) {
    let me = Identity { generation: 0, id: ID, boot: 1, life: 1 };
    let stored = Stored::found(Members::of([ID]), Vec::new());
    let mut replica = Replica::new(Config::default(), me, stored);
    let head = Head { generation: 0, id: ID, salt: 3 };
    let (mut journal, mut bytes) = Journal::begin(&head, 1, 1);
    replica.keep_all();
    replica.campaign();
    for nonce in 0..4 {
        while let Some(write) = replica.take().write {
            journal.write(&write, &mut bytes);
            journal.mark(&mut bytes);
            replica.durable(write.number);
        }
        let _ = replica.propose(Proposal::Open { nonce });
    }
    (replica, bytes)
}

/// A file.
pub(crate) fn journals() -> Vec<(&'static str, Vec<u8>)> {
    let (_, whole) = alone();
    let mut torn = whole.clone();
    torn.truncate(whole.len() - 20);
    vec![("whole", whole), ("torn", torn)]
}

/// What three replicas say while one is elected.
pub(crate) fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let members = Members::of([1, 2, 3].map(ReplicaId));
    let of = |id| {
        let me = Identity { generation: 0, id: ReplicaId(id), boot: 1, life: id };
        Replica::new(Config::default(), me, Stored::found(members.clone(), Vec::new()))
    };
    let mut replicas = [of(1), of(2), of(3)];
    replicas[1].campaign();
    let mut bytes = Vec::new();
    for _ in 0..12 {
        let mut under_way: Vec<Message> = Vec::new();
        for replica in &mut replicas {
            let taken = replica.take();
            if let Some(write) = taken.write {
                replica.durable(write.number);
            }
            under_way.extend(taken.messages);
        }
        for message in under_way {
            let encoded = message.encode();
            bytes.extend(u16::try_from(encoded.len()).expect("a short one").to_le_bytes());
            bytes.extend(encoded);
            let to = message.to.0 as usize - 1;
            replicas[to].step(message);
        }
        let _ = replicas[1].propose(Proposal::Open { nonce: 1 });
    }
    vec![("election", bytes)]
}
