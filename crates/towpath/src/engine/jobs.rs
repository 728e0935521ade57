//! Tasks that tasks spawned: to the client of the job that they belong to they are as if it had
//! asked for them itself. It takes their output and gives credit for it, can send them signals,
//! and they end when it goes away.

use towpath_vm::RequestId;
use towpath_wire::HostId;

use super::core::Engine;
use crate::protocol::{ADOPTED_TAGS, Reply};

impl Engine {
    /// A task spawned a task: `parent` is the request that it came of, if a client made it.
    pub(super) fn adopted(
        &mut self,
        parent: Option<RequestId>,
        id: RequestId,
        host: HostId,
        program: &[u8],
    ) {
        let program = String::from_utf8_lossy(program).into_owned();
        let owner = parent.and_then(|parent| self.clients.owners.get(&parent).copied());
        let client = owner.and_then(|(key, root)| Some((root, self.clients.all.get_mut(&key)?)));
        let (Some((key, _)), Some((parent, client))) = (owner, client) else {
            // Nobody takes its output: it is counted as taken as it comes.
            tracing::debug!("a task spawned {program} on host {host}, for no client");
            return;
        };
        let tag = ADOPTED_TAGS | id.0;
        client.spawns.insert(tag, id);
        client.reply(&Reply::Adopted { parent, tag, host, program });
        self.clients.owners.insert(id, (key, tag));
    }
}
