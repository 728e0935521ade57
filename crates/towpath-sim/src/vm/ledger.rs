//! What was sent to whom, what was told, and what must follow from it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use towpath_vm::Ending;
use towpath_wire::{HostId, TaskId};

/// One direction between two tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Messages begun, handed over whole, and received.
    begun: u32,
    whole: u32,
    received: u32,
    /// The receiver was told that the sender is gone.
    gone: bool,
}

/// The books of a run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    ways: HashMap<(TaskId, TaskId), Way>,
    /// Tasks that began: one that is unique may end before.
    pub(super) begun: BTreeSet<TaskId>,
    /// How tasks ended, as far as the run itself made them.
    pub(super) ended: BTreeMap<TaskId, Option<Ending>>,
    /// Pairs of hosts between which a connection broke, the smaller first.
    broken: BTreeSet<(HostId, HostId)>,
    /// Hosts that were lost.
    lost: BTreeSet<HostId>,
    /// Contexts of frozen groups with their lists.
    frozen: BTreeMap<u32, Vec<Option<TaskId>>>,
    /// Open watches of tasks.
    watches: BTreeSet<(TaskId, u64, TaskId)>,
    /// Messages sent on tasks' own channels, by sender and its number of it.
    lines: HashMap<(TaskId, u32), u32>,
    pub(super) on_lines: u64,
    pub(super) violations: Vec<String>,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) cut_short: u64,
    /// Mailbox entries read; those that were there, and whose content was not.
    pub(super) mail: u64,
    pub(super) mail_lost: u64,
}

/// The length of message `seq` of a task, whoever it is for.
pub(super) fn message_len(src: TaskId, seq: u32, max: u32) -> u32 {
    let mut h = crate::hash::Hash::new(src.to_raw());
    h.word(u64::from(seq));
    let n = h.value();
    match n % 10 {
        0 => 0,
        1..=6 => (n >> 8) as u32 % 200.min(max),
        7 => (n >> 8) as u32 % 5000.min(max),
        // Long enough to go along a chain of hosts, and within the first credit.
        8 => (8192 + (n >> 8) as u32 % 7000).min(max),
        _ => (n >> 8) as u32 % max,
    }
}

/// A byte of message `seq`.
pub(super) const fn byte_at(seq: u32, offset: u64) -> u8 {
    (seq as u64 ^ offset ^ (offset >> 8)) as u8
}

impl Ledger {
    pub(super) fn violate(&mut self, what: String) {
        if self.violations.len() < 20 {
            self.violations.push(what);
        }
    }

    /// No content was lost, if none may be. How many entries were read, and the content of how
    /// many was lost.
    pub(super) fn check_mail(&mut self, is_kept: bool) -> (u64, u64) {
        if is_kept && self.mail_lost > 0 {
            self.violate(format!("the content of {} entries is lost", self.mail_lost));
        }
        (self.mail, self.mail_lost)
    }

    pub(super) fn begun(&mut self, src: TaskId, dst: TaskId) {
        self.ways.entry((src, dst)).or_default().begun += 1;
    }

    pub(super) fn whole(&mut self, src: TaskId, dst: TaskId) {
        self.ways.entry((src, dst)).or_default().whole += 1;
    }

    /// Message number `seq` was received; `right`: with its own bytes.
    pub(super) fn received(&mut self, src: TaskId, dst: TaskId, seq: u32, len: u64, right: bool) {
        let way = self.ways.entry((src, dst)).or_default();
        let (expected, whole, gone) = (way.received, way.whole, way.gone);
        way.received += 1;
        self.messages += 1;
        self.bytes += len;
        if expected != seq || !right || seq >= whole || gone {
            self.violate(format!(
                "{dst} got message {seq} of {src} ({len} bytes, right: {right}) where {expected} \
                 of {whole} was due; told that it is gone: {gone}"
            ));
        }
    }

    fn may_be_short(&self, a: HostId, b: HostId) -> bool {
        let pair = (a.min(b), a.max(b));
        self.broken.contains(&pair) || self.lost.contains(&a) || self.lost.contains(&b)
    }

