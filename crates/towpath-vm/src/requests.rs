//! Tasks that this host asked for, wherever they run: each gets exactly one end.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::{HostId, TaskId};

use crate::message::Exited;
use crate::task::{Ending, Stream, TaskExit};

/// Most requests open at once.
pub const REQUESTS_MAX: usize = 65_536;

/// Names a request of this host. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What becomes of a request. Daemons pass it on to their clients as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestEvent {
    /// The task runs.
    Started {
        /// Its id.
        task: TaskId,
        /// Its process.
        pid: u32,
    },
    /// It wrote something. Whoever takes the bytes gives the same number back as credit.
    Output {
        /// Which output.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// It took so many bytes of its standard input: as many more may be sent.
    InputTaken(u32),
    /// It ended; nothing more comes.
    Ended(TaskExit),
}

#[derive(Debug)]
struct Request {
    host: HostId,
    /// It belongs to a client, or to what tasks of a client's spawned.
    job: bool,
    /// Output that may still come: the window, less what came, plus credit given back.
    room: u64,
    received: u64,
    /// The end, waiting for output that is still under way.
    exit: Option<(TaskExit, u64)>,
}

/// All open requests. Invariants: `by_host` has each of `open` at its host; a request leaves with
/// exactly one [`RequestEvent::Ended`].
#[derive(Debug, Default)]
pub struct Requests {
    open: BTreeMap<u64, Request>,
    /// Those of `open` by host; none of the sets is empty.
    by_host: BTreeMap<HostId, BTreeSet<u64>>,
    next: u64,
    /// Messages about requests that are not open, or beyond what was allowed.
    pub strays: u64,
}

impl Requests {
    /// Opens a request for a task on `host`, as part of a client's job or not; `None` when
    /// [`REQUESTS_MAX`] are open.
    pub fn open(&mut self, host: HostId, output_window: u32, job: bool) -> Option<RequestId> {
        if self.open.len() >= REQUESTS_MAX {
            return None;
        }
        self.next += 1;
        let room = u64::from(output_window);
        self.open.insert(self.next, Request { host, job, room, received: 0, exit: None });
        self.by_host.entry(host).or_default().insert(self.next);
        Some(RequestId(self.next))
    }

    /// Where a request's task runs.
    pub fn host(&self, id: RequestId) -> Option<HostId> {
        self.open.get(&id.0).map(|r| r.host)
    }

    /// Whether an open request is part of a client's job.
    pub fn job(&self, id: RequestId) -> Option<bool> {
        self.open.get(&id.0).map(|r| r.job)
    }

    /// Number of open requests on a host.
    pub fn count_on(&self, host: HostId) -> usize {
        self.by_host.get(&host).map_or(0, BTreeSet::len)
    }

