use super::*;
use crate::coding::PARITY;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn only(bytes: &[u8]) -> Result<Frame<'_>, ParseError> {
    let mut frames = Frames::new(bytes);
    let first = frames.next().expect("one frame");
    assert!(frames.next().is_none(), "exactly one frame");
    first
}

fn emitted(len: usize, emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    let mut w = Writer::new(&mut buf);
    emit(&mut w);
    assert_eq!(w.room(), 0, "the stated length is the emitted length");
    buf
}

fn plain_open() -> ChannelOpen {
    ChannelOpen::new(ChannelId(4), Direction::Both, Reliability::Timely, 3)
}

proptest! {
    #[test]
    fn any_bytes_walk_to_an_end_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert!(Frames::new(&bytes).count() <= bytes.len());
    }

    #[test]
    fn an_ack_comes_back(
        path: u16,
        delay: u32,
        largest: u64,
        words in proptest::collection::vec(any::<u64>(), 1..=ACK_WORDS_MAX),
    ) {
        let buf = emitted(ack_len(words.len()), |w| {
            emit_ack(w, PathId(path), delay, largest, &words);
        });
        let Ok(Frame::Ack(a)) = only(&buf) else { panic!("not an ack") };
        prop_assert_eq!((a.path, a.delay_us, a.largest), (PathId(path), delay, largest));
        prop_assert_eq!(a.words().collect::<Vec<_>>(), words);
    }

    #[test]
    fn a_wish_for_acknowledgements_comes_back(path: u16, every: u16, delay_us: u32) {
        let path = PathId(path);
        let buf = emitted(ACK_RATE_LEN, |w| emit_ack_rate(w, path, every, delay_us));
        prop_assert_eq!(only(&buf), Ok(Frame::AckRate { path, every, delay_us }));
        prop_assert!(only(&buf[..ACK_RATE_LEN - 1]).is_err());
    }

    #[test]
    fn what_is_said_of_paths_comes_back(
        path: u16, link: u16, v4: [u8; 4], v6: [u8; 16], port: u16, reason: u16,
    ) {
        let (path, link) = (PathId(path), LinkId(link));
        for ip in [IpAddr::from(v4), IpAddr::from(v6).to_canonical()] {
            let remote = (ip, port).into();
            let buf = emitted(PATH_ADD_LEN, |w| emit_path_add(w, path, link, remote));
            prop_assert_eq!(only(&buf), Ok(Frame::PathAdd { path, link, remote }));
            prop_assert!(only(&buf[..PATH_ADD_LEN - 1]).is_err());
        }
        let buf = emitted(PATH_RETIRE_LEN, |w| emit_path_retire(w, path, reason));
        prop_assert_eq!(only(&buf), Ok(Frame::PathRetire { path, reason }));
    }

    #[test]
    fn a_piece_comes_back(
        channel: u32,
        message: u64,
        offset in 0..1_000_000u32,
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        beyond in 0..100u32,
    ) {
        let channel = ChannelId(channel);
        let len = offset + bytes.len() as u32 + beyond;
        let buf = emitted(DATA_OVERHEAD + bytes.len(), |w| {
            emit_data_header(w, channel, message, len, offset, bytes.len() as u16);
            w.put(&bytes);
        });
        let piece = Piece { channel, message, message_len: len, offset, bytes: &bytes };
        prop_assert_eq!(only(&buf), Ok(Frame::Data(piece)));
    }

    #[test]
    fn an_open_comes_back(
        channel: u32,
        priority: u16,
        label: u16,
        limit: u64,
        rate: u64,
        burst: u64,
        units: [u32; 2],
        with: bool,
        reservation: Option<u64>,
        forms: [bool; 2],
    ) {
        let channel = ChannelId(channel);
        let tspec = with.then_some(TrafficSpec {
            rate: Rate::from_bps(rate),
            peak: Rate::from_bps(!rate),
            burst: ByteSize::from_bytes(burst),
            unit_min_bytes: units[0],
            unit_max_bytes: units[1],
        });
        for direction in [Direction::Both, Direction::Opener, Direction::Acceptor] {
            for reliability in [
                Reliability::ReliableOrdered,
                Reliability::ReliableUnordered,
                Reliability::Timely,
                Reliability::Unreliable,
            ] {
                let [one_to_many, duplex] = forms;
                let open = ChannelOpen {
                    channel,
                    direction,
                    reliability,
                    priority,
                    label,
                    limit,
                    tspec,
                    reservation,
                    one_to_many,
                    duplex,
                };
                let buf = emitted(open_len(&open), |w| emit_open(w, &open));
                prop_assert_eq!(only(&buf), Ok(Frame::Open(open)));
            }
        }
    }

    /// The rule of kinds, for types of frames and parameters of OPEN: what a later build adds
    /// between what is known leaves that as it was, or refuses the whole by name.
    #[test]
    fn what_is_unknown_is_skipped_or_refused_by_its_kind(
        frame_type: u8,
        parameter: u8,
        body in proptest::collection::vec(any::<u8>(), 0..40),
        reservation: u64,
    ) {
        let extensions =
            [MARKS, ACK_RATE, PATH_ADD, PATH_RETIRE, NOTE, CODED, PARITY, REBUILT];
        let unknown_frame = frame_type > SKIP && !extensions.contains(&frame_type);
        if unknown_frame {
            let mut bytes = vec![PING, frame_type, 0, body.len() as u8, 0];
            bytes.extend(&body);
            bytes.push(PING);
            let results: Vec<_> = Frames::new(&bytes).collect();
            let field = "frame type";
            let refused = Err(ParseError::Unknown { field, value: frame_type.into() });
            prop_assert_eq!(results, if frame_type < 128 {
                vec![Ok(Frame::Ping), refused]
            } else {
                vec![Ok(Frame::Ping), Ok(Frame::Extension(frame_type)), Ok(Frame::Ping)]
            });
        }
        if ![ONE_TO_MANY, DUPLEX, RESERVATION].contains(&parameter) {
            let open = ChannelOpen { reservation: Some(reservation), ..plain_open() };
            let known = emitted(open_len(&open), |w| emit_open(w, &open));
            let mut bytes = known.clone();
            let more = [&[parameter, body.len() as u8][..], &body].concat();
            bytes[20] += more.len() as u8;
            bytes.splice(22..22, more);
            let field = "open parameter";
            let refused = Err(ParseError::Unknown { field, value: parameter.into() });
            let taken = Ok(Frame::Open(open));
            prop_assert_eq!(only(&bytes), if parameter < 128 { refused } else { taken });
        }
    }

    #[test]
    fn small_frames_come_back(channel: u32, limit: u64, reason: u16, text in "[a-z]{0,40}") {
        let c = ChannelId(channel);
        let expected = [
            (emitted(1, emit_ping), Frame::Ping),
            (emitted(LIMIT_LEN, |w| emit_limit(w, c, limit)), Frame::Limit { channel: c, limit }),
            (
                emitted(CLOSE_CHANNEL_LEN, |w| emit_close_channel(w, c, reason, limit)),
                Frame::CloseChannel { channel: c, reason, messages: limit },
            ),
            (
                emitted(4 + text.len(), |w| emit_close(w, reason, text.as_bytes())),
                Frame::Close { reason, text: text.as_bytes() },
            ),
            (
                emitted(SKIP_LEN, |w| emit_skip(w, c, limit, !limit)),
                Frame::Skip { channel: c, message: limit, charge: !limit },
            ),
            (emitted(PATH_TOKEN_LEN, |w| emit_path_response(w, limit)), Frame::PathResponse(limit)),
            (
                emitted(NOTE_OVERHEAD + text.len(), |w| emit_note(w, text.as_bytes())),
                Frame::Note(text.as_bytes()),
            ),
        ];
        for (bytes, frame) in &expected {
            prop_assert_eq!(only(bytes), Ok(*frame));
        }
    }
}

