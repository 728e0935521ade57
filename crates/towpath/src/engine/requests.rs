//! What clients ask of the engine, and what it tells them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use towpath_io::shared::read_ledger;
use towpath_node::{DeleteError, SpawnError};
use towpath_vm::{Ending, Host, HostState, RequestEvent, RequestId, TaskExit, TaskSpec};
use towpath_wire::{HostId, Instant, TaskId};

use super::clients::{ClientConn, Hangup, REQUESTS_PER_TURN};
use super::core::Engine;
use super::doors::Knock;
use super::poll::Interest;
use super::remote::Remote;
use super::said::refuses;
use super::turn::Served;
use super::unclaimed::Unclaimed;
use crate::keeper::Keeper;
use crate::log::log;
use crate::protocol::{
    ADOPTED_TAGS, Account, HostEvent, Info, LOADS_MAX, Reply, Request, TaskEvent, Ways,
};

/// Clients at once that may do anything.
const CLIENTS_MAX: usize = 1024;
/// Clients beyond them that may ask and change what is quickly done, so that a program with too
/// many connections does not shut the command line out. One that comes when these are taken, too,
/// has the place of the one that has been idle longest.
const EXTRA_MAX: usize = 32;
/// After a polite signal to tasks of a client that went away, how long until the firm one.
const GRACE: Duration = Duration::from_secs(2);

/// What one is told for whom there is no place.
fn crowded(count: usize) -> String {
    format!(
        "{count} clients are connected to the daemon, the limit is {CLIENTS_MAX}\n\
         hint: end some; `ss -xp` shows whose they are"
    )
}

/// The clients and what they wait for. Invariant: `owners` has an entry for each open request of
/// a client that is still connected.
#[derive(Default)]
pub(super) struct Clients {
    pub(super) all: BTreeMap<u64, ClientConn>,
    pub(super) next: u64,
    pub(super) owners: HashMap<RequestId, (u64, u64)>,
    pub(super) queries: HashMap<u64, (u64, u64)>,
    /// Requests whose client went away, and when to send the firm signal.
    pub(super) orphans: HashMap<RequestId, Instant>,
    pub(super) unclaimed: Unclaimed,
    /// Those that have a subscription.
    pub(super) observers: BTreeSet<u64>,
    /// Of what other hosts measure.
    pub(super) remote: Remote,
}

impl Engine {
    pub(super) fn reply(&mut self, client: u64, reply: &Reply) {
        if let Some(c) = self.clients.all.get_mut(&client) {
            c.reply(reply);
        }
    }

    pub(super) fn tell_watchers(&mut self, event: &HostEvent) {
        for c in self.clients.all.values_mut().filter(|c| c.watches) {
            c.reply(&Reply::HostEvent(event.clone()));
        }
    }

    /// News of a request: to its client; without one into the log, and its credit goes on.
    pub(super) fn news(&mut self, id: RequestId, event: RequestEvent) {
        let ended = matches!(event, RequestEvent::Ended(_));
        if let Some((client, tag)) = self.clients.owners.get(&id).copied() {
            self.reply(client, &Reply::Task { tag, event });
            if ended {
                self.clients.owners.remove(&id);
                if let Some(c) = self.clients.all.get_mut(&client) {
                    c.spawns.remove(&tag);
                }
            }
        } else {
            for line in self.clients.unclaimed.take(id, &event) {
                log!("{line}");
            }
            if let RequestEvent::Output { bytes, .. } = &event {
                let now = self.clock.now();
                self.node.credit(now, id, bytes.len() as u32, &mut self.memory);
            }
            if ended {
                self.clients.orphans.remove(&id);
            }
        }
    }

    pub(super) fn accept(&mut self) {
        loop {
            let stream = match self.doors.accept(&self.listener) {
                Knock::Nobody => return,
                Knock::Shut => return self.shut_doors(),
                Knock::Room(stream) => stream,
                Knock::NoRoom(stream, why) => {
                    tracing::warn!("client turned away: {why}");
                    let _ = stream.set_nonblocking(true);
                    ClientConn::new(stream, true)
                        .turn_away(&format!("the daemon has no descriptor left: {why}"));
                    self.doors.refill();
                    continue;
                }
            };
            let own = rustix::process::geteuid();
            let peer = rustix::net::sockopt::socket_peercred(&stream).map(|c| c.uid);
            if peer != Ok(own) || stream.set_nonblocking(true).is_err() {
                tracing::warn!("client turned away: it is not this user's");
                continue;
            }
            self.take_in(stream);
        }
    }

