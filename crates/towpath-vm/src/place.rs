//! Where tasks go when a task spawns them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::{HostId, Instant};

use crate::host::Host;
use crate::talk::Place;

/// A host that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Choice {
    host: HostId,
    tasks: u64,
    cpus: u64,
}

/// How long it is believed what a host says of its load: nobody tells when others' tasks end.
const BELIEVED: Duration = Duration::from_secs(10);

/// Tasks on other hosts that others than we asked for, as far as those hosts said so lately. Each
/// says it when it takes a task of ours: so whoever starts tasks on a host knows what others start
/// there, and no message is sent for it.
#[derive(Debug, Default)]
pub struct Loads {
    others: BTreeMap<HostId, (u64, Instant)>,
}

impl Loads {
    /// `host` says that it has `load` tasks, `asked` of which may be ours.
    pub fn told(&mut self, now: Instant, host: HostId, load: u64, asked: u64) {
        self.others.retain(|_, (_, at)| now.since(*at) < BELIEVED);
        self.others.insert(host, (load.saturating_sub(asked), now));
    }

    /// Tasks on `host`, `asked` of them ours.
    pub fn of(&self, now: Instant, host: HostId, asked: u64) -> u64 {
        let told = self.others.get(&host).filter(|(_, at)| now.since(*at) < BELIEVED);
        told.map_or(0, |(others, _)| *others) + asked
    }
}

/// Whether a host fits.
fn fits(host: &Host, place: &Place) -> bool {
    match place {
        Place::Any => true,
        Place::Host(id) => host.id == *id,
        Place::Name(name) => host.name == *name,
        Place::Arch(arch) => host.arch == *arch,
        Place::Not(id) => host.id != *id,
    }
}

/// Chooses a host for each of `count` tasks: the one with the fewest tasks per processor, those
/// chosen so far counted; among equals the next one behind `last` in order of slots. `hosts` are
/// those that are up, in that order, with the tasks that are known to run there. Empty when none
/// fits.
pub fn choose<'a>(
    hosts: impl Iterator<Item = (&'a Host, u64)>,
    place: &Place,
    count: u32,
    last: u16,
) -> Vec<HostId> {
    let choice =
        |(h, tasks): (&Host, u64)| Choice { host: h.id, tasks, cpus: h.cpus.max(1).into() };
    let mut choices: Vec<Choice> = hosts.filter(|(h, _)| fits(h, place)).map(choice).collect();
    let behind = choices.partition_point(|c| c.host.slot() <= last);
    choices.rotate_left(behind);
    // Load as tasks per 2^20 processors: whole numbers, and as good as exact.
    let load = |c: &Choice| (c.tasks << 20) / c.cpus;
    let mut order: BTreeSet<(u64, usize)> =
        choices.iter().enumerate().map(|(i, c)| (load(c), i)).collect();
    let mut chosen = Vec::with_capacity(if choices.is_empty() { 0 } else { count as usize });
    for _ in 0..count {
        let Some((_, i)) = order.pop_first() else { break };
        let c = &mut choices[i];
        chosen.push(c.host);
        c.tasks += 1;
        order.insert((load(c), i));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostState;
    use proptest::prelude::*;
    use std::format;
    use std::vec;

    fn host(slot: u16, cpus: u16, arch: &str) -> Host {
        Host {
            id: HostId::new(slot, 1).unwrap(),
            name: format!("n{slot}"),
            addr: ([127, 0, 0, 1], 7000 + slot).into(),
            key: [slot as u8; 32],
            arch: arch.into(),
            speed: 1000,
            cpus,
            slots: 1,
            state: HostState::Up,
            fields: crate::Fields::default(),
        }
    }

    fn slots(hosts: &[Host], place: &Place, count: u32, last: u16) -> Vec<u16> {
        let hosts = hosts.iter().map(|h| (h, 0));
        choose(hosts, place, count, last).iter().map(|h| h.slot()).collect()
    }

    #[test]
    fn equals_take_turns_and_more_processors_take_more() {
        let hosts = [host(1, 1, "a"), host(2, 2, "b"), host(3, 1, "a")];
        assert_eq!(slots(&hosts, &Place::Any, 4, 1), [2, 3, 1, 2]);
        assert_eq!(slots(&hosts, &Place::Arch("a".into()), 3, 3), [1, 3, 1]);
        assert_eq!(slots(&hosts, &Place::Not(hosts[1].id), 2, 0), [1, 3]);
        assert_eq!(slots(&hosts, &Place::Name("n2".into()), 2, 2), [2, 2]);
        assert_eq!(slots(&hosts, &Place::Arch("c".into()), 2, 0), vec![0u16; 0]);
    }

    #[test]
    fn what_a_host_says_is_believed_for_a_while_beside_what_is_asked_of_it() {
        let (mut loads, at) = (Loads::default(), |s| Instant::ZERO + Duration::from_secs(s));
        let [a, b] = [1, 2].map(|slot| HostId::new(slot, 1).unwrap());
        assert_eq!(loads.of(at(0), a, 3), 3);
        loads.told(at(1), a, 10, 4);
        assert_eq!((loads.of(at(2), a, 5), loads.of(at(2), b, 5)), (6 + 5, 5));
        // Some of what we asked for has not reached it.
        loads.told(at(2), a, 3, 4);
        assert_eq!(loads.of(at(2), a, 4), 4);
        loads.told(at(3), a, 9, 4);
        assert_eq!((loads.of(at(12), a, 4), loads.of(at(13), a, 4)), (9, 4));
        loads.told(at(20), b, 1, 0);
        assert_eq!(loads.others.len(), 1, "what is not believed is not kept");
    }

    proptest! {
        #[test]
        fn no_host_has_a_task_that_would_have_been_better_off_elsewhere(
            hosts in proptest::collection::vec((1..9u16, 0..9u64), 1..9), count in 1..40u32,
        ) {
            let cpus = |i: usize| u64::from(hosts[i].0);
            let all: Vec<Host> =
                (0..hosts.len()).map(|i| host(i as u16 + 1, hosts[i].0, "a")).collect();
            let loads = all.iter().zip(&hosts).map(|(h, (_, tasks))| (h, *tasks));
            let chosen = choose(loads, &Place::Any, count, 0);
            prop_assert_eq!(chosen.len(), count as usize);
            let mut tasks: Vec<u64> = hosts.iter().map(|h| h.1).collect();
            for c in chosen {
                let i = usize::from(c.slot()) - 1;
                for (j, others) in tasks.iter().enumerate() {
                    let fewest = tasks[i] * cpus(j) <= others * cpus(i) + 1;
                    prop_assert!(fewest, "fewest per processor");
                }
                tasks[i] += 1;
            }
        }
    }
}
