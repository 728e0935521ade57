//! What a simulated task does with channels of its own, and what must come of it.
//!
//! A message says whose it is, on which of its channels, and which one: who receives it knows what
//! came before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use towpath_node::Node;
use towpath_proto::Rng;
use towpath_vm::channel::{ChannelSpec, Class, Closed, Code, Reserve, Until, WINDOW_MIN};
use towpath_vm::talk::{ToDaemon, ToTask};
use towpath_wire::TaskId;
use towpath_wire::talk::ChannelFront;

use super::ledger::Ledger;
use super::program::Task;
use crate::world::World;

/// Bytes at the front of each message: sender 8, its channel 4, number 4.
const FRONT: usize = 16;
/// Channels of a task that it opened itself, at once.
const OWN_MAX: usize = 4;

/// One channel of a task.
#[derive(Debug)]
struct Line {
    peer: TaskId,
    spec: ChannelSpec,
    open: bool,
    room: u64,
    /// Messages handed to the daemon.
    sent: u32,
    /// Nothing that comes on it counts as received: what is sent gathers.
    deaf: bool,
    /// The peer's number of it, once a message said it.
    theirs: Option<u32>,
    came: BTreeSet<u32>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    all: BTreeMap<u32, Line>,
    next: u32,
    /// Draws what is reserved, where hosts are paced.
    pub(super) reserves: Option<Rng>,
}

