//! State per PID of a transport stream: a place for each of the few that are in use.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// PIDs that there are: 13 bits.
const PIDS: usize = 1 << 13;
/// `places` of a PID without state.
const NONE: u16 = 0;

/// What is kept per PID. State begins as its default when a PID is first asked for, so that a
/// stream of a few PIDs costs 16 KiB (zeroed by the allocator) and a little, and stays in the
/// processor's first cache.
#[derive(Clone, Debug)]
pub(crate) struct PidMap<T> {
    /// 1 + index into `states`, or [`NONE`].
    places: Box<[u16; PIDS]>,
    states: Vec<(u16, T)>,
}

impl<T: Default> PidMap<T> {
    pub(crate) fn new() -> Self {
        let places = alloc::vec![NONE; PIDS].into_boxed_slice();
        Self { places: places.try_into().expect("it has as many"), states: Vec::new() }
    }

    /// State of a PID; only its lowest 13 bits count.
    #[inline]
    pub(crate) fn get(&mut self, pid: u16) -> &mut T {
        let pid = pid & (PIDS as u16 - 1);
        let mut place = self.places[usize::from(pid)];
        if place == NONE {
            place = self.add(pid);
        }
        &mut self.states[usize::from(place) - 1].1
    }

    #[cold]
    fn add(&mut self, pid: u16) -> u16 {
        self.states.push((pid, T::default()));
        let place = self.states.len() as u16; // at most 8192
        self.places[usize::from(pid)] = place;
        place
    }

    /// All that were asked for, in the order of their PIDs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let places = self.places.iter().filter(|&&place| place != NONE);
        places.map(|&place| &self.states[usize::from(place) - 1]).map(|(pid, state)| (*pid, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pid_has_its_own_state() {
        let mut map = PidMap::<u32>::new();
        for pid in (0..PIDS as u16).rev() {
            *map.get(pid) += u32::from(pid) * 3;
        }
        *map.get(7) += 1;
        assert_eq!(*map.get(8191), 24_573);
        assert_eq!((*map.get(7), *map.get(6)), (22, 18));
        assert!(map.iter().map(|(pid, _)| pid).eq(0..8192));
        assert_eq!(map.iter().map(|(_, &state)| state).nth(5), Some(15));
    }
}
