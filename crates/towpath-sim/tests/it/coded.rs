//! Packets that are coded across paths: what the death of a path, losses, reordering and short
//! messages come to, and what it costs. Beds as in `paths`.

use std::time::Duration;

use towpath_proto::Config;
use towpath_proto::association::CodingStats;
use towpath_proto::coding::{Coding, CodingConfig};
use towpath_proto::congestion::CongestionKind;
use towpath_sim::link::LinkSpec;

use crate::paths::{Pair, mbit, ms};

fn coding(members: u8, parities: u8) -> Coding {
    Coding::new(members, parities).expect("within the limits")
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
    let (s, d, sent) = (sender.encoder, receiver.decoder, pair.stats(1));
    println!(
        "{what}: {} groups, {} parities ({} dropped), {} rebuilt ({} groups not, {} forgotten), \
         {} told, {} packets of {} lost, {} repaired",
        s.groups,
        s.sent,
        s.dropped,
        d.rebuilt,
        d.unrebuilt,
        d.forgotten,
        sender.delivered,
        sent.packets_lost,
        sent.packets_sent,
        sent.repaired,
    );
    assert_eq!((d.garbage, receiver.malformed), (0, 0), "what is coded fits together");
}

/// Bulk for three seconds after two: its share of the sum, and the longest time without the next
/// message in order.
fn bulk(specs: &[LinkSpec], config: &Config, what: &str) -> (Pair, f64, Duration) {
    let mut pair = Pair::with(specs, config);
    pair.load(ms(2000), false);
    let since = pair.world.now();
    pair.load(ms(3000), false);
    let (share, gap) = (pair.share(since, specs), pair.gap(since));
    say(what, &pair);
    println!("  {share:.3} of the sum, gap {gap:?}");
    in_order(&pair);
    (pair, share, gap)
}

/// Every message of bulk came once, in its place.
fn in_order(pair: &Pair) {
    let bulk = pair.came.iter().filter(|c| c.channel == pair.bulk).map(|c| c.number);
    assert!(bulk.eq(0..pair.came.len() as u64));
}

/// The longest time without the next message in order when a path dies and nothing is coded.
fn gap_of_a_death(specs: &[LinkSpec], dies: u8) -> Duration {
    let mut pair = Pair::new(specs);
    pair.load(ms(2000), false);
    let dead = pair.world.now();
    pair.kill(dies, true);
    pair.load(ms(1000), false);
    pair.gap(dead)
}

#[test]
fn the_death_of_one_of_four_paths_is_not_noticed_with_three_and_one() {
    let specs = [mbit(100, ms(1)); 4];
    for dies in [0, 2] {
        let mut pair = Pair::with(&specs, &with(coding(3, 1)));
        pair.load(ms(2000), false);
        let before = pair.world.now();
        pair.load(ms(2000), false);
        let (share, usual) = (pair.share(before, &specs), pair.gap(before));
        let repaired = pair.stats(1).repaired;
        let dead = pair.world.now();
        pair.kill(dies, true);
        pair.load(ms(1000), false);
        let gap = pair.gap(dead);
        say("death", &pair);
        let plain = gap_of_a_death(&specs, dies);
        println!(
            "path {dies}: {share:.3} of the sum; gap {usual:?} before, {gap:?} at its death, \
             {plain:?} without coding"
        );
        assert!(plain > 3 * gap, "{gap:?}, and {plain:?} without coding");
        // Three of four packets, and of those 24 bytes less; what a packet waits for its group is
        // the skew of the paths.
        assert!((0.73..=0.75).contains(&share), "{share:.3} of the sum");
        assert!(gap <= usual + ms(3), "{gap:?} at its death, {usual:?} before");
        let again = pair.stats(1).repaired - repaired;
        assert!(again < 50, "{again} packets were sent again");
        let rate = pair.rate_between(dead, dead + ms(1000));
        // Of what is left, three quarters.
        assert!(rate >= 190.0, "{rate:.1} Mbit/s in the next second");
        in_order(&pair);
    }
}

#[test]
fn one_in_a_hundred_lost_on_each_path_is_rebuilt_and_hardly_anything_sent_again() {
    let lossy = [mbit(100, ms(1)); 4].map(|s| LinkSpec { loss_ppm: 10_000, ..s });
    for coding in [coding(3, 1), coding(6, 2)] {
        let (pair, share, _) = bulk(&lossy, &with(coding), "1 %");
        assert!((0.72..=0.75).contains(&share), "{share:.3} of the sum");
        let (lost, repaired) = (pair.stats(1).packets_lost, pair.stats(1).repaired);
        assert!(lost > 1000 && repaired < lost / 4, "{repaired} of {lost} sent again");
        let (sender, receiver) = counted(&pair);
        assert!(receiver.decoder.rebuilt > lost, "late ones, too");
        assert!(sender.delivered * 10 > receiver.decoder.rebuilt * 9, "the sender knows");
        assert!(receiver.decoder.unrebuilt < lost / 50, "{receiver:?}");
        let groups = sender.encoder.groups;
        assert!(sender.encoder.sent <= groups * coding.parities() as u64);
    }
}

