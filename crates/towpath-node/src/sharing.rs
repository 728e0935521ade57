//! Contents of mailbox entries with all that keep the log: what the one that leads knows of what
//! the others have.
//!
//! ```text
//!  a task asks ──▶ kept here ──▶ said to the others ──▶ most have it ──▶ the log is asked
//!  one comes to lead, or votes ──▶ Needed ──▶ Lacking ──▶ what is lacking is said, or asked for
//! ```
//! So an entry is not decided before most of those that vote have what it names, and whoever
//! comes to lead finds that with one of those that elected it. One that is only sent the log is
//! sent them, too.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::AssociationId;
use towpath_vm::registry::{BYTES_OF_TASK_MAX, Body, Kept, Serial};
use towpath_vm::talk::{Fault, RegistryOp};
use towpath_wire::{HostId, Instant, TaskId};

use crate::commit::{HOST_PROPOSALS_MAX, PROPOSALS_MAX, TASK_PROPOSALS_MAX};
use crate::contents::Contents;

/// Bytes that are on the way to, or from, another host at once.
const AHEAD: usize = 1 << 20;
/// One that does not say what it lacks is asked again: it may not have heard yet who leads.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// So long a new leader waits for those that may have what it lacks.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
/// One that does not say what it was asked for in so long is asked what it lacks.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// One that is to vote is waited for so long until it has what nobody waits for.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(30);

/// What is known of another one that votes. Invariant: `lacks`, `sent` and `asked` share nothing.
#[derive(Debug)]
struct Other {
    at: AssociationId,
    since: Instant,
    /// It has said what it lacks; else when it was asked.
    listed: Result<(), Instant>,
    /// What it lacks; what somebody waits for comes first.
    lacks: BTreeSet<(bool, Kept)>,
    /// On the way to it.
    sent: BTreeSet<Kept>,
    /// Asked of it, and when something was last, or came.
    asked: BTreeSet<Kept>,
    asked_at: Instant,
}

impl Other {
    fn lacks(&self, kept: &Kept) -> bool {
        self.lacks.contains(&(false, *kept)) || self.lacks.contains(&(true, *kept))
    }

    fn has(&self, kept: &Kept) -> bool {
        self.listed.is_ok() && !self.lacks(kept) && !self.sent.contains(kept)
    }

    /// It did not take, or give, what it should have: it is told what is needed, after a while, and
    /// asked what it lacks.
    fn begin_anew(&mut self, now: Instant) {
        self.listed = Err(now);
        self.sent.clear();
        self.asked.clear();
    }

    fn lacks_no_more(&mut self, kept: &Kept) {
        self.lacks.remove(&(false, *kept));
        self.lacks.remove(&(true, *kept));
    }
}

/// What a task asked, and is not asked of the log yet.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) number: u64,
    pub(crate) serial: Serial,
    pub(crate) op: RegistryOp<Body>,
    /// What it is to name.
    pub(crate) kept: Option<Kept>,
}

/// Of one that leads. Invariants: no queue of `held` is empty; `waited` has what those name.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// There has been anything to share.
    begun: bool,
    others: BTreeMap<HostId, Other>,
    /// What the state names, and is not here; until when it is looked for.
    lacking: BTreeSet<Kept>,
    until: Option<Instant>,
    /// By task, so that nothing overtakes what it asked before.
    held: BTreeMap<TaskId, VecDeque<Held>>,
    waited: BTreeSet<Kept>,
    held_count: usize,
    /// For tests: this host hears nothing of contents.
    #[cfg(test)]
    pub(crate) mute: bool,
}

fn bytes(kept: &BTreeSet<Kept>) -> usize {
    kept.iter().map(|kept| kept.len as usize).sum()
}

impl Sharing {
    /// This host has come to lead: the state names these.
    pub(crate) fn begin(&mut self, now: Instant, named: BTreeSet<Kept>, here: &Contents) {
        *self = Self { begun: true, until: Some(now + FOUND_WITHIN), ..Self::default() };
        self.lacking = named.into_iter().filter(|kept| !here.has(kept)).collect();
    }

    /// Whether there is nothing to do.
    pub(crate) const fn is_idle(&self) -> bool {
        !self.begun
    }

