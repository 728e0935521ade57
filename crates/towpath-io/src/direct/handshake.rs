//! How two tasks prove their keys to each other and make the connection's own keys.
//!
//! ```text
//! hello    72  0..4 "TPDR" | 4 version | 5 sealed | 6..8 zero | 8..16 from | 16..24 to
//!              | 24..56 random | 56..72 tag: the connecting side's key over 0..56
//! answer   48  0..32 random | 32..48 tag: the accepting side's key over hello, random
//! confirm  16  tag: the connecting side's key over hello, random
//! ```
//! A hello with a wrong tag is dropped without an answer; one that is played again gets an
//! answer that nobody can confirm. Tags are HMAC-SHA-256, cut to 16 bytes, whether or not records
//! are sealed. Each direction's record key is HMAC-SHA-256 under that direction's key of the
//! [`Offer`] over the hello and the answer's randomness: fresh as long as one side's is.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use towpath_wire::TaskId;

use super::keys::{Mixed, Offer, RecordKey};
use crate::crypto::hmac;

pub(super) const HELLO_LEN: usize = 72;
pub(super) const ANSWER_LEN: usize = 48;
pub(super) const CONFIRM_LEN: usize = 16;
const MAGIC: [u8; 4] = *b"TPDR";
const VERSION: u8 = 1;
const HELLO_TAG: usize = 56;
const ANSWER_TAG: usize = 32;

/// What both sides have after a handshake: all that a session needs.
pub struct Agreed {
    pub(super) me: TaskId,
    pub(super) peer: TaskId,
    pub(super) send: RecordKey,
    pub(super) receive: RecordKey,
}

impl Agreed {
    /// What the two sides of an offer have, without a connection: for simulations and tests. The
    /// first is the one that connects.
    pub fn pair(ours: &Offer, theirs: &Offer, random: [[u8; 32]; 2]) -> [Self; 2] {
        let hello = hello(ours, &random[0]);
        [Self::new(ours, &hello, &random[1]), Self::new(theirs, &hello, &random[1])]
    }

    fn new(offer: &Offer, hello: &[u8; HELLO_LEN], answer: &[u8; 32]) -> Self {
        let mixed = Mixed { hello, answer };
        let key = |key| RecordKey::derive(key, &mixed, offer.sealed);
        let (send, receive) = (key(&offer.send_key), key(&offer.receive_key));
        Self { me: offer.me, peer: offer.peer, send, receive }
    }
}

fn tag(key: &[u8; 32], label: &[u8], parts: [&[u8]; 2]) -> [u8; 16] {
    let [a, b] = parts;
    let hash = hmac(key, &[b"towpath direct ", label, a, b]);
    *hash.first_chunk().expect("a hash is longer than a tag")
}

fn is_tag(tag: &[u8], expected: [u8; 16]) -> bool {
    verify_slices_are_equal(tag, &expected).is_ok()
}

/// The connecting side's first message.
pub(super) fn hello(offer: &Offer, random: &[u8; 32]) -> [u8; HELLO_LEN] {
    let mut hello = [0; HELLO_LEN];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4] = VERSION;
    hello[5] = u8::from(offer.sealed);
    hello[8..16].copy_from_slice(&offer.me.to_raw().to_le_bytes());
    hello[16..24].copy_from_slice(&offer.peer.to_raw().to_le_bytes());
    hello[24..HELLO_TAG].copy_from_slice(random);
    let proof = tag(&offer.send_key, b"hello", [&hello[..HELLO_TAG], &[]]);
    hello[HELLO_TAG..].copy_from_slice(&proof);
    hello
}

/// Whether a hello is the one that an offer waits for.
pub(super) fn is_expected(offer: &Offer, hello: &[u8; HELLO_LEN]) -> bool {
    let (front, proof) = hello.split_at(HELLO_TAG);
    front[..4] == MAGIC
        && front[4..8] == [VERSION, u8::from(offer.sealed), 0, 0]
        && front[8..16] == offer.peer.to_raw().to_le_bytes()
        && front[16..24] == offer.me.to_raw().to_le_bytes()
        && is_tag(proof, tag(&offer.receive_key, b"hello", [front, &[]]))
}

/// The accepting side's message, and what it will wait for.
pub(super) fn answer(
    offer: &Offer,
    hello: &[u8; HELLO_LEN],
    random: &[u8; 32],
) -> ([u8; ANSWER_LEN], Awaited) {
    let mut answer = [0; ANSWER_LEN];
    answer[..ANSWER_TAG].copy_from_slice(random);
    let proof = tag(&offer.send_key, b"answer", [hello, random]);
    answer[ANSWER_TAG..].copy_from_slice(&proof);
    let confirm = tag(&offer.receive_key, b"confirm", [hello, random]);
    (answer, Awaited { confirm, agreed: Agreed::new(offer, hello, random) })
}

