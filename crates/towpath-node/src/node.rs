//! The node and what its owner calls.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::RangeInclusive;

use towpath_proto::association::Opening;
use towpath_proto::{
    AssociationId, Block, ChannelStats, Crypto, Endpoint, Grant, Head, Machine, Memory, PathChange,
    Rng, RxMeta, SendError, TimerKind, Transmit, TxBatch,
};
use towpath_vm::control::ControlState;
use towpath_vm::requests::REQUESTS_MAX;
use towpath_vm::{
    ControlLog, Ending, Host, HostState, Message, RequestId, Requests, Stream, TaskInfo, TaskSpec,
    Tasks, message,
};
use towpath_wire::frame::MESSAGE_CHARGE;
use towpath_wire::{ChannelId, HostId, Instant, LinkId, TaskId};
use zeroize::Zeroizing;

use crate::config::{JoinTarget, NodeConfig, reason};
use crate::data::Data;
use crate::event::{NodeEvent, SpawnError};
use crate::joining::Joining;
use crate::lead::Lead;
use crate::local::{Jobs, Local};
use crate::peers::Peers;
use crate::question::Asker;
use crate::standing::Standing;
use crate::voting::Voting;
use crate::watch::Watch;

pub(crate) mod addresses;
pub(crate) mod alone;
pub(crate) mod arrivals;
pub(crate) mod broken;
pub(crate) mod calling;
pub(crate) mod classes;
pub(crate) mod commit;
pub(crate) mod control;
pub(crate) mod copies;
pub(crate) mod credit;
pub(crate) mod data;
pub(crate) mod deleting;
pub(crate) mod direct;
pub(crate) mod ends;
pub(crate) mod enrol;
pub(crate) mod farewell;
pub(crate) mod flush;
pub(crate) mod group;
pub(crate) mod halt;
pub(crate) mod invitations;
pub(crate) mod joining;
pub(crate) mod overlong;
pub(crate) mod parting;
pub(crate) mod paths;
pub(crate) mod peers;
pub(crate) mod promising;
pub(crate) mod question;
pub(crate) mod reaching;
pub(crate) mod restore;
pub(crate) mod sharing;
pub(crate) mod spawn;
pub(crate) mod standing;
pub(crate) mod suspects;
pub(crate) mod telling;
pub(crate) mod unique;
pub(crate) mod voting;
pub(crate) mod watch;
pub(crate) mod work;

/// One host. Invariants: `me` is set exactly when `log` and `tasks` are; every open request is in
/// `requests` and names a host that was up when it was made.
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) endpoint: Endpoint,
    pub(crate) voting: Voting,
    pub(crate) me: Option<HostId>,
    pub(crate) log: Option<ControlState>,
    pub(crate) standing: Standing,
    pub(crate) joining: Option<Joining>,
    pub(crate) join_addr: Option<SocketAddr>,
    pub(crate) peers: Peers,
    pub(crate) tasks: Option<Tasks>,
    pub(crate) requests: Requests,
    /// Tasks of this host as parts of the virtual machine.
    pub(crate) local: Local,
    pub(crate) data: Data,
    /// What tasks of jobs that began here spawn.
    pub(crate) jobs: Jobs,
    pub(crate) watch: Watch,
    pub(crate) lead: Lead,
    pub(crate) events: VecDeque<NodeEvent>,
    /// Associations given up, to be closed with the reason beside them.
    pub(crate) closing: Vec<(AssociationId, u16)>,
    /// Messages from peers that did not decode or came on the wrong channel.
    pub(crate) malformed: u64,
    /// Labels of channels that the owner takes from peers.
    served: Option<RangeInclusive<u16>>,
}

