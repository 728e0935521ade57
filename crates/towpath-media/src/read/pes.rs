//! PES packets (ISO/IEC 13818-1 §2.4.3.6, 11172-1 §2.4.3.3): header and payload, whatever the cut.

/// Start codes of PES packets: stream ids.
pub(super) const PROGRAM_STREAM_MAP: u8 = 0xBC;
pub(super) const PADDING: u8 = 0xBE;

/// Longest header that is looked at: 6 bytes, 16 of stuffing, buffer size, PTS and DTS (MPEG-1).
const HEADER_MAX: usize = 6 + 16 + 2 + 10;

/// A header that was understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PesHeader {
    /// Stream id.
    pub(super) id: u8,
    /// Bytes from the start code to the payload.
    pub(super) length: usize,
    /// Bytes of payload, `None` where the header leaves it open.
    pub(super) payload: Option<u32>,
    /// As sent, 33 bits.
    pub(super) pts: Option<u64>,
    pub(super) dts: Option<u64>,
}

/// What the first bytes of a packet tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// Too few bytes.
    More,
    Header(PesHeader),
    Bad,
}

/// Stream ids whose packets have no more header than their length (table 2-21).
fn is_bare(id: u8) -> bool {
    matches!(id, PROGRAM_STREAM_MAP | PADDING | 0xBF | 0xF0..=0xF2 | 0xF8 | 0xFF)
}

/// Parses a header from its start code on.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let known = bytes.len().min(3);
    if bytes[..known] != [0, 0, 1][..known] {
        return Parsed::Bad;
    }
    let &[_, _, _, id, l1, l0, ref rest @ ..] = bytes else { return Parsed::More };
    let length = u32::from(u16::from_be_bytes([l1, l0]));
    if is_bare(id) {
        let payload = if length == 0 && id != PADDING { None } else { Some(length) };
        return Parsed::Header(PesHeader { id, length: 6, payload, ..PesHeader::default() });
    }
    let Some(&first) = rest.first() else { return Parsed::More };
    let parsed = if first >> 6 == 0b10 { mpeg2(id, rest) } else { mpeg1(id, rest) };
    let Parsed::Header(mut header) = parsed else { return parsed };
    if length > 0 {
        let Some(payload) = (length + 6).checked_sub(header.length as u32) else {
            return Parsed::Bad;
        };
        header.payload = Some(payload);
    }
    Parsed::Header(header)
}

fn mpeg2(id: u8, rest: &[u8]) -> Parsed {
    let &[_, flags, header_length, ref fields @ ..] = rest else { return Parsed::More };
    let (wanted, has_pts, has_dts) = match flags >> 6 {
        0b00 => (0, false, false),
        0b10 => (5, true, false),
        0b11 => (10, true, true),
        _ => return Parsed::Bad,
    };
    if usize::from(header_length) < wanted {
        return Parsed::Bad;
    }
    if fields.len() < wanted {
        return Parsed::More;
    }
    let mut header =
        PesHeader { id, length: 9 + usize::from(header_length), ..PesHeader::default() };
    if has_pts {
        header.pts = Some(stamp(&fields[..5]));
    }
    if has_dts {
        header.dts = Some(stamp(&fields[5..10]));
    }
    Parsed::Header(header)
}

fn mpeg1(id: u8, rest: &[u8]) -> Parsed {
    let stuffing = rest.iter().take_while(|&&b| b == 0xFF).count();
    if stuffing > 16 {
        return Parsed::Bad;
    }
    let mut at = stuffing;
    match rest.get(at) {
        None => return Parsed::More,
        Some(b) if b >> 6 == 0b01 => at += 2,
        Some(_) => {}
    }
    let Some(&first) = rest.get(at) else { return Parsed::More };
    let mut header = PesHeader { id, ..PesHeader::default() };
    let wanted = match first >> 4 {
        0b0010 => 5,
        0b0011 => 10,
        _ if first == 0x0F => 1,
        _ => return Parsed::Bad,
    };
    let Some(fields) = rest.get(at..at + wanted) else { return Parsed::More };
    if wanted >= 5 {
        header.pts = Some(stamp(&fields[..5]));
    }
    if wanted == 10 {
        header.dts = Some(stamp(&fields[5..]));
    }
    header.length = 6 + at + wanted;
    Parsed::Header(header)
}

/// 33 bits in five bytes with marker bits between.
pub(super) fn stamp(b: &[u8]) -> u64 {
    let field = |i: usize| u64::from(b[i]);
    (field(0) >> 1 & 7) << 30
        | field(1) << 22
        | (field(2) >> 1) << 15
        | field(3) << 7
        | field(4) >> 1
}

/// Where in a PES packet its stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first start, or after something wrong: bytes are dropped.
    Idle,
    Header,
    /// Bytes of header extension that are left.
    Skip(usize, Option<u32>),
    /// Bytes of payload that are left, if known.
    Payload(Option<u32>),
}