/// What the accepting side waits for, and what it has then.
pub(super) struct Awaited {
    confirm: [u8; CONFIRM_LEN],
    agreed: Agreed,
}

impl Awaited {
    /// The connecting side's last message.
    pub(super) fn confirmed(self, confirm: &[u8; CONFIRM_LEN]) -> Option<Agreed> {
        is_tag(confirm, self.confirm).then_some(self.agreed)
    }
}

/// The connecting side's last message, if the answer proves the peer.
pub(super) fn confirm(
    offer: &Offer,
    hello: &[u8; HELLO_LEN],
    answer: &[u8; ANSWER_LEN],
) -> Option<([u8; CONFIRM_LEN], Agreed)> {
    let (random, proof) = answer.split_first_chunk::<ANSWER_TAG>()?;
    if !is_tag(proof, tag(&offer.receive_key, b"answer", [hello, random])) {
        return None;
    }
    let confirm = tag(&offer.send_key, b"confirm", [hello, random]);
    Some((confirm, Agreed::new(offer, hello, random)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_wire::HostId;

    fn offers() -> [Offer; 2] {
        let task = |slot| HostId::new(slot, 1).unwrap().task(7).unwrap();
        let (me, peer, send_key, receive_key) = (task(1), task(2), [1; 32], [2; 32]);
        let ours = Offer { me, peer, send_key, receive_key, sealed: true };
        let (me, peer, send_key, receive_key) = (peer, me, receive_key, send_key);
        [ours, Offer { me, peer, send_key, receive_key, sealed: true }]
    }

    #[test]
    fn both_sides_agree_on_keys_crosswise() {
        let [ours, theirs] = offers();
        let hello = hello(&ours, &[3; 32]);
        assert!(is_expected(&theirs, &hello));
        let (answer, awaited) = answer(&theirs, &hello, &[4; 32]);
        let (confirm, a) = confirm(&ours, &hello, &answer).unwrap();
        let b = awaited.confirmed(&confirm).unwrap();
        for (seals, opens) in [(&a.send, &b.receive), (&b.send, &a.receive)] {
            let mut record = [9; 40];
            seals.seal(0, [0; 8], &mut record, &[]);
            assert_eq!(opens.open(0, [0; 8], &mut record), Ok(()));
        }
        let mut record = [9; 40];
        a.send.seal(0, [0; 8], &mut record, &[]);
        assert!(a.receive.open(0, [0; 8], &mut record).is_err(), "one key for both directions");
    }

    #[test]
    fn no_changed_message_passes() {
        let [ours, theirs] = offers();
        let good = hello(&ours, &[3; 32]);
        for bit in 0..8 * HELLO_LEN {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_expected(&theirs, &bad), "hello, bit {bit}");
        }
        let (good_answer, _) = answer(&theirs, &good, &[4; 32]);
        for bit in 0..8 * ANSWER_LEN {
            let mut bad = good_answer;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(confirm(&ours, &good, &bad).is_none(), "answer, bit {bit}");
        }
        let (good_confirm, _) = confirm(&ours, &good, &good_answer).unwrap();
        for bit in 0..8 * CONFIRM_LEN {
            let mut bad = good_confirm;
            bad[bit / 8] ^= 1 << (bit % 8);
            let (_, awaited) = answer(&theirs, &good, &[4; 32]);
            assert!(awaited.confirmed(&bad).is_none(), "confirm, bit {bit}");
        }
    }

    #[test]
    fn a_hello_played_again_cannot_be_confirmed_with_what_was_heard() {
        let [ours, theirs] = offers();
        let hello = hello(&ours, &[3; 32]);
        let (first, _) = answer(&theirs, &hello, &[4; 32]);
        let (confirm, _) = confirm(&ours, &hello, &first).unwrap();
        let (_, awaited) = answer(&theirs, &hello, &[5; 32]);
        assert!(awaited.confirmed(&confirm).is_none());
    }

    #[test]
    fn both_sides_must_agree_whether_records_are_sealed() {
        let [ours, theirs] = offers();
        let clear = Offer { sealed: false, ..ours.clone() };
        assert!(!is_expected(&theirs, &hello(&clear, &[3; 32])));
        assert!(is_expected(&theirs, &hello(&ours, &[3; 32])));
    }
}
