//! Room that is used again and again, so that what happens with each message needs no heap: hosts
//! that are to be looked at, and buffers for messages of our own.

use alloc::vec::Vec;

use towpath_wire::HostId;

/// A set of hosts that keeps its room: marking and taking off costs no heap. Most of the time it
/// has one or none. Invariant: in order, each once.
#[derive(Debug, Default)]
pub(crate) struct Marked(Vec<HostId>);

impl Marked {
    pub(crate) fn insert(&mut self, host: HostId) {
        if self.0.last().is_none_or(|last| *last < host) {
            self.0.push(host);
        } else if let Err(at) = self.0.binary_search(&host) {
            self.0.insert(at, host);
        }
    }

    pub(crate) fn remove(&mut self, host: HostId) {
        if let Ok(at) = self.0.binary_search(&host) {
            self.0.remove(at);
        }
    }

    /// The `at`th.
    pub(crate) fn nth(&self, at: usize) -> Option<HostId> {
        self.0.get(at).copied()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Extend<HostId> for Marked {
    fn extend<T: IntoIterator<Item = HostId>>(&mut self, hosts: T) {
        hosts.into_iter().for_each(|host| self.insert(host));
    }
}

/// Buffers kept, and the longest.
const BUFFERS_MAX: usize = 32;
const BUFFER_MAX: usize = 4096;

/// Buffers of messages that were handed to the transport, for the next ones.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        if self.0.len() < BUFFERS_MAX && buffer.capacity() <= BUFFER_MAX {
            self.0.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_and_in_order() {
        let host = |n| HostId::new(n, 1).expect("a slot");
        let mut marked = Marked::default();
        marked.extend([3, 1, 3, 2, 3, 1].map(host));
        let all = |m: &Marked| (0..).map_while(|at| m.nth(at)).collect::<Vec<_>>();
        assert_eq!(all(&marked), [1, 2, 3].map(host));
        marked.remove(host(2));
        marked.remove(host(9));
        assert_eq!(all(&marked), [1, 3].map(host));
        marked.clear();
        assert_eq!(marked.nth(0), None);
    }

    #[test]
    fn short_buffers_are_kept_and_not_many() {
        let mut buffers = Buffers::default();
        buffers.keep(Vec::with_capacity(BUFFER_MAX + 1));
        assert_eq!(buffers.take().capacity(), 0);
        for _ in 0..=BUFFERS_MAX {
            buffers.keep(Vec::with_capacity(100));
        }
        let kept = (0..2 * BUFFERS_MAX).take_while(|_| buffers.take().capacity() >= 100).count();
        assert_eq!(kept, BUFFERS_MAX);
    }
}
