//! One simulated host: a replica, its state machine, its disk, and who waits for it.

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_vm::consensus::journal::{Head, JournalError};
use towpath_vm::consensus::{
    Applied, Config, Decided, Identity, Members, Message, Read, Replica, ReplicaId, Replicated,
    ReplicatedLog, Stored,
};
use towpath_wire::Instant;

use super::disk::{Disk, End};
use super::register::Registers;

/// Which life of the log all of it belongs to.
pub(super) const GENERATION: u64 = 7;

/// What came of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Opened(u64),
    Held(u64),
    Over,
    NotHere(Option<ReplicaId>),
}

/// What a step of a host has brought.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub(super) messages: Vec<Message>,
    pub(super) replies: Vec<(usize, u64, Reply)>,
    pub(super) applied: Vec<Decided>,
}

/// Invariant: `replica` is there while the host is up.
pub(super) struct Host {
    pub(super) id: ReplicaId,
    pub(super) replica: Option<Replica>,
    pub(super) machine: Replicated<Registers>,
    pub(super) disk: Disk,
    /// Counts starts: what was scheduled for an earlier one is void.
    pub(super) epoch: u64,
    /// Its ticks, which its clock makes longer or shorter than they should be.
    pub(super) tick: Duration,
    pub(super) sync: Duration,
    pub(super) disk_stalls: bool,
    pub(super) stands_until: Instant,
    /// Sessions that clients asked for, by their nonces.
    opening: BTreeMap<u64, (usize, u64)>,
    waiting: BTreeMap<(u64, u64), (usize, u64)>,
    reading: BTreeMap<u64, (usize, u64, u8)>,
    ready: Vec<Read>,
    tickets: u64,
}

impl Host {
    pub(super) fn new(id: ReplicaId, life: u64) -> Self {
        let head = Head { generation: GENERATION, id, salt: life };
        Self {
            id,
            replica: None,
            machine: Replicated::new(Registers::default()),
            disk: Disk::new(head, life),
            epoch: 0,
            tick: Duration::ZERO,
            sync: Duration::ZERO,
            disk_stalls: false,
            stands_until: Instant::ZERO,
            opening: BTreeMap::new(),
            waiting: BTreeMap::new(),
            reading: BTreeMap::new(),
            ready: Vec::new(),
            tickets: 0,
        }
    }

    /// Begins the log with these voters, all of which do the same.
    pub(super) fn found(&mut self, config: &Config, members: Members) {
        self.begin(config, Stored::found(members, Vec::new()));
        let replica = self.replica.as_mut().expect("it has begun");
        // The first thing on its disk is what it begins from.
        replica.keep_all();
    }

    /// Begins with nothing.
    pub(super) fn join(&mut self, config: &Config) {
        self.begin(config, Stored::empty());
    }

    fn begin(&mut self, config: &Config, stored: Stored) {
        let (boot, life) = self.disk.life();
        let me = Identity { generation: GENERATION, id: self.id, boot, life };
        self.replica = Some(Replica::new(config.clone(), me, stored));
        self.epoch += 1;
        let machine = Replicated::new(Registers::default());
        #[cfg(plant)]
        let machine = machine.with(config.plant);
        self.machine = machine;
    }

    pub(super) fn end(&mut self, how: End, rng: &mut Rng) {
        self.replica = None;
        self.epoch += 1;
        self.disk.end(how, rng);
        self.opening.clear();
        self.waiting.clear();
        self.reading.clear();
        self.ready.clear();
    }

    pub(super) fn start(&mut self, config: &Config, life: u64) -> Result<bool, JournalError> {
        let found = self.disk.start(life)?;
        self.begin(config, found.stored);
        Ok(found.torn > 0)
    }

    pub(super) const fn is_up(&self) -> bool {
        self.replica.is_some()
    }

    pub(super) fn open(&mut self, client: (usize, u64), nonce: u64) -> Option<Reply> {
        let replica = self.replica.as_mut()?;
        let proposal = towpath_vm::consensus::Proposal::Open { nonce };
        match replica.propose(proposal) {
            Ok(_) => {
                self.opening.insert(nonce, client);
                None
            }
            Err(_) => Some(Reply::NotHere(replica.leader())),
        }
    }

    pub(super) fn command(
        &mut self,
        client: (usize, u64),
        command: towpath_vm::consensus::Command,
    ) -> Option<Reply> {
        let replica = self.replica.as_mut()?;
        let key = (command.session, command.number);
        match replica.propose(towpath_vm::consensus::Proposal::Command(command)) {
            Ok(_) => {
                self.waiting.insert(key, client);
                None
            }
            Err(_) => Some(Reply::NotHere(replica.leader())),
        }
    }

    pub(super) fn read(&mut self, client: (usize, u64), key: u8) -> Option<Reply> {
        let replica = self.replica.as_mut()?;
        self.tickets += 1;
        match replica.read(self.tickets) {
            Ok(()) => {
                self.reading.insert(self.tickets, (client.0, client.1, key));
                None
            }
            Err(_) => Some(Reply::NotHere(replica.leader())),
        }
    }

    /// Applies what was committed, and takes what is to be done.
    pub(super) fn settle(&mut self, brought: &mut Brought) {
        loop {
            let Some(replica) = &mut self.replica else { return };
            let taken = replica.take();
            let mut any = taken.write.is_some() || !taken.messages.is_empty();
            if let Some(write) = taken.write {
                self.disk.push(write);
            }
            brought.messages.extend(taken.messages);
            self.ready.extend(taken.reads);
            for ticket in taken.reads_dropped {
                if let Some((client, call, _)) = self.reading.remove(&ticket) {
                    brought.replies.push((client, call, Reply::NotHere(None)));
                }
            }
            while let Some(decided) = self.replica.as_mut().and_then(ReplicatedLog::decided) {
                any = true;
                self.apply(&decided, brought);
                brought.applied.push(decided);
            }
            self.answer_reads(brought);
            if !any {
                return;
            }
        }
    }

    fn apply(&mut self, decided: &Decided, brought: &mut Brought) {
        let entry = match decided {
            Decided::Entry(entry) => entry,
            Decided::Snapshot(snapshot) => {
                let restored = self.machine.restore(snapshot.index, &snapshot.state);
                restored.expect("a snapshot is whole");
                return;
            }
        };
        match self.machine.apply(entry) {
            Applied::Nothing => {}
            Applied::Opened { nonce } => {
                if let Some((client, call)) = self.opening.remove(&nonce) {
                    brought.replies.push((client, call, Reply::Opened(entry.index)));
                }
            }
            Applied::Answered { session, number, answer, .. } => {
                if let Some((client, call)) = self.waiting.remove(&(session, number)) {
                    let answer = answer.try_into().map_or(u64::MAX, u64::from_le_bytes);
                    brought.replies.push((client, call, Reply::Held(answer)));
                }
            }
            Applied::Refused { session, number, .. } => {
                if let Some((client, call)) = self.waiting.remove(&(session, number)) {
                    brought.replies.push((client, call, Reply::Over));
                }
            }
        }
    }

    fn answer_reads(&mut self, brought: &mut Brought) {
        let index = self.machine.index();
        let ready = std::mem::take(&mut self.ready);
        let (now, later) = ready.into_iter().partition(|read| read.index <= index);
        self.ready = later;
        for read in Vec::from_iter::<Vec<Read>>(now) {
            if let Some((client, call, key)) = self.reading.remove(&read.ticket) {
                let held = self.machine.machine.get(key);
                brought.replies.push((client, call, Reply::Held(held)));
            }
        }
    }
}