impl Node {
    pub(crate) fn new(mut config: NodeConfig, crypto: Box<dyn Crypto>, mut rng: Rng) -> Self {
        config.proto.unix_ns_at_zero = config.unix_us_at_zero.saturating_mul(1000);
        let draws = Rng::new(rng.u64(), rng.u64());
        let endpoint = Endpoint::new(config.proto.clone(), crypto, rng);
        Self {
            config,
            endpoint,
            voting: Voting::new(draws),
            me: None,
            log: None,
            standing: Standing::default(),
            joining: None,
            join_addr: None,
            peers: Peers::default(),
            tasks: None,
            requests: Requests::default(),
            local: Local::default(),
            data: Data::default(),
            jobs: Jobs::default(),
            watch: Watch::default(),
            lead: Lead::default(),
            events: VecDeque::new(),
            closing: Vec::new(),
            malformed: 0,
            served: None,
        }
    }

    /// The first host of a new virtual machine, which it leads. It alone holds the VM key.
    pub fn found(
        config: NodeConfig,
        crypto: Box<dyn Crypto>,
        rng: Rng,
        vm_key: impl Into<Zeroizing<[u8; 32]>>,
    ) -> Self {
        let mut node = Self::new(config, crypto, rng);
        let id = HostId::new(1, 1).expect("slot 1 is a slot");
        let lost_after_ms = node.lost_after().as_millis() as u32;
        node.voting.vm_key = Some(vm_key.into());
        node.voting.founded = true;
        node.me = Some(id);
        node.log = Some(ControlState::new(ControlLog::found(node.own_entry(id), lost_after_ms)));
        node.tasks = Some(Tasks::new(id, node.config.slots));
        node.events.push_back(NodeEvent::Joined { me: id, again: false });
        node.share_log(Instant::ZERO);
        node
    }

    /// A host that joins the virtual machine of `target`.
    pub fn join(
        now: Instant,
        config: NodeConfig,
        crypto: Box<dyn Crypto>,
        rng: Rng,
        target: JoinTarget,
    ) -> Self {
        let mut node = Self::new(config, crypto, rng);
        node.join_addr = Some(target.addr);
        node.start_joining(now, target);
        node
    }

    // What there is.

    /// Who this host is, once it joined.
    pub const fn me(&self) -> Option<HostId> {
        self.me
    }

    /// The deliberate bug.
    #[cfg(plant)]
    pub(crate) const fn plant(&self) -> towpath_proto::config::Plant {
        self.config.proto.plant
    }

    /// Who leads, once this host joined.
    pub fn leader(&self) -> Option<HostId> {
        self.log.as_ref().map(ControlState::leader)
    }

    /// True while the leader cannot be reached and nothing can change.
    pub const fn is_frozen(&self) -> bool {
        self.standing.frozen
    }

