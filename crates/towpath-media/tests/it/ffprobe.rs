//! Frames of real clips are those that ffprobe finds: made by ffmpeg here, of a few seconds.
//!
//! Where ffmpeg is absent these are skipped, loudly.

use crate::clip::{Clip, Probed};
use towpath_media::inspect::Inspector;
use towpath_media::read::{AudioInfo, Format, Frame, FrameType, Reader, Sink, StreamInfo};

/// Synthetic pictures with motion and detail.
const PICTURES: &str = "testsrc2=s=352x240:r=25:d=2,noise=alls=12:allf=t:all_seed=7";
const MANDELBROT: &str = "mandelbrot=s=320x240:r=30:maxiter=400,trim=duration=2";
const TONE: &str = "sine=d=2";

/// Sizes, key flags and time stamps of every frame.
fn compare(clip: &Clip, format: Format) {
    let (found, lists) = clip.read();
    assert_eq!(found, format, "{}", clip.name);
    assert_eq!(lists.faults.total(), 0, "{}: {:?}", clip.name, lists.faults);
    let stream = lists.video().expect("the clip has pictures").index;
    let ours: Vec<Probed> = lists
        .frames_of(stream)
        .map(|f| Probed { size: f.size, key: f.key, pts: f.pts, dts: f.dts })
        .collect();
    let mut theirs = clip.probe();
    assert_eq!(ours.len(), theirs.len(), "{}: frames", clip.name);
    for (i, (our, their)) in ours.iter().zip(&mut theirs).enumerate() {
        // What the file does not say ffprobe computes.
        their.pts = our.pts.and(their.pts);
        their.dts = our.dts.and(their.dts);
        assert_eq!(our, their, "{}: frame {i}", clip.name);
    }
}

/// Sizes alone.
fn compare_sizes(clip: &Clip, format: Format) {
    let (found, lists) = clip.read();
    assert_eq!((found, lists.faults.total()), (format, 0), "{}", clip.name);
    let ours: Vec<u64> = lists.frames.iter().map(|f| f.size).collect();
    let theirs: Vec<u64> = clip.probe().iter().map(|p| p.size).collect();
    assert_eq!(ours, theirs, "{}", clip.name);
}

/// ffmpeg up to version 5 leaves the zero byte before a start code of 00 00 01 with the unit
/// before; Annex B of the standard, ffmpeg from version 6 on, and we put it with the unit behind.
fn compare_but_for_leading_zeros(clip: &Clip, format: Format) {
    let (found, lists) = clip.read();
    assert_eq!((found, lists.faults.total()), (format, 0), "{}", clip.name);
    let theirs = clip.probe();
    assert_eq!(lists.frames.len(), theirs.len(), "{}", clip.name);
    let mut their_end = 0;
    for (i, (our, their)) in lists.frames.iter().zip(&theirs).enumerate() {
        their_end += their.size;
        let our_end = our.start + our.size;
        assert!(their_end - our_end <= 1, "{}: frame {i} ends at {our_end}", clip.name);
        assert_eq!(our.key, their.key, "{}: frame {i}", clip.name);
        assert!(our.dts.is_none() || our.dts == their.dts, "{}: frame {i}", clip.name);
    }
    assert_eq!(lists.frames.last().map(|f| f.start + f.size), Some(their_end));
}

#[test]
fn mpeg2_in_a_transport_stream() {
    let Some(clip) = Clip::make(
        "m2.ts",
        &[PICTURES, TONE],
        "-c:v mpeg2video -q:v 5 -g 12 -bf 2 -c:a mp2 -f mpegts",
    ) else {
        return;
    };
    compare(&clip, Format::Ts188);
    let (_, lists) = clip.read();
    let kinds: String = lists
        .frames
        .iter()
        .flat_map(|f| format!("{:?}", f.kind).chars().collect::<Vec<_>>())
        .collect();
    assert!(kinds.starts_with("IPBBPBBPBB"), "{kinds}");
    assert!(lists.frames.iter().all(|f| f.dts.is_some()), "one frame per PES packet");
}