impl Lines {
    fn begin(&mut self, number: u32, peer: TaskId, spec: ChannelSpec) -> &mut Line {
        let (room, came, theirs) = (spec.window.into(), BTreeSet::new(), None);
        let line = Line { peer, spec, open: false, room, sent: 0, deaf: false, theirs, came };
        self.all.entry(number).insert_entry(line).into_mut()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

/// A reservation for one of two channels, which fits or not.
fn reserve(rng: &mut Rng, longest: u32) -> Option<Reserve> {
    (rng.below(2) == 0).then(|| Reserve {
        bytes: (200 + rng.below(1500) as u32).min(longest),
        every: Duration::from_micros(500 + rng.below(5000)),
        burst: 1 + rng.below(4) as u32,
        within: Duration::from_micros(1000 + rng.below(30_000)),
        until: Until::Left,
    })
}

fn draw(rng: &mut Rng) -> ChannelSpec {
    let class = [Class::Ordered, Class::Ordered, Class::Unordered, Class::Timely, Class::Once]
        [rng.below(5) as usize];
    let deadline =
        (class == Class::Timely).then(|| Duration::from_micros(100 + rng.below(200_000)));
    let most = if rng.below(2) == 0 { 2_000 } else { 60_000 };
    let window = WINDOW_MIN + rng.below(most) as u32;
    let priority = rng.below(8) as u8;
    // Some are coded across whatever paths there are.
    let code = (priority % 4 == 3).then_some(Code { packets: 3, parities: 1, adaptive: false });
    ChannelSpec { class, priority, deadline, window, reserve: None, code }
}

impl Task {
    /// Opens a channel, or sends on one of those there are, or closes one.
    pub(super) fn use_line(&mut self, world: &mut World, ledger: &mut Ledger, to: TaskId) {
        let own = self.lines.all.keys().filter(|number| *number % 2 == 0).count();
        let which = self.rng.below(self.lines.all.len() as u64 + 1) as usize;
        let found = self.lines.all.iter().nth(which).map(|(number, line)| (*number, line.open));
        match found {
            None if own < OWN_MAX && to != self.id => {
                let (number, mut spec) = (self.lines.next, draw(&mut self.rng));
                let longest = spec.longest();
                spec.reserve = self.lines.reserves.as_mut().and_then(|rng| reserve(rng, longest));
                spec.code = spec.code.filter(|_| spec.reserve.is_none());
                self.lines.next += 2;
                self.lines.begin(number, to, spec);
                self.says(world, ToDaemon::OpenChannel { number, to, spec });
            }
            Some((number, true)) if self.rng.below(12) == 0 => {
                self.lines.all.remove(&number);
                self.says(world, ToDaemon::CloseChannel { number });
            }
            Some((number, true)) => {
                for _ in 0..=self.rng.below(6) {
                    self.send_line(world, ledger, number);
                }
                let asleep = world.hosts[self.host].node.as_ref().map(Node::asleep);
                if let Some([host, ..]) = asleep.as_deref() {
                    let id = self.id;
                    ledger.violate(format!("{id}: a reserved channel to {host} sleeps for ever"));
                }
            }
            _ => {}
        }
    }

    fn send_line(&mut self, world: &mut World, ledger: &mut Ledger, number: u32) {
        let most = if self.rng.below(4) == 0 { 20_000 } else { 300 };
        let len = FRONT + self.rng.below(most) as usize;
        let Some(line) = self.lines.all.get_mut(&number).filter(|line| line.open) else { return };
        let len = len.min(line.spec.longest() as usize);
        let Some(room) = line.room.checked_sub(line.spec.cost(len as u32)) else { return };
        line.room = room;
        let mut bytes = vec![line.sent as u8; len];
        bytes[..8].copy_from_slice(&self.id.to_raw().to_le_bytes());
        bytes[8..12].copy_from_slice(&number.to_le_bytes());
        bytes[12..FRONT].copy_from_slice(&line.sent.to_le_bytes());
        line.sent += 1;
        ledger.line_sent(self.id, number);
        let (id, front) = (self.id, ChannelFront { number, left: None });
        let taken = world.with(self.host, |n, now, m| n.task_channel(now, id, front, &bytes, m));
        assert_ne!(taken, Some(false), "there is room in a simulation");
    }

    /// What the daemon says of channels.
    pub(super) fn line_said(&mut self, say: ToTask, ledger: &mut Ledger) {
        match say {
            ToTask::ChannelOpen { number, outcome } => {
                let Some(line) = self.lines.all.get_mut(&number) else {
                    return ledger.violate(format!("{}: channel {number} opened twice", self.id));
                };
                line.open = outcome.is_ok();
                if outcome.is_err() {
                    self.lines.all.remove(&number);
                }
            }
            ToTask::ChannelOffered { number, from, spec } => {
                if self.lines.all.contains_key(&number) {
                    ledger.violate(format!("{}: channel {number} is offered twice", self.id));
                }
                let deaf = self.rng.below(4) == 0;
                let line = self.lines.begin(number, from, spec);
                (line.open, line.deaf) = (true, deaf);
            }
            ToTask::ChannelSent { number, bytes } => {
                let Some(line) = self.lines.all.get_mut(&number) else { return };
                line.room += bytes;
                if line.room > u64::from(line.spec.window) {
                    let (room, id) = (line.room, self.id);
                    ledger.violate(format!("{id}: channel {number} has {room} bytes of room"));
                }
            }
            ToTask::ChannelClosed { number, why } => {
                let Some(line) = self.lines.all.remove(&number) else { return };
                let reliable = matches!(line.spec.class, Class::Ordered | Class::Unordered);
                if why == Closed::ByPeer
                    && reliable
                    && let Some(theirs) = line.theirs
                {
                    ledger.line_complete(self.id, line.peer, theirs, line.came.len() as u32);
                }
            }
            _ => {}
        }
    }

    /// A message came on a channel; false: nobody receives it.
    pub(super) fn line_got(&mut self, number: u32, bytes: &[u8], ledger: &mut Ledger) -> bool {
        let Some(line) = self.lines.all.get_mut(&number) else { return false };
        let word = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
            four.map_or(u32::MAX, u32::from_le_bytes)
        };
        let (theirs, which) = (word(8), word(12));
        let from = u64::from(word(0)) | u64::from(word(4)) << 32;
        let due = line.came.len() as u32;
        let right = from == line.peer.to_raw()
            && *line.theirs.get_or_insert(theirs) == theirs
            && bytes[FRONT.min(bytes.len())..].iter().all(|b| *b == which as u8)
            && line.came.insert(which)
            && (line.spec.class != Class::Ordered || which == due)
            && ledger.line_was_sent(line.peer, theirs, which);
        if !right {
            let (id, peer, class) = (self.id, line.peer, line.spec.class);
            ledger.violate(format!(
                "{id}: message {which} of channel {theirs} of {from:#x} came on channel {number} \
                 ({class:?}, to {peer}) where {due} had come"
            ));
        }
        !line.deaf
    }
}
