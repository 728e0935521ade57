//! What the owner says of the network, and what is promised there.

use towpath_vm::promises::TOPOLOGY_MAX;
use towpath_vm::talk::NOTHING_DECIDED;
use towpath_wire::HostId;

use super::core::Engine;
use crate::log::log;
use crate::protocol::{PROMISES_PART, Reply};

const LEADER_ONLY: &str = "only the daemon that leads the virtual machine decides about promises\n\
     hint: run the command on its machine; `towpath hosts` shows which that is";

impl Engine {
    /// A client says what the network is. It is answered under its own number.
    pub(super) fn set_network(&mut self, client: u64, text: String) {
        if text.len() > TOPOLOGY_MAX {
            let why = format!("a topology of {} bytes, limit {TOPOLOGY_MAX}", text.len());
            return self.reply(client, &Reply::Failed(why));
        }
        let now = self.clock.now();
        if !self.node.set_network(now, client, text, &mut self.memory) {
            let why = if self.node.has_lost_most() { NOTHING_DECIDED } else { LEADER_ONLY };
            self.reply(client, &Reply::Failed(why.into()));
        }
    }

    /// The log has decided.
    pub(super) fn network_decided(&mut self, client: u64, outcome: Result<(), String>) {
        let reply = match outcome {
            Ok(()) => {
                log!("the network for promises is another now");
                Reply::Done
            }
            Err(why) => Reply::Failed(why),
        };
        self.reply(client, &reply);
    }

    /// What the network is, and what is promised there behind that one.
    pub(super) fn promises(&self, after: Option<(HostId, u64)>) -> Reply {
        let Some(promised) = self.node.promised() else {
            return Reply::Failed(LEADER_ONLY.into());
        };
        let topology = promised.topology().filter(|_| after.is_none()).map(str::to_owned);
        let mut promises: Vec<_> = promised.after(after).take(PROMISES_PART + 1).collect();
        let more = promises.len() > PROMISES_PART;
        promises.truncate(PROMISES_PART);
        Reply::Promises { topology, promises, more }
    }
}
