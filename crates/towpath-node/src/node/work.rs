//! Tasks and requests across hosts: which message leads to what.

use alloc::vec::Vec;

use towpath_vm::message::{Entries, Exited, Kill, Started, TaskList};
use towpath_vm::tasks::{ADOPTED_MAX, QUEUED_MAX, RUNNING_MAX};
use towpath_vm::{Ending, Message, TaskInfo};
use towpath_wire::{HostId, Instant};

use super::Node;
use super::question::parts_of;

const SIGKILL: i32 = 9;
/// Tasks that one host has at most.
pub(crate) const TASKS_MAX: usize = RUNNING_MAX + QUEUED_MAX + ADOPTED_MAX;

impl Node {
    /// A message from `from` (which may be ourselves).
    // tidy: dispatch
    pub(crate) fn handle_message(&mut self, now: Instant, from: HostId, message: Message) {
        match message {
            // The latter three are heard where it is known on which connection they came.
            Message::Welcome(_)
            | Message::ChannelAsk(_)
            | Message::ChannelAnswer(_)
            | Message::ChannelWithdrawn(_) => self.malformed += 1,
            Message::Entries(Entries { entries }) => {
                for entry in &entries {
                    self.handle_entry(now, from, entry);
                }
            }
            Message::Spawn(spawn) => self.handle_spawn(now, from, spawn),
            Message::Kill(k) => {
                if let Some(tasks) = &mut self.tasks {
                    tasks.kill(now, from, k.request, k.signal);
                }
            }
            Message::Credit(c) => {
                if let Some(tasks) = &mut self.tasks {
                    tasks.credit(from, c.request, c.bytes);
                }
            }
            Message::Input(input) => {
                if let Some(tasks) = &mut self.tasks {
                    tasks.input(from, input);
                }
            }
            Message::InputTaken(c) => {
                let event = self.requests.input_taken(from, c.request, c.bytes);
                self.report(now, c.request, event);
            }
            Message::Started(Started { request, task, pid }) => {
                let event = self.requests.started(from, request, task, pid);
                if event.is_none() {
                    // It was given up with a connection before it was even sent: nobody else ends
                    // it, or tells it who its siblings are.
                    let kill = Kill { request, signal: SIGKILL };
                    self.tell(now, from, Message::Kill(kill));
                }
                self.report(now, request, event);
            }
            Message::Output(o) => {
                let request = o.request;
                let [output, end] = self.requests.output(from, request, o.stream, o.bytes);
                let output = output.and_then(|o| self.catch_output(now, request, o));
                self.report(now, request, output);
                self.report(now, request, end);
            }
            Message::Exited(e) => {
                let (request, mut exited) = (e.request, Exited { ..e });
                exited.exit.ending.cut();
                let event = self.requests.exited(from, exited);
                self.report(now, request, event);
            }
            Message::Watch(watch) => self.handle_watch(from, watch.on),
            Message::List(list) => self.handle_list(now, from, list.request),
            Message::Tasks(list) => self.handle_tasks(from, list),
            Message::Accepted(accepted) => self.handle_accepted(now, from, &accepted),
            Message::Siblings(siblings) => self.handle_siblings(now, from, &siblings),
            Message::SpawnFor(ask) => self.handle_spawn_for(now, from, ask),
            Message::Asked(asked) => self.handle_asked(now, from, asked),
            Message::Answered(answered) => self.handle_answered(now, from, answered),
            Message::AnsweredAll(all) => self.handle_answered_all(now, from, all),
            Message::TaskCredit(credit) => self.handle_task_credit(from, credit),
            Message::Blocked(blocked) => self.handle_blocked(now, from, blocked),
            Message::AskFirst(ask) => self.handle_ask_first(from, ask.on),
            Message::Unreachable(u) => self.handle_unreachable(now, from, u.host),
            Message::Reached(u) => self.handle_reached(now, from, u.host),
            Message::Unheard(u) => self.handle_unheard(from, u.host),
            Message::Reach(u) => self.handle_reach(now, from, u.host),
            Message::Report(report) => self.handle_report(now, from, report),
            Message::Resumed(resumed) => self.handle_resumed(now, from, resumed),
            Message::WatchTask(watch) => self.handle_watch_task(now, from, watch),
            Message::TaskEnded(ended) => self.handle_task_ended(now, from, ended),
            Message::Parted(parted) => self.handle_parted(from, parted),
            Message::TaskOver(over) => self.registry_task_over(now, from, over.task),
            Message::StreamAsk(ask) => self.handle_stream_ask(now, from, &ask),
            Message::StreamAt(at) => self.handle_stream_at(from, at),
            Message::Caught(caught) => self.handle_caught(from, caught),
            Message::CaughtCredit(credit) => self.handle_caught_credit(now, from, credit),
            Message::Halt(_) => self.handle_halt(from),
            Message::Relay(relay) => self.handle_relay(now, from, relay),
            Message::RelayReady(_) => self.handle_relay_ready(from),
            Message::Relayed(numbers) => self.handle_relayed(now, from, &numbers),
            Message::Unrelayed(numbers) => self.handle_unrelayed(from, &numbers),
            Message::Promise(promise) => self.handle_promise(now, from, promise),
            Message::Promised(promised) => self.handle_promised(now, from, promised),
            Message::Again(again) => self.handle_again(now, from, again),
            Message::SayHolds(say) => self.handle_say_holds(now, from, say),
            Message::Release(release) => self.handle_release(now, from, release),
            Message::Holds(holds) => self.handle_holds(now, from, holds),
            Message::Outnumbered(said) => self.handle_outnumbered(now, from, &said),
            Message::Keep(keep) => self.handle_keep(now, from, &keep),
            Message::Ends(ends) => self.handle_parting(now, from, ends),
            Message::MayEnd(_) => self.handle_may_end(from),
            Message::Confirm(asked) => self.handle_confirm(now, from, asked.number),
            Message::Confirmed(said) => self.handle_confirmed(now, from, said.number),
            Message::Content(content) => self.handle_content(now, from, content),
            Message::Contents(said) => self.handle_contents(now, from, said),
            Message::Consensus(said) => self.handle_consensus(now, from, &said, false),
        }
    }

