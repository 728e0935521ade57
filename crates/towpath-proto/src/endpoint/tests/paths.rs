//! Two links under one association: both carry, and one of them alone goes on.

use super::*;
use crate::association::AssociationStats;
use crate::machine::PathChange;

/// Two ends with a path on either link, and a channel on which 300 messages went.
fn two_paths(config: &Config) -> (Net, AssociationId, ChannelId) {
    let mut net = Net::new(config);
    let id = net.connect(b"hello").expect("a place");
    net.run(20);
    for (n, id) in ids(&net).into_iter().enumerate() {
        assert!(net.ends[n].0.add_path(id, OTHER, addr_on(OTHER, 1 - n)).is_some());
    }
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    net.send(id, channel, 300);
    net.run(300);
    assert_eq!(received(&net), 300);
    (net, id, channel)
}

fn stats(net: &Net, n: usize) -> AssociationStats {
    *net.ends[n].0.association(ids(net)[n]).expect("it stands").stats()
}

/// Milliseconds until the other end has so many.
fn until(net: &mut Net, count: usize) -> u64 {
    let since = net.now;
    while received(net) < count {
        net.run(1);
        assert!(net.now.since(since) < Duration::from_secs(3), "{} of {count}", received(net));
    }
    net.now.since(since).as_millis() as u64
}

#[test]
fn two_links_carry_one_association_and_one_of_them_alone_goes_on() {
    // Keys change on the way, on both paths.
    let rekey = crate::config::Rekey { packets: 300, ..crate::config::Rekey::default() };
    let (mut net, id, channel) = two_paths(&Config { rekey, ..Config::default() });
    let [one, two] = net.taken;
    assert!(one > (one + two) / 4 && two > (one + two) / 4, "{one} and {two} datagrams");
    let stats = *net.ends[0].0.association(id).expect("it stands").stats();
    assert!(stats.keys_sent > 2 && stats.packets_lost == 0, "{stats:?}");
    assert_eq!(net.ends[1].0.association(ids(&net)[1]).expect("it stands").stats().forged, 0);
    // The first link, which the handshake went by, loses its carrier with packets on it.
    net.send(id, channel, 100);
    net.run(1);
    net.cut = Some(LINK);
    for (endpoint, _) in &mut net.ends {
        endpoint.handle_path(net.now, LINK, PathChange::Down);
    }
    net.send(id, channel, 100);
    net.run(500);
    assert_eq!(received(&net), 500, "what was under way went again by the other");
    // A new channel's OPEN, credit, and the end go by the other, too.
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 2)).expect("a channel");
    let (endpoint, memory) = &mut net.ends[0];
    let block = memory.put(&[7; 9000]).expect("room");
    endpoint.send(id, channel, block, 9000).expect("it is open");
    net.run(50);
    assert_eq!(received(&net), 501);
    let (endpoint, memory) = &mut net.ends[0];
    endpoint.close(net.now, id, 3, "enough", memory);
    net.run(50);
    let over = |e: &EndpointEvent| {
        matches!(e, EndpointEvent::Association { event: AssociationEvent::Over(_), .. })
    };
    assert!(net.events[1].iter().any(over), "the end is told");
    let counted = net.ends[1].0.stats().over;
    assert_eq!((counted.messages_received, counted.forged), (501, 0), "what it counted stays");
}

#[test]
fn a_path_added_on_a_link_without_a_carrier_waits_for_it() {
    let mut net = Net::new(&Config::default());
    let id = net.connect(b"hello").expect("a place");
    net.run(20);
    net.cut = Some(OTHER);
    let change = |net: &mut Net, change| {
        for (endpoint, _) in &mut net.ends {
            endpoint.handle_path(net.now, OTHER, change);
        }
    };
    change(&mut net, PathChange::Down);
    for (n, id) in ids(&net).into_iter().enumerate() {
        assert!(net.ends[n].0.add_path(id, OTHER, addr_on(OTHER, 1 - n)).is_some());
    }
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    net.send(id, channel, 100);
    net.run(100);
    let lost = |net: &Net| net.ends[0].0.association(id).expect("it stands").stats().packets_lost;
    assert_eq!((received(&net), lost(&net)), (100, 0));
    assert_eq!(net.taken[1], 0, "nothing was sent into the dark");
    net.cut = None;
    change(&mut net, PathChange::Up);
    net.send(id, channel, 300);
    net.run(300);
    assert_eq!((received(&net), lost(&net)), (400, 0));
    assert!(net.taken[1] > 10, "{:?}", net.taken);
}

