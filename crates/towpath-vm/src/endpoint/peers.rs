//! Peers by task. The one that was asked for last is found without a search: messages come and go
//! in runs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_wire::TaskId;

use super::peer::Peer;

/// All peers of a task. Invariant: `places` has the place in `all` of each.
#[derive(Debug, Default)]
pub(super) struct Peers {
    all: Vec<(TaskId, Peer)>,
    places: BTreeMap<TaskId, usize>,
    last: usize,
}

impl Peers {
    #[inline]
    pub(super) fn get(&mut self, task: TaskId) -> Option<&mut Peer> {
        if self.all.get(self.last).is_none_or(|(other, _)| *other != task) {
            self.last = *self.places.get(&task)?;
        }
        self.all.get_mut(self.last).map(|(_, peer)| peer)
    }

    /// The peer, made where it is not known.
    #[inline]
    pub(super) fn of(&mut self, task: TaskId) -> &mut Peer {
        if self.all.get(self.last).is_none_or(|(other, _)| *other != task) {
            self.find_or_make(task);
        }
        &mut self.all[self.last].1
    }

    fn find_or_make(&mut self, task: TaskId) {
        if self.get(task).is_none() {
            self.last = self.all.len();
            self.all.push((task, Peer::new()));
            self.places.insert(task, self.last);
        }
    }

    pub(super) fn contains(&self, task: TaskId) -> bool {
        self.places.contains_key(&task)
    }

    pub(super) fn remove(&mut self, task: TaskId) -> Option<Peer> {
        let at = self.places.remove(&task)?;
        let (_, peer) = self.all.swap_remove(at);
        if let Some((moved, _)) = self.all.get(at) {
            self.places.insert(*moved, at);
        }
        Some(peer)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_wire::HostId;

    #[test]
    fn each_task_has_its_own_peer_whoever_else_comes_and_goes() {
        let task = |n: u32| HostId::new(1, 1).and_then(|host| host.task(n)).expect("an id");
        let mut peers = Peers::default();
        for n in 1..=5 {
            for _ in 0..n {
                peers.of(task(n)).take_number();
            }
        }
        assert_eq!(peers.remove(task(2)).map(|peer| peer.next), Some(2));
        assert!(peers.remove(task(2)).is_none() && peers.get(task(2)).is_none());
        for n in [1, 5, 3, 4, 5, 1] {
            assert_eq!(peers.get(task(n)).map(|peer| peer.next), Some(n));
        }
        assert_eq!((peers.len(), peers.contains(task(2))), (4, false));
        assert_eq!(peers.of(task(2)).next, 0, "a new life");
        assert_eq!(peers.of(task(5)).next, 5);
    }
}
