//! Faults, the ends of faults, and the operator who replaces what is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use towpath_vm::consensus::{Change, RoleName};
use towpath_wire::Instant;

use super::cluster::{Cluster, Event, Mend};
use super::disk::End;
use super::faults::{self, Fault};

impl Cluster {
    pub(super) fn leader(&self) -> Option<usize> {
        let leaders = self.hosts.iter().enumerate().filter_map(|(n, host)| {
            let replica = host.replica.as_ref()?;
            (replica.role() == RoleName::Leader).then_some((replica.term(), n))
        });
        leaders.max().map(|(_, n)| n)
    }

    pub(super) fn fault(&mut self, now: Instant) {
        if self.healed.is_some() {
            return;
        }
        let fault = faults::draw(self.hosts.len(), self.leader(), &mut self.rng);
        self.outcome.faults += 1;
        match fault {
            Fault::Crash(host, end, down) => self.crash(host, end, down),
            Fault::CrashAll(end, down) => {
                for host in 0..self.hosts.len() {
                    self.crash(host, end, down);
                }
            }
            Fault::Wipe(host) => self.wipe(host),
            Fault::Cut(ways, lasts) => {
                self.cut.extend(&ways);
                self.after(lasts, Event::Mend(Mend::Ways(ways)));
            }
            Fault::Lossy(lasts) => {
                self.lossy = true;
                self.after(lasts, Event::Mend(Mend::Loss));
            }
            Fault::SlowDisk(host, lasts) => {
                self.hosts[host].sync = Duration::from_millis(20 + self.rng.below(400));
                self.after(lasts, Event::Mend(Mend::Disk(host)));
            }
            Fault::DeadDisk(host, lasts) => {
                self.hosts[host].disk_stalls = true;
                self.after(lasts, Event::Mend(Mend::Disk(host)));
            }
            Fault::Stop(host, lasts) => {
                self.hosts[host].stands_until = now + lasts;
                self.after(lasts, Event::Mend(Mend::Go(host)));
                // Where it then hears of nobody, it still believes what it did.
                if self.rng.below(2) == 0 {
                    self.cut_off(host, lasts + Duration::from_millis(300));
                }
            }
            Fault::Jump(host, ticks) => self.tick(host, ticks),
            Fault::HandOver(to) => self.hand_over(to),
        }
        let next = Duration::from_millis(20 + self.rng.below(500));
        self.after(next, Event::Fault);
    }

    /// Cuts a leader off now and then, since it was elected, or has committed something at last.
    pub(super) fn be_mean(&mut self, host: usize) {
        if self.healed.is_some() || !self.rng.chance_ppm(self.meanness_ppm) {
            return;
        }
        self.outcome.faults += 1;
        let lasts = Duration::from_millis(50 + self.rng.below(1500));
        self.cut_off(host, lasts);
    }

    /// Nothing goes to a host, and nothing comes from it.
    pub(super) fn cut_off(&mut self, host: usize, lasts: Duration) {
        let others = (0..self.hosts.len()).filter(|other| *other != host);
        let ways: Vec<_> = others.flat_map(|other| [(host, other), (other, host)]).collect();
        self.cut.extend(&ways);
        self.after(lasts, Event::Mend(Mend::Ways(ways)));
    }

    pub(super) fn crash(&mut self, host: usize, end: End, down: Duration) {
        if !self.hosts[host].is_up() {
            return;
        }
        self.hosts[host].end(end, &mut self.rng);
        let epoch = self.hosts[host].epoch;
        self.after(down, Event::Start(host, epoch));
    }

    /// A disk is lost, if all voters of before are replaced: two at once may be a majority.
    pub(super) fn wipe(&mut self, host: usize) {
        let whole = self.leader().is_some_and(|leader| {
            let Some(replica) = &self.hosts[leader].replica else { return false };
            let wanted: BTreeSet<_> = self.hosts.iter().map(|h| h.id).collect();
            replica.members().voters == wanted && replica.is_settled()
        });
        if !whole {
            return;
        }
        let mut newcomer = self.newcomer();
        newcomer.epoch = self.hosts[host].epoch + 1;
        newcomer.join(&self.config);
        self.hosts[host] = newcomer;
        self.outcome.replaced += 1;
        self.settle(host);
        self.tick_next(host);
    }

    pub(super) fn hand_over(&mut self, to: usize) {
        let id = self.hosts[to].id;
        let Some(leader) = self.leader() else { return };
        if let Some(replica) = &mut self.hosts[leader].replica {
            let _ = replica.hand_over(id);
        }
        self.settle(leader);
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Ways(ways) => self.cut.retain(|way| !ways.contains(way)),
            Mend::Loss => self.lossy = false,
            Mend::Disk(host) => {
                self.hosts[host].disk_stalls = false;
                self.hosts[host].sync = Duration::from_micros(100 + self.rng.below(4000));
            }
            Mend::Go(host) => self.hosts[host].stands_until = Instant::ZERO,
        }
    }

    /// The last fault ends.
    pub(super) fn heal(&mut self, now: Instant) {
        self.healed = Some(now);
        self.cut.clear();
        self.lossy = false;
        for host in 0..self.hosts.len() {
            self.mend(Mend::Disk(host));
            self.mend(Mend::Go(host));
            if !self.hosts[host].is_up() {
                let epoch = self.hosts[host].epoch;
                self.after(Duration::ZERO, Event::Start(host, epoch));
            }
        }
    }

    /// Takes newcomers in, then takes those out whose disks are lost.
    pub(super) fn operate(&mut self) {
        let Some(leader) = self.leader() else { return };
        let ids: BTreeSet<_> = self.hosts.iter().map(|h| h.id).collect();
        let Some(replica) = &mut self.hosts[leader].replica else { return };
        let members = replica.members().clone();
        let new = ids.iter().find(|id| !members.has(**id));
        let learned = ids.intersection(&members.learners).next();
        let gone = members.all().into_iter().find(|id| !ids.contains(id));
        let change = match (learned, new, gone) {
            (Some(id), ..) => Change::Promote(*id),
            (None, Some(id), _) => Change::Learn(*id),
            (None, None, Some(id)) => Change::Remove(id),
            (None, None, None) => return,
        };
        // In vain for now, if the last one is not committed, or the newcomer lacks much.
        let _ = replica.change(change);
        self.settle(leader);
    }
}
