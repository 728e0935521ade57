//! Bytes and words as they are written down: what a change on both sides at once would not show.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use crate::bytes::{ParseError, Reader, Writer};
use crate::coding;
use crate::frame::{self, ChannelOpen, Direction, Frame, Frames, Reliability, TrafficSpec};
use crate::greeting::{Greeting, NoGreeting};
use crate::id::{ChannelId, HostId, LinkId, PathId, SLOT_MAX, TASK_MAX, TaskId};
use crate::packet::{Admission, Cookie, Data, Initiation, Packet, Response, TAG, Versions};
use crate::show::Shown;
use crate::talk::{ChannelFront, FrameHead, FrameKind, HEADER_LEN, Header, Lent};
use crate::units::{ByteSize, Instant, Rate, nanos};
use crate::version::{VersionRange, WIRE_VERSIONS};

fn emitted(emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buf = [0xee; 300];
    let mut w = Writer::new(&mut buf);
    emit(&mut w);
    let used = w.used();
    buf[..used].to_vec()
}

fn open(direction: Direction, reliability: Reliability, tspec: bool) -> ChannelOpen {
    let tspec = tspec.then_some(TrafficSpec {
        rate: Rate::from_mbps(2),
        peak: Rate::from_mbps(100),
        burst: ByteSize::from_bytes(0x0304),
        unit_min_bytes: 5,
        unit_max_bytes: 6,
    });
    let (channel, priority, label, limit) = (ChannelId(4), 0x0102, 0x0304, 0x0506);
    let plain = ChannelOpen::new(channel, direction, reliability, limit);
    ChannelOpen { priority, label, tspec, ..plain }
}

#[test]
fn identifiers_have_one_place_for_each_part_and_refuse_all_else() {
    let host = HostId::new(0x123, 0x89ab_cdef).expect("in range");
    let task = host.task(0x2_4567).expect("in range");
    let raw = 0x89ab_cdef << 32 | 0x123 << 18;
    assert_eq!((host.to_raw(), task.to_raw()), (raw, raw | 0x2_4567));
    assert_eq!(task.pvm_tid(), 0x123 << 18 | 0x2_4567);
    assert_eq!(
        (HostId::try_from(raw), TaskId::try_from(raw | 1)),
        (Ok(host), Ok(host.task(1).unwrap()))
    );
    // A host is no task, and a task no host; slot 0 is nobody's; PVM's flag bits stay zero.
    assert!(TaskId::try_from(raw).is_err() && HostId::try_from(raw | 1).is_err());
    for bad in [raw | 1 << 30, raw | 1 << 31, raw | 3 << 30, raw & !(0xfff << 18), 0, 1 << 32] {
        assert!(HostId::try_from(bad).is_err(), "{bad:#x}");
        assert!(TaskId::try_from(bad | 1).is_err(), "{bad:#x}");
    }
    let edge = u64::from(SLOT_MAX) << 18 | u64::from(TASK_MAX);
    assert_eq!(TaskId::try_from(edge).map(TaskId::number), Ok(TASK_MAX));
    assert_eq!(HostId::try_from(1 << 18).map(HostId::slot), Ok(1));
    assert!(HostId::new(1, 0).is_some() && HostId::new(SLOT_MAX, 0).is_some());
    assert!(host.task(1).is_some() && host.task(TASK_MAX).is_some());
    let all = [TaskId::MIN, TaskId::try_from(1 << 18 | 1).unwrap(), TaskId::MAX];
    assert!(all.is_sorted() && TaskId::try_from(TaskId::MIN.to_raw()).is_err());
    assert!(TaskId::try_from(TaskId::MAX.to_raw()).is_err());
    assert_eq!(
        HostId::try_from(5).unwrap_err().to_string(),
        "0x0000000000000005 is not a valid host identifier"
    );
    assert_eq!(
        TaskId::try_from(5).unwrap_err().to_string(),
        "0x0000000000000005 is not a valid task identifier"
    );
}