#[test]
fn a_piece_beyond_its_message_is_refused() {
    let buf = emitted(DATA_OVERHEAD + 2, |w| {
        emit_data_header(w, ChannelId(1), 0, 10, 9, 2);
        w.put(&[1, 2]);
    });
    let limit = ParseError::Limit { field: "piece end", value: 11, limit: 10 };
    assert_eq!(only(&buf), Err(limit));
}

#[test]
fn an_offset_near_the_top_does_not_wrap() {
    let buf = emitted(DATA_OVERHEAD + 1, |w| {
        emit_data_header(w, ChannelId(1), 0, 10, u32::MAX, 1);
        w.put(&[1]);
    });
    assert!(only(&buf).is_err());
}

#[test]
fn a_malformed_frame_ends_the_walk() {
    let results: Vec<_> = Frames::new(&[1, 250, 1, 1]).collect();
    assert_eq!(results[0], Ok(Frame::Ping));
    assert!(results[1].is_err());
    assert_eq!(results.len(), 2);
}

#[test]
fn a_frame_of_a_later_version_is_skipped_whole() {
    let results: Vec<_> = Frames::new(&[200, 0, 2, 0, 9, 9, 1]).collect();
    assert_eq!(results, vec![Ok(Frame::Extension(200)), Ok(Frame::Ping)]);
    assert!(only(&[200, 0, 3, 0, 9, 9]).is_err());
}

/// A count of words that is none, and one beyond the limit, are refused; all between are spoken of.
#[test]
fn an_acknowledgement_speaks_of_64_packets_a_word_and_of_1024_at_most() {
    let ack = |words: u8| {
        let mut bytes = vec![ACK, words];
        bytes.extend([0; 14]);
        bytes.extend(vec![0xff; usize::from(words) * 8]);
        bytes
    };
    for words in 1..=16 {
        let bytes = ack(words);
        let Ok(Frame::Ack(parsed)) = only(&bytes) else { panic!("{words} words") };
        assert_eq!((parsed.span(), parsed.words().count()), (u64::from(words) * 64, words.into()));
    }
    assert_eq!(ACK_SPAN, 1024);
    for words in [0, 17, 255] {
        let (field, value) = ("ack words", u64::from(words));
        assert_eq!(only(&ack(words)), Err(ParseError::Limit { field, value, limit: 16 }));
    }
}

/// The length that an extension states is that of what follows, so that whoever does not know it
/// finds the next frame.
#[test]
fn an_extension_states_its_length() {
    let marks = emitted(MARKS_LEN, |w| emit_marks(w, PathId(7), 9));
    assert_eq!(marks[..4], [MARKS, 0, 10, 0]);
    let rate = emitted(ACK_RATE_LEN, |w| emit_ack_rate(w, PathId(7), 3, 5));
    assert_eq!(rate[..4], [ACK_RATE, 0, 8, 0]);
    let both = [marks, rate].concat();
    let frames: Vec<_> = Frames::new(&both).collect();
    let (path, marked) = (PathId(7), 9);
    let rate = Frame::AckRate { path, every: 3, delay_us: 5 };
    assert_eq!(frames, [Ok(Frame::Marks { path, marked }), Ok(rate)]);
}