    /// Has a client of this user come in, if there is a place.
    fn take_in(&mut self, stream: UnixStream) {
        let taken = self.clients.all.len();
        let mut client = ClientConn::new(stream, taken >= CLIENTS_MAX);
        // Who it talks to, at once: it is idle then.
        if client.flush().is_err() {
            return;
        }
        if taken >= CLIENTS_MAX + EXTRA_MAX && !self.make_room() {
            tracing::warn!("client turned away: {taken} are connected");
            return client.turn_away(&crowded(taken));
        }
        let key = self.clients.next;
        self.clients.next += 1;
        if self.poll.add(&client, key).is_ok() {
            self.clients.all.insert(key, client);
        }
    }

    /// Has the extra client go that came first of those for whom nothing is done; false if there is
    /// none.
    fn make_room(&mut self) -> bool {
        let asks = |key: u64| self.clients.queries.values().any(|(client, _)| *client == key);
        let is_idle = |(key, c): &(&u64, &ClientConn)| c.is_extra && c.is_idle() && !asks(**key);
        let Some(key) = self.clients.all.iter().find(is_idle).map(|(key, _)| *key) else {
            return false;
        };
        if let Some(client) = self.clients.all.remove(&key) {
            client.turn_away(&crowded(CLIENTS_MAX + EXTRA_MAX));
        }
        true
    }

    /// Takes requests of a client, so many at most.
    pub(super) fn serve(&mut self, key: u64) -> Served {
        let Some(client) = self.clients.all.get_mut(&key) else { return Served::default() };
        let bytes = client.fill(&mut self.buf);
        for _ in 0..REQUESTS_PER_TURN {
            let Some(client) = self.clients.all.get_mut(&key) else { break };
            match client.next_request() {
                Ok(Some(request)) => self.request(key, request),
                Ok(None) => {
                    client.behind = false;
                    if client.is_gone {
                        self.see_out(key);
                    }
                    return Served { bytes, more: false };
                }
                Err(hangup) => {
                    self.hang_up(key, &hangup);
                    return Served { bytes, more: false };
                }
            }
        }
        let client = self.clients.all.get_mut(&key);
        let more = client.is_some();
        if let Some(client) = client {
            client.behind = true;
        }
        Served { bytes, more }
    }

    /// A client says nothing more. Where it has closed only that half, it gets the answers to what
    /// it asked before; who has tasks or watches something has to be there with both halves.
    fn see_out(&mut self, key: u64) {
        let is_asking = self.is_asking(key);
        let Some(client) = self.clients.all.get_mut(&key) else { return };
        // What can be said at once is.
        let _ = client.flush();
        let stays = client.only_asks() && (is_asking || client.backlog() > 0) && client.hears();
        let interest = Interest { read: false, write: client.backlog() > 0 };
        if !stays || self.poll.set_interest(&*client, key, interest).is_err() {
            return self.hang_up(key, &Hangup::Gone);
        }
        client.is_mute = true;
        client.wants_write = interest.write;
    }

    /// Whether a client waits for an answer.
    fn is_asking(&self, key: u64) -> bool {
        self.clients.queries.values().any(|(client, _)| *client == key)
            || self.unanswered.iter().any(|waiting| waiting.client == key)
    }

    // tidy: dispatch
    fn request(&mut self, key: u64, request: Request) {
        let now = self.clock.now();
        if let Some(refusal) = self.refusal(key, &request) {
            return self.reply(key, &refusal);
        }
        match request {
            Request::Info => self.reply(key, &Reply::Info(self.info())),
            Request::Hosts => {
                self.node.ask_hosts(now);
                self.reply(key, &Reply::Hosts(self.hosts()));
            }
            Request::Tasks { tag, host } => {
                let query = self.node.list(now, host, &mut self.memory);
                self.clients.queries.insert(query, (key, tag));
            }
            Request::Spawn { tag, host, spec } => self.spawn(now, key, tag, host, spec),
            Request::Kill { tag, signal } => {
                if let Some(id) = self.spawned(key, tag) {
                    self.node.kill(now, id, signal, &mut self.memory);
                }
            }
            Request::Input { tag, bytes, end } => {
                if let Some(id) = self.spawned(key, tag) {
                    self.node.input(now, id, bytes, end, &mut self.memory);
                }
            }
            Request::Credit { tag, bytes } => {
                if let Some(id) = self.spawned(key, tag) {
                    self.node.credit(now, id, bytes, &mut self.memory);
                }
            }
            Request::Invite { ttl_s, uses } => self.invite(key, ttl_s, uses),
            Request::Tokens => self.reply(key, &self.tokens()),
            Request::Revoke { id } => self.revoke(key, &id),
            Request::Delete { host } => {
                let deleted = self.node.delete_host(now, key, host, &mut self.memory);
                self.asked_for(key, deleted);
            }
            Request::Drain { host, on } => {
                let asked = self.node.drain_host(now, key, host, on, &mut self.memory);
                self.asked_for(key, asked);
            }
            Request::Voters => self.reply(key, &Reply::Voters(self.node.voters_seen(now))),
            Request::Unheard => self.reply(key, &Reply::Unheard(self.node.unheard())),
            Request::Explain { from, to } => {
                let told = self.explain(from, to);
                self.reply(key, &told);
            }
            Request::Loads { after } => {
                let loads = self.loads(after);
                self.reply(key, &loads);
            }
            Request::Networks { after } => {
                let (networks, more) = self.node.networks(after, LOADS_MAX);
                self.reply(key, &Reply::Networks { networks, more });
            }
            Request::SetNetwork { topology } => self.set_network(key, topology),
            Request::Promises { after } => self.reply(key, &self.promises(after)),
            Request::Observe { host, every_ms } => self.observe(key, host, every_ms),
            Request::Watch => self.watch(now, key),
            Request::Shutdown => {
                log!("told to end");
                self.ending = true;
                self.keeping.is_over = true;
                self.reply(key, &Reply::Done);
            }
        }
    }

