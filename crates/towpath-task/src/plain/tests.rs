use proptest::prelude::*;
use towpath_vm::matching::Wanted;

use super::{Complex64, ContentError, Order, Plain, Tile, TileMut, TypeCode};
use crate::error::RecvError;
use crate::message::Envelope;
use crate::tests::actors::{enrol, header, with_ring};
use crate::tests::stage::Stage;

crate::record! {
    #[derive(Debug, PartialEq)]
    struct Body { kind: u8, mass: f64, at: [i16; 3] }
}

const ANY: Wanted = Wanted::any();

#[test]
fn one_row_may_be_longer_than_a_stride_both_ways() {
    let mut room = [0_u32; 4];
    for stride in [0, 2, 4] {
        let mut tile = TileMut::new(&mut room, 1, 4, stride);
        assert_eq!(tile.rows().map(|row| row.len()).collect::<Vec<_>>(), [4]);
    }
}

#[test]
fn values_arrive_as_the_type_that_they_were_sent_as() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    // Tiny, short, and in a block.
    for count in [1, 2, 100, 10_000] {
        let sent: Vec<f64> = (0..count).map(f64::from).collect();
        a.send_slice(b.id(), 3, &sent).unwrap();
        a.send_slice(b.id(), Envelope { tag: 4, context: 0, format: 9 }, &sent).unwrap();
        a.send_slice(b.id(), 5, &sent).unwrap();
        let got = b.recv_slice::<f64>(&ANY.tag(3)).unwrap();
        assert!(*got == *sent && got.src() == a.id() && got.tag() == 3);
        let mut room = vec![0.0; sent.len() + 1];
        let about = b.recv_slice_into(&ANY.tag(4), &mut room).unwrap();
        assert_eq!(about.count::<f64>(), sent.len());
        assert!(room[..sent.len()] == sent && room[sent.len()] == 0.0);
        let message = b.recv(&ANY.tag(5)).unwrap();
        let values = message.values::<f64>().unwrap();
        assert!(*values == *sent && matches!(values, std::borrow::Cow::Borrowed(_)));
    }
    let body = Body { kind: 1, mass: -2.5, at: [3, -4, 5] };
    a.send_value(b.id(), 1, body).unwrap();
    assert_eq!(b.recv_value::<Body>(&ANY).unwrap(), body);
    a.send_slice(b.id(), 1, &[Complex64::new(1.0, -1.0); 3]).unwrap();
    assert_eq!(b.recv_slice::<Complex64>(&ANY).unwrap().len(), 3);
}

/// Receives `i32` where `f64` were sent, in every way.
fn refused(task: &mut crate::Task) {
    let type_is_wrong = |e| {
        let wanted = TypeCode::of::<i32>();
        let expected = ContentError::Type { wanted, got: TypeCode::of::<f64>() };
        assert_eq!(e, RecvError::Content(expected));
    };
    let mut room = vec![7_i32; 40_000];
    type_is_wrong(task.recv_slice_into(&ANY, &mut room).unwrap_err());
    assert!(room.iter().all(|x| *x == 7), "nothing was written");
    type_is_wrong(task.recv_slice::<i32>(&ANY).unwrap_err());
    type_is_wrong(task.recv_value::<i32>(&ANY).unwrap_err());
    let tile = TileMut::new(&mut room, 2, 2, 4);
    type_is_wrong(task.recv_tile(&ANY, tile).unwrap_err());
}

#[test]
fn another_type_is_refused_and_the_message_stays_whatever_way_it_came() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    for count in [1, 2, 100, 10_000] {
        let sent: Vec<f64> = (0..count).map(f64::from).collect();
        a.send_slice(b.id(), 3, &sent).unwrap();
        refused(&mut b);
        assert!(*b.recv_slice::<f64>(&ANY).unwrap() == *sent);
    }
    // By the daemon.
    let (mut c, mut side) = enrol(&mut Stage::new(), 1);
    let mut head = header(a.id(), c.id(), 3, 0, 16);
    head.format = TypeCode::of::<f64>().format();
    side.piece(&head, &f64::bytes(&[1.0, 2.0]));
    refused(&mut c);
    assert_eq!(*c.recv_slice::<f64>(&ANY).unwrap(), [1.0, 2.0]);
}

