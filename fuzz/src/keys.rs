//! Stand-in cryptography that lets its packet keys be heard: what an authenticated but hostile
//! peer holds.

use std::cell::RefCell;
use std::rc::Rc;

use towpath_proto::{Crypto, Handshake, HostKey, PacketKey, Psk, Rng};
use towpath_sim::crypto::StandIn;

/// Secrets of packet keys in the order they were made: (send, receive) of each association.
pub type Heard = Rc<RefCell<Vec<[u8; 32]>>>;

/// [`StandIn`] with an ear.
pub struct Tapped {
    inner: StandIn,
    heard: Heard,
}

impl Tapped {
    /// Of host `n`; its secrets come to `heard`.
    pub fn new(n: u64, heard: Heard) -> Self {
        Self { inner: StandIn::new(Rng::new(n, 1)), heard }
    }
}

impl Crypto for Tapped {
    fn public_key(&self) -> HostKey {
        self.inner.public_key()
    }
    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake> {
        self.inner.initiate(remote, psk, prologue)
    }
    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake> {
        self.inner.respond(prologue)
    }
    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        self.heard.borrow_mut().push(*secret);
        self.inner.packet_key(secret)
    }
    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        self.inner.mac(key, data)
    }
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        self.inner.derive(secret, label)
    }
    fn random(&mut self) -> [u8; 32] {
        self.inner.random()
    }
}
