//! Where tasks are to run, among the hosts that are there.

use towpath_task as towpath;
use towpath_task::HostState;

use super::contract::Place;
use super::names;
use super::shapes::asked;
use super::towpath::Member;
use crate::code::Code;

impl Member {
    /// Where tasks are to start, as the task layer says it; `None`: there is no such place.
    pub(super) fn place(&mut self, place: &Place) -> Result<Option<towpath::Place>, Code> {
        let hosts = match place {
            Place::Any | Place::Here | Place::On(_) => Vec::new(),
            _ => asked(self.layer().hosts())?,
        };
        let up = || hosts.iter().filter(|host| host.state == HostState::Up);
        Ok(match place {
            Place::Any => Some(towpath::Place::Any),
            Place::Here => Some(towpath::Place::Host(self.layer().host())),
            Place::On(tid) => self.host(*tid)?.map(towpath::Place::Host),
            Place::Named(name) => {
                up().find(|host| host.name == *name).map(|host| towpath::Place::Host(host.id))
            }
            Place::Arch(arch) => {
                let arch = names::from_pvm(arch);
                up().find(|host| host.arch == arch).map(|_| towpath::Place::Arch(arch.to_owned()))
            }
            Place::NotNamed(name) => match up().find(|host| host.name == *name) {
                Some(host) => Some(towpath::Place::Not(host.id)),
                None => Some(towpath::Place::Any),
            },
            Place::NotArch(arch) => {
                let arch = names::from_pvm(arch);
                up().find(|host| host.arch != arch).map(|host| towpath::Place::Host(host.id))
            }
        })
    }
}
