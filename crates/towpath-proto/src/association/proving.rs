//! Addresses that have yet to show that they take part in the conversation: those of new paths,
//! and those to which a path seems to have moved.
//!
//! **The agreement.** Only the initiator of an association opens paths, so that their numbers
//! cannot meet; the responder offers it the addresses at which it receives. The first packet on a
//! new path holds a challenge; whoever gets it knows it for the peer's, since it is sealed, answers
//! it, and challenges the address that it came from. A path carries nothing but that, and
//! acknowledgements, until its peer has sent back the token: sealed packets can be copied and sent
//! again from any address, and acknowledgements can be made up, so neither is a proof.
//!
//! **Nothing is reflected.** To an address that another has named by sending from it no more than
//! [`REFLECTED`] times the bytes go that came from there. To one that we dial ourselves, because
//! the peer offered it, goes one short packet at a time, ever less often.
//!
//! An authentic packet that is newer than all before it, and comes from elsewhere than its path
//! leads to, says that the peer may have moved: the new address is challenged, while everything
//! goes on to the old one until it has answered.

use ::core::net::SocketAddr;
use ::core::time::Duration;

use towpath_wire::frame::{self, PATH_TOKEN_LEN};
use towpath_wire::{Instant, LinkId, PathId};

use super::build::write_acks;
use super::core::Association;
use super::path::{Departure, Path};
use crate::machine::{Grant, PACKET_MIN, RxMeta, Transmit, TxBatch};

/// Bytes that may go to an address for each byte that came from it (RFC 9000 §8.1).
const REFLECTED: u64 = 3;
/// The next challenge follows after this share of the time since the first ...
const AGAIN_AFTER: u32 = 4;
/// ... after no less than this, ...
const AGAIN_MIN: Duration = Duration::from_millis(100);
/// ... and no more than this in the first minute, or a 60th of the time later, ...
const AGAIN_SOON: Duration = Duration::from_secs(1);
/// ... or this.
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// Answers that wait at most.
const RESPONSES_MAX: usize = 8;
/// Challenges to an address to which a path seems to have moved.
const MOVE_TRIES: u32 = 4;

/// An address that is asked whether it takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proving {
    pub(super) link: LinkId,
    pub(super) remote: SocketAddr,
    /// What has to come back; drawn by the endpoint.
    token: Option<u64>,
    /// We chose the address; else it was chosen by whoever sent from there.
    dialled: bool,
    /// Bytes that came from there.
    came: u64,
    /// Bytes that went there.
    went: u64,
    since: Instant,
    /// The last challenge left then, the only one so far.
    only: Option<Instant>,
    tries: u32,
    next: Instant,
    /// A challenge is to go out.
    due: bool,
}

impl Proving {
    pub(super) const fn new(
        now: Instant,
        link: LinkId,
        remote: SocketAddr,
        dialled: bool,
        came: u64,
    ) -> Self {
        Self {
            link,
            remote,
            token: None,
            dialled,
            came,
            went: 0,
            since: now,
            only: None,
            tries: 0,
            next: now,
            due: true,
        }
    }

    /// Bytes that may still go there.
    pub(super) const fn allowance(&self) -> u64 {
        if self.dialled { u64::MAX } else { (REFLECTED * self.came).saturating_sub(self.went) }
    }

    pub(super) const fn came(&mut self, bytes: u64) {
        self.came += bytes;
    }

    pub(super) const fn went(&mut self, bytes: u64) {
        self.went += bytes;
    }

    /// The token to send, if it is time and the address may be sent so much.
    const fn challenge(&self) -> Option<u64> {
        if self.due && self.allowance() >= PACKET_MIN as u64 { self.token } else { None }
    }

    pub(super) const fn wants_token(&self) -> bool {
        self.token.is_none()
    }

    pub(super) const fn give_token(&mut self, token: u64) {
        self.token = Some(token);
    }

