//! The initiator's half of a handshake.

use ::core::net::SocketAddr;
use ::core::time::Duration;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::packet::{Cookie, INITIATION_HEADER, Initiation, Response, TAG};
use towpath_wire::{Admission, Instant, LinkId, VersionRange};

use super::cookie::cookie_key;
use super::core::{Endpoint, SlotState};
use super::event::EndpointEvent;
use super::hello::{HELLO_MAX, Hello, PAYLOAD_MAX, Refusal};
use crate::association::{Association, Identity};
use crate::crypto::{Handshake, HostKey, Psk};
use crate::id::AssociationId;

/// First wait before an initiation is repeated; it doubles up to [`REPEAT_MAX`].
const REPEAT_MIN: Duration = Duration::from_millis(100);
const REPEAT_MAX: Duration = Duration::from_secs(1);
/// Responses that must fail to open, each to a repeated initiation, before we believe that the
/// pre-shared key is wrong: one alone could be forged.
const WRONG_KEY_AFTER: u8 = 2;

/// A request for an association.
#[derive(Clone, Debug)]
pub struct Connect<'a> {
    /// The link to use.
    pub link: LinkId,
    /// Where the peer listens.
    pub remote: SocketAddr,
    /// The peer's static key.
    pub key: HostKey,
    /// Ground for letting us in.
    pub admission: Admission,
    /// Pre-shared key that belongs to it.
    pub psk: Psk,
    /// What to tell the peer (at most [`HELLO_MAX`] bytes).
    pub hello: &'a [u8],
}

/// Why a handshake could not be started.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConnectError {
    /// The table of associations is full.
    #[error("{limit} associations exist already, the limit")]
    TableFull {
        /// The limit.
        limit: u16,
    },
    /// The hello is too long.
    #[error("hello of {len} bytes, limit {HELLO_MAX}")]
    HelloTooLong {
        /// Its length.
        len: usize,
    },
}

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// No answer: nobody there, or one who does not know the key that we hold of it.
    NoAnswer,
    /// The peer answered, but with another pre-shared key.
    WrongKey,
    /// The peer speaks other wire versions.
    Version(VersionRange),
    /// The peer said no, authentically.
    Refused(Refusal),
    /// The peer started a handshake at the same time and goes first.
    Yielded,
}

/// Invariant: `datagram` is the initiation as it goes out, every time the same but for `mac2`.
pub(super) struct Initiating {
    datagram: Vec<u8>,
    handshake: Box<dyn Handshake>,
    link: LinkId,
    remote: SocketAddr,
    pub(super) key: HostKey,
    pub(super) deadline: Instant,
    pub(super) next_at: Instant,
    interval: Duration,
    bad_responses: u8,
    /// A response was answered with a repetition already since the last timer.
    bad_since_repeat: bool,
    versions: Option<VersionRange>,
}

impl Endpoint {
    /// Starts a handshake. It ends in [`EndpointEvent::Connected`] or
    /// [`EndpointEvent::ConnectFailed`].
    pub fn connect(
        &mut self,
        now: Instant,
        connect: &Connect<'_>,
    ) -> Result<AssociationId, ConnectError> {
        let len = connect.hello.len();
        if len > HELLO_MAX {
            return Err(ConnectError::HelloTooLong { len });
        }
        let limit = self.config.associations_max;
        let id = self.reserve().ok_or(ConnectError::TableFull { limit })?;
        let mut datagram = vec![0; INITIATION_HEADER + PAYLOAD_MAX + 256];
        let versions = self.config.versions;
        Initiation::emit_header(&mut datagram, versions, &connect.admission, id.0);
        let prologue = datagram[..INITIATION_HEADER].to_vec();
        let mut handshake = self.crypto.initiate(&connect.key, &connect.psk, &prologue);
        let stamp = self.config.unix_ns_at_zero.saturating_add(now.as_nanos());
        let payload = Hello { stamp, ..self.own_hello(0, None, connect.hello) }.emit();
        let noise = handshake
            .write(&payload, &mut datagram[INITIATION_HEADER..])
            .expect("the first message fits its buffer");
        datagram.truncate(INITIATION_HEADER + noise);
        let key = self.mac1_key(&connect.key);
        let mac1 = self.crypto.mac(&key, &datagram);
        datagram.extend_from_slice(&mac1);
        datagram.extend_from_slice(&[0; TAG]);
        let initiating = Initiating {
            datagram,
            handshake,
            link: connect.link,
            remote: connect.remote,
            key: connect.key,
            deadline: now + self.config.handshakes.timeout,
            next_at: now + REPEAT_MIN,
            interval: REPEAT_MIN,
            bad_responses: 0,
            bad_since_repeat: false,
            versions: None,
        };
        self.queue(initiating.link, initiating.remote, initiating.datagram.clone());
        self.fill(id, SlotState::Initiating(Box::new(initiating)));
        Ok(id)
    }

