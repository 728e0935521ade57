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

#[test]
fn messages_in_many_parts_and_to_many_receivers_have_limits() {
    use crate::message::Envelope;
    use crate::send::PARTS_MAX;
    use towpath_wire::talk::MULTICAST_MAX;
    let (mut a, _a_side, mut b, _b_side) = super::actors::with_ring();
    let to = b.id();
    for count in [0, 1, PARTS_MAX, PARTS_MAX + 1, 3 * PARTS_MAX] {
        let parts: Vec<[u8; 2]> = (0..count).map(|n| [n as u8, 7]).collect();
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        a.send_parts(to, Envelope::tag(1), &parts).unwrap();
        a.multicast(&[to, to], Envelope::tag(2), &parts).unwrap();
        for tag in [1, 2] {
            let message = b.recv(&super::actors::ANY).unwrap();
            assert_eq!((message.tag(), message.bytes()), (tag, &parts.concat()[..]), "{count}");
        }
        assert!(b.try_recv(&super::actors::ANY).unwrap().is_none(), "each gets it once");
    }
    a.multicast(&vec![to; MULTICAST_MAX], Envelope::tag(3), &[b"x"]).unwrap();
    assert_eq!(b.recv(&super::actors::ANY).unwrap().tag(), 3);
    let count = MULTICAST_MAX + 1;
    let many = a.multicast(&vec![to; count], Envelope::tag(4), &[b"x"]).unwrap_err();
    let crate::error::SendError::Receivers { count: told, limit } = many else {
        panic!("{many:?}")
    };
    assert_eq!((told, limit), (count, MULTICAST_MAX));
    assert!(b.try_recv(&super::actors::ANY).unwrap().is_none());
}

#[test]
fn what_was_written_into_a_loan_arrives_by_whatever_way() {
    use crate::message::Envelope;
    let (mut a, mut a_side, mut b, _b_side) = super::actors::with_ring();
    let (own, to) = (a.id(), b.id());
    let filled = |task: &mut crate::Task, len: usize| {
        let mut loan = task.loan(len).unwrap();
        loan.fill(9);
        loan
    };
    for len in [0, 1, 4096, 5000, 100_000] {
        let loan = filled(&mut a, len);
        a.send_loan(to, Envelope::tag(1), loan).unwrap();
        let sealed = filled(&mut a, len).seal(len);
        a.send_sealed(to, Envelope::tag(2), &sealed).unwrap();
        a.send_sealed(own, Envelope::tag(3), &sealed).unwrap();
        a.send_sealed(to, Envelope::tag(4), &crate::Loan::own(len).seal(len)).unwrap();
        for (tag, fill) in [(1, 9), (2, 9), (4, 0)] {
            let message = b.recv(&super::actors::ANY).unwrap();
            assert_eq!((message.tag(), message.bytes()), (tag, &vec![fill; len][..]), "{len}");
        }
        let loan = filled(&mut a, len);
        a.send_loan(own, Envelope::tag(5), loan).unwrap();
        for tag in [3, 5] {
            let message = a.recv(&super::actors::ANY).unwrap();
            assert_eq!((message.tag(), message.bytes()), (tag, &vec![9; len][..]), "{len}");
        }
    }
    assert_eq!(a_side.heard(), None, "nothing went by the daemon");
}