    fn handle_list(&mut self, now: Instant, from: HostId, request: u64) {
        let (first, last) = parts_of(self.infos(now));
        for (tasks, more) in first.into_iter().map(|t| (t, true)).chain([(last, false)]) {
            self.tell(now, from, Message::Tasks(TaskList { request, tasks, more }));
        }
    }

    fn handle_tasks(&mut self, from: HostId, mut list: TaskList) {
        let query = self.local.questions.queries.get_mut(&list.request);
        let Some(query) = query.filter(|q| q.host == from) else { return };
        list.tasks.iter_mut().for_each(TaskInfo::cut);
        query.tasks.append(&mut list.tasks);
        if query.tasks.len() > TASKS_MAX {
            self.malformed += 1;
            self.query_done(list.request, Some("it told of more tasks than a host can have"));
        } else if !list.more {
            self.query_done(list.request, None);
        }
    }

    /// Whatever runs here for `host` ends, and whatever we wait for from it has ended.
    pub(crate) fn give_up_work(&mut self, now: Instant, host: HostId) {
        for id in self.requests.on(host) {
            let event = self.requests.fail(id, Ending::HostLost);
            self.report(now, id.0, event);
        }
        let queries = &self.local.questions.queries;
        let asked: Vec<u64> =
            queries.iter().filter(|(_, q)| q.host == host).map(|(q, _)| *q).collect();
        for query in asked {
            self.query_done(query, Some("the connection to it was lost"));
        }
        self.give_up_ties(now, host);
        self.handle_ask_first(host, false);
        self.relays_over(now, host);
        self.registry_forget_waits(now, host);
        if let Some(tasks) = &mut self.tasks {
            tasks.requester_lost(now, host);
        }
    }
}
