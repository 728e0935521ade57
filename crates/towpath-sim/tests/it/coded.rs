//! Packets that are coded across paths: what the death of a path, losses, reordering and short
//! messages come to, and what it costs. Beds as in `paths`.

use std::time::Duration;

use towpath_proto::Config;
use towpath_proto::association::CodingStats;
use towpath_proto::coding::{Coding, CodingConfig};
use towpath_proto::congestion::CongestionKind;
use towpath_sim::link::LinkSpec;

use crate::paths::{Pair, mbit, ms};

fn coded(members: u8, parities: u8) -> Config {
    with(Coding::new(members, parities).expect("within the limits"))
}

fn with(usual: Coding) -> Config {
    Config { coding: CodingConfig { usual, ..CodingConfig::default() }, ..Config::default() }
}

/// What the sender, and what the receiver of bulk has counted.
fn counted(pair: &Pair) -> (CodingStats, CodingStats) {
    (pair.stats(1).paths.coding, pair.stats(0).paths.coding)
}

fn say(what: &str, pair: &Pair) {
    let (sender, receiver) = counted(pair);
    let (s, d) = (sender.encoder, receiver.decoder);
    println!(
        "{what}: {} groups, {} parities ({} dropped), {} rebuilt ({} not, {} forgotten, {} \
         garbage), {} told, {} packets of {} lost, {} repaired",
        s.groups,
        s.sent,
        s.dropped,
        d.rebuilt,
        d.unrebuilt,
        d.forgotten,
        d.garbage,
        sender.delivered,
        pair.stats(1).packets_lost,
        pair.stats(1).packets_sent,
        pair.stats(1).repaired,
    );
}

/// Bulk for three seconds after two; its share of the sum.
fn bulk(specs: &[LinkSpec], config: &Config, what: &str) -> (Pair, f64) {
    let mut pair = Pair::with(specs, config);
    pair.load(ms(2000), false);
    let since = pair.world.now();
    pair.load(ms(3000), false);
    let share = pair.share(since, specs);
    say(what, &pair);
    println!("  {share:.3} of the sum, gap {:?}", pair.gap(since));
    (pair, share)
}

/// A short message every 5 ms, alone; how long they took, the longest last.
fn shorts(specs: &[LinkSpec], config: &Config, what: &str) -> (Pair, Vec<Duration>) {
    let mut pair = Pair::with(specs, config);
    for _ in 0..2000 {
        pair.asked.push(pair.world.now());
        pair.send(pair.short, 200);
        pair.run(ms(5));
    }
    pair.run(ms(1000));
    let delays = pair.delays();
    say(what, &pair);
    println!("  p50 {:?} p99 {:?} max {:?}", delays[1000], delays[1980], delays[1999]);
    (pair, delays)
}

#[test]
fn the_death_of_one_of_four_paths_is_not_noticed_with_three_and_one() {
    let specs = [mbit(100, ms(1)); 4];
    for dies in [0, 2] {
        let mut pair = Pair::with(&specs, &coded(3, 1));
        pair.load(ms(2000), false);
        let before = pair.world.now();
        pair.load(ms(2000), false);
        let share = pair.share(before, &specs);
        let usual = pair.gap(before);
        say("before", &pair);
        let dead = pair.world.now();
        pair.kill(dies, true);
        pair.load(ms(1000), false);
        let gap = pair.gap(dead);
        say("after", &pair);
        println!("path {dies}: {share:.3} of the sum; gap {usual:?} before, {gap:?} at its death");
    }
}

#[test]
fn explore() {
    let clean = [mbit(100, ms(1)); 4];
    let lossy = clean.map(|s| LinkSpec { loss_ppm: 10_000, ..s });
    let far = [mbit(100, ms(20)); 4].map(|s| LinkSpec { loss_ppm: 10_000, ..s });
    let bursts = clean.map(|s| LinkSpec { burst_enter_ppm: 1000, burst_leave_ppm: 100_000, ..s });
    let reordered = clean.map(|s| LinkSpec {
        reorder_ppm: 100_000,
        reorder_us: 20_000,
        duplicate_ppm: 50_000,
        ..s
    });
    let mut cut = clean;
    cut[1].datagram_bytes_max = 1300;
    let unequal = [100, 50, 25, 10].map(|rate| mbit(rate, ms(1)));
    let off = Config::default();
    for (name, specs) in [
        ("clean", clean),
        ("1 %", lossy),
        ("1 %, 40 ms", far),
        ("bursts", bursts),
        ("reordered", reordered),
        ("MTU", cut),
        ("unequal", unequal),
    ] {
        bulk(&specs, &off, &format!("{name}, plain"));
        bulk(&specs, &coded(3, 1), &format!("{name}, 3+1"));
        bulk(&specs, &coded(6, 2), &format!("{name}, 6+2"));
    }
    for (name, specs) in [("1 %, 40 ms", far), ("reordered", reordered)] {
        shorts(&specs, &off, &format!("short {name}, plain"));
        shorts(&specs, &coded(3, 1), &format!("short {name}, 3+1"));
    }
    let adaptive = with(Coding::new(6, 2).unwrap().adaptive());
    bulk(&clean, &adaptive, "clean, adaptive");
    bulk(&lossy, &adaptive, "1 %, adaptive");
    let cubic = Config { congestion: CongestionKind::Cubic, ..off };
    let far2 = [far[0]; 2];
    bulk(&far2, &cubic, "cubic 1 % 40 ms, plain");
    bulk(&far2, &Config { congestion: CongestionKind::Cubic, ..coded(3, 1) }, "cubic, 3+1");
    bulk(&lossy[..2], &coded(3, 1), "two, 1 %, 3+1");
    bulk(&lossy[..1], &coded(6, 1), "one, 1 %, 6+1");
}
