//! Pacers on real traces, in virtual time: at the planned parameters nothing starves and nothing
//! overflows; just below, it starves. The shipped trace always; others where `TOWPATH_TRACES`
//! names their folder.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use std::path::{Path, PathBuf};

use towpath_media::Stop;
use towpath_media::pace::{
    Cbr, Fault, Follow, Network, OUTSTANDING_GROUPS, Outcome, Pacer, Pcbr, Pdcbr, Player, Policy,
    Window, play,
};
use towpath_media::schedule::{cbr, pcbr, pdcbr, smooth, window};
use towpath_media::trace::{BareUnit, FrameRate, Trace, parse};

/// Seven transport packets in a datagram.
const DATAGRAM: u32 = 7 * 188;

fn files() -> Vec<PathBuf> {
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mix-mpeg1.csv")];
    // More than the one that is shipped, where there are more.
    if let Some(folder) = std::env::var_os("TOWPATH_TRACES") {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|e| e == "csv")));
    }
    files
}

fn load(file: &Path) -> Trace {
    let bytes = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let listing = parse(&bytes, BareUnit::Bytes).expect("a trace file");
    Trace::uniform(listing.sizes, FrameRate::TWENTY_FIVE).expect("a trace")
}

fn run(trace: &Trace, policy: impl Policy, buffer: u64, delay: u64) -> Outcome {
    let mut pacer = Pacer::new(policy, DATAGRAM);
    play(trace, &mut pacer, Network::default(), Player::new(trace, buffer, delay))
}

fn all_schemes(trace: &Trace, name: &str) {
    let delay = trace.reference_slots(10).expect("even");
    let rate = cbr::least_rate(trace, delay).expect("rate");
    let buffer = cbr::buffer(trace, rate, delay);
    let played = run(trace, Cbr::new(rate).expect("rate"), buffer, delay);
    assert_eq!(played.fault, None, "{name} cbr");

    let rate = pcbr::least_rate(trace, delay).expect("rate");
    let buffer = pcbr::buffer(trace, rate, delay);
    let played = run(trace, Pcbr::new(rate).expect("rate"), buffer, delay);
    assert_eq!(played.fault, None, "{name} pcbr");

    if let Ok(pair) = pdcbr::least_buffer(trace, delay, Stop::NEVER) {
        let played = run(trace, Pdcbr::new(pair.rates), pair.buffer, delay);
        assert_eq!(played.fault, None, "{name} pdcbr");
    }

    for buffer in [1_000_000, 4_000_000] {
        let rate = window::least_rate(trace, buffer, delay).expect("rate");
        let pace = |rate| Window::new(rate, buffer, delay, OUTSTANDING_GROUPS).expect("rate");
        assert_eq!(run(trace, pace(rate), buffer, delay).fault, None, "{name} window {buffer}");
        let less = rate.scaled(999, 1000).expect("rate");
        let starved = run(trace, pace(less), buffer, delay).fault;
        assert!(matches!(starved, Some(Fault::Starved { .. })), "{name} {buffer}: {starved:?}");
        let planned = smooth::schedule(trace, buffer, delay).expect("schedule");
        let played = run(trace, Follow::new(&planned), buffer, delay);
        assert_eq!(played.fault, None, "{name} smooth {buffer}");
    }
}

#[test]
fn pacers_keep_what_the_planner_promises() {
    for file in files() {
        let trace = load(&file);
        let name = file.display().to_string();
        all_schemes(&trace, &name);
        // References every 3 frames, as a multiplexer that sets one each 100 ms.
        all_schemes(&trace.grouped(3), &name);
    }
}

#[test]
fn extreme_traces_are_carried() {
    const GB: u64 = 1_000_000_000;
    let rate = FrameRate::TWENTY_FIVE;
    for sizes in [vec![1], vec![GB; 50], vec![0, 0, GB, 0, 1], vec![7, 0, 0, 0]] {
        let trace = Trace::uniform(sizes, rate).expect("trace");
        for slots in [1, 900] {
            let delay = trace.thesis_slots(slots).expect("even");
            let rate = pcbr::least_rate(&trace, delay).expect("rate");
            let schedule = pcbr::schedule(&trace, rate, delay).expect("schedule");
            assert!(schedule.check(&trace).is_ok());
            let buffer = trace.largest();
            let rate = window::least_rate(&trace, buffer, delay).expect("rate");
            let schedule = window::schedule(&trace, rate, buffer, delay).expect("schedule");
            assert!(schedule.check(&trace).is_ok());
        }
    }
}
