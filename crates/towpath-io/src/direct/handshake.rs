//! How two tasks prove their key to each other and make the connection's own keys.
//!
//! ```text
//! hello    88  0..4 "TPDR" | 4 version | 5 sealed | 6..8 zero | 8..16 from | 16..24 to
//!              | 24..72 Noise, first message (-> psk, e) | 72..88 tag over 0..72
//! answer   48  Noise, second message (<- e, ee)
//! confirm  16  tag: the connecting side's secret
//! ```
//! The pattern is `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`; its prologue is the hello up to the
//! first message, its pre-shared key is made from the key of the [`Offer`]. Each direction's record
//! key comes from that direction's secret of the Noise handshake, so from two keys that exist for
//! as long as the handshake does: who learns the offer's key afterwards, or any key of daemons,
//! cannot open what was recorded. Both sides hold the offer's key; who does not is told nothing.
//!
//! A hello with a wrong tag is dropped without an answer, before anything is kept or computed but
//! that tag; one that is played again gets an answer that nobody can confirm. Tags are
//! HMAC-SHA-256, cut to 16 bytes. One round trip: records may follow the confirmation at once.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use snow::HandshakeState;
use towpath_wire::TaskId;
use zeroize::Zeroizing;

use super::keys::{Offer, RecordKey};
use crate::crypto::{hmac, shake_without_statics};

pub(super) const HELLO_LEN: usize = 88;
pub(super) const ANSWER_LEN: usize = 48;
pub(super) const CONFIRM_LEN: usize = 16;
const MAGIC: [u8; 4] = *b"TPDR";
const VERSION: u8 = 2;
/// What stands before the first message.
const FRONT: usize = 24;
const HELLO_TAG: usize = FRONT + 48;

/// What both sides have after a handshake: all that a session needs.
pub struct Agreed {
    pub(super) me: TaskId,
    pub(super) peer: TaskId,
    pub(super) send: RecordKey,
    pub(super) receive: RecordKey,
}

impl Agreed {
    /// What the two sides of an offer have, without a connection and with these secrets, not secret
    /// ones: for simulations and tests. The first is the one that connects.
    pub fn pair(ours: &Offer, theirs: &Offer, [up, down]: [[u8; 32]; 2]) -> [Self; 2] {
        [Self::new(ours, &up, &down), Self::new(theirs, &down, &up)]
    }

    fn new(offer: &Offer, send: &[u8; 32], receive: &[u8; 32]) -> Self {
        let key = |secret| RecordKey::derive(secret, offer.sealed);
        Self { me: offer.me, peer: offer.peer, send: key(send), receive: key(receive) }
    }
}

fn tag(key: &[u8; 32], label: &[u8], over: &[u8]) -> [u8; 16] {
    let hash = hmac(key, &[b"towpath direct ", label, over]);
    *hash.first_chunk().expect("a hash is longer than a tag")
}

fn is_tag(tag: &[u8], expected: [u8; 16]) -> bool {
    verify_slices_are_equal(tag, &expected).is_ok()
}

fn noise(offer: &Offer, front: &[u8], connects: bool) -> HandshakeState {
    let psk = Zeroizing::new(hmac(&offer.key, &[b"towpath direct psk"]));
    shake_without_statics(&psk, front, connects)
}

/// The secrets of a handshake that has passed: the connecting side's, then the other's.
fn secrets(noise: &mut HandshakeState) -> [Zeroizing<[u8; 32]>; 2] {
    let (up, down) = noise.dangerously_get_raw_split();
    [up, down].map(Zeroizing::new)
}

fn confirmation(up: &[u8; 32]) -> [u8; CONFIRM_LEN] {
    tag(up, b"confirm", &[])
}

/// The connecting side of a handshake under way.
pub(super) struct Dialling {
    noise: HandshakeState,
    pub(super) hello: [u8; HELLO_LEN],
}

