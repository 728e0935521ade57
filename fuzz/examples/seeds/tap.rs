//! Scripts of a tap.

/// Everything that a script can say, and two that are wrong.
pub(crate) fn scripts() -> Vec<(&'static str, Vec<u8>)> {
    let lossy = "kind = 'tap'\nabout = 'a radio'\nseed = 7\n[link.both]\nrate_bps = 6_000_000\n\
                 rate_burst_bytes = 3000\nqueue_bytes = 60_000\ndelay_us = 20_000\n\
                 jitter_us = 5000\nloss_ppm = 10_000\nburst_enter_ppm = 1000\n\
                 burst_leave_ppm = 50_000\nburst_loss_ppm = 900_000\nreorder_ppm = 5000\n\
                 reorder_us = 3000\nduplicate_ppm = 1000\ncorrupt_ppm = 1000\n\
                 frame_bytes_max = 1400\nframing_bytes = 38\n[link.back]\nrate_bps = 1_000_000\n";
    let dead = "[[change]]\nat_ms = 4000\nlink = 'there'\nup = false\nevery_ms = 2000\ntimes = 3\n\
                [[change]]\nat_ms = 5000\nabout = 'back'\nup = true\ndelay_us = 90_000\n";
    vec![
        ("lossy", lossy.into()),
        ("dead", dead.into()),
        ("range", b"[link.both]\nloss_ppm = 1_000_001".to_vec()),
        ("unknown", b"[[change]]\nat_ms = 1\nlink = 'wan'\nup = 0".to_vec()),
    ]
}