    /// Every host.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.log.iter().flat_map(|l| l.table().iter())
    }

    /// Where this host tries, or tried, to join.
    pub const fn join_addr(&self) -> Option<SocketAddr> {
        self.join_addr
    }

    /// Index of the last control log entry applied here.
    pub fn log_index(&self) -> u64 {
        self.log.as_ref().map_or(0, |l| l.snapshot().index)
    }

    /// Bytes of the snapshot of the control log that a newcomer would get now.
    pub fn snapshot_bytes(&self) -> usize {
        let (Some(log), Some(you)) = (&self.log, self.me) else { return 0 };
        let snapshot = log.snapshot().clone();
        Message::Welcome(message::Welcome { you, snapshot }).encode().len()
    }

    /// The transport beneath.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Tasks on this host.
    pub fn tasks_here(&self, now: Instant) -> Vec<TaskInfo> {
        self.infos(now)
    }

    /// Requests of ours that have not ended.
    pub fn requests_open(&self) -> usize {
        self.requests.len()
    }

    /// The association to a host, if there is one now.
    pub fn association_to(&self, host: HostId) -> Option<AssociationId> {
        self.peers.up(host)
    }

    /// Messages from peers that did not decode, or spoke of what is not theirs.
    pub const fn malformed(&self) -> u64 {
        self.malformed + self.requests.strays
    }

    // What can be done.

    /// The machine's wall clock, as it is now: where it would have been at instant zero, in
    /// microseconds since the Unix epoch.
    pub const fn set_clock(&mut self, unix_us_at_zero: u64) {
        self.config.unix_us_at_zero = unix_us_at_zero;
    }

    /// Asks `host` to run something. News comes as [`NodeEvent::Request`], ending in exactly one
    /// `Ended`.
    pub fn spawn(
        &mut self,
        now: Instant,
        host: HostId,
        spec: TaskSpec,
        memory: &mut dyn Memory,
    ) -> Result<RequestId, SpawnError> {
        let log = self.log.as_ref().ok_or(SpawnError::NotJoined)?;
        let entry = log.table().get(host).ok_or(SpawnError::UnknownHost(host))?;
        if entry.state == HostState::Lost
            || self.is_out_of_reach(host)
            || self.lead.suspects.has(host)
        {
            return Err(SpawnError::HostLost(host));
        }
        let mut spawn = message::Spawn { request: u64::MAX, spec, family: None };
        let len = Message::Spawn(spawn.clone()).encode().len();
        let limit = (self.config.proto.window - MESSAGE_CHARGE as u32) as usize;
        if len > limit {
            return Err(SpawnError::TooLong { len, limit });
        }
        let id = self
            .requests
            .open(host, spawn.spec.output_window, true)
            .ok_or(SpawnError::TooMany { limit: REQUESTS_MAX })?;
        spawn.request = id.0;
        self.tell(now, host, Message::Spawn(spawn));
        self.pump(now, memory);
        Ok(id)
    }

    /// Sends a signal to a request's task.
    pub fn kill(&mut self, now: Instant, id: RequestId, signal: i32, memory: &mut dyn Memory) {
        if let Some(host) = self.requests.host(id) {
            self.tell(now, host, Message::Kill(message::Kill { request: id.0, signal }));
            self.pump(now, memory);
        }
    }

    /// Output of a request was taken: as much more may come.
    pub fn credit(&mut self, now: Instant, id: RequestId, bytes: u32, memory: &mut dyn Memory) {
        if let Some(host) = self.requests.credit(id, bytes) {
            self.tell(now, host, Message::Credit(message::Credit { request: id.0, bytes }));
            self.pump(now, memory);
        }
    }

    /// Sends standard input to a request's task; `end`: nothing comes after it. No more than
    /// `TaskSpec::input_window` may be under way: [`RequestEvent::InputTaken`] tells what arrived.
    ///
    /// [`RequestEvent::InputTaken`]: towpath_vm::RequestEvent::InputTaken
    pub fn input(
        &mut self,
        now: Instant,
        id: RequestId,
        bytes: Vec<u8>,
        end: bool,
        memory: &mut dyn Memory,
    ) {
        if let Some(host) = self.requests.host(id) {
            let input = message::Input { request: id.0, bytes, end };
            self.tell(now, host, Message::Input(input));
            self.pump(now, memory);
        }
    }

    /// Asks which tasks run on `host`; the answer comes as [`NodeEvent::Tasks`] with this number.
    pub fn list(&mut self, now: Instant, host: HostId, memory: &mut dyn Memory) -> u64 {
        let query = self.query(host, Asker::Owner);
        if self.me == Some(host) {
            let tasks = self.infos(now);
            if let Some(q) = self.local.questions.queries.get_mut(&query) {
                q.tasks = tasks;
            }
            self.query_done(query, None);
        } else {
            self.tell(now, host, Message::List(message::List { request: query }));
            self.pump(now, memory);
        }
        query
    }

    /// Leaves: every peer is told. Drain [`Machine::poll_transmit`] afterwards.
    pub fn leave(&mut self, now: Instant, text: &str, memory: &mut dyn Memory) {
        for id in self.peers.associations() {
            let why = self.why_it_goes(id);
            self.close(now, id, (why, text), memory);
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.end_all(now);
        }
        self.joining = None;
        self.pump(now, memory);
    }

    // What the driver reports of processes.

    /// A task's process runs.
    pub fn task_started(&mut self, now: Instant, task: TaskId, pid: u32, memory: &mut dyn Memory) {
        if let Some(tasks) = &mut self.tasks {
            tasks.started(now, task, pid);
            self.pump(now, memory);
        }
    }

    /// A task wrote something (no more than it had credit for).
    pub fn task_output(
        &mut self,
        now: Instant,
        task: TaskId,
        stream: Stream,
        bytes: Vec<u8>,
        memory: &mut dyn Memory,
    ) {
        if let Some(tasks) = &mut self.tasks {
            tasks.output(task, stream, bytes);
            self.pump(now, memory);
        }
    }

    /// A task took so many bytes of its standard input, or will take none any more.
    pub fn task_input_taken(
        &mut self,
        now: Instant,
        task: TaskId,
        bytes: u32,
        memory: &mut dyn Memory,
    ) {
        if let Some(tasks) = &mut self.tasks {
            tasks.input_taken(task, bytes);
            self.pump(now, memory);
        }
    }

    /// A task's process ended, after its last output, or could not be started.
    pub fn task_exited(
        &mut self,
        now: Instant,
        task: TaskId,
        mut ending: Ending,
        memory: &mut dyn Memory,
    ) {
        ending.cut();
        if let Some(tasks) = &mut self.tasks {
            tasks.exited(now, task, ending);
            self.pump(now, memory);
        }
    }

    // Channels of the owner's own.

    /// Peers may open channels to this host's owner with these labels, from
    /// [`towpath_vm::message::LABEL_OWNER`] on. Without this they may with none: whatever comes on
    /// such a channel is dropped, and our side of it ended.
    pub const fn serve(&mut self, labels: RangeInclusive<u16>) {
        self.served = Some(labels);
    }

    /// Whether the owner takes what comes with a label.
    pub(crate) fn serves(&self, label: u16) -> bool {
        self.served.as_ref().is_some_and(|labels| labels.contains(&label))
    }

    /// Opens a channel to a connected host, with a label from
    /// [`towpath_vm::message::LABEL_OWNER`] on.
    pub fn open_channel(
        &mut self,
        association: AssociationId,
        opening: Opening,
    ) -> Option<ChannelId> {
        self.peers.all_dirty();
        self.endpoint.open(association, opening)
    }

    /// Queues a message that is to arrive by `deadline` on such a channel.
    pub fn send_by(
        &mut self,
        association: AssociationId,
        channel: ChannelId,
        block: Block,
        len: u32,
        deadline: Instant,
    ) -> Result<u64, SendError> {
        self.endpoint.send_by(association, channel, block, len, deadline)
    }

    /// Counters of a channel; `None` once it or its association is over.
    pub fn channel_stats(
        &self,
        association: AssociationId,
        channel: ChannelId,
    ) -> Option<ChannelStats> {
        self.endpoint.association(association)?.channel_stats(channel)
    }

    /// Queues a message on such a channel.
    pub fn send(
        &mut self,
        association: AssociationId,
        channel: ChannelId,
        block: Block,
        len: u32,
    ) -> Result<u64, SendError> {
        self.endpoint.send(association, channel, block, len)
    }

    /// A message that came on such a channel was taken.
    pub fn consumed(&mut self, association: AssociationId, channel: ChannelId, len: u32) {
        self.endpoint.consumed(association, channel, len);
    }

    /// Sends nothing more on such a channel, and takes nothing more; `why` is told the peer.
    pub fn finish_channel(&mut self, association: AssociationId, channel: ChannelId, why: u16) {
        self.peers.all_dirty();
        self.endpoint.finish_channel(association, channel, why);
    }

    /// Connects to a host without having anything to say yet.
    pub fn connect_to(&mut self, now: Instant, host: HostId, memory: &mut dyn Memory) {
        self.ensure_connection(now, host);
        self.pump(now, memory);
    }

    /// Ends an association, for a reason and with words.
    pub(crate) fn close(
        &mut self,
        now: Instant,
        id: AssociationId,
        (why, text): (u16, &str),
        memory: &mut dyn Memory,
    ) {
        let held = self.data.held();
        let mut room = self.data.arriving.over(held, memory);
        self.endpoint.close(now, id, why, text, &mut room);
    }

    /// Carries every consequence of what just happened to its end.
    pub(crate) fn pump(&mut self, now: Instant, memory: &mut dyn Memory) {
        loop {
            let mut quiet = true;
            while let Some(event) = self.endpoint.poll_event() {
                quiet = false;
                self.handle_endpoint_event(now, event, memory);
            }
            self.open_paths(now);
            while let Some(host) = self.peers.faulty.pop_first() {
                quiet = false;
                self.contact_lost(now, host, reason::FAULTY);
            }
            while let Some((id, why)) = self.closing.pop() {
                self.close(now, id, (why, ""), memory);
            }
            while let Some((host, message)) = self.tasks.as_mut().and_then(Tasks::poll_message) {
                quiet = false;
                self.tell(now, host, message);
            }
            quiet &= !self.handle_ends(now);
            quiet &= !self.handle_grants(now);
            quiet &= !self.handle_spawned(now);
            quiet &= !self.settle_voting(now);
            quiet &= !self.settle_proposals(now);
            quiet &= !self.settle_promising(now);
            while let Some(action) = self.tasks.as_mut().and_then(Tasks::poll_action) {
                self.events.push_back(NodeEvent::Action(action));
            }
            self.release_dropped(memory);
            self.send_again(now, memory);
            self.waiting_changed();
            self.flush(now, memory);
            if quiet {
                break;
            }
        }
    }
}

