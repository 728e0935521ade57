//! The responder's half of a handshake.

use ::core::cmp::Reverse;
use ::core::net::{IpAddr, Ipv6Addr, SocketAddr};
use ::core::time::Duration;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::Instant;
use towpath_wire::packet::{
    Cookie, INITIATION_HEADER, Initiation, RESPONSE_HEADER, Response, Versions,
};

use super::core::{Endpoint, SlotState};
use super::event::EndpointEvent;
use super::hello::{HELLO_MAX, Hello, PAYLOAD_MAX, REFUSAL_TEXT_MAX, cut_text};
use super::initiate::ConnectFailure;
use crate::association::{Association, Identity, PeerLimits};
use crate::crypto::{Handshake, HostKey, Psk};
use crate::id::AssociationId;
use crate::machine::RxMeta;

/// How long a half-open association waits for the initiator's first sealed packet.
const HALF_OPEN_LIFE: Duration = Duration::from_secs(5);

/// The owner's answer to [`EndpointEvent::Incoming`].
#[derive(Clone, Debug)]
pub enum Answer<'a> {
    /// Let it in.
    Accept {
        /// Pre-shared key that belongs to its ground of admission.
        psk: Psk,
        /// What to tell it (at most [`HELLO_MAX`] bytes).
        hello: &'a [u8],
    },
    /// Keep it out, and tell it so under the same protection.
    Refuse {
        /// Pre-shared key that belongs to its ground of admission.
        psk: Psk,
        /// Why, as a number.
        code: u16,
        /// Why, for people (cut at [`REFUSAL_TEXT_MAX`] bytes).
        text: &'a str,
    },
}

/// An initiation whose first message was read, waiting for the owner's answer.
pub(super) struct Asking {
    handshake: Box<dyn Handshake>,
    key: HostKey,
    rx: RxMeta,
    peer_index: u32,
    peer: PeerLimits,
    /// The peer trusts the link.
    trusted: bool,
    version: u8,
    hello: Vec<u8>,
    mac1: [u8; 16],
}

/// Invariant: nothing sealed was received yet.
pub(super) struct HalfOpen {
    pub(super) association: Box<Association>,
    pub(super) key: HostKey,
    pub(super) hello: Vec<u8>,
    response: Vec<u8>,
    mac1: [u8; 16],
    remote: SocketAddr,
    pub(super) until: Instant,
}

/// Whoever may change the rest of an address at will counts as one.
fn network(remote: SocketAddr) -> IpAddr {
    match remote.ip() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let subnet = u128::from(v6) >> 64 << 64;
            v6.to_ipv4_mapped().map_or(IpAddr::V6(Ipv6Addr::from(subnet)), IpAddr::V4)
        }
    }
}

/// Two handshakes begin at once where one has begun no longer ago than this.
const AT_ONCE: Duration = Duration::from_millis(500);

impl Endpoint {
    pub(super) fn handle_initiation(&mut self, now: Instant, rx: RxMeta, i: &Initiation<'_>) {
        if self.crypto.mac(&self.own_mac1_key, i.before_mac1) != i.mac1 {
            self.stats.forged += 1;
            return;
        }
        let Some(version) = self.config.versions.agree(i.versions) else {
            let reply = Versions { versions: self.config.versions, receiver: i.sender };
            self.queue(rx.link, rx.remote, reply.emit().to_vec());
            return;
        };
        if self.repeat_response(rx, &i.mac1) {
            return;
        }
        // Half the places are for those who prove their address, however few ask per second.
        let crowded = self.half_open >= self.config.handshakes.half_open_max / 2;
        if self.cookies.busy(now, self.config.handshakes.per_s) || crowded {
            if !self.cookies.proves(rx.remote, i.before_mac2, &i.mac2, &*self.crypto) {
                let cookie = self.cookies.bake(now, rx.remote, &mut *self.crypto);
                let reply = Cookie { receiver: i.sender, cookie, mac1: i.mac1 };
                self.stats.cookies += 1;
                self.queue(rx.link, rx.remote, reply.emit().to_vec());
                return;
            }
            // Whoever has an address may prove it, and send the same again and again.
            let per_s = self.config.handshakes.proved_per_s;
            if !self.cookies.proved.takes(now, network(rx.remote), per_s) {
                self.stats.turned_away += 1;
                return;
            }
        }
        self.read_initiation(now, rx, i, version);
    }

    fn read_initiation(&mut self, now: Instant, rx: RxMeta, i: &Initiation<'_>, version: u8) {
        let prologue = &i.before_mac1[..INITIATION_HEADER];
        let mut handshake = self.crypto.respond(prologue);
        let mut payload = vec![0; i.noise.len()];
        let (Ok(len), Some(key)) = (handshake.read(i.noise, &mut payload), handshake.remote_key())
        else {
            self.stats.forged += 1;
            return;
        };
        let Ok(hello) = Hello::parse(&payload[..len]) else {
            self.stats.garbage += 1;
            return;
        };
        if !self.yield_to(now, &key, hello.stamp) {
            return;
        }
        if self.half_open >= self.config.handshakes.half_open_max {
            self.evict_half_open(rx.remote);
        }
        if self.half_open >= self.config.handshakes.half_open_max {
            self.stats.turned_away += 1;
            return;
        }
        let Some(id) = self.reserve() else {
            self.stats.turned_away += 1;
            return;
        };
        let (peer, trusted) = (hello.limits(), hello.trusted);
        let hello = hello.content.to_vec();
        let asking = Asking {
            handshake,
            key,
            rx,
            peer_index: i.sender,
            peer,
            trusted,
            version,
            hello: hello.clone(),
            mac1: i.mac1,
        };
        self.fill(id, SlotState::Asking(Box::new(asking)));
        let (admission, remote) = (i.admission, rx.remote);
        self.events.push_back(EndpointEvent::Incoming { id, key, admission, remote, hello });
    }