    /// Repeats or gives up an initiation whose time has come.
    pub(super) fn repeat_initiation(&mut self, now: Instant, id: AssociationId) {
        let Some(SlotState::Initiating(i)) = self.state_mut(id) else { return };
        if i.next_at > now {
            return;
        }
        if now >= i.deadline {
            let failure = match i.versions {
                Some(range) => ConnectFailure::Version(range),
                None if i.bad_responses > 0 => ConnectFailure::WrongKey,
                None => ConnectFailure::NoAnswer,
            };
            self.fail(id, failure);
            return;
        }
        i.interval = (i.interval * 2).min(REPEAT_MAX);
        i.next_at = (now + i.interval).min(i.deadline);
        i.bad_since_repeat = false;
        let (link, remote, datagram) = (i.link, i.remote, i.datagram.clone());
        self.queue(link, remote, datagram);
    }

    pub(super) fn fail(&mut self, id: AssociationId, failure: ConnectFailure) {
        let key = match self.state_mut(id) {
            Some(SlotState::Initiating(i)) => i.key,
            _ => return,
        };
        self.free(id);
        self.events.push_back(EndpointEvent::ConnectFailed { id, key, failure });
    }

    pub(super) fn handle_cookie(&mut self, cookie: &Cookie) {
        let id = AssociationId(cookie.receiver);
        let Some(SlotState::Initiating(i)) = self.state_mut(id) else { return };
        let macs = i.datagram.len() - 2 * TAG;
        if i.datagram[macs..macs + TAG] != cookie.mac1 {
            return;
        }
        let (link, remote) = (i.link, i.remote);
        let mut datagram = ::core::mem::take(&mut i.datagram);
        let mac2 = self.crypto.mac(&cookie_key(&cookie.cookie), &datagram[..macs + TAG]);
        datagram[macs + TAG..].copy_from_slice(&mac2);
        self.queue(link, remote, datagram.clone());
        if let Some(SlotState::Initiating(i)) = self.state_mut(id) {
            i.datagram = datagram;
        }
    }

    pub(super) fn handle_versions(&mut self, receiver: u32, versions: VersionRange) {
        if let Some(SlotState::Initiating(i)) = self.state_mut(AssociationId(receiver)) {
            i.versions = Some(versions);
        }
    }

    pub(super) fn handle_response(&mut self, now: Instant, response: &Response<'_>) {
        let id = AssociationId(response.receiver);
        let mac1 = self.crypto.mac(&self.own_mac1_key, response.before_mac1);
        let Some(SlotState::Initiating(i)) = self.state_mut(id) else { return };
        if mac1 != response.mac1 {
            self.stats.forged += 1;
            return;
        }
        let mut payload = vec![0; response.noise.len()];
        let Ok(len) = i.handshake.read(response.noise, &mut payload) else {
            i.bad_responses += u8::from(!i.bad_since_repeat);
            i.bad_since_repeat = true;
            if i.bad_responses >= WRONG_KEY_AFTER {
                self.fail(id, ConnectFailure::WrongKey);
            }
            return;
        };
        payload.truncate(len);
        self.finish(now, id, response, &payload);
    }

    /// The response is authentic.
    fn finish(&mut self, now: Instant, id: AssociationId, response: &Response<'_>, payload: &[u8]) {
        let hello = match Hello::parse(payload) {
            Ok(hello) if hello.refusal.is_none() => hello,
            Ok(Hello { refusal, content, .. }) => {
                let text = alloc::string::String::from_utf8_lossy(content).into_owned();
                let refusal = Refusal { code: refusal.unwrap_or(0), text };
                self.fail(id, ConnectFailure::Refused(refusal));
                return;
            }
            Err(_) => {
                self.fail(id, ConnectFailure::Version(self.config.versions));
                return;
            }
        };
        if hello.version != response.version || !self.config.versions.contains(hello.version) {
            self.fail(id, ConnectFailure::Version(self.config.versions));
            return;
        }
        let SlotState::Initiating(i) = self.take_state(id) else { return };
        let keys = self.packet_keys(now, &i.handshake.split(), hello.trusted);
        let identity = Identity {
            id,
            initiator: true,
            peer_index: response.sender,
            peer: hello.limits(),
            keys,
        };
        let association = Association::new(now, identity, i.link, i.remote, &self.config);
        let (key, hello) = (i.key, hello.content.to_vec());
        self.fill(id, SlotState::Open(Box::new(association)));
        self.events.push_back(EndpointEvent::Connected { id, key, hello, initiator: true });
        self.touch(id);
    }
}
