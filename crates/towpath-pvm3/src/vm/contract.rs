//! What a virtual machine does for a task.

use std::time::Duration;

use towpath_task::{Loan, Sealed};

use crate::code::Code;
use crate::message::Received;

/// Who a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) tid: i32,
    /// Who spawned it.
    pub(crate) parent: Option<i32>,
    /// All that were spawned with it, itself included; empty when no task spawned it.
    pub(crate) siblings: Vec<i32>,
    /// Context to begin with.
    pub(crate) context: i32,
}

/// What a message says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) tag: i32,
    pub(crate) context: i32,
    /// See [`Encoding`](crate::message::Encoding).
    pub(crate) format: u32,
}

/// A message that came.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) source: i32,
    pub(crate) envelope: Envelope,
    pub(crate) body: Received,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The end of a task.
    Task(i32),
    /// The loss of a host.
    Host(i32),
    /// Hosts that join.
    NewHosts,
}

/// Something that happened. Of a task it comes after its last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// What watch `watch` is for; `tid` is the task, or the host that is gone or joined;
    /// `status` what `wait` tells of the end of a task, where it is known.
    Watched { watch: u64, tid: i32, status: i32 },
    /// Output of a child; empty: it has ended.
    Output { tid: i32, bytes: Vec<u8> },
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostRow {
    /// Its daemon, without the daemon flag.
    pub(crate) tid: i32,
    pub(crate) name: String,
    pub(crate) arch: String,
    pub(crate) speed: i32,
    pub(crate) dsig: i32,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskRow {
    pub(crate) tid: i32,
    /// 0: none.
    pub(crate) parent: i32,
    pub(crate) host: i32,
    pub(crate) program: String,
    pub(crate) pid: i32,
}

/// Where tasks are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Any,
    /// The host of this task.
    Here,
    /// This host.
    On(i32),
    Named(String),
    Arch(String),
    /// Not on the host with this name.
    NotNamed(String),
    NotArch(String),
}

/// Tasks to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpawnRequest {
    pub(crate) program: Vec<u8>,
    pub(crate) args: Vec<Vec<u8>>,
    /// As the program gave them, for a tasker.
    pub(crate) flags: i32,
    pub(crate) env: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) place: Place,
    pub(crate) count: u32,
    pub(crate) context: i32,
    /// They are nobody's children.
    pub(crate) orphan: bool,
}

/// Members of a group by instance number; 0: a hole.
pub(crate) type Members = Vec<i32>;

/// Rules of a mailbox entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MailRules {
    pub(crate) persistent: bool,
    pub(crate) many: bool,
    pub(crate) overwritable: bool,
}

/// An entry to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MailWanted {
    pub(crate) index: i32,
    /// If there is none at `index`: the first there is behind it.
    pub(crate) later: bool,
    /// Take it out.
    pub(crate) delete: bool,
    /// Wait until there is one.
    pub(crate) wait: bool,
}

/// An entry of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mail {
    pub(crate) index: i32,
    pub(crate) content: Vec<u8>,
}

/// A mailbox: its name, and place, owner (0: gone) and rules of its entries.
pub(crate) type Mailbox = (String, Vec<(i32, i32, MailRules)>);

/// A task's view of its virtual machine.
pub(crate) trait Vm: Send {
    fn identity(&self) -> Identity;
    /// Leaves; everything sent before is delivered.
    fn leave(self: Box<Self>);
    /// A descriptor that is readable when something came.
    fn descriptor(&mut self) -> i32;
    /// Before waiting for the descriptor without the state: `true` when there is nothing.
    fn arm(&mut self) -> Result<bool, Code>;

    /// Sends; `parts` may be reused afterwards. A task that is not there takes it in silence.
    fn send(&mut self, to: i32, envelope: Envelope, parts: &[&[u8]]) -> Result<(), Code>;
    /// Memory for a message of `len` bytes from which a task of this host would read it; `None`:
    /// there is no such task, or no such memory to spare.
    fn loan(&mut self, len: usize) -> Option<Loan>;
    /// Sends what was written there.
    fn send_sealed(&mut self, to: i32, envelope: Envelope, sealed: &Sealed) -> Result<(), Code>;
    /// Sends to several.
    fn multicast(&mut self, to: &[i32], envelope: Envelope, parts: &[&[u8]]) -> Result<(), Code>;
    /// Takes the waiting message that came first.
    fn take(&mut self) -> Result<Option<Incoming>, Code>;
    /// Takes the waiting message that came first of those from `source` with `tag`. Of what came
    /// since the last [`wait`](Self::wait), it may see none.
    fn take_matching(
        &mut self,
        source: Option<i32>,
        tag: Option<i32>,
        context: i32,
    ) -> Result<Option<Incoming>, Code>;
    /// Takes in what there is; waits for something, not longer than `timeout`.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Code>;
    /// The event that came first.
    fn event(&mut self) -> Option<Event>;
    /// Whether there is one.
    fn has_event(&self) -> bool;

    fn hosts(&mut self) -> Result<Vec<HostRow>, Code>;
    fn add_hosts(&mut self, names: &[String]) -> Result<Vec<i32>, Code>;
    /// A code or 0 for each.
    fn delete_hosts(&mut self, hosts: &[i32]) -> Result<Vec<i32>, Code>;
    /// Microseconds since 1970 by a host's clock.
    fn clock(&mut self, host: i32) -> Result<u64, Code>;
    fn halt(&mut self) -> Result<(), Code>;
    /// Tasks of a host, or of all (0).
    fn tasks(&mut self, host: i32) -> Result<Vec<TaskRow>, Code>;
    fn runs(&mut self, tid: i32) -> Result<bool, Code>;
    fn signal(&mut self, tid: i32, signal: i32) -> Result<(), Code>;
    /// A tid or a code for each.
    fn spawn(&mut self, request: &SpawnRequest) -> Result<Vec<i32>, Code>;
    /// Output of tasks spawned from now on comes as [`Event::Output`].
    fn catch_output(&mut self, on: bool) -> Result<(), Code>;
    fn watch(&mut self, what: Watched) -> Result<u64, Code>;
    fn unwatch(&mut self, watch: u64) -> Result<(), Code>;

    /// Joins a group and gives the instance number.
    fn join(&mut self, group: &str) -> Result<i32, Code>;
    fn leave_group(&mut self, group: &str) -> Result<(), Code>;
    fn members(&mut self, group: &str) -> Result<Members, Code>;
    /// Waits until `count` members (0: all there are) have called this.
    fn barrier(&mut self, group: &str, count: u32) -> Result<(), Code>;
    /// Waits until `count` members (0: all there are) have called this; the group then stays.
    fn freeze(&mut self, group: &str, count: u32) -> Result<Members, Code>;

    /// Puts an entry at `index`, or with [`MailRules::many`] at the first free place from there.
    fn mail_put(
        &mut self,
        name: &str,
        index: i32,
        rules: MailRules,
        content: Vec<u8>,
    ) -> Result<i32, Code>;
    /// Reads an entry.
    fn mail_get(&mut self, name: &str, wanted: MailWanted) -> Result<Mail, Code>;
    fn mail_delete(&mut self, name: &str, index: i32) -> Result<(), Code>;
    fn mailboxes(&mut self, pattern: &str) -> Result<Vec<Mailbox>, Code>;
}
