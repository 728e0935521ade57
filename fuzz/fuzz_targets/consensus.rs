//! What replicas tell each other, byte for byte: read or refused; what was read is told on as it
//! came, and whatever it says, a replica neither falls over nor hands out what is not committed.
//!
//! The input: length u16, message, length u16, message, ...; after each of them a tick.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_vm::consensus::{
    Config, Identity, Members, Message, Replica, ReplicaId, ReplicatedLog, Stored,
};

fuzz_target!(|bytes: &[u8]| {
    let me = Identity { generation: 0, id: ReplicaId(1), boot: 1, life: 1 };
    let members = Members::of((1..=3).map(ReplicaId));
    let config = Config { beat_ticks: 1, election_ticks: 2, disk_ticks: 9, ..Config::default() };
    let mut replica = Replica::new(config, me, Stored::found(members, Vec::new()));
    let mut rest = bytes;
    while let Some((len, after)) = rest.split_first_chunk() {
        let (message, after) = after.split_at(after.len().min(u16::from_le_bytes(*len).into()));
        rest = after;
        if let Ok(Some(mut message)) = Message::decode(message) {
            let again = Message::decode(&message.encode());
            assert_eq!(again, Ok(Some(message.clone())), "as it was read");
            (message.to, message.generation) = (ReplicaId(1), 0);
            replica.step(message);
        }
        replica.tick(rest.len() as u64);
        if let Some(write) = replica.take().write {
            // Every other one is slow.
            if write.number % 2 == 0 {
                replica.durable(write.number);
            }
        }
        while replica.decided().is_some() {}
        assert!(replica.handed() <= replica.commit() && replica.commit() <= replica.last_index());
    }
});
