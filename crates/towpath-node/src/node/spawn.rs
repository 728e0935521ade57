//! Tasks that tasks spawn, by way of the host that their job began on: it chooses the hosts, and
//! it is where output and ends come together.

use alloc::vec::Vec;

use towpath_vm::catching::OUTPUT_WINDOW;
use towpath_vm::members::Origin;
use towpath_vm::message::{
    Accepted, Caught, CaughtCredit, Credit, Family, Siblings, Spawn, SpawnFor, WatchTask,
};
use towpath_vm::place::choose;
use towpath_vm::requests::REQUESTS_MAX;
use towpath_vm::spawning::Spawned;
use towpath_vm::talk::{Answer, Fault, SPAWN_MAX, SpawnTasks, ToTask};
use towpath_vm::{HostState, Message, RequestEvent, RequestId, Stream, TaskSpec};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use super::question::check_spawn;
use crate::event::NodeEvent;

impl Node {
    /// A task of this host wants to spawn.
    pub(crate) fn ask_spawn(
        &mut self,
        now: Instant,
        asker: TaskId,
        number: u64,
        spawn: SpawnTasks,
    ) {
        let Some(member) = self.local.members.get(asker) else { return };
        let (root, request) = member.origin.root;
        let known = self.log.as_ref().and_then(|l| l.table().get(root));
        if known.is_none_or(|h| h.state == HostState::Lost) {
            return self.answer(asker, number, Err(Fault::HostLost));
        }
        let catch = member.catches;
        self.wait_for(asker, number, root);
        let ask = SpawnFor { request, asker, number, catch, spawn };
        self.tell(now, root, Message::SpawnFor(ask));
    }

    /// A task of a job that began here wants to spawn.
    pub(crate) fn handle_spawn_for(&mut self, now: Instant, from: HostId, ask: SpawnFor) {
        let SpawnFor { request, asker, number, catch, spawn } = ask;
        if asker.host() != from {
            // Not even a refusal: it would answer another task's question.
            self.malformed += 1;
            return;
        }
        let parent = RequestId(request);
        let ours = if request == 0 {
            self.me == Some(from)
        } else {
            self.requests.host(parent) == Some(from)
        };
        if !ours {
            let fault = Fault::Bad("the job is not of this host".into());
            return self.reply(now, asker, number, Err(fault));
        }
        if let Err(fault) = check_spawn(&spawn) {
            return self.reply(now, asker, number, Err(fault));
        }
        let hosts = self.choose(now, &spawn);
        let count = spawn.count as usize;
        let set = self.jobs.spawning.begin(asker, number, count);
        if hosts.is_empty() {
            for index in 0..count {
                self.jobs.spawning.refused(set, index, Fault::NoHost);
            }
        }
        self.jobs.last_placed = hosts.last().map_or(self.jobs.last_placed, |h| h.slot());
        let job = self.requests.job(parent).unwrap_or(false);
        let catcher = if catch { Some(asker) } else { self.jobs.catching.catcher(request) };
        let family = Family {
            number: set,
            parent: (!spawn.orphan).then_some(asker),
            context: spawn.context,
            job,
        };
        let program: Vec<u8> = spawn.program.clone();
        let spec = spec(spawn);
        for (index, host) in hosts.into_iter().enumerate() {
            if let Err(fault) = self.peers.glut(host) {
                self.jobs.spawning.refused(set, index, fault);
                continue;
            }
            let window = catcher.map_or(OUTPUT_WINDOW, |by| self.jobs.catching.window(by));
            let Some(id) = self.requests.open(host, window, job) else {
                let fault = Fault::Limit { what: "requests".into(), limit: REQUESTS_MAX as u64 };
                self.jobs.spawning.refused(set, index, fault);
                continue;
            };
            self.jobs.spawning.asked(set, index, id.0, host);
            if let Some(by) = catcher
                && self.jobs.catching.catch(id.0, by, window)
            {
                self.tell(now, by.host(), Message::WatchTask(WatchTask { task: by }));
            }
            self.events.push_back(NodeEvent::Adopted {
                parent: job.then_some(parent),
                id,
                host,
                program: program.clone(),
            });
            let spec = TaskSpec { output_window: window, ..spec.clone() };
            let spawn = Spawn { request: id.0, spec, family: Some(family) };
            self.tell(now, host, Message::Spawn(spawn));
        }
    }

    fn choose(&self, now: Instant, spawn: &SpawnTasks) -> Vec<HostId> {
        let hosts = self.log.iter().flat_map(|l| l.table().up());
        let up = hosts.filter(|h| self.takes_new(h.id));
        let here = self.tasks.as_ref().map_or(0, towpath_vm::Tasks::load);
        let loads = up.map(|h| {
            let asked = self.requests.count_on(h.id) as u64;
            let known = self.jobs.loads.of(now, h.id, asked);
            (h, if self.me == Some(h.id) { asked.max(here as u64) } else { known })
        });
        choose(loads, &spawn.place, spawn.count, self.jobs.last_placed)
    }

    /// What came of spawns goes to those who asked.
    pub(crate) fn handle_spawned(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(spawned) = self.jobs.spawning.poll() {
            any = true;
            match spawned {
                Spawned::Placed { number, hosts, tasks } => {
                    for host in hosts {
                        let siblings = Siblings { number, tasks: tasks.clone() };
                        self.tell(now, host, Message::Siblings(siblings));
                    }
                }
                Spawned::Done { asker, question, results } => {
                    self.reply(now, asker, question, Ok(Answer::Spawned(results)));
                }
            }
        }
        any
    }