/// Reads the PES packets of one stream, whose starts are known from outside (TS).
#[derive(Clone, Debug)]
pub(super) struct PesReader {
    state: State,
    header: [u8; HEADER_MAX],
    header_len: usize,
}

/// A step of a [`PesReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A header ended.
    Header(PesHeader),
    /// Bytes of the stream.
    Payload(&'a [u8]),
    /// The header contradicts itself: nothing more comes of this packet.
    BadHeader,
    /// Bytes beyond the packet's length: dropped.
    TooLong,
}

impl PesReader {
    pub(super) const fn new() -> Self {
        Self { state: State::Idle, header: [0; HEADER_MAX], header_len: 0 }
    }

    /// The next byte starts a packet. False if the one before lacks bytes.
    pub(super) fn start(&mut self) -> bool {
        let whole = matches!(self.state, State::Idle | State::Payload(None | Some(0)));
        self.state = State::Header;
        self.header_len = 0;
        whole
    }

    /// Bytes were lost. A header that lacks some is worth nothing; payload goes on.
    pub(super) fn lost(&mut self) {
        if matches!(self.state, State::Header | State::Skip(..)) {
            self.state = State::Idle;
        }
    }

    /// Takes the next bytes of the packet and tells each step.
    #[inline]
    pub(super) fn push<'a>(&mut self, mut bytes: &'a [u8], mut step: impl FnMut(Step<'a>)) {
        while !bytes.is_empty() {
            match self.state {
                State::Idle => return,
                State::Payload(None) => return step(Step::Payload(bytes)),
                State::Payload(Some(0)) => {
                    self.state = State::Idle;
                    return step(Step::TooLong);
                }
                State::Payload(Some(left)) => {
                    let take = bytes.len().min(left as usize);
                    self.state = State::Payload(Some(left - take as u32));
                    step(Step::Payload(&bytes[..take]));
                    bytes = &bytes[take..];
                }
                State::Skip(left, payload) => {
                    let take = bytes.len().min(left);
                    let left = left - take;
                    self.state = if left == 0 {
                        State::Payload(payload)
                    } else {
                        State::Skip(left, payload)
                    };
                    bytes = &bytes[take..];
                }
                State::Header => bytes = self.header(bytes, &mut step),
            }
        }
    }

