//! Packets that are coded across paths: what the death of a path, losses, reordering and short
//! messages come to, and what it costs. Beds as in `paths`.

use std::time::Duration;

use towpath_proto::Config;
use towpath_proto::association::CodingStats;
use towpath_proto::coding::{Coding, CodingConfig};
use towpath_sim::link::LinkSpec;

use crate::paths::{Pair, mbit, ms};

fn coded(members: u8, parities: u8) -> Config {
    let usual = Coding::new(members, parities).expect("within the limits");
    with(usual)
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
        "{what}: {} groups, {} parities ({} dropped), {} rebuilt ({} not, {} forgotten), \
         {} told, {} packets lost, {} repaired",
        s.groups,
        s.sent,
        s.dropped,
        d.rebuilt,
        d.unrebuilt,
        d.forgotten,
        sender.delivered,
        pair.stats(1).packets_lost,
        pair.stats(1).repaired,
    );
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
