//! Reports of clips that ffmpeg makes here. See `ffprobe.rs` for what happens without it.

use crate::clip::Clip;
use towpath_media::inspect::{Inspector, Report};
use towpath_media::read::Reader;

fn inspect(bytes: &[u8]) -> Report {
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    for piece in bytes.chunks(7_001) {
        reader.push(piece, &mut inspector).expect("its format is known");
    }
    let format = reader.finish(&mut inspector).expect("its format is known");
    inspector.report(format, reader.bytes())
}

/// Padded by ffmpeg to 5 Mbit/s: its clock is right to 15 ns (half a tick is 18 ns), and it heaps
/// the packets of a PES packet of sound.
#[test]
fn a_padded_stream_has_one_rate_and_heaps_its_sound() {
    let sources = ["testsrc2=s=352x288:r=25:d=3", "sine=d=3"];
    let options = "-c:v mpeg2video -q:v 5 -g 12 -bf 2 -c:a mp2 -b:a 384k \
                   -f mpegts -muxrate 5M -pcr_period 20";
    let Some(clip) = Clip::make("cbr.ts", &sources, options) else { return };
    let report = inspect(&clip.bytes());
    let clock = &report.clocks[0];
    assert!(clock.accuracy.constant_rate);
    assert!(clock.accuracy.max_ns < 60.0, "{}", clock.accuracy.max_ns);
    assert!((clock.rate_mean_bps - 5e6).abs() < 5.0, "{}", clock.rate_mean_bps);
    let failed: Vec<_> = report.checks.iter().filter(|c| c.count > 0).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let sound = report.buffers.iter().find(|b| b.pid == 257).expect("sound is modelled");
    assert!(sound.transport.overflows > 100, "{:?}", sound.transport);
    assert!(sound.transport.max_bytes > 1000, "{:?}", sound.transport);
    let pictures = report.buffers.iter().find(|b| b.pid == 256).expect("pictures are modelled");
    assert_eq!((pictures.transport.overflows, pictures.underflows), (0, 0));
}

#[test]
fn two_programs_have_a_clock_each() {
    let sources = ["testsrc2=s=176x144:r=25:d=2", "testsrc2=s=160x120:r=30:d=2"];
    let options = "-map 0:v -map 1:v -c:v mpeg2video -q:v 8 -g 12 -program title=a:st=0 \
                   -program title=b:st=1 -f mpegts";
    let Some(clip) = Clip::make("two.ts", &sources, options) else { return };
    let report = inspect(&clip.bytes());
    assert_eq!(report.programs.len(), 2);
    assert_eq!(report.clocks.len(), 2);
    let frames: Vec<u64> = report.streams.iter().map(|s| s.frames).collect();
    assert_eq!(frames, [50, 60]);
    let judged: Vec<u64> =
        report.buffers.iter().filter(|b| b.elementary.is_some()).map(|b| b.frames).collect();
    assert_eq!(judged, [50, 60], "each by the clock of its own program");
    assert!(report.buffers.iter().all(|b| b.underflows == 0));
}