    /// `dst` is told that `src` is gone, or that it ended.
    pub(super) fn gone(&mut self, src: TaskId, dst: TaskId) {
        let short = self.may_be_short(src.host(), dst.host());
        let way = self.ways.entry((src, dst)).or_default();
        let (received, whole) = (way.received, way.whole);
        way.gone = true;
        if received < whole {
            self.cut_short += 1;
        }
        let goes_on = self.begun.contains(&src) && !self.ended.contains_key(&src);
        if !short && (received < whole || goes_on) {
            self.violate(format!(
                "{dst} hears of the end of {src} after {received} of {whole} messages; it ended: \
                 {:?}",
                self.ended.get(&src)
            ));
        }
    }

    /// Every (sender, receiver) between which there ever was a message.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (TaskId, TaskId)> {
        self.ways.keys().copied()
    }

    pub(super) fn broke(&mut self, a: HostId, b: HostId) {
        self.broken.insert((a.min(b), a.max(b)));
    }

    pub(super) fn host_lost(&mut self, host: HostId) {
        self.lost.insert(host);
    }

    pub(super) fn watch(&mut self, task: TaskId, watch: u64, peer: TaskId) {
        self.watches.insert((task, watch, peer));
    }

    pub(super) fn noticed(
        &mut self,
        task: TaskId,
        watch: u64,
        peer: TaskId,
        ending: Option<&Ending>,
    ) {
        if !self.watches.remove(&(task, watch, peer)) {
            self.violate(format!("{task} is told of the end of {peer} without watching it"));
        }
        let known = self.ended.get(&peer).cloned();
        let short = self.may_be_short(peer.host(), task.host());
        if let (Some(Some(known)), Some(told), false) = (&known, ending, short)
            && known != told
            && !(told == &Ending::Unsure && matches!(known, Ending::Signalled(_)))
        {
            self.violate(format!("{task}: {peer} ended with {known}, told: {told}"));
        }
        self.gone(peer, task);
    }

    /// A task has ended: what it watched is over.
    pub(super) fn task_ended(&mut self, task: TaskId, ending: Option<Ending>) {
        self.ended.insert(task, ending);
        let first = TaskId::try_from((1 << 18) + 1).expect("the smallest of all");
        let mine = self.watches.range((task, 0, first)..).take_while(|(t, ..)| *t == task);
        let mine: Vec<_> = mine.copied().collect();
        for watch in mine {
            self.watches.remove(&watch);
        }
    }

    pub(super) fn line_sent(&mut self, task: TaskId, number: u32) {
        *self.lines.entry((task, number)).or_default() += 1;
    }

    pub(super) fn line_was_sent(&mut self, task: TaskId, number: u32, which: u32) -> bool {
        self.on_lines += 1;
        self.lines.get(&(task, number)).is_some_and(|sent| which < *sent)
    }

    /// `task` hears that `peer` is done with a channel that loses nothing, after `came` messages.
    pub(super) fn line_complete(&mut self, task: TaskId, peer: TaskId, number: u32, came: u32) {
        let sent = self.lines.get(&(peer, number)).copied().unwrap_or(0);
        if came != sent {
            self.violate(format!("{task} has {came} of {sent} on channel {number} of {peer}"));
        }
    }

    pub(super) fn froze(&mut self, task: TaskId, context: u32, members: &[Option<TaskId>]) {
        let first = self.frozen.entry(context).or_insert_with(|| members.to_vec());
        if first != members {
            let what = format!("{task}: context {context:#x} has two lists");
            self.violate(what);
        }
    }

    /// At the end of the run, when all tasks have ended.
    pub(super) fn close(&mut self) {
        let open: Vec<_> = self.watches.iter().take(5).copied().collect();
        for (task, _, peer) in open {
            self.violate(format!("{task} never hears of the end of {peer}"));
        }
    }

    /// A living task's pairs: everything whole has arrived.
    pub(super) fn check_quiet(&mut self, living: impl Fn(TaskId) -> bool) {
        let missing: Vec<String> = self
            .ways
            .iter()
            .filter(|((src, dst), w)| {
                w.received < w.whole
                    && living(*dst)
                    && living(*src)
                    && !w.gone
                    && !self.may_be_short(src.host(), dst.host())
            })
            .map(|((src, dst), w)| format!("{dst} has {} of {} of {src}", w.received, w.whole))
            .take(5)
            .collect();
        self.violations.extend(missing);
    }
}
