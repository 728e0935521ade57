//! Any bytes, pushed in pieces with control between: a sender ends, holds no more than its window,
//! and sends whole packets.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use towpath_media::send::{
    Config, DATAGRAM, Feedback, Sender, Standing, WINDOW_FILL, WINDOW_MAX,
};
use towpath_wire::{Instant, Rate};

fuzz_target!(|bytes: &[u8]| {
    let fallback = Some(Rate::from_mbps(4));
    let mut sender = Sender::new(Config { fallback, ..Config::stored() });
    let (mut now, mut out) = (Instant::ZERO, [0; DATAGRAM]);
    for piece in bytes.chunks(400) {
        match piece[0] {
            0 => sender.feedback(now, Feedback::SlowDown),
            1 => sender.feedback(now, Feedback::SpeedUp),
            2 => sender.splice(),
            3 => sender.flush(),
            4 => sender.set_speed(now, u32::from(piece[0]) << 20),
            5 => now += Duration::from_secs(100),
            _ => sender.push(piece),
        }
        assert!(sender.waiting() <= WINDOW_MAX + WINDOW_FILL + 400);
        if let Some(due) = sender.poll_timeout() {
            now = now.max(due);
            while let Some(due) = sender.poll_transmit(now, &mut out) {
                assert!(due.len % 188 == 0 && due.len > 0 && out[0] == 0x47);
            }
        }
    }
    sender.finish();
    for _ in 0..=bytes.len() {
        if sender.is_finished() || sender.standing() == Standing::Clockless {
            return;
        }
        now = now.max(sender.poll_timeout().expect("something is left to be sent"));
        while sender.poll_transmit(now, &mut out).is_some() {}
    }
    panic!("it does not end");
});
