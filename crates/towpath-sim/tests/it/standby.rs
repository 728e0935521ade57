//! A link that is for emergencies: it carries nothing while another does, at once when none does,
//! and is known to be alive before it is needed.

use std::time::Duration;

use towpath_proto::Config;
use towpath_proto::association::{PathState, PathStatus};
use towpath_proto::coding::Coding;
use towpath_proto::config::PathsConfig;
use towpath_wire::LinkId;

use crate::paths::{Pair, mbit, ms};

/// These links are on standby at both ends.
fn standby(standby: u16) -> Config {
    Config { paths: PathsConfig { standby, ..PathsConfig::default() }, ..Config::default() }
}

fn states(pair: &Pair) -> Vec<PathState> {
    pair.paths().iter().map(|path| path.state).collect()
}

fn is_silent(path: &PathStatus) -> bool {
    matches!(path.state, PathState::Silent(_))
}

/// Bytes that host 1 has sent by the second link.
fn sent_by_standby(pair: &Pair) -> u64 {
    let paths = pair.paths();
    let path = paths.iter().find(|path| path.link == LinkId(1));
    path.expect("there is one").counted.bytes_sent
}

#[test]
fn a_link_on_standby_carries_nothing_until_the_other_dies_and_nothing_again_after() {
    let mut pair = Pair::with(&[mbit(100, ms(1)), mbit(50, ms(4))], &standby(0b10));
    pair.load(ms(500), false);
    assert_eq!(states(&pair), [PathState::Carries, PathState::Standby]);
    let (begun, before) = (pair.world.now(), sent_by_standby(&pair));
    pair.load(ms(3000), false);
    let alone = pair.rate_since(begun);
    assert!((88.0..95.0).contains(&alone), "{alone:.1} Mbit/s by one link");
    let idle = sent_by_standby(&pair) - before;
    assert!(idle <= 2000, "{idle} bytes in 3 s by the link on standby");

    let dead = pair.world.now();
    pair.kill(0, true);
    pair.load(ms(2000), false);
    assert!(pair.gap(dead) <= ms(80), "{:?} without anything in order", pair.gap(dead));
    let second = pair.rate_between(dead + ms(500), dead + ms(2000));
    assert!(second >= 42.0, "{second:.1} of 50 Mbit/s by the link on standby");
    let paths = pair.paths();
    assert!(is_silent(&paths[0]) && paths[1].state == PathState::Carries, "{paths:?}");

    pair.kill(0, false);
    pair.load(ms(1000), false);
    assert_eq!(states(&pair), [PathState::Carries, PathState::Standby]);
    let (back, before) = (pair.world.now(), sent_by_standby(&pair));
    pair.load(ms(2000), false);
    let idle = sent_by_standby(&pair) - before;
    assert!(idle <= 2000, "{idle} bytes in 2 s by the link on standby, after its service");
    let alone = pair.rate_since(back);
    assert!((88.0..95.0).contains(&alone), "{alone:.1} Mbit/s by one link again");
}

#[test]
fn a_link_on_standby_that_dies_while_nothing_goes_is_known_to_be_dead_and_to_be_back() {
    let mut pair = Pair::with(&[mbit(100, ms(1)); 2], &standby(0b10));
    let before = pair.paths()[1].counted.packets_sent;
    pair.run(Duration::from_mins(2));
    assert_eq!(states(&pair), [PathState::Carries, PathState::Standby]);
    let asked = pair.paths()[1].counted.packets_sent - before;
    // Asked by both ends every 15 s, and answered.
    assert!((8..=36).contains(&asked), "{asked} packets in two minutes");
    pair.kill(1, true);
    pair.run(Duration::from_secs(20));
    assert!(is_silent(&pair.paths()[1]), "{:?}", states(&pair));
    pair.kill(1, false);
    pair.run(Duration::from_secs(2));
    assert_eq!(states(&pair), [PathState::Carries, PathState::Standby]);
}

/// Each end decides for what it sends: their answers may differ.
#[test]
fn all_on_standby_are_as_none_and_coding_lays_nothing_on_one_that_is() {
    let mut pair = Pair::with(&[mbit(100, ms(1)); 2], &standby(0b11));
    pair.load(ms(500), false);
    let begun = pair.world.now();
    pair.load(ms(1000), false);
    let both = pair.rate_since(begun);
    assert!(both >= 175.0, "{both:.1} Mbit/s by two links that are both on standby");

    let mut coded = standby(0b10);
    coded.coding.usual = Coding::new(3, 1).expect("a code");
    let mut pair = Pair::with(&[mbit(100, ms(1)); 3], &coded);
    pair.load(ms(500), false);
    let before = sent_by_standby(&pair);
    pair.load(ms(1000), false);
    let idle = sent_by_standby(&pair) - before;
    assert!(idle <= 2000, "{idle} bytes by the link on standby");
}
