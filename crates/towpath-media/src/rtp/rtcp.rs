//! RTCP: compound packets of reports (RFC 3550 §6).

use alloc::vec::Vec;

use thiserror::Error;

use crate::send::Feedback;

/// Bytes of a compound packet that is looked at; a longer one is refused.
pub const RTCP_MAX: usize = 1500;
/// The name of our application packets (RFC 3550 §6.7).
pub const FEEDBACK_NAME: [u8; 4] = *b"TWPF";
/// Bytes of a canonical name that are sent.
const NAME_MAX: usize = 64;

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
const APPLICATION: u8 = 204;

/// What a receiver tells of a source (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Of whom.
    pub ssrc: u32,
    /// Loss since the report before, in 256ths.
    pub fraction_lost: u8,
    /// Loss since the beginning; a duplicate counts against it. 24 bits, signed.
    pub lost: i32,
    /// The highest number that came, with its cycles above.
    pub highest: u32,
    /// Variation of the time between datagrams, in 90 kHz ticks.
    pub jitter: u32,
    /// The middle of the last sender report's wall clock; 0: none came.
    pub last_report: u32,
    /// Since then, in 65 536ths of a second.
    pub delay: u32,
}

/// What a source tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Who.
    pub ssrc: u32,
    /// Wall clock: seconds since 1900 above, their fraction below.
    pub ntp: u64,
    /// The same instant by the stream's clock.
    pub timestamp: u32,
    /// Datagrams so far.
    pub packets: u32,
    /// Bytes of their payload.
    pub octets: u32,
}

/// A packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A sender's report; its blocks follow.
    Sender(Sent),
    /// A receiver's report; its blocks follow.
    Receiver {
        /// Who reports.
        ssrc: u32,
    },
    /// A block of the report before.
    Block(Block),
    /// A source ends.
    Goodbye {
        /// Which.
        ssrc: u32,
    },
    /// What a receiver of ours asks for.
    Feedback {
        /// Who asks.
        ssrc: u32,
        /// What.
        feedback: Feedback,
    },
    /// Anything else.
    Other {
        /// Its packet type.
        kind: u8,
    },
}

/// A datagram that is no compound packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RtcpError {
    /// Longer than the limit.
    #[error("{0} bytes, the limit is {RTCP_MAX}")]
    Long(usize),
    /// A packet is shorter than its contents, or longer than what is left.
    #[error("the packet at byte {0} does not fit")]
    Length(usize),
    /// Of another version.
    #[error("the packet at byte {0} is not of version 2")]
    Version(usize),
    /// It does not begin with a report.
    #[error("it begins with a packet of type {0}, not with a report")]
    First(u8),
}

/// Reads a compound packet: all of it is right, or nothing is told.
pub fn reports(datagram: &[u8], mut tell: impl FnMut(Report)) -> Result<(), RtcpError> {
    if datagram.len() > RTCP_MAX {
        return Err(RtcpError::Long(datagram.len()));
    }
    walk(datagram, &mut |_| {})?;
    walk(datagram, &mut tell)
}

fn walk(datagram: &[u8], tell: &mut impl FnMut(Report)) -> Result<(), RtcpError> {
    let mut at = 0;
    if datagram.is_empty() {
        return Err(RtcpError::Length(0));
    }
    while at < datagram.len() {
        let rest = &datagram[at..];
        let [first, kind, high, low] = *rest.first_chunk().ok_or(RtcpError::Length(at))?;
        if first >> 6 != 2 {
            return Err(RtcpError::Version(at));
        }
        if at == 0 && !matches!(kind, SENDER_REPORT | RECEIVER_REPORT) {
            return Err(RtcpError::First(kind));
        }
        let len = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let body = rest.get(4..len).ok_or(RtcpError::Length(at))?;
        packet(kind, first & 0x1F, body, tell).ok_or(RtcpError::Length(at))?;
        at += len;
    }
    Ok(())
}