#[test]
fn padded_to_a_constant_rate() {
    let Some(clip) = Clip::make(
        "cbr.ts",
        &[PICTURES, TONE],
        "-c:v mpeg2video -b:v 1500k -maxrate 1500k -bufsize 1000k -g 12 -bf 2 \
         -f mpegts -muxrate 4M -pcr_period 20",
    ) else {
        return;
    };
    compare(&clip, Format::Ts188);
}

#[test]
fn blu_ray_packets_of_192_bytes() {
    let Some(clip) = Clip::make(
        "m2.m2ts",
        &[PICTURES],
        "-c:v mpeg2video -q:v 5 -g 12 -f mpegts -mpegts_m2ts_mode 1",
    ) else {
        return;
    };
    compare(&clip, Format::Ts192);
}

#[test]
fn h264_in_a_transport_stream() {
    let Some(clip) = Clip::make(
        "h264.ts",
        &[PICTURES, TONE],
        "-c:v libx264 -preset veryfast -threads 1 -g 30 -bf 2 -f mpegts",
    ) else {
        return;
    };
    compare(&clip, Format::Ts188);
    let (_, lists) = clip.read();
    let of = |kind| lists.frames.iter().filter(|f| f.kind == kind).count();
    assert!(of(FrameType::I) >= 1 && of(FrameType::P) >= 5 && of(FrameType::B) >= 5);
    assert_eq!(of(FrameType::Unknown), 0);
    let video = lists.video().and_then(|s| s.video).expect("its parameter set tells");
    assert_eq!((video.width, video.height, video.fps_num, video.fps_den), (352, 240, 25, 1));
}

#[test]
fn h264_of_many_slices_and_open_groups() {
    let Some(clip) = Clip::make(
        "slices.ts",
        &[MANDELBROT],
        "-c:v libx264 -preset veryfast -threads 1 \
         -x264-params slices=4:open-gop=1:keyint=15 -f mpegts",
    ) else {
        return;
    };
    compare(&clip, Format::Ts188);
}

#[test]
fn h264_in_fields() {
    let options =
        "-c:v libx264 -preset veryfast -threads 1 -flags +ildct+ilme -x264-params tff=1 -f mpegts";
    let Some(clip) = Clip::make("tff.ts", &[MANDELBROT], options) else { return };
    compare(&clip, Format::Ts188);
}

#[test]
fn hevc_in_a_transport_stream() {
    if !Clip::has_encoder("libx265") {
        return;
    }
    let Some(clip) = Clip::make(
        "hevc.ts",
        &[PICTURES],
        "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=20 -f mpegts",
    ) else {
        return;
    };
    compare_but_for_leading_zeros(&clip, Format::Ts188);
    let (_, lists) = clip.read();
    let of = |kind| lists.frames.iter().filter(|f| f.kind == kind).count();
    assert!(of(FrameType::I) >= 1 && of(FrameType::P) + of(FrameType::B) >= 20);
    let video = lists.video().and_then(|s| s.video).expect("its parameter set tells");
    assert_eq!((video.width, video.height, video.fps_num, video.fps_den), (352, 240, 25, 1));
}

#[test]
fn elementary_h264_and_hevc() {
    let Some(clip) =
        Clip::make("x.h264", &[MANDELBROT], "-c:v libx264 -preset veryfast -threads 1 -f h264")
    else {
        return;
    };
    compare(&clip, Format::H264);
    if Clip::has_encoder("libx265") {
        let Some(clip) = Clip::make(
            "x.hevc",
            &[MANDELBROT],
            "-c:v libx265 -preset ultrafast -x265-params log-level=none -f hevc",
        ) else {
            return;
        };
        compare_but_for_leading_zeros(&clip, Format::Hevc);
    }
}