    /// Whether something is waited for.
    pub(crate) fn waits(&self) -> bool {
        let waits = |o: &Other| {
            o.listed.is_err() || !o.lacks.is_empty() || !o.sent.is_empty() || !o.asked.is_empty()
        };
        self.held_count > 0 || !self.lacking.is_empty() || self.others.values().any(waits)
    }

    /// These keep the log, and are in contact. Those that are to be told what is needed.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        up: &BTreeMap<HostId, AssociationId>,
    ) -> Vec<HostId> {
        self.others.retain(|host, other| up.get(host) == Some(&other.at));
        let mut ask = Vec::new();
        for (host, at) in up {
            let other = self.others.entry(*host).or_insert_with(|| {
                let (lacks, sent, asked) = Default::default();
                let listed = Err(now - ASK_AGAIN);
                Other { at: *at, since: now, listed, lacks, sent, asked, asked_at: now }
            });
            if !other.asked.is_empty() && now >= other.asked_at + ANSWERS_WITHIN {
                other.begin_anew(now);
            }
            if let Err(at) = &mut other.listed
                && now >= *at + ASK_AGAIN
            {
                *at = now;
                ask.push(*host);
            }
        }
        ask
    }

    /// Whether one that is to vote has all that has been here for longer, or has had the time.
    pub(crate) fn has_caught_up(&self, now: Instant, host: HostId, here: &Contents) -> bool {
        let is_old = |(nobody_waits, kept): &(bool, Kept)| *nobody_waits && here.has(kept);
        let behind = |other: &Other| other.listed.is_err() || other.lacks.iter().any(is_old);
        let is_behind = |o: &Other| now.since(o.since) < CATCHES_UP_WITHIN && behind(o);
        !self.begun || self.others.get(&host).is_some_and(|other| !is_behind(other))
    }

    /// What those that vote are to keep.
    pub(crate) fn needed(&self, here: &Contents) -> Vec<Kept> {
        here.names().chain(self.lacking.iter().copied()).collect()
    }

    /// Something is kept here, and is to be with the others, too.
    pub(crate) fn is_new(&mut self, kept: Kept, waited: bool) {
        self.begun = true;
        for other in self.others.values_mut() {
            other.lacks.insert((!waited, kept));
        }
    }

    /// Nobody needs it any more.
    pub(crate) fn is_over(&mut self, kept: &Kept) {
        self.lacking.remove(kept);
        for other in self.others.values_mut() {
            other.lacks_no_more(kept);
        }
    }

    /// Another one says what it lacks.
    pub(crate) fn lacks(&mut self, now: Instant, host: HostId, which: &[Kept], here: &Contents) {
        let Some(other) = self.others.get_mut(&host) else { return };
        if which.iter().any(|kept| other.sent.contains(kept)) {
            other.begin_anew(now);
        } else if which.len() != 1 || other.listed.is_err() || !other.asked.contains(&which[0]) {
            other.listed = Ok(());
        }
        for kept in which {
            let is_needed = here.has(kept) || self.lacking.contains(kept);
            other.asked.remove(kept);
            if is_needed && !other.sent.contains(kept) {
                other.lacks.insert((!self.waited.contains(kept), *kept));
            }
        }
    }

    /// Another one has these now. Those of them that nobody needs any more.
    pub(crate) fn stored(&mut self, host: HostId, which: &[Kept], here: &Contents) -> Vec<Kept> {
        let Some(other) = self.others.get_mut(&host) else { return Vec::new() };
        other.sent.retain(|kept| !which.contains(kept));
        which.iter().filter(|kept| !here.has(kept)).copied().collect()
    }

    /// What is to be said next to one that lacks it.
    pub(crate) fn next_to_send(&mut self, here: &Contents) -> Option<(HostId, Kept)> {
        self.others.iter_mut().filter(|(_, other)| other.listed.is_ok()).find_map(
            |(host, other)| {
                let on_the_way = bytes(&other.sent);
                let fits = |k: &Kept| on_the_way == 0 || on_the_way + k.len as usize <= AHEAD;
                let mut there = other.lacks.iter().filter(|(_, kept)| here.has(kept));
                let (_, kept) = *there.next().filter(|(_, kept)| fits(kept))?;
                other.lacks_no_more(&kept);
                other.sent.insert(kept);
                Some((*host, kept))
            },
        )
    }

    /// What is to be asked of one that has it.
    pub(crate) fn next_to_ask(&mut self, now: Instant) -> Option<(HostId, Kept)> {
        let asked = |kept: &Kept| self.others.values().any(|other| other.asked.contains(kept));
        let open: Vec<Kept> =
            self.lacking.iter().filter(|kept| !asked(kept)).take(64).copied().collect();
        open.into_iter().find_map(|kept| {
            let has = |(_, other): &(&HostId, &mut Other)| {
                let on_the_way = bytes(&other.asked);
                other.has(&kept) && (on_the_way == 0 || on_the_way + kept.len as usize <= AHEAD)
            };
            let (host, other) = self.others.iter_mut().find(has)?;
            other.asked.insert(kept);
            other.asked_at = now;
            Some((*host, kept))
        })
    }

    /// Whether this host looks for it, and has asked that one.
    pub(crate) fn asked_of(&self, from: HostId, kept: &Kept) -> bool {
        self.lacking.contains(kept)
            && self.others.get(&from).is_some_and(|other| other.asked.contains(kept))
    }

    /// Another one said it.
    pub(crate) fn found(&mut self, now: Instant, kept: &Kept) {
        self.lacking.remove(kept);
        for other in self.others.values_mut() {
            if other.asked.remove(kept) {
                other.asked_at = now;
            }
        }
    }

    /// What none of those has that might is looked for no longer. So many keep the log; one that
    /// does alone has just begun, and others are to follow.
    pub(crate) fn give_up(&mut self, now: Instant, keep: usize) {
        if self.lacking.is_empty() {
            return;
        }
        let said = self.others.values().filter(|other| other.listed.is_ok()).count();
        // From then on nobody waits for what is still to come.
        self.until = self.until.filter(|until| now < *until);
        if keep > 1 && said + 1 >= keep || self.until.is_none() {
            let others = &self.others;
            let may_have = |o: &Other, kept: &Kept| o.has(kept) || o.asked.contains(kept);
            let is_gone = |kept: &Kept| !others.values().any(|other| may_have(other, kept));
            let gone: Vec<Kept> = self.lacking.iter().filter(|k| is_gone(k)).copied().collect();
            for kept in &gone {
                self.is_over(kept);
            }
        }
    }

    /// Whether there is room for what a task asks; else the limit that it meets.
    pub(crate) fn room(&self, task: TaskId, kept: Option<Kept>) -> Result<(), Fault> {
        let of_task = self.held.get(&task).map_or(0, VecDeque::len);
        let kept =
            self.held.get(&task).into_iter().flatten().filter_map(|asks| asks.kept).chain(kept);
        if kept.map(|kept| kept.len as usize).sum::<usize>() > BYTES_OF_TASK_MAX {
            let what = "bytes of one task's mailbox entries that wait for the log".into();
            return Err(Fault::Limit { what, limit: BYTES_OF_TASK_MAX as u64 });
        }
        let host = task.host();
        let of_host = self.held.range(host.task(1).unwrap_or(task)..);
        let of_host = of_host.take_while(|(t, _)| t.host() == host).map(|(_, h)| h.len()).sum();
        for (what, has, most) in [
            ("changes of one task that wait for the log", of_task, TASK_PROPOSALS_MAX),
            ("changes of one host that wait for the log", of_host, HOST_PROPOSALS_MAX),
            ("changes that wait for the log", self.held_count, PROPOSALS_MAX),
        ] {
            if has >= most {
                return Err(Fault::Limit { what: what.into(), limit: most as u64 });
            }
        }
        Ok(())
    }

    /// Whether what a task asks now is to wait: what it puts is with too few, what it reads may not
    /// be here, or it has asked something before that waits.
    pub(crate) fn is_to_wait(
        &self,
        task: TaskId,
        asks: &Held,
        most: impl Fn(&Kept) -> bool,
    ) -> bool {
        self.held.contains_key(&task) || !self.is_ready(asks, most)
    }

    fn is_ready(&self, asks: &Held, most: impl Fn(&Kept) -> bool) -> bool {
        let reads = matches!(asks.op, RegistryOp::Get { .. });
        let looks = self.until.is_some() && !self.lacking.is_empty();
        asks.kept.as_ref().is_none_or(most) && !(looks && reads)
    }

    pub(crate) fn hold(&mut self, task: TaskId, asks: Held) {
        self.waited.extend(asks.kept);
        self.held_count += 1;
        self.held.entry(task).or_default().push_back(asks);
    }

    /// Whether most of those that vote have it, of whom this host is one.
    pub(crate) fn is_with_most(&self, kept: &Kept, voters: &BTreeSet<HostId>) -> bool {
        let has = |host: &&HostId| self.others.get(*host).is_some_and(|other| other.has(kept));
        2 * (voters.iter().filter(has).count() + 1) > voters.len()
    }

    /// What waits no longer.
    pub(crate) fn ready(&mut self, voters: &BTreeSet<HostId>) -> Vec<(TaskId, Held)> {
        let mut ready = Vec::new();
        let mut held = core::mem::take(&mut self.held);
        held.retain(|task, asks| {
            while let Some(first) = asks.front()
                && self.is_ready(first, |kept| self.is_with_most(kept, voters))
            {
                ready.extend(asks.pop_front().map(|first| (*task, first)));
            }
            !asks.is_empty()
        });
        self.held = held;
        self.waits_no_more(&ready);
        ready
    }

    fn waits_no_more(&mut self, over: &[(TaskId, Held)]) {
        self.held_count -= over.len();
        for kept in over.iter().filter_map(|(_, asks)| asks.kept) {
            self.waited.remove(&kept);
        }
    }

    /// These tasks are over, or will ask again.
    pub(crate) fn drop_of(&mut self, is_over: impl Fn(TaskId) -> bool) -> Vec<(TaskId, Held)> {
        let mut over = Vec::new();
        self.held.retain(|task, asks| {
            if is_over(*task) {
                over.extend(asks.drain(..).map(|asks| (*task, asks)));
            }
            !asks.is_empty()
        });
        self.waits_no_more(&over);
        over
    }

    /// Tasks that ask, and wait.
    pub(crate) fn askers(&self) -> impl Iterator<Item = TaskId> {
        self.held.keys().copied()
    }

    /// Others that have it.
    pub(crate) fn holders(&self, kept: &Kept) -> Vec<HostId> {
        let has = self.others.iter().filter(|(_, other)| other.has(kept));
        has.map(|(host, _)| *host).collect()
    }

    /// How many questions of tasks wait.
    pub(crate) const fn len(&self) -> usize {
        self.held_count
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).expect("a host")
    }

    fn up(hosts: &[u16]) -> BTreeMap<HostId, AssociationId> {
        hosts.iter().map(|slot| (host(*slot), AssociationId(u32::from(*slot)))).collect()
    }

    fn voters() -> BTreeSet<HostId> {
        (1..=3).map(host).collect()
    }

    /// The one that leads, with so many contents of so many bytes.
    fn with(count: usize, len: usize) -> (Sharing, Contents, Vec<Kept>) {
        let (mut sharing, mut here) = (Sharing::default(), Contents::default());
        sharing.begin(NOW, BTreeSet::new(), &here);
        let kept: Vec<Kept> = (0..count).map(|_| put(&mut here, len).1).collect();
        (sharing, here, kept)
    }

    fn put(here: &mut Contents, len: usize) -> (Held, Kept) {
        let (name, rules, content) = ("m".into(), <_>::default(), vec![0; len]);
        let op = RegistryOp::Put { name, index: None, rules, format: 0, content };
        let (op, kept) = here.take_in(host(1), op).expect("there is room");
        let (number, serial) = (1, Serial::default());
        (Held { number, serial, op, kept }, kept.expect("it is long"))
    }

    fn groups() -> Held {
        let (number, serial, op, kept) = (2, Serial::default(), RegistryOp::Groups, None);
        Held { number, serial, op, kept }
    }

    #[test]
    fn each_is_asked_once_what_it_lacks_and_again_until_it_says_so() {
        let (mut sharing, here, kept) = with(2, 5000);
        assert_eq!(sharing.connect(NOW, &up(&[2, 3])), [host(2), host(3)]);
        assert_eq!(sharing.connect(NOW, &up(&[2, 3])), []);
        assert!(!sharing.is_with_most(&kept[0], &voters()), "they have not said");
        sharing.lacks(NOW, host(2), &[], &here);
        assert!(sharing.is_with_most(&kept[0], &voters()));
        let later = NOW + ASK_AGAIN;
        assert_eq!(sharing.connect(later, &up(&[2, 3])), [host(3)]);
        // By another connection it may be another life.
        let again = BTreeMap::from([(host(2), AssociationId(9))]);
        assert_eq!(sharing.connect(later, &again), [host(2)]);
        assert_eq!(sharing.needed(&here), kept);
    }

    #[test]
    fn what_is_lacking_goes_out_within_a_bound_and_first_what_somebody_waits_for() {
        let (mut sharing, mut here, kept) = with(4, 400_000);
        sharing.connect(NOW, &up(&[2]));
        assert_eq!(sharing.next_to_send(&here), None, "it has not said what it lacks");
        sharing.lacks(NOW, host(2), &kept, &here);
        let (asks, waited) = put(&mut here, 5000);
        sharing.is_new(waited, true);
        sharing.hold(host(9).task(1).expect("a task"), asks);
        let mut sent = || -> Vec<Kept> {
            core::iter::from_fn(|| sharing.next_to_send(&here)).map(|(_, kept)| kept).collect()
        };
        assert_eq!(sent(), [waited, kept[0], kept[1]], "1 MiB is on the way");
        assert_eq!(sent(), []);
        assert_eq!(sharing.stored(host(2), &[kept[0], waited], &here), []);
        assert!(sharing.is_with_most(&waited, &[1, 2].map(host).into()));
        assert_eq!(sharing.next_to_send(&here), Some((host(2), kept[2])));
        // What is over meanwhile is not sent, and who has it hears so.
        here.forget(&kept[1]);
        here.forget(&kept[3]);
        for n in [1, 3] {
            sharing.is_over(&kept[n]);
        }
        assert_eq!(sharing.stored(host(2), &[kept[1], kept[2]], &here), [kept[1]]);
        assert_eq!(sharing.next_to_send(&here), None);
        assert_eq!(sharing.holders(&kept[2]), [host(2)]);
    }

    #[test]
    fn what_is_not_here_is_asked_of_one_that_has_it_and_given_up_when_none_does() {
        let (mut sharing, here, kept) = with(3, 600_000);
        let nothing = Contents::default();
        sharing.begin(NOW, kept.iter().copied().collect(), &nothing);
        sharing.connect(NOW, &up(&[2, 3]));
        assert_eq!((sharing.next_to_ask(NOW), sharing.waits()), (None, true));
        sharing.lacks(NOW, host(2), &kept[..1], &nothing);
        sharing.give_up(NOW, 3);
        assert!(sharing.lacking.contains(&kept[0]), "the third one has not said");
        assert_eq!(sharing.next_to_ask(NOW), Some((host(2), kept[1])));
        assert_eq!(sharing.next_to_ask(NOW), None, "two of them are more than 1 MiB");
        sharing.found(NOW, &kept[1]);
        assert_eq!(sharing.next_to_ask(NOW), Some((host(2), kept[2])));
        // It has it no longer.
        sharing.lacks(NOW, host(2), &kept[2..], &nothing);
        sharing.lacks(NOW, host(3), &kept[..1], &nothing);
        sharing.give_up(NOW, 3);
        let looks = |sharing: &Sharing| [0, 1, 2].map(|n| sharing.lacking.contains(&kept[n]));
        assert_eq!(looks(&sharing), [false, false, true]);
        assert_eq!(sharing.next_to_ask(NOW), Some((host(3), kept[2])));
        sharing.found(NOW, &kept[2]);
        assert_eq!(sharing.needed(&nothing), []);
        // One that has just begun waits for others to follow, for a while.
        sharing.begin(NOW, kept.iter().copied().collect(), &nothing);
        sharing.give_up(NOW + FOUND_WITHIN / 2, 1);
        assert!(sharing.lacking.contains(&kept[0]));
        sharing.give_up(NOW + FOUND_WITHIN, 1);
        assert_eq!(looks(&sharing), [false; 3]);
        drop(here);
    }

    #[test]
    fn nothing_overtakes_what_the_same_task_asked_before() {
        let (mut sharing, mut here, _) = with(0, 0);
        let [one, two] = [1, 2].map(|n| host(9).task(n).expect("a task"));
        sharing.connect(NOW, &up(&[2, 3]));
        for slot in [2, 3] {
            sharing.lacks(NOW, host(slot), &[], &here);
        }
        let (asks, kept) = put(&mut here, 5000);
        sharing.is_new(kept, true);
        let most = |kept: &Kept| sharing.is_with_most(kept, &voters());
        assert!(sharing.is_to_wait(one, &asks, most) && !sharing.is_to_wait(two, &groups(), most));
        sharing.hold(one, asks);
        assert!(sharing.is_to_wait(one, &groups(), |_| true));
        sharing.hold(one, groups());
        assert_eq!((sharing.ready(&voters()).len(), sharing.len()), (0, 2));
        assert!(sharing.next_to_send(&here).is_some());
        sharing.stored(host(2), &[kept], &here);
        let ready: Vec<_> =
            sharing.ready(&voters()).into_iter().map(|(t, h)| (t, h.number)).collect();
        assert_eq!((ready, sharing.len()), (vec![(one, 1), (one, 2)], 0));
        assert_eq!(sharing.askers().count(), 0);
    }

    #[test]
    fn a_tasks_entries_that_wait_have_a_share_of_the_bytes() {
        let (mut sharing, mut here, _) = with(0, 0);
        let [one, two] = [1, 2].map(|n| host(9).task(n).expect("a task"));
        let (asks, kept) = put(&mut here, 400_000);
        sharing.hold(one, asks);
        let beyond = Kept { len: BYTES_OF_TASK_MAX as u32 - 399_999, ..kept };
        let limit = BYTES_OF_TASK_MAX as u64;
        let room = sharing.room(one, Some(beyond));
        assert!(matches!(room, Err(Fault::Limit { limit: l, .. }) if l == limit), "{room:?}");
        assert_eq!(sharing.room(one, Some(Kept { len: beyond.len - 1, ..kept })), Ok(()));
        assert_eq!(sharing.room(two, Some(beyond)), Ok(()));
    }

    #[test]
    fn one_that_is_to_vote_has_what_was_there_before_or_has_had_the_time() {
        let (mut sharing, mut here, kept) = with(2, 5000);
        assert!(!sharing.has_caught_up(NOW, host(2), &here), "it is not in contact");
        sharing.connect(NOW, &up(&[2]));
        assert!(!sharing.has_caught_up(NOW, host(2), &here), "it has not said what it lacks");
        sharing.lacks(NOW, host(2), &kept, &here);
        assert!(!sharing.has_caught_up(NOW, host(2), &here));
        assert!(sharing.has_caught_up(NOW + CATCHES_UP_WITHIN, host(2), &here));
        while sharing.next_to_send(&here).is_some() {}
        // What a task waits for just now comes and goes.
        sharing.is_new(put(&mut here, 5000).1, true);
        assert!(sharing.has_caught_up(NOW, host(2), &here));
        assert!(Sharing::default().has_caught_up(NOW, host(2), &here), "nothing was ever shared");
    }

    #[test]
    fn what_waits_has_shares_for_tasks_and_hosts() {
        let mut sharing = Sharing::default();
        let task = |h, n| host(h).task(n).expect("a task");
        let limit = |sharing: &Sharing, task| match sharing.room(task, None) {
            Err(Fault::Limit { limit, .. }) => limit as usize,
            _ => 0,
        };
        (0..TASK_PROPOSALS_MAX).for_each(|_| sharing.hold(task(2, 1), groups()));
        assert_eq!(limit(&sharing, task(2, 1)), TASK_PROPOSALS_MAX);
        assert_eq!(limit(&sharing, task(2, 2)), 0);
        for n in 2..=4 {
            (0..TASK_PROPOSALS_MAX).for_each(|_| sharing.hold(task(2, n), groups()));
        }
        assert_eq!(limit(&sharing, task(2, 5)), HOST_PROPOSALS_MAX);
        assert_eq!(limit(&sharing, task(1, 1)), 0);
        for host in 3..=5 {
            for n in 1..=4 {
                (0..TASK_PROPOSALS_MAX).for_each(|_| sharing.hold(task(host, n), groups()));
            }
        }
        assert_eq!(limit(&sharing, task(1, 1)), PROPOSALS_MAX);
        assert_eq!(sharing.drop_of(|task| task.host() == host(2)).len(), HOST_PROPOSALS_MAX);
        assert_eq!((limit(&sharing, task(1, 1)), sharing.len()), (0, 3 * HOST_PROPOSALS_MAX));
    }
}
