//! The engine's loop and everything that passes through it.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use towpath_io::{Clock, UdpLink};
use towpath_node::config::refusal;
use towpath_node::egress::Reservation;
use towpath_node::{JoinFailure, Node, NodeEvent};
use towpath_proto::{HeapMemory, Machine};
use towpath_task::place::SOCKET_VAR;
use towpath_vm::Action;
use towpath_wire::{ByteSize, HostId, Instant, Rate};

use super::clients::ClientConn;
use super::control::Control;
use super::doors::Doors;
use super::held::{Held, KEY_HELD};
use super::keeping::Keeping;
use super::launch::Launch;
use super::network::Network;
use super::poll::{Events, Poll, Waker};
use super::remote::LABEL_METRICS;
use super::requests::Clients;
use super::said::{BEGINS, copied, refuses, returning, revoked, said_by, twice};
use super::spawner::{Order, Report};
use super::tasks::{Conversations, KEY_TASKS, TaskSocket};
use super::tokens::Unanswered;
use super::turn::{Job, Pending, Served};
use crate::keeper::Keeper;
use crate::log::log;
use crate::protocol::{HostEvent, Reply};
use crate::start::limits::Descriptors;
use crate::words::{Bequest, Sheet};

const KEY_LISTENER: u64 = 1;
const KEY_WAKE: u64 = 2;
const KEY_SIGNAL: u64 = 3;
const KEY_TASK_LISTENER: u64 = 4;
const KEY_CARRIERS: u64 = 5;
/// The first link's; each has one.
const KEY_LINKS: u64 = 8;
const KEY_CLIENTS: u64 = 16;

/// Links of a daemon at most.
pub const LINKS_MAX: usize = (KEY_CLIENTS - KEY_LINKS) as usize;

/// Message memory of a daemon.
const MEMORY: ByteSize = ByteSize::from_mib(512);
/// How often the wall clock is read.
const FOLLOW: Duration = Duration::from_secs(1);
/// How long the others that keep the log may take to do without this host before it ends.
pub(super) const PART_WITHIN: Duration = Duration::from_secs(2);
/// What the node wants, and what the control thread reports, in one turn at most.
const EVENTS_PER_TURN: usize = 4096;
const REPORTS_PER_TURN: usize = 64;

/// What an engine needs beside its node.
pub struct EngineOptions {
    /// Name of the virtual machine.
    pub vm: String,
    /// The socket for clients.
    pub listener: UnixListener,
    /// The socket for tasks.
    pub tasks: TaskSocket,
    /// The sockets for hosts, at least one and at most [`LINKS_MAX`].
    pub udp: Vec<UdpLink>,
    /// How fast each of them sends at most; `None`: as fast as it can.
    pub link_rate: Option<Rate>,
    /// The clock.
    pub clock: Clock,
    /// Readable once a signal asks the daemon to end.
    pub signals: UnixStream,
    /// What tasks are started with.
    pub launch: Launch,
    /// The limit of descriptors that tasks see.
    pub descriptors: Descriptors,
    /// The daemon's directory.
    pub(crate) dir: PathBuf,
    /// The founder's: keeps the table of hosts, and the tokens.
    pub(crate) keeper: Option<Keeper>,
    /// For what is to be said where this process is killed.
    pub(crate) words: Option<Sheet>,
}