#[test]
fn identifiers_are_spelled_for_people() {
    let (first, later) = (HostId::new(3, 0).unwrap(), HostId::new(3, 2).unwrap());
    assert_eq!((first.to_string(), later.to_string()), ("h3".into(), "h3.2".into()));
    assert_eq!(format!("{later:?} {:?}", first.task(7).unwrap()), "h3.2 h3:t7");
    assert_eq!(format!("{} {} {}", ChannelId(4), PathId(5), LinkId(6)), "c4 p5 l6");
}

#[test]
fn packets_have_the_bytes_of_their_map() {
    let mut data = [0; 16];
    Data { epoch: 7, path: PathId(0x0201), receiver: 0x0605_0403, number: 0x0e0d_0c0b_0a09_0807 }
        .emit(&mut data);
    assert_eq!(data, [4, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    let versions = VersionRange { min: 1, max: 3 };
    for (admission, ground, expiry, nonce) in [
        (Admission::Member, 0, [0; 8], [0; 16]),
        (
            Admission::Token { expiry_unix_s: 0x0102, nonce: [9; 16] },
            1,
            [2, 1, 0, 0, 0, 0, 0, 0],
            [9; 16],
        ),
    ] {
        let mut out = [0xee; 32];
        Initiation::emit_header(&mut out, versions, &admission, 0x0403_0201);
        let expected = [&[1, 3, 1, ground, 1, 2, 3, 4][..], &expiry, &nonce].concat();
        assert_eq!(out[..], expected[..]);
        let noise_and_macs = [&b"noise"[..], &[7; TAG], &[8; TAG]].concat();
        let whole = [&out[..], &noise_and_macs].concat();
        let Ok(Packet::Initiation(i)) = Packet::parse(&whole) else { panic!("an initiation") };
        assert_eq!((i.versions, i.admission, i.sender), (versions, admission, 0x0403_0201));
        assert_eq!((i.noise, i.mac1, i.mac2), (&b"noise"[..], [7; TAG], [8; TAG]));
        assert_eq!((i.before_mac1, i.before_mac2), (&whole[..37], &whole[..53]));
        assert!(Packet::parse(&whole[..63]).is_err(), "no room for both proofs");
    }
    let mut out = [0xee; 12];
    Response::emit_header(&mut out, 1, 0x0403_0201, 0x0807_0605);
    assert_eq!(out, [2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let whole = [&out[..], b"noise", &[7; TAG]].concat();
    let Ok(Packet::Response(r)) = Packet::parse(&whole) else { panic!("a response") };
    assert_eq!((r.noise, r.mac1, r.before_mac1), (&b"noise"[..], [7; TAG], &whole[..17]));
    let cookie = Cookie { receiver: 0x0403_0201, cookie: [7; 16], mac1: [8; 16] }.emit();
    assert_eq!(cookie[..], [&[3, 0, 0, 0, 1, 2, 3, 4][..], &[7; 16], &[8; 16]].concat());
    let versions = Versions { versions, receiver: 0x0403_0201 }.emit();
    assert_eq!(versions, [5, 3, 1, 0, 1, 2, 3, 4]);
}

#[test]
fn what_no_packet_can_be_is_refused_by_name() {
    let unknown = |field, value| Err(ParseError::Unknown { field, value });
    assert_eq!(Packet::parse(&[]), Err(ParseError::Truncated { need: 1, have: 0 }));
    for kind in [0, 6, 255] {
        assert_eq!(Packet::parse(&[kind; 64]), unknown("packet kind", kind.into()));
    }
    // No version, an empty range; a ground that is none.
    assert_eq!(Packet::parse(&[5, 1, 0, 0, 1, 2, 3, 4]), unknown("version range", 1));
    assert_eq!(Packet::parse(&[5, 1, 2, 0, 1, 2, 3, 4]), unknown("version range", 0x0201));
    let mut initiation = [0; 64];
    initiation[..4].copy_from_slice(&[1, 1, 1, 2]);
    assert_eq!(Packet::parse(&initiation), unknown("admission", 2));
    assert_eq!(Packet::parse(&[3; 39]), Err(ParseError::Truncated { need: 16, have: 15 }));
    let mut data = [0; 32];
    data[0] = 4;
    assert!(Packet::parse(&data).is_ok() && Packet::parse(&data[..31]).is_err());
}

#[test]
fn frames_have_the_bytes_of_their_map() {
    let (c, p) = (ChannelId(0x0403_0201), PathId(0x0605));
    for (bytes, expected) in [
        (emitted(frame::emit_ping), &[1][..]),
        (
            emitted(|w| frame::emit_ack(w, p, 0x0a09_0807, 0x0b, &[0x0c, 0x0d])),
            &[
                2, 2, 5, 6, 7, 8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, //
                12, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0,
            ],
        ),
        (
            emitted(|w| frame::emit_data_header(w, c, 5, 0x0906, 0x0807, 0x0a0b)),
            &[4, 0, 11, 10, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 6, 9, 0, 0, 7, 8, 0, 0],
        ),
        (
            emitted(|w| frame::emit_limit(w, c, 9)),
            &[5, 0, 0, 0, 1, 2, 3, 4, 9, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            emitted(|w| frame::emit_close_channel(w, c, 0x0506, 9)),
            &[6, 0, 6, 5, 1, 2, 3, 4, 9, 0, 0, 0, 0, 0, 0, 0],
        ),
        (emitted(|w| frame::emit_close(w, 0x0506, b"ab")), &[7, 2, 6, 5, b'a', b'b']),
        (
            emitted(|w| frame::emit_path_response(w, 7)),
            &[9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            emitted(|w| frame::emit_skip(w, c, 7, 8)),
            &[10, 0, 0, 0, 1, 2, 3, 4, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
        ),
        (emitted(|w| frame::emit_marks(w, p, 7)), &[128, 0, 10, 0, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0]),
        (
            emitted(|w| frame::emit_ack_rate(w, p, 0x0807, 0x0c0b_0a09)),
            &[129, 0, 8, 0, 5, 6, 7, 8, 9, 10, 11, 12],
        ),
    ] {
        assert_eq!(bytes, expected);
    }
    let bare =
        emitted(|w| frame::emit_open(w, &open(Direction::Acceptor, Reliability::Timely, false)));
    let front = [3, 2, 2, 0, 4, 0, 0, 0, 2, 1, 4, 3, 6, 5, 0, 0, 0, 0, 0, 0];
    assert_eq!(bare, front);
    let open = open(Direction::Opener, Reliability::Unreliable, true);
    let with = emitted(|w| frame::emit_open(w, &open));
    assert_eq!((with.len(), with[..4].to_vec()), (52, vec![3, 1, 3, 1]));
    let units = [&2_000_000u64.to_le_bytes()[..], &100_000_000u64.to_le_bytes(), &[4, 3]].concat();
    assert_eq!(with[20..38], units);
    assert_eq!(with[44..], [5, 0, 0, 0, 6, 0, 0, 0]);
    let add = emitted(|w| {
        frame::emit_path_add(w, PathId(0x0201), LinkId(0x0403), ([10, 0, 0, 1], 0x0605).into());
    });
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    assert_eq!(add, [&[130, 0, 22, 0, 1, 2, 3, 4][..], &mapped, &[5, 6]].concat());
    let retire = emitted(|w| frame::emit_path_retire(w, PathId(0x0201), 0x0403));
    assert_eq!(retire, [131, 0, 4, 0, 1, 2, 3, 4]);
    assert_eq!(emitted(|w| frame::emit_note(w, &[7, 8, 9])), [132, 0, 3, 0, 7, 8, 9]);
    // Parameters stand behind the specification, and only what is asked for.
    let open = ChannelOpen { reservation: Some(0x0807), ..open };
    let reserved = emitted(|w| frame::emit_open(w, &open));
    assert_eq!((reserved[3], &reserved[4..52]), (3, &with[4..]));
    assert_eq!(reserved[52..], [10, 0, 128, 8, 7, 8, 0, 0, 0, 0, 0, 0]);
    let both = ChannelOpen { tspec: None, one_to_many: true, duplex: true, ..open };
    let bytes = emitted(|w| frame::emit_open(w, &both));
    assert_eq!((bytes[3], &bytes[20..26]), (2, &[14, 0, 1, 0, 2, 0][..]));
    assert_eq!(bytes[26..], reserved[54..]);
    assert!(shown(&bytes).ends_with(", one to many, duplex, reservation 2055"));
}

#[test]
fn what_no_frame_can_be_is_refused_by_name_and_long_words_are_cut() {
    let first =
        |bytes: &[u8]| Frames::new(bytes).next().map(|f| f.map_err(|e| e.to_string()).is_ok());
    let error = |bytes: &[u8]| match Frames::new(bytes).next() {
        Some(Err(ParseError::Unknown { field, value })) => (field, value),
        other => panic!("{other:?}"),
    };
    let mut open = emitted(|w| {
        frame::emit_open(w, &open(Direction::Both, Reliability::ReliableOrdered, true));
    });
    assert_eq!(first(&open), Some(true));
    assert_eq!(first(&open[..51]), Some(false), "cut");
    for (place, value, field) in [(1, 3, "direction"), (2, 4, "reliability"), (3, 4, "open flags")]
    {
        let before = core::mem::replace(&mut open[place], value);
        assert_eq!(error(&open), (field, value.into()));
        open[place] = before;
    }
    assert_eq!(error(&[11]), ("frame type", 11));
    assert_eq!(error(&[127]), ("frame type", 127));
    assert_eq!(first(&[]), None);
    let close = emitted(|w| frame::emit_close(w, 1, &[b'x'; 256]));
    assert_eq!((close.len(), close[1]), (4 + 255, 255));
    assert_eq!(Frames::new(&[0, 0]).collect::<Vec<_>>(), [Ok(Frame::Pad), Ok(Frame::Pad)]);
    let challenge = [8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Frames::new(&challenge).next(), Some(Ok(Frame::PathChallenge(7))));
    let both_ends = emitted(|w| {
        frame::emit_data_header(w, ChannelId(1), 0, 12, 10, 2);
        w.put(&[1, 2]);
    });
    assert_eq!(first(&both_ends), Some(true), "the last bytes of a message");
}

fn shown(content: &[u8]) -> String {
    let mut datagram = vec![0; 16];
    Data { epoch: 0, path: PathId(0), receiver: 1, number: 2 }.emit(&mut datagram);
    datagram.extend_from_slice(content);
    datagram.extend_from_slice(&[0; TAG]);
    let line = Shown { datagram: &datagram, clear: true }.to_string();
    line.strip_prefix("data to 0x1 path 0 #2: ").expect("its header").into()
}

#[test]
fn every_frame_has_its_words() {
    let c = ChannelId(4);
    for (bytes, words) in [
        (emitted(|w| frame::emit_marks(w, PathId(3), 9)), "MARKS path 3 9 marked"),
        (
            emitted(|w| frame::emit_ack_rate(w, PathId(3), 8, 250)),
            "ACK_RATE path 3 every 8 within 250 us",
        ),
        (
            emitted(|w| {
                frame::emit_path_add(w, PathId(3), LinkId(2), ([10, 0, 0, 1], 7000).into());
            }),
            "PATH_ADD path 3 link 2 at 10.0.0.1:7000",
        ),
        (emitted(|w| frame::emit_path_retire(w, PathId(3), 9)), "PATH_RETIRE path 3, reason 9"),
        (emitted(|w| frame::emit_note(w, &[1, 2])), "NOTE 2 B"),
        (
            emitted(|w| {
                coding::emit_coded(w, 9, 1, 3, 1);
                frame::emit_ping(w);
            }),
            "CODED group 9 1/3, 1 B; PING",
        ),
        (
            emitted(|w| {
                let symbol = &[0; 14];
                coding::emit_parity(w, &coding::Parity { group: 9, members: 3, index: 0, symbol });
            }),
            "PARITY 0 of group 9, 3 members, 14 B",
        ),
        (emitted(|w| coding::emit_rebuilt(w, PathId(2), 77)), "REBUILT path 2 #77"),
        (emitted(|w| frame::emit_limit(w, c, 99)), "LIMIT channel 4 99 B"),
        (
            emitted(|w| frame::emit_close_channel(w, c, 5, 6)),
            "CLOSE_CHANNEL 4 after 6 messages, reason 5",
        ),
        (emitted(|w| frame::emit_close(w, 7, b"a\nb")), "CLOSE reason 7 \"a\\nb\""),
        (emitted(|w| frame::emit_path_response(w, 255)), "PATH_RESPONSE 0xff"),
        (vec![8, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0], "PATH_CHALLENGE 0x10"),
        (emitted(|w| frame::emit_skip(w, c, 5, 70)), "SKIP channel 4 message 5, charge 70 B"),
        (vec![200, 0, 0, 0], "extension 200"),
        (vec![0, 0, 1, 0], "PAD x 2; PING; PAD x 1"),
    ] {
        assert_eq!(shown(&bytes), words);
    }
    let tail = "priority 258, label 0x304, limit 1286 B";
    for (direction, class, words) in [
        (Direction::Both, Reliability::ReliableOrdered, "both ways, reliable ordered"),
        (Direction::Opener, Reliability::ReliableUnordered, "opener sends, reliable unordered"),
        (Direction::Acceptor, Reliability::Timely, "acceptor sends, timely"),
        (Direction::Both, Reliability::Unreliable, "both ways, unreliable"),
    ] {
        let bytes = emitted(|w| frame::emit_open(w, &open(direction, class, false)));
        assert_eq!(shown(&bytes), format!("OPEN channel 4 {words}, {tail}"));
    }
    let bytes = emitted(|w| frame::emit_open(w, &open(Direction::Both, Reliability::Timely, true)));
    let words = shown(&bytes);
    assert!(words.ends_with(", 2000.0 kbit/s with a peak of 100.0 Mbit/s"), "{words}");
    // Ranges: one number, two, and the eight that are shown of nine.
    let ack = |word| shown(&emitted(|w| frame::emit_ack(w, PathId(0), 1, 100, &[word])));
    assert_eq!(ack(0b1), "ACK path 0 #100 after 1 us");
    assert_eq!(ack(1 << 63), "ACK path 0 #37 after 1 us");
    let nine = ack(0b1_0101_0101_0101_0101);
    assert!(nine.ends_with(" #86 and 1 ranges more after 1 us"), "{nine}");
    let eight = ack(0b101_0101_0101_0101);
    assert!(eight.ends_with(" #88 #86 after 1 us"), "{eight}");
}

#[test]
fn every_packet_has_its_words() {
    let show = |datagram: &[u8]| Shown { datagram, clear: true }.to_string();
    let versions = VersionRange { min: 1, max: 3 };
    let initiation = |admission: Admission, proof: u8| {
        let mut out = [0; 32 + 2 * TAG];
        Initiation::emit_header(&mut out, versions, &admission, 0x1f);
        out[32 + TAG..].fill(proof);
        show(&out)
    };
    assert_eq!(initiation(Admission::Member, 0), "initiation from 0x1f versions 1..=3 as a member");
    assert_eq!(
        initiation(Admission::Token { expiry_unix_s: 99, nonce: [0; 16] }, 5),
        "initiation from 0x1f versions 1..=3 with a token until 99 s, with proof of address"
    );
    let mut response = [0; 12 + TAG];
    Response::emit_header(&mut response, 2, 0x10, 0x20);
    assert_eq!(show(&response), "response to 0x10 from 0x20 version 2");
    let cookie = Cookie { receiver: 0x10, cookie: [1; 16], mac1: [2; 16] };
    assert_eq!(show(&cookie.emit()), "cookie to 0x10");
    assert_eq!(show(&Versions { versions, receiver: 0x10 }.emit()), "versions 1..=3 to 0x10");
    assert_eq!(
        show(&[9]),
        "no packet of ours: packet kind has value 9, which this version does not know"
    );
    let mut data = [0; 32];
    Data { epoch: 3, path: PathId(1), receiver: 2, number: 4 }.emit(&mut data);
    assert_eq!(show(&data), "data to 0x2 path 1 epoch 3 #4");
    assert_eq!(
        Shown { datagram: &data, clear: false }.to_string(),
        "data to 0x2 path 1 epoch 3 #4: 0 B sealed"
    );
}

#[test]
fn headers_of_tasks_have_the_bytes_of_their_map() {
    let host = HostId::new(1, 0).unwrap();
    let (src, dst) = (host.task(1).unwrap(), host.task(2).unwrap());
    let header = Header { src, dst, tag: -2, context: 3, seq: 4, format: 5, total: 7, offset: 7 };
    let expected = [
        1, 0, 4, 0, 0, 0, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, //
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 4, 0, 0, 0, //
        5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, //
        7, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(HEADER_LEN, 56);
    assert_eq!((header.emit(), Header::parse(&expected)), (expected, Ok(header)));
    let mut wide = expected;
    wide[16..24].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
    let tag = 0x0102_0304_0506_0708;
    assert_eq!(
        (Header { tag, ..header }.emit(), Header::parse(&wide).map(|h| h.tag)),
        (wide, Ok(tag))
    );
    let mut later = expected;
    later[36] = 1;
    assert_eq!(Header::parse(&later), Err(ParseError::Unknown { field: "zero", value: 1 }));
    let mut beyond = expected;
    beyond[48] = 8;
    let limit = ParseError::Limit { field: "offset", value: 8, limit: 7 };
    assert_eq!(Header::parse(&beyond), Err(limit));
    for (place, field) in [(0, "src"), (8, "dst")] {
        let mut bad = expected;
        bad[place] = 0;
        assert_eq!(Header::parse(&bad), Err(ParseError::Unknown { field, value: 1 << 18 }));
    }
    assert_eq!(Lent { page: 0x0201, len: 0x0403 }.emit(), [1, 2, 0, 0, 3, 4, 0, 0]);
    let front = ChannelFront { number: 0x0201, left: Some(Duration::from_nanos(0x0403)) };
    let bytes = [1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0];
    assert_eq!((front.emit(), ChannelFront::parse(&bytes)), (bytes, Ok(front)));
    assert_eq!(ChannelFront { left: None, ..front }.emit()[8..], [255; 8]);
    let kinds = [FrameKind::Control, FrameKind::Data, FrameKind::Multicast, FrameKind::Lent];
    for (n, kind) in kinds.into_iter().chain([FrameKind::Channel]).enumerate() {
        let head = FrameHead { kind, len: 0x0201 };
        assert_eq!(head.emit(), [1, 2, 0, 0, n as u8, 0, 0, 0]);
        assert_eq!(FrameHead::parse(&head.emit()), Ok(head));
    }
    let unknown = ParseError::Unknown { field: "kind", value: 5 };
    assert_eq!(FrameHead::parse(&[0, 0, 0, 0, 5, 0, 0, 0]), Err(unknown));
}

#[test]
fn a_greeting_is_as_long_as_it_may_be_and_shows_nothing_but_text() {
    let long = "é".repeat(40);
    let (bytes, len) = Greeting { protocol: 1, build: &long }.emit();
    assert_eq!((len, bytes[6]), (7 + 64, 64), "cut between letters");
    let odd = format!("x{long}");
    assert_eq!(Greeting { protocol: 1, build: &odd }.emit().1, 7 + 63);
    let of =
        |len: usize, byte: u8| [&b"tow\xF7\x01\x00"[..], &[len as u8], &vec![byte; len]].concat();
    assert!(matches!(Greeting::parse(&of(64, b'x')), Ok(Some((_, 71)))));
    assert_eq!(Greeting::parse(&of(65, b'x')), Err(NoGreeting));
    assert_eq!(Greeting::parse(&of(3, 0x1b)), Err(NoGreeting), "a terminal's command");
    assert_eq!(Greeting::parse(&of(3, 0xff)), Err(NoGreeting), "no text");
    assert_eq!(Greeting::parse(b""), Ok(None));
    let greeting = Greeting { protocol: 3, build: "0.1.0" };
    assert_eq!(greeting.to_string(), "towpath 0.1.0, protocol 3");
}

#[test]
fn ranges_of_versions_have_a_beginning_and_an_end() {
    assert_eq!((VersionRange::new(0, 3), VersionRange::new(3, 2)), (None, None));
    let range = VersionRange::new(2, 4).expect("a range");
    let inside: Vec<u8> = (0..=255).filter(|v| range.contains(*v)).collect();
    assert_eq!(inside, [2, 3, 4]);
    let one = VersionRange::new(4, 4).expect("one version");
    assert_eq!((range.agree(one), one.agree(range)), (Some(4), Some(4)));
    assert_eq!(range.agree(VersionRange { min: 5, max: 9 }), None);
    assert_eq!((range.to_string(), one.to_string()), ("2-4".into(), "4".into()));
    assert!(WIRE_VERSIONS.contains(1));
}

#[test]
fn units_count_in_tens_or_twos_and_stop_at_their_ends() {
    assert_eq!((Rate::from_mbps(3).as_bps(), Rate::from_bps(3).as_bps()), (3_000_000, 3));
    assert_eq!(
        (ByteSize::from_kib(3).as_bytes(), ByteSize::from_mib(3).as_bytes()),
        (3072, 3 << 20)
    );
    assert_eq!(Rate::from_mbps(u64::MAX).as_bps(), u64::MAX);
    let mut size = ByteSize::from_bytes(5) + ByteSize::from_bytes(7);
    size += ByteSize::from_bytes(1);
    assert_eq!((size.as_bytes(), size > ByteSize::ZERO), (13, true));
    assert_eq!((size + ByteSize::from_mib(u64::MAX)).as_bytes(), u64::MAX);
    let slow = Rate::from_bps(1);
    let most = slow.time_for(ByteSize::from_mib(u64::MAX)).expect("a rate");
    assert_eq!(nanos(most), u64::MAX);
    assert_eq!(nanos(Duration::MAX), u64::MAX);
    assert_eq!(nanos(Duration::new(1, 5)), 1_000_000_005);
    assert_eq!(Rate::from_mbps(8).bytes_in(Duration::from_micros(3)).as_bytes(), 3);
    assert_eq!(Rate::from_bps(u64::MAX).bytes_in(Duration::MAX).as_bytes(), u64::MAX);
    let at = Instant::from_nanos(1_000_000_007);
    assert_eq!(
        (at.since(Instant::from_nanos(7)), at.as_nanos()),
        (Duration::from_secs(1), 1_000_000_007)
    );
    assert_eq!((at - Duration::from_nanos(7)).to_string(), "1.000000000 s");
    assert_eq!(at.to_string(), "1.000000007 s");
    let sizes = [9999, 10_000, 10_485_759, 10_485_760, 10_737_418_239, 10_737_418_240];
    let spelled = sizes.map(|n| ByteSize::from_bytes(n).to_string());
    assert_eq!(
        spelled,
        ["9999 B", "9.8 KiB", "10240.0 KiB", "10.0 MiB", "10240.0 MiB", "10.00 GiB"]
    );
    assert_eq!(Rate::from_bps(9_999_999_999).to_string(), "10000.0 Mbit/s");
}

#[test]
fn a_reader_gives_what_is_left_and_a_writer_says_what_it_used() {
    let mut r = Reader::new(&[1, 2, 3]);
    assert_eq!(
        (r.take(0), r.u8(), r.rest(), r.is_empty()),
        (Ok(&[][..]), Ok(1), &[2, 3][..], false)
    );
    assert_eq!(r.take(3), Err(ParseError::Truncated { need: 3, have: 2 }));
    assert_eq!((r.array::<2>(), r.is_empty()), (Ok([2, 3]), true), "a failure takes nothing");
    let mut buf = [0; 5];
    let mut w = Writer::new(&mut buf);
    w.reserve(2).copy_from_slice(&[8, 9]);
    assert_eq!((w.used(), w.room()), (2, 3));
    w.put(&[7]);
    assert_eq!((w.used(), w.room()), (3, 2));
    assert_eq!(buf, [8, 9, 7, 0, 0]);
    let limit = ParseError::Limit { field: "len", value: 9, limit: 8 };
    assert_eq!(limit.to_string(), "len is 9, limit 8");
}