#[test]
fn mpeg1_elementary() {
    let Some(clip) =
        Clip::make("m1.m1v", &[PICTURES], "-c:v mpeg1video -q:v 8 -g 12 -bf 2 -f mpeg1video")
    else {
        return;
    };
    compare(&clip, Format::MpegVideo);
    let (_, lists) = clip.read();
    let video = lists.video().and_then(|s| s.video).expect("its sequence header tells");
    assert_eq!((video.width, video.height, video.fps_num, video.fps_den), (352, 240, 25, 1));
}

#[test]
fn mpeg2_elementary_interlaced() {
    let Some(clip) = Clip::make(
        "m2i.m2v",
        &[MANDELBROT],
        "-c:v mpeg2video -flags +ildct+ilme -q:v 8 -g 9 -bf 2 -f mpeg2video",
    ) else {
        return;
    };
    compare(&clip, Format::MpegVideo);
}

#[test]
fn mpeg1_system_streams() {
    let Some(clip) =
        Clip::make("m1.mpg", &[PICTURES, TONE], "-c:v mpeg1video -g 12 -bf 2 -c:a mp2 -f mpeg")
    else {
        return;
    };
    compare(&clip, Format::ProgramStream);
    let Some(clip) = Clip::make("vcd.mpg", &[MANDELBROT, TONE], "-target ntsc-vcd") else { return };
    compare(&clip, Format::ProgramStream);
}

#[test]
fn an_mpeg2_program_stream() {
    let Some(clip) = Clip::make("dvd.vob", &[MANDELBROT, TONE], "-target ntsc-dvd") else { return };
    compare(&clip, Format::ProgramStream);
}

#[test]
fn motion_jpeg() {
    let Some(clip) = Clip::make("mj.mjpeg", &[PICTURES], "-c:v mjpeg -q:v 6 -f mjpeg") else {
        return;
    };
    compare(&clip, Format::Mjpeg);
    let Some(clip) = Clip::make("mj.avi", &[PICTURES, TONE], "-c:v mjpeg -q:v 6 -f avi") else {
        return;
    };
    compare_sizes(&clip, Format::Avi);
    // ffprobe counts chunks, we 90 kHz.
    let (_, lists) = clip.read();
    for (our, their) in lists.frames.iter().zip(clip.probe()) {
        assert_eq!(our.dts, their.dts.map(|chunk| chunk * 90_000 / 25));
    }
    let (_, lists) = clip.read();
    let video = lists.video().and_then(|s| s.video).expect("its header tells");
    assert_eq!((video.width, video.height, video.fps_num, video.fps_den), (352, 240, 25, 1));
}

/// What the bytes of a chunk do not tell its index does; sound is counted by its bytes.
#[test]
fn pictures_and_sound_of_an_avi() {
    for (name, options, audio) in [
        ("h264.avi", "-c:v libx264 -preset veryfast -threads 1 -g 10 -bf 0 -c:a pcm_s16le", (1, 0)),
        ("xvid.avi", "-c:v mpeg4 -g 8 -bf 0 -c:a libmp3lame -b:a 64k", (1, 3)),
    ] {
        let Some(clip) = Clip::make(name, &[PICTURES, TONE], options) else { return };
        let (_, lists) = clip.read();
        assert_eq!(lists.faults.total(), 0, "{name}: {:?}", lists.faults);
        let theirs = clip.probe();
        let stream = lists.video().expect("the clip has pictures").index;
        let ours: Vec<_> = lists.frames_of(stream).map(|f| (f.size, f.key)).collect();
        assert_eq!(ours, theirs.iter().map(|p| (p.size, p.key)).collect::<Vec<_>>(), "{name}");
        let keys = theirs.iter().filter(|p| p.key).count() as u64;
        assert!(keys > 2, "{name}");
        let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
        reader.push(&clip.bytes(), &mut inspector).expect("its format is known");
        let format = reader.finish(&mut inspector).expect("its format is known");
        let report = inspector.report(format, reader.bytes());
        assert_eq!(
            (report.faults.total(), report.streams[0].key_frames),
            (0, Some(keys)),
            "{name}"
        );
        let sound = &report.streams[1];
        let bytes: u64 = clip.probe_of("a:0").iter().map(|p| p.size).sum();
        assert_eq!((sound.bytes, sound.frames), (bytes, 0), "{name}");
        let info = sound.info.audio.expect("its format is told");
        assert_eq!((info.channels, info.layer), audio, "{name}");
        assert_eq!(info.sample_rate_hz, 44_100, "{name}");
    }
}

