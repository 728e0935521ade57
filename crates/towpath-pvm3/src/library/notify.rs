//! `pvm_notify`: messages about ends and beginnings.
//!
//! A notice is a message of the daemon with one int, the task or host; of hosts that join it has
//! their number first.

use std::collections::{BTreeMap, VecDeque};

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::message::{Encoding, Info, Message, Received};
use crate::tid;
use crate::vm::{Vm, Watched};

const TASK_EXIT: i32 = 1;
const HOST_DELETE: i32 = 2;
const HOST_ADD: i32 = 3;
const ROUTE_ADD: i32 = 4;
const ROUTE_DELETE: i32 = 5;
/// Flag: notices of this kind and tag are to come now, once and for all.
const CANCEL: i32 = 256;

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Notice {
    kind: i32,
    about: i32,
    tag: i32,
    context: i32,
    /// How many are still to come; negative: any number.
    left: i32,
}

/// Notices that a task waits for, by watch.
#[derive(Debug)]
pub(super) struct Notices {
    awaited: BTreeMap<u64, Notice>,
    /// Messages that have not met the handlers yet.
    told: VecDeque<Message>,
}

impl Notices {
    pub(super) const fn new() -> Self {
        Self { awaited: BTreeMap::new(), told: VecDeque::new() }
    }

    /// The next message.
    pub(super) fn next_told(&mut self) -> Option<Message> {
        self.told.pop_front()
    }

    /// A message of the library's own.
    pub(super) fn push_told(&mut self, message: Message) {
        self.told.push_back(message);
    }

    /// There is one.
    pub(super) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    fn watches(&self, fits: impl Fn(&Notice) -> bool) -> Vec<u64> {
        self.awaited.iter().filter(|(_, notice)| fits(notice)).map(|(&watch, _)| watch).collect()
    }
}

impl Library {
    /// `pvm_notify`.
    pub(crate) fn notify(&self, what: i32, tag: i32, count: i32, about: &[i32]) -> Outcome {
        let (kind, cancel) = (what & !CANCEL, what & CANCEL != 0);
        if self.may_be_managed(kind, tag, count, about)? {
            let about = if kind == HOST_ADD { &[] } else { about };
            if self.notify_managed(what, tag, count, about)?.is_some() {
                return Ok(0);
            }
        }
        let outcome = self.enrolled(|session, vm| {
            if !session.options.reserved && tag < 0 {
                return Err(Code::BadParam);
            }
            match kind {
                HOST_ADD if cancel => session.cancel(vm, kind, tag, &[0]),
                HOST_ADD => session.watch_new_hosts(vm, tag, count),
                // Routes open and close unseen: whoever asks is told of no opening, and at once
                // that there is no route that could close.
                ROUTE_ADD => Ok(0),
                TASK_EXIT | HOST_DELETE | ROUTE_DELETE if count < 1 => Err(Code::BadParam),
                TASK_EXIT | ROUTE_DELETE if !about.iter().all(|&about| tid::is_task(about)) => {
                    Err(Code::BadParam)
                }
                ROUTE_DELETE => {
                    let (context, me) = (session.context, session.tid()?);
                    for &tid in about {
                        session.tell_from(me, tag, context, &[tid]);
                    }
                    Ok(0)
                }
                TASK_EXIT | HOST_DELETE if cancel => session.cancel(vm, kind, tag, about),
                TASK_EXIT => session.await_each(vm, kind, tag, about, Watched::Task),
                HOST_DELETE => session
                    .await_each(vm, kind, tag, about, |about| Watched::Host(tid::host_of(about))),
                _ => Err(Code::BadParam),
            }
        });
        // What is over already is told before anything that comes later.
        if self.with(|session| session.vm.as_deref().is_some_and(|vm| session.has_news(vm))) {
            self.take_all_in()?;
        }
        outcome
    }
}

