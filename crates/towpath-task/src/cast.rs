//! The part of a multicast that goes through shared memory: one block that all receivers of this
//! host read.

use towpath_wire::TaskId;

use crate::direct::{Route, gather};
use crate::error::SendError;
use crate::message::Envelope;
use crate::rings::Ring;
use crate::task::Task;

impl Task {
    /// Sends to those of `to` that have a ring, the ones with room first; who is left must get
    /// it by the daemons, as when this task takes in no more before a ring has room. True: some
    /// have got it.
    pub(crate) fn cast_by_rings(
        &mut self,
        to: &mut Vec<TaskId>,
        envelope: Envelope,
        parts: &[&[u8]],
    ) -> Result<bool, SendError> {
        let mut near: Vec<TaskId> = Vec::new();
        to.retain(|task| {
            let ring = self.route(*task) == Route::Ring;
            if ring {
                near.push(*task);
            }
            !ring
        });
        if near.is_empty() {
            return Ok(false);
        }
        near.sort_by_key(|task| !self.rings.get(*task).is_some_and(Ring::has_room));
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let block = if near.len() > 1 { self.block(len) } else { None };
        let block = block.map(|mut block| {
            gather(parts, block.bytes_mut());
            block.freeze_to(len)
        });
        let mut some = false;
        for task in near {
            let sent = match &block {
                Some(block) => {
                    self.push_frozen(task, envelope, block.clone()).map(|rest| rest.is_none())
                }
                None => self.by_ring(task, envelope, parts),
            };
            match sent {
                Ok(true) => some = true,
                Err(SendError::NoTask(_)) => {}
                Ok(false) | Err(SendError::Full(_)) => to.push(task),
                Err(e) => return Err(e),
            }
        }
        Ok(some)
    }
}
