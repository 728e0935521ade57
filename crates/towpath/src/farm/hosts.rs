//! The hosts of a farm by their names.

use std::collections::HashMap;

use towpath_vm::Host;
use towpath_wire::HostId;

use super::run::FarmError;

/// Which hosts may be used, and what they are called.
#[derive(Debug)]
pub(super) struct Hosts<'a> {
    /// Names or ids; none: all.
    wanted: &'a [String],
    names: HashMap<HostId, String>,
}

impl<'a> Hosts<'a> {
    pub(super) fn new(wanted: &'a [String]) -> Self {
        Self { wanted, names: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn knows(&self, id: HostId) -> bool {
        self.names.contains_key(&id)
    }

    /// Those that were what this one is now: a host that starts again keeps its slot.
    pub(super) fn replaced_by(&self, id: HostId) -> Vec<HostId> {
        self.names.keys().copied().filter(|old| old.slot() == id.slot() && *old != id).collect()
    }

    pub(super) fn name(&self, id: HostId) -> &str {
        self.names.get(&id).map_or("?", String::as_str)
    }

    /// Takes a host in; false where it is not wanted.
    pub(super) fn add(&mut self, host: Host) -> bool {
        let wanted = self.wanted.is_empty() || self.wanted.iter().any(|w| is_called(w, &host));
        if wanted {
            self.names.insert(host.id, host.name);
        }
        wanted
    }

    /// Every host asked for is there.
    pub(super) fn check(&self, up: &[Host]) -> Result<(), FarmError> {
        if up.is_empty() {
            return Err(FarmError::NoHosts);
        }
        let absent = |wanted: &&String| !up.iter().any(|host| is_called(wanted, host));
        let Some(wanted) = self.wanted.iter().find(absent) else { return Ok(()) };
        let known: Vec<&str> = up.iter().map(|h| h.name.as_str()).collect();
        Err(FarmError::UnknownHost { wanted: wanted.clone(), known: known.join(", ") })
    }
}

fn is_called(wanted: &str, host: &Host) -> bool {
    let slot = wanted.strip_prefix('h').unwrap_or(wanted);
    wanted == host.name || wanted == host.id.to_string() || slot.parse() == Ok(host.id.slot())
}

#[cfg(test)]
mod tests {
    use towpath_vm::{Fields, HostState};

    use super::*;

    fn host(slot: u16, name: &str) -> Host {
        Host {
            id: HostId::new(slot, 3).unwrap(),
            name: name.into(),
            addr: ([127, 0, 0, 1], 9).into(),
            key: [0; 32],
            arch: String::new(),
            speed: 1000,
            cpus: 1,
            slots: 1,
            state: HostState::Up,
            fields: Fields::default(),
        }
    }

    fn wanted(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hosts_go_by_their_names_their_ids_and_their_slots() {
        let node = host(4, "node");
        let id = node.id.to_string();
        for (word, is) in
            [("node", true), (&id, true), ("h4", true), ("4", true), ("nod", false), ("5", false)]
        {
            assert_eq!(is_called(word, &node), is, "{word}");
        }
    }

    #[test]
    fn only_hosts_that_are_wanted_are_taken_in() {
        let none = [];
        let mut all = Hosts::new(&none);
        assert!(all.is_empty() && !all.knows(host(1, "a").id));
        assert!(all.add(host(1, "a")) && all.add(host(2, "b")));
        assert!(!all.is_empty() && all.knows(host(2, "b").id));
        let words = wanted(&["b", "h3"]);
        let mut some = Hosts::new(&words);
        assert!(!some.add(host(1, "a")) && some.is_empty());
        assert!(some.add(host(2, "b")) && some.add(host(3, "c")));
        assert_eq!((some.name(host(2, "").id), some.name(host(1, "").id)), ("b", "?"));
        assert!(!some.knows(host(1, "a").id));
    }

    #[test]
    fn a_host_that_is_wanted_and_not_there_is_named() {
        let words = wanted(&["a", "c", "d"]);
        let hosts = Hosts::new(&words);
        assert!(matches!(hosts.check(&[]), Err(FarmError::NoHosts)));
        let up = [host(1, "a"), host(2, "b")];
        let said = hosts.check(&up).unwrap_err().to_string();
        assert!(said.starts_with("no host \"c\" is up and given work; there are: a, b"), "{said}");
        assert!(hosts.check(&[host(1, "a"), host(2, "c"), host(4, "d")]).is_ok());
        assert!(Hosts::new(&[]).check(&up).is_ok());
    }
}
