//! Server, link and client together.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use towpath_media::receive::When;
use towpath_media::send::{Config, DATAGRAM, Feedback, Sender};
use towpath_wire::Instant;

use super::client::{Client, ClientCounters, ClientSpec};
use super::clip::Clip;

/// The way from server to client; feedback takes its delay back, and is not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkModel {
    /// Least time on the way, µs.
    pub delay_us: u64,
    /// Most that is added, µs; order is kept.
    pub jitter_us: u64,
    /// Datagrams lost.
    pub loss_ppm: u32,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// What is sent.
    pub clip: Clip,
    /// Who receives it.
    pub client: ClientSpec,
    /// How it gets there.
    pub link: LinkModel,
    /// When the client asks for less.
    pub feedback: When,
    /// When the server stops, s.
    pub stop_s: u64,
    /// When the run ends, s.
    pub end_s: u64,
    /// Feeds every random draw.
    pub seed: u64,
}

/// What came of it: a value a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StreamOutcome {
    /// Frames that the server sent, by bytes.
    pub sent_fps: Vec<f64>,
    /// Frames that the client showed.
    pub shown_fps: Vec<f64>,
    /// Bytes in the client's ring at the end of the second.
    pub ring_bytes: Vec<u64>,
    /// SLOWDOWN, SPEEDUP and NORMAL: second and number of the message.
    pub asked: Vec<(f64, u8)>,
    /// Frames in all.
    pub counters: ClientCounters,
    /// The second from which the client showed less than four fifths of what it had before, for
    /// ten seconds.
    pub collapse_s: Option<u64>,
}

struct World<'a> {
    spec: &'a StreamSpec,
    sender: Sender,
    next_frame: u32,
    client: Client,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    asks: VecDeque<(Instant, Feedback)>,
    state: u64,
    outcome: StreamOutcome,
    sent: u64,
    shown: u64,
}

/// Runs it. The same specification gives the same outcome.
pub fn run(spec: &StreamSpec) -> StreamOutcome {
    let client = Client::new(spec.client.clone(), spec.clip.clone(), spec.feedback);
    let mut world = World {
        spec,
        sender: Sender::new(Config::stored()),
        next_frame: 0,
        client,
        under_way: VecDeque::new(),
        asks: VecDeque::new(),
        state: spec.seed,
        outcome: StreamOutcome::default(),
        sent: 0,
        shown: 0,
    };
    let second = Duration::from_secs(1);
    let (stop, end) = (at(spec.stop_s), at(spec.end_s));
    let (mut now, mut mark) = (Instant::ZERO, Instant::ZERO + second);
    loop {
        world.turn(now, now < stop);
        let server = if now < stop { world.sender.poll_timeout() } else { None };
        let network = world.under_way.front().map(|(at, _)| *at);
        let asked = world.asks.front().map(|(at, _)| *at);
        let client = world.client.poll_timeout();
        let next = [server, network, asked, client].into_iter().flatten().min();
        let next = next.map_or(mark, |next| next.max(now).min(mark));
        if next == mark {
            world.second();
            mark += second;
        }
        if next > end {
            break;
        }
        now = next;
    }
    world.outcome.counters = world.client.counters;
    world.outcome.collapse_s = collapse(&world.outcome.shown_fps, spec.stop_s);
    world.outcome
}

const fn at(s: u64) -> Instant {
    Instant::from_nanos(s * 1_000_000_000)
}

impl World<'_> {
    fn turn(&mut self, now: Instant, serving: bool) {
        while let Some((_, ask)) = self.asks.pop_front_if(|(at, _)| *at <= now) {
            self.sender.feedback(now, ask);
        }
        if serving {
            self.serve(now);
        }
        while let Some((_, datagram)) = self.under_way.pop_front_if(|(at, _)| *at <= now) {
            self.client.arrive(now, datagram);
        }
        self.client.work(now);
        if let Some(ask) = self.client.look(now) {
            self.outcome.asked.push((now.as_nanos() as f64 / 1e9, ask as u8));
            let delay = Duration::from_micros(self.spec.link.delay_us);
            self.asks.push_back((now + delay, ask));
        }
    }

    fn serve(&mut self, now: Instant) {
        let mut out = [0; DATAGRAM];
        loop {
            while self.sender.room() > 0 {
                self.sender.push(&self.spec.clip.frame(self.next_frame));
                self.next_frame += 1;
            }
            let Some(due) = self.sender.poll_transmit(now, &mut out) else { return };
            self.sent += due.len as u64;
            let link = self.spec.link;
            if self.draw(1_000_000) < u64::from(link.loss_ppm) {
                continue;
            }
            let late = link.delay_us + self.draw(link.jitter_us + 1);
            let arrives = due.at + Duration::from_micros(late);
            let arrives = self.under_way.back().map_or(arrives, |(last, _)| arrives.max(*last));
            self.under_way.push_back((arrives, out[..due.len].to_vec()));
        }
    }

    /// Below `limit` (`SplitMix64`).
    const fn draw(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn second(&mut self) {
        let bytes = std::mem::take(&mut self.sent) as f64;
        self.outcome.sent_fps.push(bytes / self.spec.clip.frame_bytes());
        let shown = self.client.counters.shown;
        self.outcome.shown_fps.push((shown - self.shown) as f64);
        self.shown = shown;
        self.outcome.ring_bytes.push(self.client.level() as u64);
    }
}

