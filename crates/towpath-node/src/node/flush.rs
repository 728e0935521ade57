//! What waits for peers is handed to the transport.

use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{Memory, SendError};
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::lanes::{Purpose, Waiting};
use crate::peers::{Contact, RETRY_EVERY};

impl Node {
    /// Sends what waits for connected peers.
    pub(crate) fn flush(&mut self, now: Instant, memory: &mut dyn Memory) {
        self.tell_leader(now);
        let room = core::mem::take(&mut self.peers.looked_at);
        let mut dirty = core::mem::replace(&mut self.peers.dirty, room);
        let mut at = 0;
        while let Some(host) = dirty.nth(at) {
            self.settle_watch(now, host);
            self.flush_to(now, host, memory);
            at += 1;
        }
        dirty.clear();
        self.peers.looked_at = dirty;
    }

    /// Sends what waits for one of them.
    fn flush_to(&mut self, now: Instant, host: HostId, memory: &mut dyn Memory) {
        let Some(peer) = self.peers.by_host.get_mut(&host) else { return };
        let Contact::Up(id) = peer.contact else { return };
        let Some(conn) = self.peers.conns.get_mut(&id) else { return };
        let too_long = &mut self.peers.too_long;
        let mut stalled = conn.say_along(now, id, &mut self.endpoint, too_long, memory);
        let mut dropped = Vec::new();
        for purpose in Purpose::ALL {
            if conn.greets && purpose != Purpose::Log {
                break;
            }
            let Some(channel) = conn.lanes.channel(purpose) else { continue };
            while let Some(waiting) = peer.outbox.first(purpose) {
                let own = if let Waiting::Bytes(bytes) = waiting { Some(bytes) } else { None };
                let put =
                    |bytes: &Vec<u8>| memory.put(bytes).map(|block| (block, bytes.len() as u32));
                let placed = waiting.block().or_else(|| own.and_then(put));
                let Some((block, len)) = placed else {
                    stalled = true;
                    break;
                };
                let own = own.is_some();
                match self.endpoint.send(id, channel, block, len) {
                    Ok(number) => conn.lanes.sent(purpose, number, now),
                    Err(why) => {
                        if own {
                            memory.release(block);
                        }
                        if !matches!(why, SendError::TooLong { .. }) {
                            break;
                        }
                        // Whatever the peer's room, what is behind it goes on.
                        self.peers.too_long += 1;
                        dropped.extend(peer.outbox.pop(purpose));
                        continue;
                    }
                }
                if purpose.is_data() {
                    if own {
                        self.data.hold_outgoing(len);
                    }
                    conn.in_flight += u64::from(len) + BLOCK_COST;
                }
                conn.lanes.departs(purpose, waiting);
                if let Some(Waiting::Bytes(bytes)) = peer.outbox.pop(purpose) {
                    self.peers.buffers.keep(bytes);
                }
            }
        }
        // No memory: it comes back with the next `Sent` of any channel, or by the clock.
        if stalled {
            self.peers.dirty.insert(host);
            self.peers.retries.insert((now + RETRY_EVERY, host));
        }
        self.drop_waiting(now, host, dropped);
    }
}
