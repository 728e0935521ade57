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
