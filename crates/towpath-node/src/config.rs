//! What a host is started with.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use towpath_proto::{Config, Crypto, HostKey, Psk};
use towpath_wire::Admission;

use crate::links::Links;

/// Facts about this host.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name for people.
    pub name: String,
    /// Where this host's daemon receives.
    pub links: Links,
    /// Which build runs it: hosts understand those of the same one. At most 64 bytes.
    pub build: String,
    /// What programs it can run, as `x86_64-linux`.
    pub arch: String,
    /// How fast it is beside others; 1000 unless said otherwise.
    pub speed: u32,
    /// Processors.
    pub cpus: u16,
    /// Jobs at once, of those that wait for their turn.
    pub slots: u16,
    /// Wall-clock time at instant zero, in microseconds since the Unix epoch.
    pub unix_us_at_zero: u64,
    /// Its links are paced: its tasks get no streams of their own to other hosts, since these would
    /// go past the links' egress.
    pub paced: bool,
    /// How many hosts keep the log of changes, and may come to lead, at most: one, three or five.
    /// The founder's counts for all.
    pub voters: u8,
    /// The owner has a disk: while this host [keeps](crate::Node::keeps) what a founder keeps, it
    /// brings [`crate::Node::saved`] there, and says so with [`crate::Node::kept`]; and what it is
    /// [to write](crate::Node::to_write).
    pub keeps_table: bool,
    /// Drawn anew by each daemon that is started: two with one key are told apart by it. 0: not
    /// said.
    pub life: u64,
    /// Transport options.
    pub proto: Config,
}

/// What a token holds, issued by the host that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// When it ends, in seconds since the Unix epoch by the issuer's clock.
    pub expiry_unix_s: u64,
    /// Distinguishes tokens of one second.
    pub nonce: [u8; 16],
    /// The pre-shared key that it stands for.
    pub psk: Psk,
}

/// Where and how to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinTarget {
    /// The address of the host that issued the token, and led then.
    pub addr: SocketAddr,
    /// Its static key.
    pub key: HostKey,
    /// Others that might come to lead when it was issued: they are asked one after the other where
    /// that one does not answer, or does not lead any more.
    pub others: Vec<(SocketAddr, HostKey)>,
    /// The token.
    pub invitation: Invitation,
}

impl Invitation {
    /// The ground of admission that the token gives.
    pub const fn admission(&self) -> Admission {
        Admission::Token { expiry_unix_s: self.expiry_unix_s, nonce: self.nonce }
    }
}

/// The pre-shared key of a token: one-way from the secret that was drawn for it, or from the VM key
/// where a host that comes back makes one for itself.
pub fn token_psk(
    crypto: &dyn Crypto,
    secret: &[u8; 32],
    expiry_unix_s: u64,
    nonce: &[u8; 16],
) -> Psk {
    let mut label = [0; 29];
    label[..5].copy_from_slice(b"token");
    label[5..13].copy_from_slice(&expiry_unix_s.to_le_bytes());
    label[13..].copy_from_slice(nonce);
    Psk(crypto.derive(secret, &label))
}

/// Has a token's number show those that hold the VM key that it is of their virtual machine.
pub fn mark(crypto: &dyn Crypto, vm_key: &[u8; 32], nonce: &mut [u8; 16]) {
    let mut label = *b"marknnnnnnnn";
    label[4..].copy_from_slice(&nonce[..8]);
    nonce[8..].copy_from_slice(&crypto.derive(vm_key, &label)[..8]);
}

/// Whether a token is of the virtual machine of this key, see [`mark`].
pub fn is_marked(crypto: &dyn Crypto, vm_key: &[u8; 32], nonce: &[u8; 16]) -> bool {
    let mut marked = *nonce;
    mark(crypto, vm_key, &mut marked);
    marked == *nonce
}

/// Reason numbers of closed associations.
pub mod reason {
    /// The host leaves the virtual machine.
    pub const LEFT: u16 = 256;
    /// A newer connection to the same host took its place.
    pub const REPLACED: u16 = 257;
    /// The host was declared lost; it may rejoin.
    pub const FENCED: u16 = 258;
    /// The host was deleted, or its daemon was told to end.
    pub const SHUTDOWN: u16 = 259;
    /// The peer does not take its messages.
    pub const STUCK: u16 = 260;
    /// The token does not admit anybody any more.
    pub const TOKEN: u16 = 261;
    /// All host slots are taken.
    pub const FULL: u16 = 262;
    /// The leader leads no longer: it could not decide on the newcomer.
    pub const UNDECIDED: u16 = 263;
    /// The peer breaks the rules: it sent more than it was granted.
    pub const FAULTY: u16 = 264;
    /// Of a channel: nobody here serves its label.
    pub const UNSERVED: u16 = 265;
    /// The peer says something that this host does not know, and must not pass over.
    pub const KIND: u16 = 266;
    /// The peer has ended: it was killed, or is a founder that comes back. Nobody asks about it.
    pub const ENDED: u16 = 267;
}

/// Codes of authenticated refusals.
pub mod refusal {
    /// The token's time is over.
    pub const EXPIRED: u16 = 1;
    /// This host cannot admit anybody: only the leader can.
    pub const NOT_LEADER: u16 = 2;
    /// The same as [`NOT_LEADER`], to a newcomer with a token, by one that may lead and knows who
    /// does: the text says where that is, and by which key (`towpath_node`'s `joining` module).
    pub const REFERRED: u16 = 15;
    /// The key does not stand in the host table (yet).
    pub const NOT_MEMBER: u16 = 3;
    /// The host was declared lost: it must rejoin.
    pub const FENCED: u16 = 4;
    /// All slots are taken.
    pub const FULL: u16 = 5;
    /// The hello does not decode.
    pub const MALFORMED: u16 = 6;
    /// A host cannot join itself.
    pub const SELF: u16 = 7;
    /// The founder has just started again, and asks its members first.
    pub const RECOVERING: u16 = 8;
    /// The host is a member still: it need not join again.
    pub const STANDS: u16 = 9;
    /// The two hosts run different builds.
    pub const BUILD: u16 = 10;
    /// The token was revoked, or is not one of this founder's.
    pub const REVOKED: u16 = 11;
    /// The token has admitted as many hosts as it was good for.
    pub const USED: u16 = 12;
    /// The hello says something that this host does not know, and must not pass over.
    pub const KIND: u16 = 13;
    /// This host kept the log, and starts again: the text says how far what it kept goes
    /// (`towpath_node`'s `joining` module).
    pub const RETURNING: u16 = 16;
    /// A daemon with this host's key runs elsewhere, and answers.
    pub const COPIED: u16 = 17;
    /// That a host's engine has ended is known now: nobody has to be let in for that.
    pub const NOTED: u16 = 14;
}
