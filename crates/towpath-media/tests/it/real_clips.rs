//! Real pictures: what we find in them is what ffprobe and a count of clock references find.
//!
//! A short film is made here. `TOWPATH_CLIPS` may name a folder of more (`tests/fetch-clips.sh`
//! fills one). Those that are in a format of ours are read as they are, others are converted by
//! ffmpeg to each of our formats first, in the ways that make a difference to a clock: as ffmpeg
//! does by itself, with a clock reference per frame, padded to a constant rate.

use std::path::{Path, PathBuf};

use crate::clip::{Clip, Probed};
use crate::count::{PACKET, pcrs};
use towpath_media::inspect::{Inspector, Report};
use towpath_media::read::{CLOCK_HZ, FaultKind, Format, Reader};

const OURS: [&str; 8] = ["ts", "m2ts", "mpg", "m1v", "m2v", "mjpeg", "h264", "hevc"];
const OTHERS: [&str; 4] = ["mp4", "avi", "mkv", "webm"];
/// What others are converted to, the first from the clip itself and those with `-c copy` from it.
const FORMS: [(&str, &str); 9] = [
    ("m2.ts", "-t 20 -an -c:v mpeg2video -q:v 5 -g 12 -bf 2 -sc_threshold 1000000000 -f mpegts"),
    ("m2-33.ts", "-c copy -f mpegts -pcr_period 33"),
    ("m2-cbr.ts", "-c copy -f mpegts -muxrate 40M -pcr_period 33"),
    ("m2.m2ts", "-c copy -f mpegts -mpegts_m2ts_mode 1"),
    ("m2.mpg", "-c copy -f vob"),
    ("h264.ts", "-t 20 -an -c:v libx264 -threads 1 -preset veryfast -g 30 -bf 2 -f mpegts"),
    ("m1.m1v", "-t 20 -an -r 25 -s 352x240 -c:v mpeg1video -q:v 8 -g 12 -bf 2 -f mpeg1video"),
    ("m1.mpg", "-t 20 -an -r 25 -s 352x240 -c:v mpeg1video -q:v 8 -g 12 -bf 2 -f mpeg"),
    ("mj.mjpeg", "-t 20 -an -s 352x240 -c:v mjpeg -pix_fmt yuvj420p -q:v 6 -f mjpeg"),
];

fn clips(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("TOWPATH_CLIPS names a folder");
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    let wanted = |p: &PathBuf| extensions.iter().any(|&x| p.extension().is_some_and(|e| e == x));
    let mut paths: Vec<_> = paths.filter(wanted).collect();
    paths.sort();
    paths
}

/// A short film of our own: motion, noise, a cut to black and back.
const OWN: &str = "testsrc2=s=352x240:r=30:d=1,noise=alls=9:allf=t:all_seed=3[a];\
    color=black:s=352x240:r=30:d=0.5[b];mandelbrot=s=352x240:r=30:maxiter=300,trim=duration=1[c];\
    [a][b][c]concat=n=3:v=1";

/// Always a film that is made here; those of the folder, where there is one.
#[test]
fn clips_are_read_as_ffprobe_reads_them() {
    let Some(own) = Clip::make("own.mkv", &[OWN], "-c:v ffv1 -level 3") else { return };
    let mut failures = Vec::new();
    let mut compared = compare_forms(own.path(), &mut failures);
    match std::env::var("TOWPATH_CLIPS") {
        Ok(folder) => compared += compare_folder(Path::new(&folder), &mut failures),
        Err(_) => {
            println!("no more than one: TOWPATH_CLIPS names no folder (tests/fetch-clips.sh)");
        }
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= FORMS.len());
}

fn compare_folder(folder: &Path, failures: &mut Vec<String>) -> usize {
    let ours = clips(folder, &OURS);
    for path in &ours {
        failures.extend(compare(&Clip::open(path).expect("ffmpeg is there")));
    }
    let others = clips(folder, &OTHERS);
    let compared = others.iter().map(|path| compare_forms(path, failures)).sum::<usize>();
    assert!(ours.len() + compared > 0, "no clip in {}", folder.display());
    ours.len() + compared
}

/// Compares each form of a film of another format.
fn compare_forms(path: &Path, failures: &mut Vec<String>) -> usize {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("clip");
    let mut first: Option<Clip> = None;
    for (form, options) in FORMS {
        let source = match &first {
            Some(clip) if options.starts_with("-c copy") => clip.path(),
            _ => path,
        };
        let clip = Clip::convert(&format!("{stem}-{form}"), source, options);
        let clip = clip.expect("ffmpeg is there");
        failures.extend(compare(&clip));
        first.get_or_insert(clip);
    }
    FORMS.len()
}

