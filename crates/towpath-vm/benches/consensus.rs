//! Entries per second that three replicas commit for 64 callers, each of which waits for its own
//! answer: 200 bytes a command, disks that take no time, messages that are encoded and decoded.
//! What a network and a disk add is not in it; it is the processor time of all three together.

use std::time::Instant;

use towpath_vm::consensus::{
    Command, Config, Decided, Entry, Identity, Members, Message, Proposal, Replica, ReplicaId,
    ReplicatedLog, Stored,
};

const CALLERS: u64 = 64;
const COMMAND: usize = 200;
const ENTRIES: u64 = 200_000;

/// Takes what a replica wants done; its disk has all of it at once. How many commands came out.
fn take(replica: &mut Replica, under_way: &mut Vec<Vec<u8>>) -> u64 {
    let mut commands = 0;
    loop {
        let taken = replica.take();
        let idle = taken.write.is_none() && taken.messages.is_empty();
        if let Some(write) = taken.write {
            replica.durable(write.number);
        }
        under_way.extend(taken.messages.iter().map(Message::encode));
        while let Some(decided) = replica.decided() {
            let body = |e: &Entry| matches!(e.body, towpath_vm::consensus::Body::Command(_));
            commands += u64::from(matches!(&decided, Decided::Entry(e) if body(e)));
        }
        if idle {
            return commands;
        }
    }
}

fn main() {
    let members = Members::of((1..=3).map(ReplicaId));
    let mut replicas: Vec<_> = (1..=3)
        .map(|id| {
            let me = Identity { generation: 1, id: ReplicaId(id), boot: 1, life: id };
            let stored = Stored::found(members.clone(), Vec::new());
            Replica::new(Config::default(), me, stored)
        })
        .collect();
    replicas[0].campaign();
    let (mut begin, mut answered, mut asked) = (Instant::now(), 0, 0);
    let mut bytes = 0;
    while answered < ENTRIES {
        let mut under_way = Vec::new();
        for (n, replica) in replicas.iter_mut().enumerate() {
            let commands = take(replica, &mut under_way);
            answered += if n == 0 { commands } else { 0 };
        }
        for message in under_way {
            bytes += message.len();
            let message = Message::decode(&message).expect("whole").expect("known");
            let to = (message.to.0 - 1) as usize;
            replicas[to].step(message);
        }
        while asked < answered + CALLERS {
            let bytes = vec![7; COMMAND];
            let command = Command { session: 1, number: asked + 1, settled: asked, bytes };
            if replicas[0].propose(Proposal::Command(command)).is_err() {
                begin = Instant::now();
                break;
            }
            asked += 1;
        }
        if replicas[0].log_bytes() > 4 << 20 {
            for replica in &mut replicas {
                replica.compact(vec![0; 1000]);
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{:.0} entries/s for {CALLERS} callers ({COMMAND} B, three replicas, no disk), {} B of \
         messages per entry",
        ENTRIES as f64 / seconds,
        bytes as u64 / ENTRIES
    );
}