impl Dialling {
    /// With the first message, which is to go out.
    pub(super) fn new(offer: &Offer) -> Self {
        let mut hello = [0; HELLO_LEN];
        hello[..4].copy_from_slice(&MAGIC);
        hello[4] = VERSION;
        hello[5] = u8::from(offer.sealed);
        hello[8..16].copy_from_slice(&offer.me.to_raw().to_le_bytes());
        hello[16..FRONT].copy_from_slice(&offer.peer.to_raw().to_le_bytes());
        let mut noise = noise(offer, &hello[..FRONT], true);
        let len = noise.write_message(&[], &mut hello[FRONT..HELLO_TAG]);
        assert_eq!(len.ok(), Some(HELLO_TAG - FRONT), "the first message has its length");
        let proof = tag(&offer.key, b"hello", &hello[..HELLO_TAG]);
        hello[HELLO_TAG..].copy_from_slice(&proof);
        Self { noise, hello }
    }

    /// The last message, if the answer proves the peer.
    pub(super) fn confirm(
        &mut self,
        offer: &Offer,
        answer: &[u8; ANSWER_LEN],
    ) -> Option<([u8; CONFIRM_LEN], Agreed)> {
        self.noise.read_message(answer, &mut []).ok()?;
        let [up, down] = secrets(&mut self.noise);
        Some((confirmation(&up), Agreed::new(offer, &up, &down)))
    }
}

/// Whether a hello is the one that an offer waits for. Nothing is allocated.
pub(super) fn is_expected(offer: &Offer, hello: &[u8; HELLO_LEN]) -> bool {
    let (front, proof) = hello.split_at(HELLO_TAG);
    front[..4] == MAGIC
        && front[4..8] == [VERSION, u8::from(offer.sealed), 0, 0]
        && front[8..16] == offer.peer.to_raw().to_le_bytes()
        && front[16..FRONT] == offer.me.to_raw().to_le_bytes()
        && is_tag(proof, tag(&offer.key, b"hello", front))
}

