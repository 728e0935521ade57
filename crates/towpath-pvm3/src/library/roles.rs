//! Tasks that do a part of the system's work: resource manager, hoster, tasker, tracer.
//!
//! A task that registers stands in the mailbox of its role, as in PVM, and other programs find it
//! there. Nothing is asked of it: Towpath's daemons start hosts and tasks themselves.

use super::session::Library;
use crate::code::{Code, Outcome};
use crate::vm::MailRules;

/// A role, by the mailbox of those who play it.
pub(crate) const MANAGER: &str = "###_PVM_RM_###";
pub(crate) const HOSTER: &str = "###_PVM_HOSTER_###";
pub(crate) const TASKER: &str = "###_PVM_TASKER_###";
pub(crate) const TRACER: &str = "###_PVM_TRACER_###";

impl Library {
    /// Registers this task, or, if it is registered, ends that. `ints` stand behind its number.
    pub(crate) fn toggle_role(&self, role: &'static str, ints: &[i32], many: bool) -> Outcome {
        self.enrolled(|session, vm| {
            if let Some(place) = session.roles.remove(role) {
                vm.mail_delete(role, place)?;
                return Ok(0);
            }
            let mut content = vec![session.tid()?];
            content.extend_from_slice(ints);
            let rules = MailRules { many, ..MailRules::default() };
            let content = super::mailbox::content_of(&content)?;
            let place = vm.mail_put(role, 0, rules, content)?;
            session.roles.insert(role, place);
            Ok(0)
        })
    }

    /// `pvm_reg_rm`: again is no mistake, and changes nothing.
    pub(crate) fn become_manager(&self) -> Result<crate::vm::HostRow, Code> {
        if !self.with(|session| session.roles.contains_key(MANAGER)) {
            self.toggle_role(MANAGER, &[], true)?;
        }
        let host = crate::tid::host_of(self.my_tid()?);
        let hosts = self.hosts()?;
        hosts.into_iter().find(|row| row.tid == host).ok_or(Code::NoHost)
    }
}
