//! Groups: who is in them, and barriers.
//!
//! PVM has a server task for them; here the virtual machine's leader keeps them. A group that a
//! task has frozen is remembered, and asking after it costs nothing.

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::vm::{Answer, Members, Question, Vm};

/// What stands in PVM's list of a group where a number is free: who asks for its instance gets
/// the number that the next one to join will have.
const NOBODY: i32 = -1;

impl Library {
    /// `pvm_joingroup`: the instance number, the lowest free one.
    pub(crate) fn join_group(&self, group: &str) -> Outcome {
        let group = named(group)?;
        self.enrolled(|session, vm| {
            if session.frozen.contains_key(group) { Err(Code::NotInGroup) } else { vm.join(group) }
        })
    }

    /// `pvm_lvgroup`.
    pub(crate) fn leave_group(&self, group: &str) -> Outcome {
        let group = named(group)?;
        self.enrolled(|session, vm| {
            vm.leave_group(group)?;
            session.frozen.remove(group);
            Ok(0)
        })
    }

    /// `pvm_getinst`: the instance number of a task.
    pub(crate) fn instance(&self, group: &str, tid: i32) -> Outcome {
        let group = named(group)?;
        self.enrolled(|session, vm| {
            let members = session.members(vm, group)?;
            if tid == NOBODY {
                let free = members.iter().position(|&member| member == 0);
                return Ok(free.unwrap_or(members.len()) as i32);
            }
            let found = members.iter().position(|&member| member == tid && tid != 0);
            found.map(|instance| instance as i32).ok_or(Code::NotInGroup)
        })
    }

    /// `pvm_gettid`: the task with an instance number.
    pub(crate) fn member(&self, group: &str, instance: i32) -> Outcome {
        let group = named(group)?;
        self.enrolled(|session, vm| session.member(vm, group, instance))
    }

    /// `pvm_gsize`.
    pub(crate) fn group_size(&self, group: &str) -> Outcome {
        let group = named(group)?;
        self.enrolled(|session, vm| Ok(present(&session.members(vm, group)?).len() as i32))
    }

    /// `pvm_barrier`; −1: as many as there are members.
    pub(crate) fn barrier(&self, group: &str, count: i32) -> Outcome {
        let group = named(group)?;
        // The leader knows who is a member; asked before, each barrier would take two trips to it.
        let Ok(count) = count_of(count) else {
            self.enrolled(|session, vm| session.check_member(vm, group))?;
            return Err(Code::Mismatch);
        };
        self.ask(Question::Barrier { group, count }).map_err(of_other_count).map(|_| 0)
    }

    /// `pvm_freezegroup`.
    pub(crate) fn freeze_group(&self, group: &str, count: i32) -> Outcome {
        let group = named(group)?;
        let frozen = self.enrolled(|session, vm| {
            let frozen = session.frozen.contains_key(group);
            if frozen { Ok(true) } else { session.check_member(vm, group).map(|()| false) }
        })?;
        let count = count_of(count)?;
        if frozen {
            return Err(Code::DupGroup);
        }
        let members = match self.ask(Question::Freeze { group, count }) {
            Ok(Answer::Members(members)) => members,
            Ok(_) => return Err(Code::SysErr),
            Err(code) => return Err(of_other_count(code)),
        };
        let size = present(&members).len();
        self.with(|session| session.frozen.insert(group.to_owned(), members));
        Ok(size as i32)
    }

    /// `pvm_bcast`: to all members but the caller, which need not be one.
    pub(crate) fn broadcast(&self, group: &str, tag: i32) -> Outcome {
        let group = named(group)?;
        let others = self.enrolled(|session, vm| {
            let me = session.tid()?;
            let members = present(&session.members(vm, group)?);
            if members.is_empty() || members == [me] { Err(Code::NoInst) } else { Ok(members) }
        })?;
        self.multicast(Some(&others), tag)
    }