    fn departs(&mut self, now: Instant) {
        self.only = (self.tries == 0).then_some(now);
        (self.tries, self.due) = (self.tries + 1, false);
        let age = now.since(self.since);
        let most = AGAIN_SOON.max(age / 60).min(AGAIN_MAX);
        self.next = now + (age / AGAIN_AFTER).clamp(AGAIN_MIN, most);
    }

    /// When to challenge again: never while a challenge waits to leave, or may not.
    pub(super) fn next_at(&self) -> Option<Instant> {
        (!self.due && self.allowance() >= PACKET_MIN as u64).then_some(self.next)
    }

    /// It is time to; true where it is hopeless.
    pub(super) fn handle_timeout(&mut self, now: Instant, moves: bool) -> bool {
        let due = self.next_at().is_some_and(|at| at <= now);
        self.due |= due;
        due && moves && self.tries >= MOVE_TRIES
    }

    /// The peer asks: it has not heard of us.
    pub(super) const fn again(&mut self) {
        self.due = true;
    }
}

impl Association {
    /// Opens a path to `remote` on `link`: it is challenged, and carries once it has answered.
    /// Only the initiator may. `None`: there are as many as we, or
    /// [the peer](Association::peer_paths), can hold.
    pub fn open_path(&mut self, now: Instant, link: LinkId, remote: SocketAddr) -> Option<PathId> {
        if !self.identity.initiator {
            return None;
        }
        let id = self.add_path(link, remote)?;
        let path = self.paths.by_id(id)?;
        path.standing.prove(Proving::new(now, link, remote, true, 0), false);
        Some(id)
    }

    /// Tells the peer that we receive at `remote` on our `link`, too. False: as many were offered
    /// as an association can hold, 15.
    pub fn offer_path(&mut self, link: LinkId, remote: SocketAddr) -> bool {
        self.paths.offer(link, remote)
    }

    /// Whether a sealed packet may be the first of a path that the peer opens.
    pub(super) fn may_open(&self, path: PathId) -> bool {
        !self.identity.initiator && self.paths.may_insert(path)
    }

    /// The peer opened a path: its first packet came, and is authentic.
    pub(super) fn opened_by_peer(&mut self, now: Instant, rx: RxMeta, id: PathId) -> Option<usize> {
        let mut path = Path::new(id, rx.link, rx.remote, &self.config);
        path.standing.prove(Proving::new(now, rx.link, rx.remote, false, 0), false);
        self.paths.insert(path)
    }

    /// An authentic packet of `bytes` came on a path; it is the `newest` of it.
    pub(super) fn note_source(
        &mut self,
        now: Instant,
        rx: RxMeta,
        (at, bytes): (usize, u64),
        newest: bool,
    ) {
        let path = &mut self.paths[at];
        let from = (rx.link, rx.remote);
        if let Some(proving) = path.standing.proving_mut()
            && (proving.link, proving.remote) == from
        {
            proving.came(bytes);
            return;
        }
        if (path.link, path.remote) == from || !newest {
            return;
        }
        let proven = path.standing.is_proven();
        if !proven && path.standing.proving().is_some_and(|p| p.dialled) {
            return; // it answers from where we did not ask
        }
        path.standing.prove(Proving::new(now, rx.link, rx.remote, false, bytes), proven);
        if !proven {
            (path.link, path.remote) = from;
        }
    }

    /// A token came back.
    pub(super) fn handle_response(&mut self, now: Instant, at: usize, token: u64) {
        let path = &mut self.paths[at];
        let asked = path.standing.proving().copied();
        let Some(proving) = asked.filter(|p| p.token == Some(token)) else {
            self.stats.paths.responses_stray += 1;
            return;
        };
        let moved = path.standing.is_proven();
        path.standing.proven(now);
        if moved {
            (path.link, path.remote) = (proving.link, proving.remote);
            path.come_back(now, &self.config);
            path.rtt = crate::rtt::Rtt::new(self.config.probes.rtt_initial);
            self.stats.paths.moved += 1;
        } else {
            self.stats.paths.opened += 1;
        }
        if let Some(sent) = proving.only {
            path.rtt.sample(now, now.since(sent).saturating_sub(self.late), Duration::ZERO);
        }
    }