#[test]
fn what_is_not_values_is_named() {
    let (mut a, _side) = enrol(&mut Stage::new(), 1);
    let own = a.id();
    let said = |e: RecvError| e.to_string();
    a.send(own, 1, b"bytes").unwrap();
    let bytes = said(a.recv_slice::<f64>(&ANY).unwrap_err());
    assert!(bytes.starts_with("the message holds bytes of format 0, not values of type f64"));
    assert_eq!(a.recv(&ANY).unwrap().bytes(), b"bytes");
    let format = TypeCode::of::<f64>().format();
    a.send_with(own, Envelope { tag: 1, context: 0, format }, &[0; 13]).unwrap();
    let ragged = said(a.recv_slice::<f64>(&ANY).unwrap_err());
    assert_eq!(ragged, "the message has 13 bytes, no whole number of values of 8 (f64)");
    a.recv(&ANY).unwrap();
    a.send_slice(own, 1, &[1_u16, 2]).unwrap();
    let two = said(a.recv_value::<u16>(&ANY).unwrap_err());
    assert_eq!(two, "the message has 2 values of type u16, not 1");
    let long = a.recv_slice_into(&ANY, &mut [0_u16]).unwrap_err();
    assert_eq!(long, RecvError::TooLong { len: 4, room: 2 });
    assert_eq!(*a.recv_slice::<u16>(&ANY).unwrap(), [1, 2]);
}

#[test]
fn bytes_of_the_other_order_are_turned_round() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let (own, other) = (
        task.id(),
        match Order::NATIVE {
            Order::Little => Order::Big,
            Order::Big => Order::Little,
        },
    );
    let send = |task: &mut crate::Task, code: TypeCode, bytes: &[u8]| {
        let format = code.format_in(other);
        task.send_with(own, Envelope { tag: 1, context: 0, format }, bytes).unwrap();
    };
    let turned: Vec<u8> = [1.5_f64, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
    let turned = if other == Order::Big { turned } else { return };
    send(&mut task, f64::CODE, &turned);
    assert_eq!(*task.recv_slice::<f64>(&ANY).unwrap(), [1.5, -2.0]);
    send(&mut task, f64::CODE, &turned);
    let mut room = [0.0; 3];
    task.recv_slice_into(&ANY, &mut room).unwrap();
    assert_eq!(room.map(f64::to_bits), [1.5, -2.0, 0.0].map(f64::to_bits));
    send(&mut task, Complex64::CODE, &turned);
    assert_eq!(task.recv_value::<Complex64>(&ANY).unwrap(), Complex64::new(1.5, -2.0));
    let record = [&[9][..], &1.5_f64.to_be_bytes(), &[0, 1, 0, 2, 0xff, 0xff]].concat();
    send(&mut task, Body::CODE, &record);
    let body = task.recv_value::<Body>(&ANY).unwrap();
    assert_eq!(body, Body { kind: 9, mass: 1.5, at: [1, 2, -1] });
    send(&mut task, f64::CODE, &turned);
    let mut room = [0.0; 3];
    task.recv_tile(&ANY, TileMut::new(&mut room, 2, 1, 2)).unwrap();
    assert_eq!(room.map(f64::to_bits), [1.5, 0.0, -2.0].map(f64::to_bits));
}

#[test]
fn types_have_codes_of_their_own() {
    crate::record! { struct Same { a: u8, b: f64, c: [i16; 3] } }
    crate::record! { struct Turned { b: f64, a: u8, c: [i16; 3] } }
    assert_eq!(Same::CODE, Body::CODE);
    assert_ne!(Turned::CODE, Body::CODE);
    for code in [Body::CODE, f64::CODE, u8::CODE, Complex64::CODE] {
        for order in [Order::Little, Order::Big] {
            assert_eq!(TypeCode::parse(code.format_in(order)), Some((code, order)));
        }
    }
    assert_eq!(TypeCode::parse(0), None);
    // What is on the wire does not change.
    assert_eq!(f64::CODE.format_in(Order::Little), 0xd700_000a);
    assert_eq!(u8::CODE.format_in(Order::Big), 0xd700_0082);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_tile_arrives_in_a_tile(
        (rows, columns, gap, to_gap) in (0..40_usize, 0..50_usize, 0..20_usize, 0..3_usize),
        packed in any::<bool>(),
    ) {
        thread_local! {
            static PAIR: std::cell::RefCell<crate::tests::actors::Pair> =
                std::cell::RefCell::new(with_ring());
        }
        // Long rows go as parts, more of them than one system call takes.
        let columns = if packed { columns } else { columns + 40 };
        let stride = columns + gap;
        let matrix: Vec<i64> = (0..).take(rows * stride).collect();
        let tile = Tile::new(&matrix, rows, columns, stride);
        PAIR.with_borrow_mut(|(a, _, b, _)| {
            a.send_tile(b.id(), 1, tile).unwrap();
            let mut to = vec![-1; rows * (columns + to_gap)];
            let room = TileMut::new(&mut to, rows, columns, columns + to_gap);
            b.recv_tile(&ANY, room).unwrap();
            let got = Tile::new(&to, rows, columns, columns + to_gap);
            assert_eq!(got.to_vec(), tile.to_vec());
            assert_eq!(to.iter().filter(|x| **x == -1).count(), rows * to_gap, "nothing beside it");
        });
    }
}