/// What is different.
fn compare(clip: &Clip) -> Option<String> {
    let different = compare_frames(clip).err().or_else(|| compare_clock(clip).err());
    different.map(|what| format!("{}: {what}", clip.name))
}

fn compare_frames(clip: &Clip) -> Result<(), String> {
    let (_, lists) = clip.read();
    let stream = lists.video().ok_or("no pictures")?.index;
    let ours: Vec<Probed> = lists
        .frames_of(stream)
        .map(|f| Probed { size: f.size, key: f.key, pts: f.pts, dts: f.dts })
        .collect();
    let mut theirs = clip.probe();
    println!("{}: {} frames, theirs {}", clip.name, ours.len(), theirs.len());
    // Where frames are far apart so are clock references: `compare_clock` counts those.
    if lists.faults.total() > lists.faults.count(FaultKind::ClockJump) {
        return Err(format!("{:?}", lists.faults));
    }
    if ours.len() != theirs.len() {
        return Err(format!("{} frames, ffprobe finds {}", ours.len(), theirs.len()));
    }
    for (i, (our, their)) in ours.iter().zip(&mut theirs).enumerate() {
        // What the file does not say ffprobe computes.
        their.pts = our.pts.and(their.pts);
        their.dts = our.dts.and(their.dts);
        if our != their {
            return Err(format!("frame {i}: {our:?}, ffprobe: {their:?}"));
        }
    }
    Ok(())
}

fn inspect(bytes: &[u8]) -> (Format, Report) {
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    for piece in bytes.chunks(1 << 16) {
        reader.push(piece, &mut inspector).expect("its format is known");
    }
    let format = reader.finish(&mut inspector).expect("its format is known");
    (format, inspector.report(format, reader.bytes()))
}

/// The first clock of a file of 188-byte packets with one clock.
fn compare_clock(clip: &Clip) -> Result<(), String> {
    let bytes = clip.bytes();
    let (format, report) = inspect(&bytes);
    if format != Format::Ts188 {
        return Ok(());
    }
    let pcrs = pcrs(&bytes);
    let mut steps: Vec<u64> = pcrs.windows(2).map(|w| w[1].1 - w[0].1).collect();
    let rate = |w: &[(u64, u64)]| {
        ((w[1].0 - w[0].0) * PACKET as u64 * 8 * CLOCK_HZ) as f64 / (w[1].1 - w[0].1) as f64
    };
    let rates: Vec<f64> = pcrs.windows(2).map(rate).collect();
    let over = |ms: u64| steps.iter().filter(|&&s| s > ms * CLOCK_HZ / 1000).count() as u64;
    let (over_40, over_100, sum) = (over(40), over(100), steps.iter().sum());
    steps.sort_unstable();
    let median = steps[steps.len() / 2];
    let span_bytes = (pcrs[pcrs.len() - 1].0 - pcrs[0].0) * PACKET as u64;
    let clock = &report.clocks[0];
    let i = &clock.interval;
    let ms = |ticks: u64| ticks as f64 * 1000.0 / CLOCK_HZ as f64;
    println!(
        "{}: {:.1} MB, {} PCR, {:.1} / {:.1} / {:.1} ms, mean {:.3}, peak {:.2}, min {:.2} Mbit/s, \
         {} of constant rate, {} of accuracy judged",
        clip.name,
        bytes.len() as f64 / 1e6,
        clock.count,
        ms(steps[0]),
        ms(median),
        ms(steps[steps.len() - 1]),
        clock.rate_mean_bps / 1e6,
        clock.rate_max_bps / 1e6,
        clock.rate_min_bps / 1e6,
        clock.accuracy.constant_rate,
        clock.accuracy.judged,
    );
    let theirs =
        [pcrs.len() as u64, steps[0], steps[steps.len() - 1], over_40, over_100, sum, span_bytes];
    let ours = [
        clock.count,
        i.min_ticks,
        i.max_ticks,
        i.over_40_ms,
        i.over_100_ms,
        clock.span_ticks,
        clock.span_bytes,
    ];
    if report.faults.count(FaultKind::ClockJump) != over_100 {
        return Err(format!("{:?}, but {over_100} steps are too long", report.faults));
    }
    let mut histogram = vec![0; i.histogram_ms.len()];
    for step in &steps {
        histogram[((step * 1000 / CLOCK_HZ) as usize).min(i.histogram_ms.len() - 1)] += 1;
    }
    let max = rates.iter().copied().fold(0.0, f64::max);
    let min = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b;
    if ours != theirs || histogram != i.histogram_ms {
        return Err(format!("clock: {ours:?}, counted: {theirs:?}"));
    }
    if !close(clock.rate_max_bps, max) || !close(clock.rate_min_bps, min) {
        return Err(format!("rates: {clock:?}, counted: {min} to {max}"));
    }
    Ok(())
}