    /// Number of open requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// True when none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// True when one of them runs on `host`.
    pub fn any_on(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    fn remove(&mut self, request: u64) -> Option<Request> {
        let removed = self.open.remove(&request)?;
        if let Entry::Occupied(mut there) = self.by_host.entry(removed.host) {
            there.get_mut().remove(&request);
            if there.get().is_empty() {
                there.remove();
            }
        }
        Some(removed)
    }

    fn find(&mut self, from: HostId, request: u64) -> Option<&mut Request> {
        let found = self.open.get_mut(&request).filter(|r| r.host == from);
        if found.is_none() {
            self.strays += 1;
        }
        found
    }

    /// `from` says that the task runs.
    pub fn started(
        &mut self,
        from: HostId,
        request: u64,
        task: TaskId,
        pid: u32,
    ) -> Option<RequestEvent> {
        self.find(from, request)?;
        Some(RequestEvent::Started { task, pid })
    }

    /// `from` says that the task took input.
    pub fn input_taken(&mut self, from: HostId, request: u64, bytes: u32) -> Option<RequestEvent> {
        self.find(from, request)?;
        Some(RequestEvent::InputTaken(bytes))
    }

    /// `from` sends output; gives the event, and the end if it waited for this.
    pub fn output(
        &mut self,
        from: HostId,
        request: u64,
        stream: Stream,
        bytes: Vec<u8>,
    ) -> [Option<RequestEvent>; 2] {
        let Some(r) = self.find(from, request) else { return [None, None] };
        let Some(room) = r.room.checked_sub(bytes.len() as u64) else {
            self.strays += 1;
            return [None, None];
        };
        r.room = room;
        r.received += bytes.len() as u64;
        let output = Some(RequestEvent::Output { stream, bytes });
        [output, self.ended(request)]
    }

    /// `from` says that the task ended.
    pub fn exited(&mut self, from: HostId, exited: Exited) -> Option<RequestEvent> {
        let r = self.find(from, exited.request)?;
        r.exit = Some((exited.exit, exited.output_bytes));
        self.ended(exited.request)
    }

    fn ended(&mut self, request: u64) -> Option<RequestEvent> {
        let r = self.open.get(&request)?;
        if r.exit.as_ref().is_none_or(|(_, bytes)| r.received < *bytes) {
            return None;
        }
        let (exit, _) = self.remove(request)?.exit?;
        Some(RequestEvent::Ended(exit))
    }

    /// The owner took output; returns the host to tell, if the request is still open.
    pub fn credit(&mut self, id: RequestId, bytes: u32) -> Option<HostId> {
        let r = self.open.get_mut(&id.0)?;
        r.room += u64::from(bytes);
        Some(r.host)
    }

    /// Ends a request without waiting for its host.
    pub fn fail(&mut self, id: RequestId, ending: Ending) -> Option<RequestEvent> {
        self.remove(id.0)?;
        Some(RequestEvent::Ended(TaskExit::without_run(ending)))
    }

    /// Requests whose tasks are on `host`.
    pub fn on(&self, host: HostId) -> Vec<RequestId> {
        self.by_host.get(&host).into_iter().flatten().map(|id| RequestId(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).unwrap()
    }

    fn exited(request: u64, output_bytes: u64) -> Exited {
        let exit = TaskExit { ending: Ending::Exited(0), wall_us: 1 };
        Exited { request, exit, output_bytes }
    }

    #[test]
    fn the_end_waits_for_output_that_is_still_under_way() {
        let mut r = Requests::default();
        let id = r.open(host(2), 100, true).unwrap();
        assert_eq!(r.exited(host(2), exited(id.0, 3)), None);
        let [output, end] = r.output(host(2), id.0, Stream::Out, vec![1, 2, 3]);
        assert!(matches!(output, Some(RequestEvent::Output { .. })));
        assert!(matches!(end, Some(RequestEvent::Ended(_))));
        assert!(r.is_empty());
        assert_eq!(r.exited(host(2), exited(id.0, 3)), None, "one end only");
    }

    #[test]
    fn what_the_owner_has_taken_is_room_for_as_much_again() {
        let mut r = Requests::default();
        let id = r.open(host(2), 4, true).unwrap();
        assert!(r.output(host(2), id.0, Stream::Out, vec![0; 4])[0].is_some());
        assert_eq!(r.credit(id, 3), Some(host(2)));
        assert!(r.output(host(2), id.0, Stream::Out, vec![0; 3])[0].is_some());
        assert!(r.output(host(2), id.0, Stream::Out, vec![0; 1])[0].is_none(), "no room");
        assert_eq!(r.credit(RequestId(id.0 + 1), 3), None);
    }

    #[test]
    fn another_host_cannot_speak_for_a_task() {
        let mut r = Requests::default();
        let id = r.open(host(2), 100, true).unwrap();
        assert_eq!(r.exited(host(3), exited(id.0, 0)), None);
        assert_eq!((r.len(), r.strays), (1, 1));
    }

    #[test]
    fn output_beyond_the_window_is_not_taken() {
        let mut r = Requests::default();
        let id = r.open(host(2), 4, true).unwrap();
        assert!(r.output(host(2), id.0, Stream::Out, vec![0; 3])[0].is_some());
        assert!(r.output(host(2), id.0, Stream::Out, vec![0; 2])[0].is_none());
        assert_eq!(r.credit(id, 3), Some(host(2)));
        assert!(r.output(host(2), id.0, Stream::Out, vec![0; 2])[0].is_some());
    }

    #[test]
    fn a_lost_host_ends_its_requests_and_no_others() {
        let mut r = Requests::default();
        let a = r.open(host(2), 1, true).unwrap();
        let b = r.open(host(3), 1, true).unwrap();
        assert_eq!(r.on(host(2)), [a]);
        assert!(matches!(
            r.fail(a, Ending::HostLost),
            Some(RequestEvent::Ended(TaskExit { ending: Ending::HostLost, .. }))
        ));
        assert_eq!(r.on(host(3)), [b]);
    }
}
