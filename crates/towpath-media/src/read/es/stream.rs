//! A stream of any codec: bytes and time stamps in, frames out.

use super::access::Access;
use super::audio::Audio;
use super::h264::H264;
use super::hevc::Hevc;
use super::mjpeg::Mjpeg;
use super::mpeg::MpegVideo;
use super::units::{UnitCodec, Units};
use crate::read::clock::Clock;
use crate::read::event::{CLOCK_HZ, Codec, PesSeen, STAMP_HZ, Sink, StreamInfo, VideoInfo};
use crate::read::fault::FaultKind;
use crate::read::stamp::Unwrap;

/// What is decoded so much later than the clock is of another time base: ten times as long as a
/// picture may wait (§2.4.2.6; still pictures, which may wait for 60 s, are taken for a break).
const AHEAD_MAX: i64 = 10 * STAMP_HZ.cast_signed();
/// What should have been decoded so long ago is of another one, too.
const LATE_MAX: i64 = STAMP_HZ.cast_signed();

/// An elementary stream. Its state is less than 2 KiB, whatever the stream.
#[derive(Debug)]
pub(in crate::read) struct Elementary {
    info: StreamInfo,
    access: Access,
    parser: Parser,
    unwrap: Unwrap,
    /// Bytes so far.
    bytes: u64,
    /// The last decoding instant, and twice the number of breaks, where there is no clock to tell.
    without_clock: (Option<i64>, u16),
}

#[derive(Debug)]
enum Parser {
    Mpeg(Units, MpegVideo),
    H264(Units, H264),
    Hevc(Units, Hevc),
    Mjpeg(Mjpeg),
    Audio(Audio),
    /// Frames are not looked for.
    Opaque,
}

impl Elementary {
    pub(in crate::read) fn new(info: StreamInfo) -> Self {
        let parser = match info.codec {
            Codec::Mpeg1Video | Codec::Mpeg2Video => Parser::Mpeg(Units::new(), MpegVideo::new()),
            Codec::H264 => Parser::H264(Units::new(), H264::default()),
            Codec::Hevc => Parser::Hevc(Units::new(), Hevc::new()),
            Codec::Mjpeg => Parser::Mjpeg(Mjpeg::new()),
            Codec::MpegAudio => Parser::Audio(Audio::mpeg()),
            Codec::Aac => Parser::Audio(Audio::adts()),
            Codec::Ac3 => Parser::Audio(Audio::ac3()),
            _ => Parser::Opaque,
        };
        let access = Access::new(info.index);
        Self { info, access, parser, unwrap: Unwrap::default(), bytes: 0, without_clock: (None, 0) }
    }

    pub(in crate::read) const fn info(&self) -> &StreamInfo {
        &self.info
    }

    /// A PES packet starts with the next byte. The program's clock places the first stamp when the
    /// counter's wrap lies between the two, and tells the time base of all.
    pub(in crate::read) fn pes(
        &mut self,
        stamps: (Option<u64>, Option<u64>),
        clock: Clock,
        offset: u64,
        sink: &mut impl Sink,
    ) {
        let (pts, dts) = stamps;
        let near = clock.ticks().map(|ticks| ticks / (CLOCK_HZ / STAMP_HZ).cast_signed());
        // The DTS is left out where it equals the PTS.
        let dts = dts.or(pts).map(|raw| self.unwrap.unwrap(raw, near));
        let pts = pts.map(|raw| Unwrap::around(raw, dts));
        // What is sent of a new base before its first reference is as far from the clock as the
        // bases are apart.
        let apart =
            near.zip(dts).map(|(near, dts)| Unwrap::around(dts.cast_unsigned(), Some(near)) - near);
        let strange = apart.is_some_and(|apart| !(-LATE_MAX..=AHEAD_MAX).contains(&apart));
        let (last, breaks) = &mut self.without_clock;
        if near.is_none()
            && let Some(dts) = dts
        {
            // Decoding goes on, and never by so much.
            let step = last.replace(dts).map(|last| dts - last);
            if step.is_some_and(|step| !(0..=AHEAD_MAX).contains(&step)) {
                *breaks = breaks.wrapping_add(2);
            }
        }
        let base = clock.base().wrapping_mul(2).wrapping_add(strange.into()).wrapping_add(*breaks);
        self.access.stamp(self.bytes, (pts, dts), base);
        sink.pes(&PesSeen { stream: self.info.index, offset, dts, pts });
    }

