//! Received messages.

use super::actors::{ANY, with_ring};

#[test]
fn bytes_are_aligned_for_numbers_whatever_their_count() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    for len in [1, 8, 16, 40, 41, 4096, 4097, 100_000] {
        let sent: Vec<u8> = (0..len).map(|i| i as u8).collect();
        a.send(b.id(), 1, &sent).unwrap();
        let got = b.recv(&ANY).unwrap();
        assert!(got.bytes() == sent && got.len() == len);
        assert!(got.bytes().as_ptr().addr().is_multiple_of(16), "{len} bytes");
        assert!(got.into_bytes() == sent);
    }
}
