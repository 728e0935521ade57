//! Frames of real clips are those that ffprobe finds: made by ffmpeg here, of a few seconds.
//!
//! Where ffmpeg is absent these are skipped, loudly; with `TOWPATH_REQUIRE_FFMPEG=1` that fails.

#[path = "ffmpeg/clip.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod clip;

use clip::{Clip, Probed};
use towpath_media::read::{Format, FrameType};

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