    /// True when [`Association::give_tokens`] is wanted.
    pub(crate) fn wants_tokens(&self) -> bool {
        self.paths.iter().any(|p| p.standing.proving().is_some_and(Proving::wants_token))
    }

    /// Bytes that nobody can guess.
    pub(crate) fn give_tokens(&mut self, random: [u8; 32]) {
        let mut words = random.chunks_exact(8).map(|c| c.try_into().map_or(0, u64::from_le_bytes));
        let wanting = self.paths.iter_mut().filter_map(|p| p.standing.proving_mut());
        for proving in wanting.filter(|p| p.wants_token()) {
            let Some(word) = words.next() else { return };
            proving.give_token(word);
        }
    }

    /// The peer challenges the address that a path leads to. What cannot be answered is forgotten:
    /// it asks again.
    pub(super) fn handle_challenge(&mut self, at: usize, token: u64) {
        let path = &mut self.paths[at];
        if !path.standing.up {
            return;
        }
        if let Some(proving) = path.standing.proving_mut() {
            proving.again();
        }
        if self.path_responses.len() == RESPONSES_MAX {
            self.path_responses.pop_front();
        }
        self.path_responses.push_back((path.id, token));
    }

    /// Whether a path's peer is to be answered.
    pub(super) fn owes_response(&self, path: PathId) -> bool {
        self.path_responses.iter().any(|(id, _)| *id == path)
    }

    pub(super) fn take_response(&mut self, path: PathId) -> Option<u64> {
        let at = self.path_responses.iter().position(|(id, _)| *id == path)?;
        self.path_responses.remove(at).map(|(_, token)| token)
    }

    /// Has challenges sent that are due.
    pub(super) fn challenge_if_due(&mut self, now: Instant) {
        #[cfg(plant)]
        if self.config.plant == crate::config::Plant::ChallengedOnce {
            return;
        }
        self.paths.iter_mut().for_each(|p| p.standing.challenge_if_due(now));
    }

    /// A challenge that waits to leave by this link.
    pub(super) fn challenge_on(&self, link: LinkId) -> Option<usize> {
        let waits = |p: &Path| {
            let proving = p.standing.proving().filter(|_| p.standing.up);
            proving.is_some_and(|c| c.link == link && c.challenge().is_some())
        };
        self.paths.iter().position(waits)
    }

    /// Writes a challenge alone, as long as the shortest packet that can be granted, so that the
    /// answer finds room in what it allows.
    pub(super) fn build_challenge(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        let at = self.challenge_on(grant.link)?;
        if grant.bytes < PACKET_MIN || !out.takes(PACKET_MIN) {
            return None;
        }
        let path = &self.paths[at];
        let proving = path.standing.proving()?;
        let (token, own) = (proving.challenge()?, !path.standing.is_proven());
        let (id, remote) = (path.id, proving.remote);
        let response = if own { self.take_response(id) } else { None };
        let mut w = out.packet(PACKET_MIN, self.identity.keys.send.key.seals());
        w.frame(PATH_TOKEN_LEN, |w| frame::emit_path_challenge(w, token));
        let mut acked_up_to = None;
        if own {
            if let Some(token) = response {
                w.frame(PATH_TOKEN_LEN, |w| frame::emit_path_response(w, token));
            }
            acked_up_to = write_acks(now, &self.paths[at], &mut w);
        }
        w.pad();
        let departure = Departure { acked_up_to, ..Departure::at(now) };
        let bytes = self.depart(now, at, &mut w, departure, &[]);
        if let Some(proving) = self.paths[at].standing.proving_mut() {
            proving.departs(now);
            if !own {
                proving.went(bytes);
            }
        }
        let train = self.transmit(at, out);
        Some(Transmit { link: grant.link, remote, ..train })
    }
}