#[test]
fn a_link_that_dies_without_a_word_holds_nothing_up_and_comes_back_by_itself() {
    let (mut net, id, channel) = two_paths(&Config::default());
    net.send(id, channel, 300);
    let quiet = until(&mut net, 600);
    // The first link takes all that its window has room for, so something is under way on it.
    net.send(id, channel, 300);
    net.run(1);
    net.cut = Some(LINK);
    net.send(id, channel, 300);
    // Twice as much, by one link of two; the silence, and once more for what went there meanwhile.
    let took = until(&mut net, 1200);
    assert!(took <= 4 * quiet + 45, "{took} ms, {quiet} for a half of it with both");
    let said = stats(&net, 0);
    assert_eq!((said.paths_silent, said.packets_lost), (1, 0), "{said:?}");
    // Nothing more is lost on it, however much is sent; it is asked, and carries nothing else.
    let (taken, bytes) = (net.taken, net.bytes[0]);
    net.send(id, channel, 200);
    net.run(2000);
    let by = |net: &Net, before: [usize; 2]| [0, 1].map(|n| net.taken[n] - before[n]);
    let [dead, living] = by(&net, taken);
    assert_eq!((received(&net), stats(&net, 0).paths_silent), (1400, 1));
    assert!((12..200).contains(&dead) && living > 1000, "{dead} and {living} datagrams");
    let bytes = net.bytes[0] - bytes;
    assert!(bytes < 100 * dead, "{bytes} bytes of {dead} datagrams to a silent path");
    // Back after two seconds: noticed within a sixteenth of that, and a quarter of a second at
    // most.
    net.cut = None;
    net.run(200);
    let (taken, said) = (net.taken, stats(&net, 0));
    assert_eq!((said.paths_silent, said.paths.returned), (1, 1), "{said:?}");
    net.send(id, channel, 300);
    net.run(300);
    let [back, other] = by(&net, taken);
    assert_eq!(received(&net), 1700);
    // As of a new path its window is small yet.
    assert!(back > 10, "{back} and {other} datagrams");
}

#[test]
fn however_long_a_path_was_silent_its_return_is_noticed_within_a_quarter_second_or_a_240th_of_it() {
    for (silent_s, noticed_ms) in [(1, 100), (10, 300), (58, 300), (600, 2700)] {
        let (mut net, id, channel) = two_paths(&Config::default());
        for (endpoint, _) in &mut net.ends {
            endpoint.watch(net.now, id, true);
        }
        net.cut = Some(LINK);
        net.send(id, channel, 50);
        net.run(200);
        assert_eq!(stats(&net, 0).paths_silent, 1);
        net.run(silent_s * 1000);
        assert_eq!((stats(&net, 0).paths_silent, stats(&net, 0).paths.returned), (1, 0));
        net.cut = None;
        net.run(noticed_ms);
        assert_eq!(stats(&net, 0).paths.returned, 1, "after {silent_s} s");
    }
}

#[test]
fn where_the_other_links_are_idle_they_are_asked() {
    let stripe = crate::stripe::StripeKind::Fcfs;
    let paths = crate::config::PathsConfig { stripe, ..Default::default() };
    let (mut net, id, channel) = two_paths(&Config { paths, ..Config::default() });
    // One message of one datagram at a time goes by the first link alone.
    net.cut = Some(LINK);
    let (endpoint, memory) = &mut net.ends[0];
    let block = memory.put(&[7; 100]).expect("room");
    endpoint.send(id, channel, block, 100).expect("it is open");
    let took = until(&mut net, 301);
    assert!(took <= 60, "{took} ms");
    net.run(30);
    assert_eq!(stats(&net, 0).paths_silent, 1);
}

#[test]
fn where_nobody_answers_no_path_is_silent() {
    let (mut net, id, channel) = two_paths(&Config::default());
    net.send(id, channel, 50);
    net.run(1);
    // The peer does not run for a while.
    for _ in 0..100 {
        let (endpoint, memory) = &mut net.ends[0];
        if endpoint.poll_timeout().is_some_and(|(at, _)| at <= net.now) {
            endpoint.handle_timeout(net.now, memory);
        }
        net.transmit(0);
        net.now += Duration::from_millis(1);
    }
    assert_eq!(stats(&net, 0).paths_silent, 0);
    net.run(500);
    assert_eq!((received(&net), stats(&net, 0).paths_silent), (350, 0));
}

#[test]
fn what_goes_out_while_no_link_is_there_goes_by_the_first_that_is() {
    let (mut net, id, channel) = two_paths(&Config::default());
    let change = |net: &mut Net, link, change| {
        for (endpoint, _) in &mut net.ends {
            endpoint.handle_path(net.now, link, change);
        }
    };
    for link in [LINK, OTHER] {
        change(&mut net, link, PathChange::Down);
    }
    net.cut = Some(LINK);
    net.send(id, channel, 20);
    net.run(300);
    change(&mut net, OTHER, PathChange::Up);
    net.run(300);
    assert_eq!(received(&net), 320);
    net.cut = None;
    change(&mut net, LINK, PathChange::Up);
    net.run(50);
    let (taken, said) = (net.taken, stats(&net, 0));
    assert_eq!(said.paths_silent, said.paths.returned, "{said:?}");
    net.send(id, channel, 300);
    net.run(300);
    assert!(net.taken[0] > taken[0] + 10 && received(&net) == 620, "{:?}", net.taken);
}