    /// Whether a change of the host table is asked for; what comes of it is said then.
    fn asked_for(&mut self, key: u64, asked: Result<(), DeleteError>) {
        if asked.is_err() {
            self.table_changed(key, asked);
        }
    }

    /// The log has decided about a change of the host table, or has not.
    pub(super) fn table_changed(&mut self, client: u64, outcome: Result<(), DeleteError>) {
        let reply = outcome.map_or_else(|e| Reply::Failed(e.to_string()), |()| Reply::Done);
        self.reply(client, &reply);
    }

    /// A client hears of hosts from now on, of silent ones at once.
    fn watch(&mut self, now: Instant, key: u64) {
        if let Some(c) = self.clients.all.get_mut(&key) {
            c.watches = true;
        }
        self.node.watch_hosts(now, true, &mut self.memory);
        let silent: Vec<HostId> = self.node.silent().collect();
        for host in silent {
            self.reply(key, &Reply::HostEvent(HostEvent::Silent(host)));
        }
    }

    fn info(&self) -> Info {
        Info {
            version: crate::VERSION.into(),
            vm: self.vm.clone(),
            me: self.node.me(),
            leader: self.node.leader(),
            voters: self.node.may_lead(),
            silent: self.node.silent().collect(),
            frozen: self.node.is_frozen(),
            pid: std::process::id(),
            trouble: self.trouble(),
            counters: self.counters(),
        }
    }

    /// What somebody has to look after.
    fn trouble(&self) -> Vec<String> {
        let refused = self.node.leader().zip(self.node.refused());
        let refused = refused.map(|(leader, why)| refuses(leader, why));
        let hint = "hint: make room on its disk; it goes on trying";
        let not_kept = self.keeping.keeper.iter().flat_map(Keeper::troubles);
        let not_kept = not_kept.map(|trouble| format!("{trouble}\n{hint}"));
        let alone = !self.node.is_one_of_several();
        let ledger = self.keeping.keeper.iter().filter_map(|keeper| keeper.ledger.as_ref());
        let ledger = ledger.filter_map(|ledger| ledger.trouble(alone));
        refused.into_iter().chain(not_kept).chain(ledger).collect()
    }

    /// Why an extra client may not ask for this.
    fn refusal(&self, key: u64, request: &Request) -> Option<Reply> {
        if !self.clients.all.get(&key)?.is_extra {
            return None;
        }
        let why = || crowded(CLIENTS_MAX);
        match request {
            Request::Spawn { tag, .. } => {
                let event = TaskEvent::Ended(TaskExit::without_run(Ending::Refused(why())));
                Some(Reply::Task { tag: *tag, event })
            }
            Request::Watch => Some(Reply::Failed(why())),
            _ => None,
        }
    }

    fn explain(&mut self, from: TaskId, to: TaskId) -> Reply {
        let mut accounts = self.accounts(from).into_iter().flatten();
        let account = accounts.find(|account| account.peer == Some(to));
        Reply::Explained { way: self.node.explain(from, to), account }
    }

    fn loads(&mut self, after: Option<TaskId>) -> Reply {
        let (tasks, more) = self.node.loads(after, LOADS_MAX);
        let ways = |task: TaskId| Some((task, Ways::of(task.host(), &self.accounts(task)?)));
        let ways = tasks.iter().map(|load| load.task).filter_map(ways).collect();
        Reply::Loads { tasks, ways, more }
    }