#[test]
fn a_tile_that_reaches_beyond_its_array_is_a_fault_of_its_caller() {
    let array = [0.0; 10];
    for (rows, columns, stride) in [(3, 3, 4), (2, 6, 6), (2, 3, 2), (usize::MAX, 1, 2)] {
        let made = std::panic::catch_unwind(|| Tile::new(&array, rows, columns, stride).len());
        assert!(made.is_err(), "{rows} rows of {columns} every {stride}");
    }
    assert_eq!(Tile::column(&array, 5, 4).len(), 2);
}

#[test]
fn a_tile_is_its_rows_and_one_piece_where_it_lies_in_one() {
    let data: Vec<u16> = (0..12).collect();
    let tile = Tile::new(&data, 2, 3, 5);
    assert_eq!((tile.len(), tile.is_empty(), tile.as_slice()), (6, false, None));
    assert_eq!(tile.to_vec(), [0, 1, 2, 5, 6, 7]);
    assert_eq!(tile.rows().collect::<Vec<_>>(), [&data[..3], &data[5..8]]);
    let whole = Tile::new(&data, 3, 4, 4);
    assert_eq!((whole.as_slice(), whole.to_vec()), (Some(&data[..]), data.clone()));
    let row = Tile::new(&data, 1, 3, 9);
    assert_eq!(row.as_slice(), Some(&data[..3]));
    let none = Tile::new(&data, 0, 3, 9);
    assert_eq!((none.as_slice(), none.is_empty()), (Some(&data[..0]), true));
    let column = Tile::column(&data, 4, 1);
    assert_eq!(column.to_vec(), [1, 5, 9]);
    let mut data = data;
    let mut tile = TileMut::new(&mut data, 2, 2, 4);
    assert_eq!((tile.len(), tile.is_empty()), (4, false));
    tile.rows().for_each(|row| row.fill(99));
    assert_eq!(data, [99, 99, 2, 3, 99, 99, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn arrays_of_values_are_their_values() {
    let mut values = [[1_u16, 0x0203], [4, 5]];
    assert_eq!(<[u16; 2]>::SIZE, 4);
    assert_eq!(<[u16; 2]>::bytes(&values).len(), 8);
    let bytes = <[u16; 2]>::bytes_mut(&mut values).expect("they lie in one piece");
    assert_eq!(bytes.len(), 8);
    bytes[..2].copy_from_slice(&9_u16.to_ne_bytes());
    assert_eq!(values, [[9, 0x0203], [4, 5]]);
    <[u16; 2]>::turn(&mut values);
    assert_eq!(values[0], [0x0900, 0x0302]);
    let mut out = [[0_u16; 2]; 1];
    <[u16; 2]>::read(&[1, 0, 2, 0], Order::Little, &mut out);
    assert_eq!(out, [[1, 2]]);
}

#[test]
fn records_are_received_where_there_is_room_for_all_of_them() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    let body =
        |n: u8| Body { kind: n, mass: f64::from(n), at: [0, 1, 2].map(|k| k - i16::from(n)) };
    let bodies: Vec<Body> = (1..=4).map(body).collect();
    let mut out = [Body::ZERO; 3];
    for count in [1, 3] {
        out.fill(Body::ZERO);
        task.send_slice(own, 1, &bodies[..count]).unwrap();
        let got = task.recv_slice_into(&ANY, &mut out).unwrap();
        assert_eq!((got.len, &out[..count]), (15 * count, &bodies[..count]));
        assert!(out[count..].iter().all(|body| *body == Body::ZERO));
    }
    task.send_slice(own, 1, &bodies).unwrap();
    let long = task.recv_slice_into(&ANY, &mut out).unwrap_err();
    assert_eq!(long, RecvError::TooLong { len: 60, room: 45 });
    assert_eq!(*task.recv_slice::<Body>(&ANY).unwrap(), bodies[..]);
}