/// Keeps the sound of a file.
#[derive(Default)]
struct Sound {
    info: Vec<StreamInfo>,
    frames: Vec<Frame>,
}

impl Sink for Sound {
    fn stream(&mut self, stream: &StreamInfo) {
        if stream.audio.is_some() {
            self.info.push(stream.clone());
        }
    }

    fn frame(&mut self, frame: &Frame) {
        if self.info.iter().any(|info| info.index == frame.stream) {
            self.frames.push(*frame);
        }
    }
}

/// Sizes of every frame of sound, and stamps where the file has them.
fn compare_sound(name: &str, source: &str, options: &str, expected: AudioInfo) {
    let Some(clip) = Clip::make(name, &[PICTURES, source], options) else { return };
    let (mut reader, mut sound) = (Reader::new(), Sound::default());
    for piece in clip.bytes().chunks(10_007) {
        reader.push(piece, &mut sound).expect("its format is known");
    }
    reader.finish(&mut sound).expect("its format is known");
    let told: Vec<_> = sound.info.iter().map(|info| info.audio).collect();
    assert_eq!(told, [Some(expected)], "{name}");
    let theirs = clip.probe_of("a:0");
    assert_eq!(sound.frames.len(), theirs.len(), "{name}");
    for (our, their) in sound.frames.iter().zip(theirs) {
        assert_eq!((our.size, our.damaged), (their.size, false), "{name}");
        assert!(our.pts.is_none() || our.pts == their.pts, "{name}: {our:?} {their:?}");
    }
    assert!(sound.frames.iter().filter(|f| f.pts.is_some()).count() > 1, "{name}");
}

#[test]
fn sound_in_transport_and_program_streams() {
    const SIX: &str = "aevalsrc='sin(400*t)|sin(500*t)|sin(600*t)|sin(60*t)|sin(t)|0':d=2:s=48000";
    let info = |sample_rate_hz, channels, rate_bps, frame_samples, layer| AudioInfo {
        sample_rate_hz,
        channels,
        rate_bps,
        frame_samples,
        layer,
    };
    let video = "-c:v mpeg2video -q:v 20";
    for (name, source, options, expected) in [
        ("mp2.ts", TONE, "-c:a mp2 -b:a 192k", info(44_100, 1, 192_000, 1152, 2)),
        ("half.ts", TONE, "-c:a mp2 -ar 22050 -b:a 64k", info(22_050, 1, 64_000, 1152, 2)),
        ("aac.ts", TONE, "-c:a aac -ar 48000", info(48_000, 1, 0, 1024, 0)),
        ("six.ts", SIX, "-c:a aac", info(48_000, 6, 0, 1024, 0)),
        ("ac3.ts", TONE, "-c:a ac3 -b:a 192k", info(44_100, 1, 192_000, 1536, 0)),
        ("six-ac3.ts", SIX, "-c:a ac3 -b:a 448k", info(48_000, 6, 448_000, 1536, 0)),
        ("eac3.ts", SIX, "-c:a eac3 -b:a 384k", info(48_000, 6, 384_000, 1536, 0)),
        ("mp2.mpg", TONE, "-c:a mp2 -b:a 96k -f mpeg", info(44_100, 1, 96_000, 1152, 2)),
    ] {
        compare_sound(name, source, &format!("{video} {options}"), expected);
    }
    if Clip::has_encoder("libmp3lame") {
        let expected = info(44_100, 1, 64_000, 1152, 3);
        let options = format!("{video} -c:a libmp3lame -b:a 64k");
        compare_sound("mp3.ts", TONE, &options, expected);
    }
}