    /// Settles two handshakes at once between the same hosts: the smaller key initiates. False
    /// when ours goes on and the peer's is to be ignored. Where ours has had no answer for long, it
    /// may go where the peer was before: both go on. An initiation that is no newer than one seen
    /// before may be an old one that somebody sends again: ours goes on beside it.
    fn yield_to(&mut self, now: Instant, key: &HostKey, stamp: u64) -> bool {
        let ours = self.find(|s| matches!(s, SlotState::Initiating(i) if i.key == *key));
        let Some(id) = ours else { return true };
        let timeout = self.config.handshakes.timeout;
        let is_old = match self.state_mut(id) {
            Some(SlotState::Initiating(i)) => i.deadline <= now + timeout.saturating_sub(AT_ONCE),
            _ => false,
        };
        if self.crypto.public_key() < *key {
            // The peer, should ours reach it, yields to that.
            return is_old;
        }
        if self.stamps.note(key, stamp) {
            self.fail(id, ConnectFailure::Yielded);
        }
        true
    }

    /// Answers a repeated initiation as before; one that comes from elsewhere is somebody's copy,
    /// and gets no answer, since it would be sent to whoever he names.
    fn repeat_response(&mut self, rx: RxMeta, mac1: &[u8; 16]) -> bool {
        let known = self.find(|s| match s {
            SlotState::HalfOpen(h) => h.mac1 == *mac1,
            SlotState::Asking(a) => a.mac1 == *mac1,
            _ => false,
        });
        let Some(id) = known else { return false };
        if let Some(SlotState::HalfOpen(h)) = self.state_mut(id)
            && h.remote == rx.remote
        {
            let response = h.response.clone();
            self.queue(rx.link, rx.remote, response);
        }
        true
    }

    /// Makes room for one more from `remote`: the network that holds most places loses its oldest,
    /// unless that is the newcomer's own. So who proves an address, or a few, keeps nobody out.
    fn evict_half_open(&mut self, remote: SocketAddr) {
        let mut held: BTreeMap<IpAddr, (usize, Instant, AssociationId)> = BTreeMap::new();
        for (id, h) in self.half_open_places() {
            let of = held.entry(network(h.remote)).or_insert((0, h.until, id));
            of.0 += 1;
            if h.until < of.1 {
                (of.1, of.2) = (h.until, id);
            }
        }
        let own = held.get(&network(remote)).map_or(0, |of| of.0);
        let most = held.values().max_by_key(|(count, until, _)| (*count, Reverse(*until)));
        if let Some((_, _, id)) = most.copied().filter(|(count, ..)| *count > own) {
            self.stats.evicted += 1;
            self.free(id);
        }
    }

    /// Answers [`EndpointEvent::Incoming`]. An answer to an id that is gone does nothing.
    pub fn answer(&mut self, now: Instant, id: AssociationId, answer: &Answer<'_>) {
        if !matches!(self.state_mut(id), Some(SlotState::Asking(_))) {
            return;
        }
        let SlotState::Asking(mut asking) = self.take_state(id) else { return };
        let (psk, refusal, text) = match answer {
            Answer::Accept { psk, hello } => (psk, None, &hello[..hello.len().min(HELLO_MAX)]),
            Answer::Refuse { psk, code, text } => {
                (psk, Some(*code), cut_text(text, REFUSAL_TEXT_MAX).as_bytes())
            }
        };
        let payload = self.own_hello(asking.version, refusal, text).emit();
        let mut response = vec![0; RESPONSE_HEADER + PAYLOAD_MAX + 128];
        Response::emit_header(&mut response, asking.version, asking.peer_index, id.0);
        let written = asking
            .handshake
            .set_psk(psk)
            .and_then(|()| asking.handshake.write(&payload, &mut response[RESPONSE_HEADER..]));
        let Ok(len) = written else {
            self.free(id);
            return;
        };
        response.truncate(RESPONSE_HEADER + len);
        let mac1 = self.crypto.mac(&self.mac1_key(&asking.key), &response);
        response.extend_from_slice(&mac1);
        self.queue(asking.rx.link, asking.rx.remote, response.clone());
        if refusal.is_some() {
            self.stats.refused += 1;
            self.free(id);
        } else {
            self.keep_half_open(now, id, *asking, response);
        }
    }

    fn keep_half_open(
        &mut self,
        now: Instant,
        id: AssociationId,
        asking: Asking,
        response: Vec<u8>,
    ) {
        let keys = self.packet_keys(now, &asking.handshake.split(), asking.trusted);
        let identity = Identity {
            id,
            initiator: false,
            peer_index: asking.peer_index,
            peer: asking.peer,
            keys,
        };
        let RxMeta { link, remote, .. } = asking.rx;
        let association = Association::new(now, identity, link, remote, &self.config);
        let half_open = HalfOpen {
            association: Box::new(association),
            key: asking.key,
            hello: asking.hello,
            response,
            mac1: asking.mac1,
            remote,
            until: now + HALF_OPEN_LIFE,
        };
        self.fill(id, SlotState::HalfOpen(Box::new(half_open)));
    }
}
