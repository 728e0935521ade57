//! A script of a tap of any bytes: an error with its line and what to do, or a tap that runs it.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use towpath_sim::tap::{Direction, EVENTS_MAX, Script, Tap};
use towpath_wire::Instant;

/// Frames that are sent through it, and time between two.
const FRAMES: u32 = 40;
const GAP: Duration = Duration::from_millis(700);

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let script = match Script::parse(text) {
        Ok(script) => script,
        Err(e) => {
            assert!((1..=lines).contains(&e.line), "{e}");
            assert!(!e.message.is_empty() && !e.hint.is_empty(), "{e}");
            return;
        }
    };
    assert!(script.begin.iter().all(|way| way.link.out_of_range().is_none()));
    assert!(script.changes.len() <= EVENTS_MAX);
    assert!(script.changes.is_sorted_by_key(|change| change.at));
    let mut tap = Tap::new(&script, Instant::ZERO);
    let mut now = Instant::ZERO;
    let mut out = 0;
    for n in 0..FRAMES {
        now += GAP;
        let direction = Direction::BOTH[n as usize % 2];
        tap.handle_frame(now, direction, vec![0; 60 + 40 * n as usize]);
        out += std::iter::from_fn(|| tap.poll_frame(now)).count() as u64;
    }
    while let Some(at) = tap.next_timeout() {
        tap.handle_timeout(at);
        out += std::iter::from_fn(|| tap.poll_frame(at)).count() as u64;
    }
    let dropped = std::iter::from_fn(|| tap.poll_dropped()).count() as u64;
    let stats = Direction::BOTH.map(|direction| tap.stats(direction));
    let doubled: u64 = stats.iter().map(|way| way.duplicated).sum();
    assert_eq!(u64::from(FRAMES) + doubled, out + dropped);
    assert!(stats.iter().all(|way| way.crowded == 0));
});