/// Why an engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The operating system refused something that the engine cannot do without.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it says.
        why: io::Error,
    },
    /// Another daemon has this host's key.
    #[error("this host is not taken in: {0}")]
    Copied(String),
    /// The host could not join.
    #[error("cannot join the virtual machine at {addr}: {failure}")]
    Join {
        /// Where.
        addr: SocketAddr,
        /// Why.
        failure: JoinFailure,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> EngineError {
    move |why| EngineError::System { what, why }
}

/// A node on real sockets.
pub struct Engine {
    pub(super) node: Node,
    pub(super) memory: HeapMemory,
    pub(super) vm: String,
    pub(super) network: Network,
    pub(super) clock: Clock,
    pub(super) listener: UnixListener,
    pub(super) poll: Poll,
    pub(super) clients: Clients,
    pub(super) conversations: Conversations,
    pub(super) held: Held,
    pub(super) doors: Doors,
    pub(super) buf: Vec<u8>,
    pub(super) ending: bool,
    pub(super) pending: Pending,
    pub(super) keeping: Keeping,
    /// Those who asked for a change of the tokens that is being written down.
    pub(super) unanswered: Vec<Unanswered>,
    guarded: Guarded,
    pub(super) waker: Waker,
    control: Control,
}

/// What is between the engine and its guard.
struct Guarded {
    /// Readable where it is told to end.
    signals: UnixStream,
    bequest: Bequest,
}

impl Engine {
    /// An engine around a node.
    pub fn new(mut node: Node, options: EngineOptions) -> Result<Self, EngineError> {
        let EngineOptions { vm, listener, tasks, udp, link_rate, clock, .. } = options;
        let EngineOptions { signals, words, mut launch, descriptors, dir, keeper, .. } = options;
        launch.environment.push((SOCKET_VAR.into(), tasks.path.into()));
        node.serve(LABEL_METRICS..=LABEL_METRICS);
        let poll = Poll::new().map_err(system("epoll"))?;
        let waker = Waker::new().map_err(system("eventfd"))?;
        if let Some(ledger) = keeper.as_ref().and_then(|keeper| keeper.ledger.as_ref()) {
            let waker = waker.clone();
            ledger.ring(move || waker.wake());
        }
        let network = Network::new(udp, link_rate, KEY_LINKS, &poll);
        let mut network = network.map_err(system("watching the links"))?;
        network.watch_carriers(KEY_CARRIERS, &poll).map_err(system("watching the links"))?;
        // One may be without from the beginning.
        network.tell_carriers(clock.now(), &mut node);
        poll.add(&waker, KEY_WAKE).map_err(system("watching the control thread"))?;
        poll.add(&signals, KEY_SIGNAL).map_err(system("watching for signals"))?;
        let control =
            Control::start(&waker, clock, launch, descriptors).map_err(system("control thread"))?;
        let engine = Self {
            node,
            memory: HeapMemory::new(MEMORY),
            vm,
            network,
            clock,
            listener,
            poll,
            conversations: Conversations::new(tasks.listener),
            held: Held::default(),
            clients: Clients { next: KEY_CLIENTS, ..Clients::default() },
            buf: vec![0; 64 * 1024],
            ending: false,
            pending: Pending::default(),
            keeping: Keeping::new(dir, keeper),
            unanswered: Vec::new(),
            doors: Doors::new(),
            guarded: Guarded { signals, bequest: Bequest::new(words) },
            waker,
            control,
        };
        engine.watch_doors().map_err(system("watching for clients and tasks"))?;
        Ok(engine)
    }

    /// Watches for clients and tasks.
    pub(super) fn watch_doors(&self) -> io::Result<()> {
        self.poll.add(&self.listener, KEY_LISTENER)?;
        self.poll.add(&self.conversations.listener, KEY_TASK_LISTENER)
    }

    /// The node.
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Works until told to end. `joined` is called once, when the host is part of the virtual
    /// machine.
    pub fn run(&mut self, joined: &mut dyn FnMut(&Node)) -> Result<(), EngineError> {
        let mut joined = Some(joined);
        let mut events = Events::new();
        self.turn_begins();
        loop {
            self.drain(&mut joined)?;
            if self.ending && self.has_written() && self.may_end() {
                self.end();
                return Ok(());
            }
            self.turn_over();
            let timeout = self.doze().map_err(system("waiting"))?;
            self.poll.wait(&mut events, timeout).map_err(system("waiting"))?;
            self.turn_begins();
            self.follow_clock();
            self.sort(&events)?;
            let (clock, node) = (self.clock, &mut self.node);
            let received = self.network.receive(node, &clock, &mut self.memory);
            received.map_err(system("receiving"))?;
            self.serve_jobs()?;
            let now = self.clock.now();
            self.fire_timers(now);
            self.signal_orphans(now);
            self.open_doors(now).map_err(system("watching for clients and tasks"))?;
        }
    }

    /// Puts what became ready where it is served.
    fn sort(&mut self, events: &Events) -> Result<(), EngineError> {
        for r in (0..).map_while(|i| events.get(i)) {
            match r.key {
                KEY_SIGNAL => {
                    // Read, or it would wake the engine again and again until it ends.
                    let _ = rustix::io::read(&self.guarded.signals, &mut [0; 16]);
                    self.ending = true;
                }
                KEY_CARRIERS => self.network.tell_carriers(self.clock.now(), &mut self.node),
                KEY_LINKS..KEY_CLIENTS => {
                    let ready = self.network.is_ready(r.key, r.writable, &self.poll);
                    ready.map_err(system("watching the links"))?;
                }
                key => self.is_ready(key, r.writable),
            }
        }
        Ok(())
    }

    /// Serves a piece of what is ready.
    pub(super) fn serve_key(&mut self, Job { key, writable, .. }: Job) -> Served {
        match key {
            KEY_LISTENER => self.accept(),
            KEY_WAKE => {
                self.waker.reset();
                return self.take_reports();
            }
            KEY_TASK_LISTENER => self.accept_tasks(),
            key if key >= KEY_HELD => self.serve_held(key),
            key if key >= KEY_TASKS => {
                return self.serve_task(key, writable);
            }
            key => return self.serve(key),
        }
        Served::default()
    }

    /// The node's timers that are due.
    pub(super) fn fire_timers(&mut self, now: Instant) {
        if self.node.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.node.handle_timeout(now, &mut self.memory);
        }
    }

    /// Somebody may set the machine's clock while we run.
    fn follow_clock(&mut self) {
        let now = self.clock.now();
        if now >= self.pending.follow_at {
            self.pending.follow_at = now + FOLLOW;
            self.clock.follow();
            self.node.set_clock(self.clock.unix_us_at_zero());
        }
    }

    /// When there is something to do though nothing comes; [`Instant::ZERO`]: now.
    fn next_due(&self) -> Option<Instant> {
        let waits = |c: &ClientConn| c.backlog() > 0 && !c.wants_write;
        if self.has_jobs() || self.pending.rushed || self.clients.all.values().any(waits) {
            return Some(Instant::ZERO);
        }
        let node = self.node.poll_timeout().map(|(at, _)| at);
        let orphan = self.clients.orphans.values().min().copied();
        let others = orphan.into_iter().chain(self.doors.shut_until).chain(self.observers_due());
        let others = others.chain(self.remote_due()).chain(self.pending.ends_by);
        let others = others.chain(self.disk_stalls_at());
        node.into_iter().chain(others).min()
    }

    /// Looks for datagrams, gathers them, or waits for a paced link's next turn, where that pays;
    /// how long to wait yet.
    fn doze(&mut self) -> io::Result<Option<Duration>> {
        let next = self.next_due();
        if next == Some(Instant::ZERO) {
            return Ok(Some(Duration::ZERO));
        }
        let (clock, node) = (self.clock, &mut self.node);
        let came = self.network.spin(node, &clock, &mut self.memory)?;
        if came || self.network.gather(&clock, next) {
            return Ok(Some(Duration::ZERO));
        }
        let timeout = self.next_due().map(|at| at.since(self.clock.now()));
        let held = self.network.held_until().map(|at| at.since(self.clock.now()));
        let Some(held) = held.filter(|held| timeout.is_none_or(|t| *held < t)) else {
            return Ok(timeout);
        };
        self.poll.doze(held)?;
        Ok(Some(Duration::ZERO))
    }

    /// Carries out everything the node wants, until it wants nothing more.
    ///
    /// What has come for tasks and processes is handed to them first: they wait for it, while the
    /// host that it came from waits for the acknowledgement with nothing but its timers.
    fn drain(&mut self, joined: &mut Option<&mut dyn FnMut(&Node)>) -> Result<(), EngineError> {
        self.pending.rushed = false;
        self.look_at_ledger();
        self.carry_out(joined)?;
        loop {
            self.flush_tasks();
            self.control.wake();
            self.transmit()?;
            self.resume_tasks();
            // What ends everything is behind all that was said before it.
            if self.pending.rushed && !self.ending || !self.carry_out(joined)? {
                break;
            }
        }
        self.hand_over_ledger();
        self.guarded.bequest.look_at(&self.node);
        self.keep_tokens();
        self.answer_kept();
        self.tell_observers();
        self.flush_clients();
        self.serve_remote();
        Ok(())
    }

    /// Carries out events that wait, so many at most; true when there were any.
    fn carry_out(
        &mut self,
        joined: &mut Option<&mut dyn FnMut(&Node)>,
    ) -> Result<bool, EngineError> {
        let mut any = false;
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.node.poll_event() else { return Ok(any) };
            any = true;
            self.event(event, joined)?;
        }
        self.pending.rushed = true;
        Ok(any)
    }

    pub(super) fn transmit(&mut self) -> Result<(), EngineError> {
        let (clock, node) = (self.clock, &mut self.node);
        let more = self.network.transmit(node, &clock, &self.memory, &self.poll);
        if more.map_err(system("sending"))? {
            // Come back at once, after whoever else has something.
            self.waker.wake();
        }
        Ok(())
    }

    /// Does what the node wants of a process.
    fn act(&mut self, action: Action) {
        let order = match action {
            Action::Start { task, spec, cookie } => Order::Start { task, spec, cookie },
            Action::Signal { task, signal } => Order::Signal { task, signal },
            Action::Input { task, bytes, end } => Order::Input { task, bytes, end },
            Action::Credit { task, bytes } => Order::Credit { task, bytes },
            Action::SignalProcess { pid, signal } => return self.signal_process(pid, signal),
        };
        self.control.order(order);
    }

    fn event(
        &mut self,
        event: NodeEvent,
        joined: &mut Option<&mut dyn FnMut(&Node)>,
    ) -> Result<(), EngineError> {
        match event {
            NodeEvent::Action(action) => self.act(action),
            NodeEvent::Request { id, event } => self.news(id, event),
            NodeEvent::Tasks { query, host, tasks } => {
                if let Some((client, tag)) = self.clients.queries.remove(&query) {
                    self.reply(client, &Reply::Tasks { tag, host, tasks });
                }
            }
            NodeEvent::Joined { me, again } => {
                self.has_joined(me, again);
                if let Some(joined) = joined.take() {
                    joined(&self.node);
                }
            }
            NodeEvent::TableChanged { number, outcome } => self.table_changed(number, outcome),
            NodeEvent::Network { number, outcome } => self.network_decided(number, outcome),
            NodeEvent::TokenDecided { nonce, outcome } => self.token_decided(nonce, outcome),
            NodeEvent::TokensRevoked { host, tokens } => log!("{}", revoked(host, tokens)),
            NodeEvent::JoinFailed(failure) => return Err(self.join_failed(failure)),
            NodeEvent::ContactOver { host, end } => log!("contact with host {host} over: {end}"),
            NodeEvent::Unread { host, why } => log!("{}: {why}", said_by(host)),
            NodeEvent::HostAdded(_)
            | NodeEvent::HostDrains(..)
            | NodeEvent::HostSilent(_)
            | NodeEvent::HostHeard(_)
            | NodeEvent::HostLost(_)
            | NodeEvent::HostLeft(_) => self.host_news(event),
            NodeEvent::LeaderLost(id) => {
                log!("leader {id} out of contact: trying to reach it");
                self.tell_watchers(&HostEvent::LeaderLost(id));
            }
            NodeEvent::LeadLost { me } => log!("{me} leads no longer: most voters are silent"),
            NodeEvent::LeaderBack(id) => self.leader_is_back(id),
            NodeEvent::LeaderRefuses { leader, why } => log!("{}", refuses(leader, &why)),
            NodeEvent::Returning { hosts } => log!("{}", returning(hosts)),
            NodeEvent::Begins => log!("{BEGINS}"),
            NodeEvent::Copied { host } => log!("{}", copied(host)),
            NodeEvent::Twice { host, remote } => log!("{}", twice(host, remote)),
            NodeEvent::Deleted => {
                log!("deleted from the host table");
                self.pending.is_deleted = true;
                self.ending = true;
            }
            NodeEvent::ToTask { task, say } => self.tell_task(task, say),
            NodeEvent::Deliver(delivery) => self.deliver(delivery),
            NodeEvent::OnChannel { task, number, block, len } => {
                self.on_channel(task, number, block, len);
            }
            NodeEvent::Reserve(asked) => self.reserve(&asked),
            NodeEvent::Release { link, of } => self.network.release(self.clock.now(), link, of),
            NodeEvent::Direct { a, b } => self.direct(a, b),
            NodeEvent::CutOff { task, why } => self.cut_off_task(task, &why),
            NodeEvent::Adopted { parent, id, host, program } => {
                self.adopted(parent, id, host, &program);
            }
            NodeEvent::Halt => {
                log!("the virtual machine ends");
                self.ending = true;
                self.keeping.is_over = true;
            }
            NodeEvent::Channel { association: id, event, .. } => self.on_daemons_channel(id, event),
        }
        Ok(())
    }

    /// Says what has become of a host, and tells those who watch.
    fn host_news(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::HostAdded(host) => {
                log!("host {} ({}) at {} added", host.id, host.name, host.addr);
                self.tell_watchers(&HostEvent::Added(host));
            }
            NodeEvent::HostSilent(id) => {
                log!("host {id} is silent");
                self.tell_watchers(&HostEvent::Silent(id));
            }
            NodeEvent::HostHeard(id) => {
                log!("host {id} is heard again");
                self.tell_watchers(&HostEvent::Heard(id));
            }
            NodeEvent::HostDrains(id, on) => {
                log!("host {id} is given {}", if on { "nothing new" } else { "work again" });
                self.tell_watchers(&HostEvent::Drains(id, on));
            }
            NodeEvent::HostLost(id) => {
                log!("host {id} lost");
                self.tell_watchers(&HostEvent::Lost(id));
            }
            NodeEvent::HostLeft(id) => {
                log!("host {id} left");
                self.tell_watchers(&HostEvent::Left(id));
            }
            _ => {}
        }
    }

    fn reserve(&mut self, asked: &Reservation) {
        let now = self.clock.now();
        let outcome = self.network.reserve(now, asked);
        self.node.reserved(now, asked.of, outcome, &mut self.memory);
    }

    fn join_failed(&self, failure: JoinFailure) -> EngineError {
        let one = match &failure {
            JoinFailure::NoneOf { failure, .. } => failure,
            failure => failure,
        };
        if let JoinFailure::Refused(r) = one
            && r.code == refusal::COPIED
        {
            return EngineError::Copied(r.text.clone());
        }
        let addr = self.node.join_addr().unwrap_or(([0, 0, 0, 0], 0).into());
        EngineError::Join { addr, failure }
    }

    fn leader_is_back(&mut self, id: HostId) {
        if self.node.me() == Some(id) {
            log!("leads from now on");
        } else {
            log!("follows leader {id}");
        }
        let host = self.node.hosts().find(|h| h.id == id).cloned();
        if let Some(host) = host {
            self.tell_watchers(&HostEvent::LeaderBack(host));
        }
    }

    /// What the control thread reports, so much at most.
    fn take_reports(&mut self) -> Served {
        let (now, mut bytes) = (self.clock.now(), 0);
        for _ in 0..REPORTS_PER_TURN {
            let Some(report) = self.control.next_report() else {
                return Served { bytes, more: false };
            };
            let (node, memory) = (&mut self.node, &mut self.memory);
            match report {
                Report::Started { task, pid, at } => node.task_started(at, task, pid, memory),
                Report::Output { task, stream, bytes: output } => {
                    bytes += output.len() as u64;
                    node.task_output(now, task, stream, output, memory);
                }
                Report::InputTaken { task, bytes } => {
                    node.task_input_taken(now, task, bytes, memory);
                }
                Report::Exited { task, ending, at } => {
                    node.task_exited(at, task, ending, memory);
                }
            }
        }
        Served { bytes, more: true }
    }

    /// Ends everything: processes first, then the peers learn that we leave.
    fn end(&mut self) {
        self.control.stop();
        let forget = self.has_nobody_to_come_back_to();
        self.node.comes_back(!forget);
        if let Some(keeper) = &mut self.keeping.keeper {
            keeper.look_at(&mut self.node);
            keeper.end(forget);
        }
        self.answer_kept();
        let now = self.clock.now();
        self.node.leave(now, "left", &mut self.memory);
        let _ = self.network.unblock(&self.poll);
        let _ = self.transmit();
        self.guarded.bequest.clear();
        for client in self.clients.all.values_mut() {
            client.finish();
        }
        let counted = self.counters().into_iter().filter(|(_, n)| *n > 0);
        let counted: Vec<_> = counted.map(|(name, n)| format!("{name}={n}")).collect();
        log!("ended; {}", counted.join(" "));
    }
}