    /// Bytes were lost before the next one.
    pub(in crate::read) fn lost(&mut self) {
        self.access.damaged();
    }

    /// The next bytes of the stream.
    #[inline]
    pub(in crate::read) fn push(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        self.bytes += bytes.len() as u64;
        let Self { info, access, parser, .. } = self;
        match parser {
            Parser::Mpeg(units, codec) => drive(units, codec, bytes, access, info, sink),
            Parser::H264(units, codec) => drive(units, codec, bytes, access, info, sink),
            Parser::Hevc(units, codec) => drive(units, codec, bytes, access, info, sink),
            Parser::Mjpeg(mjpeg) => {
                mjpeg.push(bytes, access, |access, video| {
                    if let Some(video) = video {
                        tell_video(info, (Codec::Mjpeg, video), sink);
                    }
                    tell_frames(access, sink);
                });
            }
            Parser::Audio(audio) => audio.push(bytes, access, |access, news| {
                if let Some(news) = news {
                    info.audio = Some(news);
                    sink.stream(info);
                }
                tell_frames(access, sink);
            }),
            Parser::Opaque => {}
        }
    }

    /// The stream ends here: what is left is its last frame.
    pub(in crate::read) fn finish(&mut self, sink: &mut impl Sink) {
        let Self { info, access, parser, bytes, .. } = self;
        match parser {
            Parser::Mpeg(units, codec) => close(units, codec, access, info, sink),
            Parser::H264(units, codec) => close(units, codec, access, info, sink),
            Parser::Hevc(units, codec) => close(units, codec, access, info, sink),
            // A part of a frame of sound is no use.
            Parser::Audio(audio) if !audio.is_whole() => return,
            Parser::Mjpeg(mjpeg) if mjpeg.is_cut() => {
                access.damaged();
                sink.fault(FaultKind::Truncated, *bytes);
            }
            Parser::Mjpeg(_) | Parser::Audio(_) => {}
            Parser::Opaque => return,
        }
        access.end(*bytes);
        tell_frames(access, sink);
    }
}

#[inline]
fn drive<C: UnitCodec>(
    units: &mut Units,
    codec: &mut C,
    bytes: &[u8],
    access: &mut Access,
    info: &mut StreamInfo,
    sink: &mut impl Sink,
) {
    units.push::<C>(bytes, |unit| {
        codec.unit(unit, access);
        if let Some(news) = codec.take_video() {
            tell_video(info, news, sink);
        }
        tell_frames(access, sink);
    });
}

fn close<C: UnitCodec>(
    units: &mut Units,
    codec: &mut C,
    access: &mut Access,
    info: &mut StreamInfo,
    sink: &mut impl Sink,
) {
    units.finish(|unit| {
        codec.unit(unit, access);
        if let Some(news) = codec.take_video() {
            tell_video(info, news, sink);
        }
        tell_frames(access, sink);
    });
}

#[inline]
fn tell_frames(access: &mut Access, sink: &mut impl Sink) {
    if !access.has_ended() {
        return;
    }
    for frame in access.take_ended() {
        sink.frame(&frame);
    }
}

fn tell_video(info: &mut StreamInfo, (codec, video): (Codec, VideoInfo), sink: &mut impl Sink) {
    info.codec = codec;
    info.video = Some(video);
    sink.stream(info);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_state_is_as_small_as_its_documentation_says() {
        assert!(size_of::<Elementary>() <= 2048, "{}", size_of::<Elementary>());
    }
}
