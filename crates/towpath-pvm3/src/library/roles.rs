//! Tasks that do a part of the system's work: resource manager, hoster, tasker, tracer.
//!
//! A task that registers stands in the mailbox of its role, as in PVM, and is found there by those
//! who have something to ask it. When it ends, it is found no more.

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::tid;
use crate::vm::{HostRow, MailRules, Vm};

/// A role, by the mailbox of those who play it.
pub(crate) const MANAGER: &str = "###_PVM_RM_###";
pub(crate) const HOSTER: &str = "###_PVM_HOSTER_###";
pub(crate) const TASKER: &str = "###_PVM_TASKER_###";
pub(crate) const TRACER: &str = "###_PVM_TRACER_###";

pub(super) fn rules(many: bool) -> MailRules {
    MailRules { many, ..MailRules::default() }
}

impl Library {
    /// Registers this task, or, if it is registered, ends that. `ints` stand behind its number.
    pub(crate) fn toggle_role(&self, role: &'static str, ints: &[i32], many: bool) -> Outcome {
        self.enrolled(|session, vm| {
            if let Some(place) = session.roles.remove(role) {
                vm.mail_delete(role, place)?;
                return Ok(0);
            }
            if role == HOSTER && !session.is_on_first_host(vm)? {
                return Err(Code::HostrNMstr);
            }
            let mut content = vec![session.tid()?];
            content.extend_from_slice(ints);
            let content = super::mailbox::content_of(&content)?;
            let put = vm.mail_put(role, 0, rules(many), content);
            let place =
                put.map_err(|code| if code == Code::Denied { Code::Already } else { code })?;
            // One after the other: of two who register at once, neither may be it.
            if session.has_rival(vm, role, place)? {
                vm.mail_delete(role, place)?;
                return Err(Code::Already);
            }
            session.roles.insert(role, place);
            Ok(0)
        })
    }

    /// `pvm_reg_rm`: the first host, and which task managed before: itself, when it did already,
    /// and 0 for none. One that manages is asked whether it allows another, and goes on being
    /// asked by others until it hands that over or ends.
    pub(crate) fn become_manager(&self) -> Result<(i32, HostRow), Code> {
        let me = self.my_tid()?;
        let before = if self.with(|session| session.roles.contains_key(MANAGER)) {
            me
        } else {
            let before = self.ask_to_manage()?.unwrap_or(0);
            self.toggle_role(MANAGER, &[], true)?;
            self.enrolled(|session, vm| session.watch_hosts(vm))?;
            before
        };
        let first = self.hosts()?.into_iter().min_by_key(|row| row.tid);
        Ok((before, first.ok_or(Code::NoHost)?))
    }
}

impl Session {
    fn is_on_first_host(&self, vm: &mut dyn Vm) -> Result<bool, Code> {
        let first = vm.hosts()?.iter().map(|row| row.tid).min();
        Ok(first == Some(tid::host_of(self.tid()?)))
    }

    /// Another task plays a role that only one can: of taskers, one on each host.
    fn has_rival(&self, vm: &mut dyn Vm, role: &str, own: i32) -> Result<bool, Code> {
        let here = tid::host_of(self.tid()?);
        let counts = |owner: i32| match role {
            HOSTER => true,
            TASKER => tid::host_of(owner) == here,
            _ => false,
        };
        let boxes = vm.mailboxes(role)?;
        let mut entries = boxes.iter().flat_map(|(_, entries)| entries);
        Ok(entries.any(|&(place, owner, _)| place != own && counts(owner)))
    }
}