    /// Collects header bytes; gives back those that belong behind it.
    fn header<'a>(&mut self, bytes: &'a [u8], step: &mut impl FnMut(Step<'a>)) -> &'a [u8] {
        let before = self.header_len;
        let take = bytes.len().min(HEADER_MAX - before);
        self.header[before..before + take].copy_from_slice(&bytes[..take]);
        self.header_len += take;
        match parse(&self.header[..self.header_len]) {
            Parsed::More if self.header_len < HEADER_MAX => &bytes[take..],
            Parsed::More | Parsed::Bad => {
                self.state = State::Idle;
                step(Step::BadHeader);
                &[]
            }
            Parsed::Header(header) => {
                step(Step::Header(header));
                // Fewer bytes than `before` would have been enough before this call.
                let used = (header.length - before.min(header.length)).min(bytes.len());
                let left = header.length - (before + used).min(header.length);
                self.state = State::Skip(left, header.payload);
                if left == 0 {
                    self.state = State::Payload(header.payload);
                }
                &bytes[used..]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// PTS `0x1_2345_6789`, DTS 3, header stuffed by 2 bytes, payload "abc" of 3 bytes.
    const MPEG2: [u8; 24] = [
        0, 0, 1, 0xE0, 0, 18, 0x80, 0xC0, 12, // 18 = 3 + 12 + 3
        0x39, 0x8D, 0x15, 0xCF, 0x13, 0x11, 0, 1, 0, 7, 0xFF, 0xFF, // stamps, stuffing
        b'a', b'b', b'c',
    ];

    fn run(bytes: &[u8], cuts: &[usize]) -> (Vec<PesHeader>, Vec<u8>, usize) {
        let mut reader = PesReader::new();
        let (mut headers, mut payload, mut bad) = (Vec::new(), Vec::new(), 0);
        reader.start();
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        while at < bytes.len() {
            let end = (at + cuts.next().expect("it cycles")).min(bytes.len());
            reader.push(&bytes[at..end], |step| match step {
                Step::Header(h) => headers.push(h),
                Step::Payload(p) => payload.extend_from_slice(p),
                Step::BadHeader | Step::TooLong => bad += 1,
            });
            at = end;
        }
        (headers, payload, bad)
    }

    #[test]
    fn a_header_of_the_second_generation() {
        let (headers, payload, bad) = run(&MPEG2, &[100]);
        let header = PesHeader {
            id: 0xE0,
            length: 21,
            payload: Some(3),
            pts: Some(0x1_2345_6789),
            dts: Some(3),
        };
        assert_eq!((headers, payload, bad), (std::vec![header], b"abc".to_vec(), 0));
    }

    #[test]
    fn a_header_of_the_first_generation() {
        let bytes =
            [0, 0, 1, 0xC0, 0, 11, 0xFF, 0xFF, 0x40, 0x20, 0x21, 0, 3, 0, 9, b'x', b'y', b'z'];
        let (headers, payload, bad) = run(&bytes, &[1]);
        assert_eq!(headers[0].pts, Some((1 << 15) + 4));
        assert_eq!((payload, bad), (b"xy".to_vec(), 1)); // "z" is beyond the length
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            mutate in prop::collection::vec((0_usize..24, any::<u8>()), 0..3),
            cuts in prop::collection::vec(1_usize..20, 1..6),
            random in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut bytes = MPEG2;
            for (at, value) in mutate {
                bytes[at] = value;
            }
            prop_assert_eq!(run(&bytes, &cuts), run(&bytes, &[100]));
            prop_assert_eq!(run(&random, &cuts), run(&random, &[100]));
        }
    }

    #[test]
    fn headers_of_the_first_generation_may_be_stuffed() {
        let of = |stuffing: usize, rest: &[u8]| {
            let head = [0, 0, 1, 0xE0, 0, 0];
            parse(&[&head[..], &std::vec![0xFF; stuffing], rest].concat())
        };
        let length = |parsed| match parsed {
            Parsed::Header(header) => Some((header.length, header.pts, header.dts)),
            _ => None,
        };
        for stuffing in [0, 1, 16] {
            assert_eq!(length(of(stuffing, &[0x0F])), Some((7 + stuffing, None, None)));
            assert_eq!(length(of(stuffing, &[0x40, 0x20, 0x0F])), Some((9 + stuffing, None, None)));
            let stamped = length(of(stuffing, &[0x21, 0, 1, 0, 3]));
            assert_eq!(stamped, Some((11 + stuffing, Some(1), None)));
            let both = length(of(stuffing, &[0x31, 0, 1, 0, 3, 0x11, 0, 1, 0, 5]));
            assert_eq!(both, Some((16 + stuffing, Some(1), Some(2))));
            assert_eq!(of(stuffing, &[]), Parsed::More);
            assert_eq!(of(stuffing, &[0x31, 0, 1, 0, 3, 0x11, 0, 1, 0]), Parsed::More);
            assert_eq!(of(stuffing, &[0x0E]), Parsed::Bad);
            assert_eq!(of(stuffing, &[0x13]), Parsed::Bad);
        }
        assert_eq!(of(17, &[0x0F]), Parsed::Bad);
    }

    #[test]
    fn what_is_bare_has_six_bytes_and_a_length_may_be_open() {
        let head = |id, length: u8| parse(&[0, 0, 1, id, 0, length]);
        for id in [0xBC, 0xBE, 0xBF, 0xF0, 0xF1, 0xF2, 0xF8, 0xFF] {
            let Parsed::Header(header) = head(id, 9) else { panic!("{id:#x}") };
            assert_eq!((header.id, header.length, header.payload), (id, 6, Some(9)));
            let Parsed::Header(header) = head(id, 0) else { panic!("{id:#x}") };
            assert_eq!(header.payload, (id == 0xBE).then_some(0), "{id:#x}");
        }
        for id in [0xBD, 0xC0, 0xE0, 0xF3, 0xFE] {
            assert_eq!(head(id, 9), Parsed::More);
        }
        assert_eq!(parse(&[0, 0, 2]), Parsed::Bad);
        assert_eq!(
            (parse(&[]), parse(&[0, 0]), parse(&[0, 0, 1, 0xE0])),
            (Parsed::More, Parsed::More, Parsed::More)
        );
        let with = |length: u8, flags: u8, more: u8| {
            parse(&[
                0,
                0,
                1,
                0xE0,
                0,
                length,
                0x80,
                flags << 6,
                more,
                0x21,
                0,
                1,
                0,
                3,
                0x11,
                0,
                1,
                0,
                5,
            ])
        };
        // Stamps must fit into the header, and the header into the packet.
        assert_eq!(
            (with(0, 1, 10), with(0, 2, 4), with(0, 3, 9)),
            (Parsed::Bad, Parsed::Bad, Parsed::Bad)
        );
        assert_eq!((with(12, 3, 10), with(7, 2, 5)), (Parsed::Bad, Parsed::Bad));
        let Parsed::Header(header) = with(13, 3, 10) else { panic!("it fits") };
        assert_eq!((header.payload, header.pts, header.dts), (Some(0), Some(1), Some(2)));
        let Parsed::Header(header) = with(0, 2, 5) else { panic!("it fits") };
        assert_eq!((header.payload, header.pts, header.dts), (None, Some(1), None));
    }
}
