//! Tasks that tasks spawned: they belong to the client of the task that their job began with.
//!
//! Their output goes to that client under the tag of its own request, and they end with the
//! client. The client gives credit for what it took under a tag; what it owes to spawned tasks
//! is paid first, and the rest goes to the request itself.

use std::collections::{HashMap, VecDeque};

use towpath_vm::{RequestEvent, RequestId};
use towpath_wire::{HostId, Instant};

use super::core::Engine;
use crate::log;
use crate::protocol::Reply;

/// A client's request: the client and its tag.
type Owner = (u64, u64);

/// The tasks and what is owed to them.
#[derive(Default)]
pub(super) struct Jobs {
    /// Each request for a spawned task, and whose it is; `None`: nobody's.
    children: HashMap<RequestId, Option<Owner>>,
    /// Output that clients were given and gave no credit for yet.
    owed: HashMap<Owner, VecDeque<(RequestId, u32)>>,
}

impl Engine {
    /// A task spawned a task.
    pub(super) fn adopted(
        &mut self,
        parent: Option<RequestId>,
        id: RequestId,
        host: HostId,
        program: &[u8],
    ) {
        let owner = parent.and_then(|parent| {
            let own = self.clients.owners.get(&parent).copied();
            own.or_else(|| self.jobs.children.get(&parent).copied().flatten())
        });
        if owner.is_none() {
            log!("a task spawned {} on host {host}", String::from_utf8_lossy(program));
        }
        self.jobs.children.insert(id, owner);
    }

    /// News of a spawned task; false when it is none.
    pub(super) fn child_news(&mut self, id: RequestId, event: &RequestEvent) -> bool {
        let Some(owner) = self.jobs.children.get(&id).copied() else { return false };
        match event {
            RequestEvent::Output { bytes, .. } => {
                let len = bytes.len() as u32;
                if let Some((client, tag)) = owner.filter(|o| self.clients.all.contains_key(&o.0)) {
                    self.jobs.owed.entry((client, tag)).or_default().push_back((id, len));
                    self.reply(client, &Reply::Task { tag, event: event.clone() });
                } else {
                    let now = self.clock.now();
                    self.node.credit(now, id, len, &mut self.memory);
                }
            }
            RequestEvent::Ended(_) => {
                self.jobs.children.remove(&id);
                self.clients.orphans.remove(&id);
            }
            _ => {}
        }
        true
    }

    /// A client gives credit: what is left of it for the request itself.
    pub(super) fn pay_children(&mut self, now: Instant, owner: Owner, mut bytes: u32) -> u32 {
        let Some(owed) = self.jobs.owed.get_mut(&owner) else { return bytes };
        while let Some((id, len)) = owed.front_mut() {
            let paid = bytes.min(*len);
            bytes -= paid;
            *len -= paid;
            self.node.credit(now, *id, paid, &mut self.memory);
            if *len > 0 {
                return 0;
            }
            owed.pop_front();
        }
        self.jobs.owed.remove(&owner);
        bytes
    }

    /// A client is gone: the spawned tasks of its jobs.
    pub(super) fn children_of(&mut self, client: u64) -> Vec<RequestId> {
        let theirs = |owner: &Option<Owner>| owner.is_some_and(|(of, _)| of == client);
        let mut orphans = Vec::new();
        for (id, owner) in &mut self.jobs.children {
            if theirs(owner) {
                *owner = None;
                orphans.push(*id);
            }
        }
        for ((of, _), owed) in &self.jobs.owed {
            if *of == client {
                for (id, len) in owed {
                    self.node.credit(self.clock.now(), *id, *len, &mut self.memory);
                }
            }
        }
        self.jobs.owed.retain(|(of, _), _| *of != client);
        orphans
    }
}
