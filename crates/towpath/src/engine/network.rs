//! The engine's link: receiving in batches, sending trains, waiting for a busy socket.

use std::io;

use towpath_io::UdpLink;
use towpath_node::Node;
use towpath_proto::{Grant, HeapMemory, Machine, Transmit, TxBatch};
use towpath_wire::{Instant, LinkId};

use super::poll::Poll;
use crate::log;

/// Bytes of one train.
const TRAIN_BYTES: usize = 60 * 1024;
/// Receive batches per turn, and an eighth of the trains: bounded work per wake-up.
const BATCHES_PER_TURN: usize = 8;

/// A UDP socket and the train that it did not take.
pub(super) struct Network {
    pub(super) udp: UdpLink,
    key: u64,
    train: Vec<u8>,
    pending: Option<Transmit>,
    blocked: bool,
    pub(super) send_errors: u64,
}

impl Network {
    pub(super) fn new(udp: UdpLink, key: u64, poll: &Poll) -> io::Result<Self> {
        poll.add(&udp, key)?;
        let (train, pending) = (vec![0xff; TRAIN_BYTES], None);
        Ok(Self { udp, key, train, pending, blocked: false, send_errors: 0 })
    }

    /// Hands waiting datagrams to the node, as many as fit into a turn.
    pub(super) fn receive(
        &mut self,
        node: &mut Node,
        now: impl Fn() -> Instant,
        memory: &mut HeapMemory,
    ) -> io::Result<()> {
        for _ in 0..BATCHES_PER_TURN {
            let at = now();
            if !self.udp.receive(|rx, data| node.handle_datagram(at, rx, data, memory))? {
                break;
            }
        }
        Ok(())
    }

    /// Sends what the node has to send. True when there may be more: the turn was over first.
    pub(super) fn transmit(
        &mut self,
        node: &mut Node,
        now: impl Fn() -> Instant,
        memory: &HeapMemory,
        poll: &Poll,
    ) -> io::Result<bool> {
        for _ in 0..BATCHES_PER_TURN * 8 {
            if self.blocked {
                return Ok(false);
            }
            let transmit = if let Some(kept) = self.pending.take() {
                kept
            } else {
                let max = self.udp.train_max();
                let mut batch = TxBatch::new(&mut self.train, memory, max);
                match node.poll_transmit(now(), Grant::free(LinkId(0)), &mut batch) {
                    Some(t) => t,
                    None => return Ok(false),
                }
            };
            match self.udp.send(&transmit, &self.train) {
                Ok(true) => {}
                Ok(false) => {
                    self.pending = Some(transmit);
                    self.block(true, poll)?;
                }
                // Unreachable, too long, forbidden: lost like any other datagram.
                Err(e) => {
                    self.send_errors += 1;
                    if self.send_errors.is_power_of_two() {
                        log!("sending to {}: {e} (error {})", transmit.remote, self.send_errors);
                    }
                }
            }
        }
        Ok(true)
    }

    /// The socket takes datagrams again.
    pub(super) fn writable(&mut self, poll: &Poll) -> io::Result<()> {
        if self.blocked { self.block(false, poll) } else { Ok(()) }
    }

    fn block(&mut self, blocked: bool, poll: &Poll) -> io::Result<()> {
        self.blocked = blocked;
        poll.set_writable(&self.udp, self.key, blocked)
    }
}