    /// `from` wants something run here.
    pub(crate) fn handle_spawn(&mut self, now: Instant, from: HostId, spawn: Spawn) {
        let Spawn { request, spec, family } = spawn;
        let cookie = u64::from_le_bytes(core::array::from_fn({
            let random = self.endpoint.random();
            move |i| random[i]
        }));
        let alone = family.is_some_and(|f| !f.job);
        let Some(tasks) = &mut self.tasks else { return };
        let Some(task) = tasks.spawn(now, from, request, spec, cookie, alone) else { return };
        let load = tasks.load();
        let origin = Origin {
            cookie: Some(cookie),
            parent: family.and_then(|f| f.parent),
            root: (from, request),
            context: family.map_or(0, |f| f.context),
            family: family.map(|f| f.number),
        };
        self.local.members.add(task, origin);
        self.settle_unique(now);
        if family.is_some() {
            let load = u32::try_from(load).unwrap_or(u32::MAX);
            self.tell(now, from, Message::Accepted(Accepted { request, task, load }));
        }
    }

    /// `from` has taken a request.
    pub(crate) fn handle_accepted(&mut self, now: Instant, from: HostId, accepted: &Accepted) {
        let Accepted { request, task, load } = *accepted;
        if self.requests.host(RequestId(request)) != Some(from) {
            return;
        }
        let asked = self.requests.count_on(from) as u64;
        self.jobs.loads.told(now, from, load.into(), asked);
        self.jobs.spawning.accepted(request, task);
    }

    /// `from` says who was spawned together.
    pub(crate) fn handle_siblings(&mut self, now: Instant, from: HostId, siblings: &Siblings) {
        if siblings.tasks.len() > SPAWN_MAX as usize {
            self.malformed += 1;
            return;
        }
        for task in &siblings.tasks {
            if self.me != Some(task.host()) {
                continue;
            }
            let Some(member) = self.local.members.get_mut(*task) else { continue };
            let origin = &member.origin;
            if origin.root.0 == from && origin.family == Some(siblings.number) {
                member.siblings = Some(siblings.tasks.clone());
                self.welcome(now, *task);
            }
        }
    }

    /// News of a request: some of it concerns a task here or elsewhere, the rest the owner.
    pub(crate) fn report(&mut self, now: Instant, request: u64, event: Option<RequestEvent>) {
        let Some(event) = event else { return };
        match &event {
            RequestEvent::Started { task, .. } => {
                self.jobs.started_as.insert(request, *task);
                self.jobs.spawning.started(request, *task);
            }
            RequestEvent::Ended(exit) => {
                self.jobs.spawning.ended(request, &exit.ending);
                let task = self.jobs.started_as.remove(&request);
                if let (Some(by), Some(task)) = (self.jobs.catching.catcher(request), task) {
                    self.tell_caught(now, by, task, Stream::Out, Vec::new());
                }
                self.jobs.catching.ended(request);
            }
            _ => {}
        }
        self.events.push_back(NodeEvent::Request { id: RequestId(request), event });
    }

    /// Output of a request's task: given back unless a task catches it.
    pub(crate) fn catch_output(
        &mut self,
        now: Instant,
        request: u64,
        event: RequestEvent,
    ) -> Option<RequestEvent> {
        let by = self.jobs.catching.catcher(request);
        let task = self.jobs.started_as.get(&request).copied();
        match (event, by, task) {
            (RequestEvent::Output { stream, bytes }, Some(by), Some(task)) => {
                self.jobs.catching.sent(request, bytes.len() as u32);
                self.tell_caught(now, by, task, stream, bytes);
                None
            }
            (event, ..) => Some(event),
        }
    }

    fn tell_caught(
        &mut self,
        now: Instant,
        by: TaskId,
        task: TaskId,
        stream: Stream,
        bytes: Vec<u8>,
    ) {
        let caught = Caught { by, task, stream, bytes };
        self.tell(now, by.host(), Message::Caught(caught));
    }

    /// Output that a task of this host catches.
    pub(crate) fn handle_caught(&mut self, from: HostId, caught: Caught) {
        let Caught { by, task, stream, bytes } = caught;
        if self.local.members.get(by).is_some_and(|m| m.origin.root.0 == from) {
            self.say(by, ToTask::Output { task, stream, bytes });
        }
    }

    /// A task of this host has taken output.
    pub(crate) fn pay_caught(&mut self, now: Instant, by: TaskId, bytes: u32) {
        if let Some(member) = self.local.members.get(by) {
            let root = member.origin.root.0;
            self.tell(now, root, Message::CaughtCredit(CaughtCredit { by, bytes }));
        }
    }

    /// A task of another host, or of ours, has taken output.
    pub(crate) fn handle_caught_credit(
        &mut self,
        now: Instant,
        from: HostId,
        credit: CaughtCredit,
    ) {
        if credit.by.host() == from {
            let paid = self.jobs.catching.paid(credit.by, credit.bytes);
            self.pay_back(now, paid);
        }
    }

    /// A task that may have caught output has ended.
    pub(crate) fn uncatch(&mut self, now: Instant, by: TaskId) {
        let paid = self.jobs.catching.over(by);
        self.pay_back(now, paid);
    }

    fn pay_back(&mut self, now: Instant, paid: Vec<(u64, u32)>) {
        for (request, bytes) in paid {
            if let Some(host) = self.requests.credit(RequestId(request), bytes) {
                self.tell(now, host, Message::Credit(Credit { request, bytes }));
            }
        }
    }
}

fn spec(spawn: SpawnTasks) -> TaskSpec {
    let SpawnTasks { program, args, env, cwd, unique, .. } = spawn;
    TaskSpec { program, args, env, cwd, unique, ..Default::default() }
}