    /// What a task of this host says in its shared memory of its direct routes.
    fn accounts(&mut self, task: TaskId) -> Option<Vec<Account>> {
        let (_, conversation) = self.conversations.of(task)?;
        let lines = read_ledger(&conversation.place.as_ref()?.segment).ok()?;
        let accounts = lines.iter().map(Account::from_words);
        Some(accounts.filter(|account| *account != Account::default()).collect())
    }

    /// The host table, with a leader that we lost shown as lost: nobody is left to say so in it.
    fn hosts(&self) -> Vec<Host> {
        let lost = self.node.leader().filter(|_| self.node.is_frozen());
        let mut hosts: Vec<Host> = self.node.hosts().cloned().collect();
        for host in hosts.iter_mut().filter(|h| Some(h.id) == lost) {
            host.state = HostState::Lost;
        }
        hosts
    }

    fn spawned(&self, key: u64, tag: u64) -> Option<RequestId> {
        self.clients.all.get(&key)?.spawns.get(&tag).copied()
    }

    fn spawn(&mut self, now: Instant, key: u64, tag: u64, host: HostId, spec: TaskSpec) {
        let refused = match self.spawned(key, tag) {
            Some(_) => Some(format!("tag {tag} is in use")),
            None if tag >= ADOPTED_TAGS => {
                Some(format!("tag {tag}: a client's own are below {ADOPTED_TAGS}"))
            }
            None => match self.node.spawn(now, host, spec, &mut self.memory) {
                Ok(id) => {
                    self.clients.owners.insert(id, (key, tag));
                    if let Some(c) = self.clients.all.get_mut(&key) {
                        c.spawns.insert(tag, id);
                    }
                    None
                }
                Err(SpawnError::HostLost(_)) => {
                    let event = TaskEvent::Ended(TaskExit::without_run(Ending::HostLost));
                    self.reply(key, &Reply::Task { tag, event });
                    None
                }
                Err(e) => Some(e.to_string()),
            },
        };
        if let Some(why) = refused {
            let event = TaskEvent::Ended(TaskExit::without_run(Ending::Refused(why)));
            self.reply(key, &Reply::Task { tag, event });
        }
    }

    pub(super) fn flush_clients(&mut self) {
        let mut hangups = Vec::new();
        let mute = self.clients.all.iter().filter(|(_, c)| c.is_mute && c.backlog() == 0);
        let told = mute.filter(|(key, _)| !self.is_asking(**key)).map(|(key, _)| *key);
        hangups.extend(told.map(|key| (key, Hangup::Gone)));
        for (key, c) in &mut self.clients.all {
            if c.backlog() == 0 && !c.wants_write {
                continue;
            }
            if let Err(hangup) = c.flush() {
                hangups.push((*key, hangup));
                continue;
            }
            let wants = c.backlog() > 0;
            let interest = Interest { read: !c.is_mute, write: wants };
            if wants != c.wants_write && self.poll.set_interest(&*c, *key, interest).is_ok() {
                c.wants_write = wants;
            }
        }
        for (key, hangup) in hangups {
            self.hang_up(key, &hangup);
        }
    }

    /// A client is gone: its tasks end, politely first.
    fn hang_up(&mut self, key: u64, hangup: &Hangup) {
        let Some(mut client) = self.clients.all.remove(&key) else { return };
        self.clients.observers.remove(&key);
        match hangup {
            Hangup::Gone => {}
            Hangup::OtherBuild(text) | Hangup::Malformed(text) => {
                tracing::warn!("client hung up on: {text}");
                // Which build this is.
                let _ = client.flush();
            }
            Hangup::Stuck => tracing::warn!("client hung up on: it does not read"),
        }
        let now = self.clock.now();
        for id in client.spawns.into_values() {
            self.clients.owners.remove(&id);
            self.clients.orphans.insert(id, now + GRACE);
            self.node.kill(now, id, 15, &mut self.memory);
        }
        self.clients.queries.retain(|_, (client, _)| *client != key);
        let watched = self.clients.all.values().any(|c| c.watches);
        self.node.watch_hosts(now, watched, &mut self.memory);
    }

    pub(super) fn signal_orphans(&mut self, now: Instant) {
        let due: Vec<RequestId> =
            self.clients.orphans.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in due {
            self.node.kill(now, id, 9, &mut self.memory);
            self.clients.orphans.insert(id, Instant::NEVER);
        }
    }
}