#[test]
fn losses_in_bursts_and_reordering_beyond_the_groups_harm_nothing() {
    let clean = [mbit(100, ms(1)); 4];
    let bursts = clean.map(|s| LinkSpec { burst_enter_ppm: 1000, burst_leave_ppm: 100_000, ..s });
    let (pair, share, _) = bulk(&bursts, &with(coding(6, 2)), "bursts");
    assert!(share >= 0.5, "{share:.3} of the sum");
    assert!(counted(&pair).1.decoder.rebuilt > pair.stats(1).packets_lost);
    let (reorder_ppm, reorder_us, duplicate_ppm) = (100_000, 20_000, 50_000);
    let late = clean.map(|s| LinkSpec { reorder_ppm, reorder_us, duplicate_ppm, ..s });
    let (pair, ..) = bulk(&late, &with(coding(3, 1)), "reordered and doubled");
    assert!(counted(&pair).1.decoder.rebuilt > 1000, "late is as good as lost");
}

/// A short message every 5 ms, alone; how long they took, the longest last.
fn shorts(specs: &[LinkSpec], config: &Config, what: &str) -> (Pair, Vec<Duration>) {
    let mut pair = Pair::with(specs, config);
    for n in 0..2000 {
        pair.asked.push(pair.world.now());
        pair.send(pair.short, 1 + n * 37 % 1200);
        let next = pair.world.now() + ms(5);
        pair.world.call_at(next, 0);
        pair.run(ms(5));
    }
    pair.run(ms(1000));
    let delays = pair.delays();
    say(what, &pair);
    println!("  p50 {:?} p99 {:?} max {:?}", delays[1000], delays[1980], delays[1999]);
    (pair, delays)
}

#[test]
fn a_lost_short_message_costs_two_milliseconds_and_not_a_round_trip() {
    let far = [mbit(100, ms(20)); 4].map(|s| LinkSpec { loss_ppm: 20_000, ..s });
    let (pair, coded) = shorts(&far, &with(coding(3, 1)), "short, 2 %, 40 ms, coded");
    let (_, plain) = shorts(&far, &Config::default(), "short, 2 %, 40 ms");
    assert_eq!((coded.len(), plain.len()), (2000, 2000));
    assert!(coded[1980] <= ms(23), "{:?} for one in a hundred", coded[1980]);
    assert!(plain[1980] >= ms(40), "{:?} without coding", plain[1980]);
    assert!(counted(&pair).1.decoder.rebuilt >= 20);
}

#[test]
fn paths_of_other_lengths_and_rates_are_used_as_far_as_groups_can_be_laid_across_them() {
    let mut cut = [mbit(100, ms(1)); 4];
    cut[1].datagram_bytes_max = 1300;
    let (pair, share, _) = bulk(&cut, &with(coding(3, 1)), "a path of 1300 B");
    assert!(share >= 0.72, "{share:.3} of the sum");
    assert!(counted(&pair).0.encoder.dropped < 50, "what was on its way when it was found");
    let unequal = [100, 50, 25, 10].map(|rate| mbit(rate, ms(1)));
    let (_, share, _) = bulk(&unequal, &with(coding(3, 1)), "unequal");
    assert!((0.71..=0.75).contains(&share), "{share:.3} of the sum");
}

#[test]
fn adaptive_coding_costs_nothing_where_nothing_is_lost_and_never_more_than_was_stated() {
    let clean = [mbit(100, ms(1)); 4];
    let adaptive = with(coding(6, 2).adaptive());
    let (pair, share, _) = bulk(&clean, &adaptive, "clean, adaptive");
    assert!(share >= 0.98 && counted(&pair).0 == CodingStats::default(), "{share:.3}");
    let lossy = clean.map(|s| LinkSpec { loss_ppm: 10_000, ..s });
    let (pair, share, _) = bulk(&lossy, &adaptive, "1 %, adaptive");
    let (sender, receiver) = counted(&pair);
    assert!((0.72..0.9).contains(&share) && receiver.decoder.rebuilt > 100, "{share:.3}");
    assert!(sender.encoder.sent <= 2 * sender.encoder.groups, "{sender:?}");
}

/// A controller that takes each loss for congestion hears of it, rebuilt or not.
#[test]
fn what_is_rebuilt_is_not_hidden_from_the_congestion_controller() {
    let far = [mbit(100, ms(20)); 2].map(|s| LinkSpec { loss_ppm: 10_000, ..s });
    let cubic = |coding| Config { congestion: CongestionKind::Cubic, ..with(coding) };
    let (plain, without, _) = bulk(&far, &cubic(Coding::OFF), "CUBIC, plain");
    let (coded, share, _) = bulk(&far, &cubic(coding(3, 1)), "CUBIC, coded");
    let lost = [&plain, &coded].map(|p| p.stats(1).packets_lost as f64);
    assert!((0.5..2.0).contains(&(lost[0] / lost[1])), "{lost:?}");
    assert!(share < without * 1.1, "{share:.3} of the sum, {without:.3} without");
}

#[test]
fn one_path_alone_is_coded_too() {
    let lossy = [LinkSpec { loss_ppm: 10_000, ..mbit(100, ms(1)) }];
    let (pair, share, _) = bulk(&lossy, &with(coding(6, 1)), "one path");
    assert!(share >= 0.8, "{share:.3} of the sum");
    assert!(pair.stats(1).repaired < pair.stats(1).packets_lost / 4);
}