/// `None` where the body is too short for what it should hold.
fn packet(kind: u8, count: u8, body: &[u8], tell: &mut impl FnMut(Report)) -> Option<()> {
    let mut words = body.chunks_exact(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
    match kind {
        SENDER_REPORT => {
            let ssrc = words.next()?;
            let ntp = u64::from(words.next()?) << 32 | u64::from(words.next()?);
            let (timestamp, packets, octets) = (words.next()?, words.next()?, words.next()?);
            tell(Report::Sender(Sent { ssrc, ntp, timestamp, packets, octets }));
            blocks(count, &mut words, tell)?;
        }
        RECEIVER_REPORT => {
            tell(Report::Receiver { ssrc: words.next()? });
            blocks(count, &mut words, tell)?;
        }
        GOODBYE => {
            for _ in 0..count {
                tell(Report::Goodbye { ssrc: words.next()? });
            }
        }
        APPLICATION => {
            let (ssrc, name) = (words.next()?, words.next()?.to_be_bytes());
            let asked = [Feedback::SlowDown, Feedback::SpeedUp, Feedback::Normal];
            let feedback = asked.get(usize::from(count)).filter(|_| name == FEEDBACK_NAME);
            tell(match feedback {
                Some(&feedback) => Report::Feedback { ssrc, feedback },
                None => Report::Other { kind },
            });
        }
        _ => tell(Report::Other { kind }),
    }
    Some(())
}

fn blocks(
    count: u8,
    words: &mut impl Iterator<Item = u32>,
    tell: &mut impl FnMut(Report),
) -> Option<()> {
    for _ in 0..count {
        let ssrc = words.next()?;
        let loss = words.next()?;
        tell(Report::Block(Block {
            ssrc,
            fraction_lost: (loss >> 24) as u8,
            lost: (loss << 8).cast_signed() >> 8,
            highest: words.next()?,
            jitter: words.next()?,
            last_report: words.next()?,
            delay: words.next()?,
        }));
    }
    Some(())
}

fn begin(out: &mut Vec<u8>, count: u8, kind: u8, words: u16) {
    out.extend_from_slice(&[2 << 6 | count, kind]);
    out.extend_from_slice(&words.to_be_bytes());
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Who it is: every compound packet tells (RFC 3550 §6.1).
fn describe(out: &mut Vec<u8>, ssrc: u32, name: &str) {
    let name = &name.as_bytes()[..name.len().min(NAME_MAX)];
    // Item, length, name, and at least one zero up to a whole word.
    let words = (4 + 2 + name.len()) / 4 + 1;
    begin(out, 1, DESCRIPTION, words as u16);
    word(out, ssrc);
    out.extend_from_slice(&[1, name.len() as u8]);
    out.extend_from_slice(name);
    out.resize(out.len() + 4 * words - 6 - name.len(), 0);
}

/// A sender's report, and who it is.
pub fn sender_report(out: &mut Vec<u8>, sent: &Sent, name: &str) {
    begin(out, 0, SENDER_REPORT, 6);
    let (high, low) = ((sent.ntp >> 32) as u32, sent.ntp as u32);
    for value in [sent.ssrc, high, low, sent.timestamp, sent.packets, sent.octets] {
        word(out, value);
    }
    describe(out, sent.ssrc, name);
}

/// A receiver's report on one source or none yet, and who it is.
pub fn receiver_report(out: &mut Vec<u8>, ssrc: u32, block: Option<&Block>, name: &str) {
    let count = u8::from(block.is_some());
    begin(out, count, RECEIVER_REPORT, 1 + 6 * u16::from(count));
    word(out, ssrc);
    if let Some(b) = block {
        let lost = b.lost.clamp(-(1 << 23), (1 << 23) - 1).cast_unsigned() & 0x00FF_FFFF;
        let loss = u32::from(b.fraction_lost) << 24 | lost;
        for value in [b.ssrc, loss, b.highest, b.jitter, b.last_report, b.delay] {
            word(out, value);
        }
    }
    describe(out, ssrc, name);
}

/// What a receiver asks for, behind a report.
pub fn feedback(out: &mut Vec<u8>, ssrc: u32, feedback: Feedback) {
    let kind = match feedback {
        Feedback::SlowDown => 0,
        Feedback::SpeedUp => 1,
        Feedback::Normal => 2,
    };
    begin(out, kind, APPLICATION, 2);
    word(out, ssrc);
    out.extend_from_slice(&FEEDBACK_NAME);
}

/// The end of a source, behind a report.
pub fn goodbye(out: &mut Vec<u8>, ssrc: u32) {
    begin(out, 1, GOODBYE, 1);
    word(out, ssrc);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Vec<Report>, RtcpError> {
        let mut all = vec![];
        reports(bytes, |report| all.push(report)).map(|()| all)
    }

    #[test]
    fn compounds_are_read_back_whatever_the_name() {
        let sent =
            Sent { ssrc: 7, ntp: 0x0123_4567_89AB_CDEF, timestamp: 3, packets: 4, octets: 5 };
        let block = Block {
            ssrc: 7,
            fraction_lost: 9,
            lost: -3,
            highest: 0x0001_0002,
            jitter: 5,
            last_report: 6,
            delay: 8,
        };
        for name in ["", "a", "ab", "abc", "abcd", &"x".repeat(300)] {
            let mut out = vec![];
            sender_report(&mut out, &sent, name);
            goodbye(&mut out, 7);
            let told =
                [Report::Sender(sent), Report::Other { kind: 202 }, Report::Goodbye { ssrc: 7 }];
            assert_eq!(read(&out).as_deref(), Ok(&told[..]), "{name}");
            out.clear();
            receiver_report(&mut out, 8, Some(&block), name);
            feedback(&mut out, 8, Feedback::Normal);
            let told = [
                Report::Receiver { ssrc: 8 },
                Report::Block(block),
                Report::Other { kind: 202 },
                Report::Feedback { ssrc: 8, feedback: Feedback::Normal },
            ];
            assert_eq!(read(&out).as_deref(), Ok(&told[..]), "{name}");
        }
    }

    #[test]
    fn a_compound_with_a_fault_tells_nothing() {
        let mut out = vec![];
        receiver_report(&mut out, 8, None, "me");
        feedback(&mut out, 8, Feedback::SlowDown);
        let whole = out.len();
        out.extend_from_slice(&[0x81, GOODBYE, 0, 9]);
        let mut told = 0;
        assert_eq!(reports(&out, |_| told += 1), Err(RtcpError::Length(whole)));
        assert_eq!(told, 0);
        assert_eq!(read(&out[whole - 12..whole]), Err(RtcpError::First(APPLICATION)));
        assert_eq!(read(&[0; 2000]), Err(RtcpError::Long(2000)));
        assert_eq!(read(&[0x81, 201, 0, 1, 0, 0, 0, 1]), Err(RtcpError::Length(0)));
        assert_eq!(read(&[0x41, 201, 0, 1]), Err(RtcpError::Version(0)));
        assert_eq!(read(&[]), Err(RtcpError::Length(0)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_reports_or_an_error(
            kinds in prop::collection::vec((0u8..32, 198u8..208, 0u16..9), 0..6),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = read(&bytes);
            let mut shaped = vec![];
            for (count, kind, words) in kinds {
                begin(&mut shaped, count, kind, words);
                shaped.extend(bytes.iter().cycle().take(4 * usize::from(words)));
            }
            let _ = read(&shaped);
        }
    }

    #[test]
    fn names_end_with_a_zero_in_whole_words() {
        for (name, words) in [("", 2), ("a", 2), ("ab", 3), ("abcde", 3), ("abcdef", 4)] {
            let mut out = Vec::new();
            describe(&mut out, 0x0102_0304, name);
            assert_eq!(out.len(), 4 + 4 * words, "{name}");
            let head = [0x81, 202, 0, words as u8, 1, 2, 3, 4, 1, name.len() as u8];
            assert_eq!(out[..10], head, "{name}");
            assert_eq!(&out[10..10 + name.len()], name.as_bytes());
            let rest = &out[10 + name.len()..];
            assert!(rest.iter().all(|&byte| byte == 0) && (1..=4).contains(&rest.len()), "{name}");
        }
    }

    #[test]
    fn what_was_lost_is_told_as_far_as_it_fits() {
        let most = (1 << 23) - 1;
        let told = [(0, 0), (5, 5), (-5, -5), (most, most), (most + 1, most)];
        for (lost, expected) in told.into_iter().chain([(i32::MIN, -most - 1), (i32::MAX, most)]) {
            let block = Block { fraction_lost: 7, lost, ..Block::default() };
            let mut out = vec![];
            receiver_report(&mut out, 8, Some(&block), "me");
            let Ok(reports) = read(&out) else { panic!("its own report") };
            let Report::Block(back) = reports[1] else { panic!("{reports:?}") };
            assert_eq!((back.lost, back.fraction_lost), (expected, 7), "{lost}");
        }
    }
}