/// Seconds over which a rate is looked at.
const WINDOW: usize = 10;

fn collapse(shown: &[f64], until: u64) -> Option<u64> {
    let shown = &shown[..shown.len().min(until as usize)];
    let mean = |from: usize| shown[from..from + WINDOW].iter().sum::<f64>() / WINDOW as f64;
    // The first seconds fill what waits.
    let last = shown.len().saturating_sub(WINDOW);
    let at = (2 * WINDOW..last).find(|at| mean(*at) < mean(*at - WINDOW) * 0.8);
    at.map(|at| at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The third source's client: it decodes 17.2 frames a second alone, and 10 while the kernel
    /// buffers 18 frames of 8 datagrams.
    fn spec(feedback: When) -> StreamSpec {
        StreamSpec {
            clip: Clip::mjpeg(),
            client: ClientSpec {
                frame_us: 57_300,
                take_us: 100,
                kernel_us: 2970,
                ring_bytes: 1 << 20,
                kernel_bytes: 256 * 1024,
                start_bytes: 40 * 1024,
            },
            link: LinkModel { delay_us: 1000, jitter_us: 500, loss_ppm: 0 },
            feedback,
            stop_s: 540,
            end_s: 560,
            seed: 1,
        }
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn without_feedback_it_collapses_at_130_s_and_recovers_when_the_server_stops() {
        let outcome = run(&spec(When::Off));
        let collapse = outcome.collapse_s.expect("it collapses");
        assert!((110..=150).contains(&collapse), "at {collapse} s");
        assert!((16.5..18.0).contains(&mean(&outcome.shown_fps[40..100])), "before");
        let after = mean(&outcome.shown_fps[200..540]);
        assert!((9.0..11.0).contains(&after), "{after} after");
        let sent = mean(&outcome.sent_fps[200..540]);
        assert!((17.5..18.5).contains(&sent), "{sent}: the server does not care");
        assert!(mean(&outcome.shown_fps[541..545]) > 16.5, "when the server stops");
        assert!(outcome.asked.is_empty() && outcome.counters.dropped > 1000);
    }

    #[test]
    fn feedback_before_degradation_keeps_its_rate_and_after_it_swings() {
        let before = run(&spec(When::Before));
        assert_eq!((before.collapse_s, before.counters.dropped), (None, 0));
        let least = before.shown_fps[20..540].iter().copied().fold(f64::MAX, f64::min);
        assert!(least >= 16.0, "{least}");
        let after = run(&spec(When::After));
        let swings = after.asked.iter().filter(|(_, ask)| *ask == Feedback::Normal as u8).count();
        assert!(swings >= 3, "{swings} times full, slow, normal");
        let least = after.shown_fps[20..540].iter().copied().fold(f64::MAX, f64::min);
        assert!(least < 14.0, "{least}");
        let off = run(&spec(When::Off));
        assert!(before.counters.shown > after.counters.shown);
        assert!(after.counters.shown > off.counters.shown);
    }

    #[test]
    fn lost_parts_cost_their_frame_and_a_lost_reference_its_group() {
        let mut spec = spec(When::Before);
        spec.link.loss_ppm = 2000;
        let jpeg = run(&spec);
        assert!(jpeg.counters.incomplete > 50 && jpeg.counters.spoiled == 0);
        spec.clip = Clip::mpeg1();
        let mpeg = run(&spec);
        assert!(mpeg.counters.incomplete > 30 && mpeg.counters.spoiled > 10, "{:?}", mpeg.counters);
        assert_eq!(run(&spec), mpeg, "the same again");
    }
}