impl Machine for Node {
    type Event = NodeEvent;

    fn handle_datagram(
        &mut self,
        now: Instant,
        rx: RxMeta,
        data: &mut [u8],
        memory: &mut dyn Memory,
    ) {
        let held = self.data.held();
        let mut room = self.data.arriving.over(held, memory);
        self.endpoint.handle_datagram(now, rx, data, &mut room);
        // Of a long message's datagrams, all but the last tell nothing.
        if self.endpoint.has_events() || self.peers.any_dirty() {
            self.pump(now, memory);
        }
    }

    fn handle_timeout(&mut self, now: Instant, memory: &mut dyn Memory) {
        let held = self.data.held();
        self.endpoint.handle_timeout(now, &mut self.data.arriving.over(held, memory));
        self.tasks.iter_mut().for_each(|tasks| tasks.handle_timeout(now));
        self.handle_retries(now);
        self.settle_voting(now);
        self.settle_held(now);
        self.tell_entries(now);
        self.settle_halt(now);
        self.settle_suspects(now);
        self.tell_whom_we_reach(now);
        self.settle_doubts(now);
        self.settle_unique(now);
        self.settle_farewells(now);
        self.settle_asking(now);
        self.settle_recovery(now);
        self.settle_acks(now);
        self.settle_awaited(now);
        self.pump(now, memory);
    }

    fn handle_path(&mut self, now: Instant, link: LinkId, change: PathChange) {
        self.endpoint.handle_path(now, link, change);
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, grant, out)
    }

    fn poll_head(&mut self, now: Instant, link: LinkId) -> Option<Head> {
        self.endpoint.poll_head(now, link)
    }

    fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        let control = [
            self.tasks.as_ref().and_then(Tasks::poll_timeout),
            self.next_retry(),
            self.next_vote(),
            self.local.questions.again.due(),
            self.local.members.poll_timeout(),
            self.lead.telling.at,
            self.lead.halt_at.filter(|at| *at != Instant::NEVER),
            self.lead.suspects.at,
            self.voting.look_at,
            self.doubts_due(),
            self.jobs.certainty.due(),
            self.watch.asking_until,
            self.lead.farewells.values().min().copied(),
            self.lead.recovery.as_ref().map(|r| r.until),
            self.data.relays.ack_at,
            self.local.channels.awaited_until(),
            self.promises_due(),
        ];
        let control = control.into_iter().flatten().map(|at| (at, TimerKind::Control));
        control.chain(self.endpoint.poll_timeout()).min()
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }
}