/// The accepting side's message to a hello that is expected, and what it will wait for. `None`:
/// what the hello holds is no first message.
pub(super) fn answer(
    offer: &Offer,
    hello: &[u8; HELLO_LEN],
) -> Option<([u8; ANSWER_LEN], Awaited)> {
    let mut noise = noise(offer, &hello[..FRONT], false);
    noise.read_message(&hello[FRONT..HELLO_TAG], &mut []).ok()?;
    let mut answer = [0; ANSWER_LEN];
    let len = noise.write_message(&[], &mut answer).ok()?;
    assert_eq!(len, ANSWER_LEN, "the second message has its length");
    let [up, down] = secrets(&mut noise);
    let agreed = Agreed::new(offer, &down, &up);
    Some((answer, Awaited { confirm: confirmation(&up), agreed }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use towpath_wire::HostId;

    proptest! {
        /// Of who has the key, too: what a stranger says does not get past its tag.
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::array::uniform32(any::<u8>())) {
            let [ours, theirs] = offers();
            let mut hello = Dialling::new(&ours).hello;
            hello[FRONT..FRONT + 32].copy_from_slice(&bytes);
            let proof = tag(&theirs.key, b"hello", &hello[..HELLO_TAG]);
            hello[HELLO_TAG..].copy_from_slice(&proof);
            prop_assert!(answer(&theirs, &hello).is_none());
            let mut said = [7; ANSWER_LEN];
            said[..32].copy_from_slice(&bytes);
            prop_assert!(Dialling::new(&ours).confirm(&ours, &said).is_none());
        }
    }

    fn offers() -> [Offer; 2] {
        let task = |slot| HostId::new(slot, 1).unwrap().task(7).unwrap();
        let offer = |me, peer| Offer { me, peer, key: [1; 32], sealed: true };
        [offer(task(1), task(2)), offer(task(2), task(1))]
    }

    fn opens(seals: &RecordKey, opens: &RecordKey) -> bool {
        let mut record = [9; 40];
        seals.seal(0, [0; 8], &mut record, &[]);
        opens.open(0, [0; 8], &mut record).is_ok()
    }

    #[test]
    fn both_sides_agree_on_keys_crosswise() {
        let [ours, theirs] = offers();
        let mut dialling = Dialling::new(&ours);
        assert!(is_expected(&theirs, &dialling.hello));
        let (answer, awaited) = answer(&theirs, &dialling.hello).unwrap();
        let (confirm, a) = dialling.confirm(&ours, &answer).unwrap();
        let b = awaited.confirmed(&confirm).unwrap();
        assert!(opens(&a.send, &b.receive) && opens(&b.send, &a.receive));
        assert!(!opens(&a.send, &a.receive), "one key for both directions");
    }

    #[test]
    fn no_changed_message_passes() {
        let [ours, theirs] = offers();
        let good = Dialling::new(&ours).hello;
        for bit in 0..8 * HELLO_LEN {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_expected(&theirs, &bad), "hello, bit {bit}");
        }
        for bit in 0..8 * ANSWER_LEN {
            let mut dialling = Dialling::new(&ours);
            let (mut bad, _) = answer(&theirs, &dialling.hello).unwrap();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(dialling.confirm(&ours, &bad).is_none(), "answer, bit {bit}");
        }
        for bit in 0..8 * CONFIRM_LEN {
            let mut dialling = Dialling::new(&ours);
            let (answer, awaited) = answer(&theirs, &dialling.hello).unwrap();
            let (mut bad, _) = dialling.confirm(&ours, &answer).unwrap();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(awaited.confirmed(&bad).is_none(), "confirm, bit {bit}");
        }
    }

    #[test]
    fn a_first_message_of_another_key_is_refused_also_behind_a_right_tag() {
        let [ours, theirs] = offers();
        let mut hello = Dialling::new(&Offer { key: [2; 32], ..ours }).hello;
        assert!(!is_expected(&theirs, &hello));
        let proof = tag(&theirs.key, b"hello", &hello[..HELLO_TAG]);
        hello[HELLO_TAG..].copy_from_slice(&proof);
        assert!(is_expected(&theirs, &hello));
        assert!(answer(&theirs, &hello).is_none());
    }

    #[test]
    fn a_hello_played_again_cannot_be_confirmed_with_what_was_heard() {
        let [ours, theirs] = offers();
        let mut dialling = Dialling::new(&ours);
        let (first, _) = answer(&theirs, &dialling.hello).unwrap();
        let (confirm, _) = dialling.confirm(&ours, &first).unwrap();
        let (_, awaited) = answer(&theirs, &dialling.hello).unwrap();
        assert!(awaited.confirmed(&confirm).is_none());
    }

    /// Who has the offer's key and every byte that was sent is who could take part, and makes other
    /// keys with whatever it does: those of the connection are of what it has not seen.
    #[test]
    fn the_key_and_all_that_was_sent_do_not_open_what_was_recorded() {
        let [ours, theirs] = offers();
        let mut dialling = Dialling::new(&ours);
        let hello = dialling.hello;
        let (said, awaited) = answer(&theirs, &hello).unwrap();
        let (confirm, a) = dialling.confirm(&ours, &said).unwrap();
        let b = awaited.confirmed(&confirm).unwrap();
        // As the one that was called, to the hello that was recorded.
        let (_, listener) = answer(&theirs, &hello).unwrap();
        for key in [&listener.agreed.send, &listener.agreed.receive] {
            assert!(!opens(&a.send, key) && !opens(&b.send, key));
        }
        // As the one that connected, with the answer that was recorded.
        assert!(Dialling::new(&ours).confirm(&ours, &said).is_none());
    }

    #[test]
    fn both_sides_must_agree_whether_records_are_sealed() {
        let [ours, theirs] = offers();
        let clear = Offer { sealed: false, ..ours.clone() };
        assert!(!is_expected(&theirs, &Dialling::new(&clear).hello));
        assert!(is_expected(&theirs, &Dialling::new(&ours).hello));
    }
}
