//! Hosts, clocks, contexts.

use super::session::Library;
use crate::code::{Code, Outcome};
use crate::tid;
use crate::vm::{HostRow, MailRules};

/// `struct pvmminfo`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Minfo {
    pub(crate) len: i32,
    pub(crate) context: i32,
    pub(crate) tag: i32,
    pub(crate) wait: i32,
    pub(crate) encoding: i32,
    pub(crate) checksum: i32,
    pub(crate) source: i32,
    pub(crate) destination: i32,
}

/// Mailbox in which contexts are given out: the place of an entry is the context's number.
pub(super) const CONTEXT_CLASS: &str = "###_TOWPATH_CONTEXTS_###";
/// Contexts begin here, as on the first host of PVM.
const CONTEXT_FIRST: i32 = 0x4_0001;
/// The last one that may be given out; PVM's own come behind it.
const CONTEXT_LAST: i32 = 0x7_fff5;
/// Most hosts that may be named at once.
pub(super) const NAMES_MAX: usize = 4095;
/// Most numbers that `pvm_tickle` takes.
const TICKLE_MAX: i32 = 10;

impl Library {
    /// `pvm_config`.
    pub(crate) fn config(&self) -> Result<Vec<HostRow>, Code> {
        self.hosts_managed()?.map_or_else(|| self.hosts(), Ok)
    }

    /// The hosts, whoever manages them.
    pub(super) fn hosts(&self) -> Result<Vec<HostRow>, Code> {
        self.enrolled(|_, vm| vm.hosts())
    }

    /// `pvm_archcode`: PVM's signature of the data formats of an architecture.
    pub(crate) fn arch_code(&self, arch: &str) -> Outcome {
        let hosts = self.config()?;
        hosts.iter().find(|row| row.arch == arch).map(|row| row.dsig).ok_or(Code::NotFound)
    }

    /// `pvm_mstat`: 0 for a host that takes part.
    pub(crate) fn host_status(&self, name: &str) -> Outcome {
        let hosts = self.hosts()?;
        // The caller's own, as where tasks are spawned.
        if name == "." {
            return Ok(0);
        }
        if hosts.iter().any(|row| row.name == name) { Ok(0) } else { Err(Code::NoHost) }
    }

    /// `pvm_addhosts`: for each a host or a code.
    pub(crate) fn add_hosts(&self, names: &[String]) -> Result<Vec<i32>, Code> {
        if names.is_empty() || names.len() > NAMES_MAX {
            return Err(Code::BadParam);
        }
        match self.add_hosts_managed(names)? {
            Some(outcomes) => Ok(outcomes),
            None => self.enrolled(|_, vm| vm.add_hosts(names)),
        }
    }

    /// `pvm_delhosts`: for each 0 or a code.
    pub(crate) fn delete_hosts(&self, names: &[String]) -> Result<Vec<i32>, Code> {
        if names.is_empty() || names.len() > NAMES_MAX {
            return Err(Code::BadParam);
        }
        if let Some(outcomes) = self.delete_hosts_managed(names)? {
            return Ok(outcomes);
        }
        self.enrolled(|_, vm| {
            let hosts = vm.hosts()?;
            let found: Vec<Option<i32>> = names
                .iter()
                .map(|name| hosts.iter().find(|row| row.name == *name).map(|row| row.tid))
                .collect();
            let tids: Vec<i32> = found.iter().flatten().copied().collect();
            let mut done =
                if tids.is_empty() { Vec::new() } else { vm.delete_hosts(&tids)? }.into_iter();
            let outcome = |host: &Option<i32>| match host {
                // The host of who asks, as PVM says it.
                Some(_) if done.as_slice().first() == Some(&Code::Denied.number()) => {
                    done.next();
                    Code::BadParam.number()
                }
                Some(_) => done.next().unwrap_or(Code::DSysErr.number()),
                None => Code::NoHost.number(),
            };
            Ok(found.iter().map(outcome).collect())
        })
    }

    /// `pvm_hostsync`: microseconds since 1970 by the clock of a host, and by how much the clock
    /// here is ahead of it.
    pub(crate) fn host_clock(&self, host: i32) -> Result<(u64, i64), Code> {
        self.enrolled(|_, vm| {
            let host = tid::host_of(host);
            if host == 0 {
                return Err(Code::NoHost);
            }
            let before = now_micros();
            let there = vm.clock(host)?;
            // The answer is taken to be of the middle between question and answer.
            let here = before + now_micros().saturating_sub(before) / 2;
            Ok((there, here.cast_signed() - there.cast_signed()))
        })
    }

    /// `pvm_halt`.
    pub(crate) fn halt(&self) -> Outcome {
        self.enrolled(|_, vm| vm.halt().map(|()| 0))
    }

    /// `pvm_tickle`: talks to the insides of PVM's daemon, of which there are none here. Gives
    /// how many numbers are answered.
    pub(crate) fn tickle(&self, numbers: i32) -> Outcome {
        self.my_tid()?;
        if (1..=TICKLE_MAX).contains(&numbers) { Ok(0) } else { Err(Code::BadParam) }
    }

    /// `pvm_newcontext`.
    pub(crate) fn new_context(&self) -> Outcome {
        self.enrolled(|_, vm| {
            let rules = MailRules { persistent: true, many: true, overwritable: true };
            let place = vm.mail_put(CONTEXT_CLASS, 0, rules, Vec::new())?;
            let context = CONTEXT_FIRST.saturating_add(place);
            if context > CONTEXT_LAST {
                vm.mail_delete(CONTEXT_CLASS, place)?;
                return Err(Code::OutOfRes);
            }
            Ok(context)
        })
    }

    /// `pvm_freecontext`. In PVM, freeing 0 gives a new one.
    pub(crate) fn free_context(&self, context: i32) -> Outcome {
        if context == 0 {
            return self.new_context();
        }
        if !(CONTEXT_FIRST..=CONTEXT_LAST).contains(&context) {
            return Err(Code::NotFound);
        }
        self.enrolled(|_, vm| vm.mail_delete(CONTEXT_CLASS, context - CONTEXT_FIRST).map(|()| 0))
    }

    /// `pvm_start_pvmd`: there is a virtual machine already, or none can be started from here.
    pub(crate) fn start_daemon(&self, args: &[String]) -> Outcome {
        if self.with(|session| session.vm.is_some()) {
            return Err(Code::DupHost);
        }
        crate::vm::start(args)
    }
}

fn now_micros() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_micros() as u64)
}
