//! Tasks and requests across hosts: which message leads to what.

use alloc::string::String;
use alloc::vec::Vec;

use towpath_vm::message::{Exited, Started, TaskList};
use towpath_vm::{Ending, Message, RequestEvent, RequestId};
use towpath_wire::{HostId, Instant};

use crate::event::NodeEvent;
use crate::node::Node;

impl Node {
    /// A message from `from` (which may be ourselves).
    // tidy: dispatch
    pub(crate) fn handle_message(&mut self, now: Instant, from: HostId, message: Message) {
        match message {
            Message::Welcome(_) => self.malformed += 1,
            Message::Entry(entry) => self.handle_entry(now, from, &entry),
            Message::Spawn(s) => {
                if let Some(tasks) = &mut self.tasks {
                    tasks.spawn(now, from, s.request, s.spec);
                }
            }
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
                self.report(c.request, event);
            }
            Message::Started(Started { request, task, pid }) => {
                let event = self.requests.started(from, request, task, pid);
                self.report(request, event);
            }
            Message::Output(o) => {
                for event in self.requests.output(from, o.request, o.stream, o.bytes) {
                    self.report(o.request, event);
                }
            }
            Message::Exited(e) => {
                let request = e.request;
                let event = self.requests.exited(from, Exited { ..e });
                self.report(request, event);
            }
            Message::Watch(watch) => self.handle_watch(from, watch.on),
            Message::List(list) => {
                let tasks = self.tasks_here(now);
                let request = list.request;
                self.tell(now, from, Message::Tasks(TaskList { request, tasks }));
            }
            Message::Tasks(list) => {
                if self.queries.get(&list.request) == Some(&from) {
                    self.queries.remove(&list.request);
                    let (query, tasks) = (list.request, Ok(list.tasks));
                    self.events.push_back(NodeEvent::Tasks { query, host: from, tasks });
                }
            }
        }
    }

    fn report(&mut self, request: u64, event: Option<RequestEvent>) {
        let id = RequestId(request);
        self.events.extend(event.map(|event| NodeEvent::Request { id, event }));
    }

    /// Whatever runs here for `host` ends, and whatever we wait for from it has ended.
    pub(crate) fn give_up_work(&mut self, now: Instant, host: HostId) {
        for id in self.requests.on(host) {
            let event = self.requests.fail(id, Ending::HostLost);
            self.report(id.0, event);
        }
        let asked: Vec<u64> =
            self.queries.iter().filter(|(_, h)| **h == host).map(|(q, _)| *q).collect();
        for query in asked {
            self.queries.remove(&query);
            let tasks = Err(String::from("the connection to it was lost"));
            self.events.push_back(NodeEvent::Tasks { query, host, tasks });
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.requester_lost(now, host);
        }
    }
}