    /// The members that a broadcast goes to, as far as they are known.
    pub(crate) fn others(&self, group: &str) -> Vec<i32> {
        let others = self.enrolled(|session, vm| {
            let me = session.tid()?;
            let mut members = present(&session.members(vm, group)?);
            members.retain(|&member| member != me);
            Ok(members)
        });
        others.unwrap_or_default()
    }

    /// `pvm_grphostinfo`: lowest member and number of members on a host, and the number of hosts.
    pub(crate) fn group_on_host(&self, group: &str, host: i32) -> Result<(i32, i32, i32), Code> {
        let hosts = self.group_hosts(group)?;
        let found = hosts.iter().find(|(tid, _)| crate::tid::host_of(*tid) == host);
        let &(coordinator, members) = found.ok_or(Code::NoGroup)?;
        Ok((coordinator, members, hosts.len() as i32))
    }

    /// `pvm_grpvhostinfo`: lowest member and number of members, host by host.
    pub(crate) fn group_hosts(&self, group: &str) -> Result<Vec<(i32, i32)>, Code> {
        let group = named(group)?;
        let members = self.enrolled(|session, vm| session.members(vm, group))?;
        Ok(by_host(&members))
    }
}

impl Session {
    pub(super) fn members(&self, vm: &mut dyn Vm, group: &str) -> Result<Members, Code> {
        match self.frozen.get(group) {
            Some(members) => Ok(members.clone()),
            None => vm.members(group),
        }
    }

    pub(super) fn member(&self, vm: &mut dyn Vm, group: &str, instance: i32) -> Outcome {
        let members = self.members(vm, group)?;
        let index = usize::try_from(instance).map_err(|_| Code::NoInst)?;
        members.get(index).copied().filter(|&tid| tid != 0).ok_or(Code::NoInst)
    }

    fn check_member(&self, vm: &mut dyn Vm, group: &str) -> Result<(), Code> {
        let me = self.tid()?;
        if self.members(vm, group)?.contains(&me) { Ok(()) } else { Err(Code::NotInGroup) }
    }
}

/// Members of each host: the lowest and how many, by host.
pub(super) fn by_host(members: &[i32]) -> Vec<(i32, i32)> {
    let mut hosts: Vec<(i32, i32)> = Vec::new();
    for tid in members.iter().copied().filter(|&tid| tid != 0) {
        match hosts.iter_mut().find(|(low, _)| crate::tid::host_of(*low ^ tid) == 0) {
            Some((low, count)) => (*low, *count) = ((*low).min(tid), *count + 1),
            None => hosts.push((tid, 1)),
        }
    }
    hosts.sort_unstable();
    hosts
}

/// Members without holes.
fn present(members: &[i32]) -> Members {
    members.iter().copied().filter(|&tid| tid != 0).collect()
}

fn named(group: &str) -> Result<&str, Code> {
    if group.is_empty() { Err(Code::NullGroup) } else { Ok(group) }
}

/// The only thing that can be bad about meeting the others is another count.
fn of_other_count(code: Code) -> Code {
    if code == Code::BadParam { Code::Mismatch } else { code }
}

/// How many are to come; −1: all. None is PVM's mismatch: one did come.
fn count_of(count: i32) -> Result<u32, Code> {
    match count {
        -1 => Ok(0),
        1.. => Ok(count.cast_unsigned()),
        _ => Err(Code::Mismatch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_host_by_host() {
        let members = [0x8_0002, 0, 0x4_0007, 0x4_0003, 0x8_0009];
        assert_eq!(by_host(&members), [(0x4_0003, 2), (0x8_0002, 2)]);
        assert_eq!(by_host(&[]), []);
    }

    #[test]
    fn counts() {
        assert_eq!(count_of(-1), Ok(0));
        assert_eq!(count_of(4), Ok(4));
        assert_eq!(count_of(0), Err(Code::Mismatch));
        assert_eq!(count_of(-2), Err(Code::Mismatch));
    }
}