impl Library {
    /// Notices of this kind are a manager's affair, and what is asked for makes sense.
    fn may_be_managed(&self, kind: i32, tag: i32, count: i32, about: &[i32]) -> Result<bool, Code> {
        let reserved = self.enrolled(|session, _| Ok(session.options.reserved))?;
        let fits = match kind {
            HOST_ADD => true,
            HOST_DELETE => count > 0,
            TASK_EXIT => count > 0 && about.iter().all(|&about| tid::is_task(about)),
            _ => false,
        };
        Ok(fits && (reserved || tag >= 0))
    }
}

impl Session {
    fn await_each(
        &mut self,
        vm: &mut dyn Vm,
        kind: i32,
        tag: i32,
        about: &[i32],
        watched: impl Fn(i32) -> Watched,
    ) -> Outcome {
        let context = self.context;
        for &about in about {
            let watch = vm.watch(watched(about))?;
            self.notices.awaited.insert(watch, Notice { kind, about, tag, context, left: 1 });
        }
        Ok(0)
    }

    /// `count` notices are to come; 0 ends them.
    fn watch_new_hosts(&mut self, vm: &mut dyn Vm, tag: i32, count: i32) -> Outcome {
        let context = self.context;
        let same =
            |notice: &Notice| (notice.kind, notice.tag, notice.context) == (HOST_ADD, tag, context);
        let watches = self.notices.watches(same);
        let watch = match watches.first() {
            Some(&watch) => watch,
            None if count == 0 => return Ok(0),
            None => vm.watch(Watched::NewHosts)?,
        };
        if count == 0 {
            self.notices.awaited.remove(&watch);
            vm.unwatch(watch)?;
        } else {
            let notice = Notice { kind: HOST_ADD, about: 0, tag, context, left: count };
            self.notices.awaited.insert(watch, notice);
        }
        Ok(0)
    }

    /// Ends waiting, of equal requests one: the notices come at once, but none of hosts that have
    /// not joined.
    fn cancel(&mut self, vm: &mut dyn Vm, kind: i32, tag: i32, about: &[i32]) -> Outcome {
        let context = self.context;
        for &about in about {
            let fits = |notice: &Notice| {
                (notice.kind, notice.tag, notice.context) == (kind, tag, context)
                    && (kind == HOST_ADD || notice.about == about)
            };
            let one = if kind == HOST_ADD { usize::MAX } else { 1 };
            for watch in self.notices.watches(fits).into_iter().take(one) {
                self.notices.awaited.remove(&watch);
                vm.unwatch(watch)?;
                if kind != HOST_ADD {
                    self.tell(tag, context, &[about]);
                }
            }
        }
        Ok(0)
    }

    /// What a watch was for has happened.
    pub(super) fn watched(&mut self, vm: &mut dyn Vm, watch: u64, tid: i32, status: i32) {
        if self.system_watched(vm, watch, tid, status) {
            return;
        }
        // A notice that was cancelled while its event was on the way has been told of.
        let Some(notice) = self.notices.awaited.get_mut(&watch) else { return };
        notice.left -= i32::from(notice.left > 0);
        let notice = *notice;
        if notice.left == 0 {
            self.notices.awaited.remove(&watch);
            if notice.kind == HOST_ADD {
                // That the watch stays for a moment does no harm.
                let _ = vm.unwatch(watch);
            }
        }
        match notice.kind {
            HOST_ADD => self.tell(notice.tag, notice.context, &[1, tid]),
            _ => self.tell(notice.tag, notice.context, &[notice.about]),
        }
    }

    /// A message of the daemon.
    fn tell(&mut self, tag: i32, context: i32, ints: &[i32]) {
        self.tell_from(tid::DAEMON, tag, context, ints);
    }

    fn tell_from(&mut self, source: i32, tag: i32, context: i32, ints: &[i32]) {
        let body: Vec<u8> = ints.iter().flat_map(|int| int.to_ne_bytes()).collect();
        let info =
            Info { context, tag, source, destination: self.tid().unwrap_or(-1), ..Info::default() };
        let format = Encoding::DEFAULT.format();
        let message = Message::received(format, Received::Shared(body.into()), info);
        self.notices.push_told(message);
    }
}
