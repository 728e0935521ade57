//! What an association tells its owner of itself, and what the owner tells it.

use std::string::ToString;

use super::*;
use crate::association::SendError;
use crate::config::{Liveness, Rekey};
use crate::machine::PathChange;
use towpath_wire::PathId;

/// A pair on whose first channel one message has passed.
fn talking(config: &Config) -> (Net, ChannelId) {
    let mut net = Net::with(config, 64);
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(200);
    (net, channel)
}

fn last(net: &Net, n: usize) -> &AssociationEvent {
    &net.sides[n].events.last().expect("an event").1
}

fn ended(net: &Net, n: usize) -> Option<&End> {
    net.sides[n].events.iter().find_map(|(_, event)| match event {
        AssociationEvent::Over(end) => Some(end),
        _ => None,
    })
}

/// Writes at most one train; returns the lengths of its datagrams.
fn train(net: &mut Net, n: usize, grant: Grant) -> Vec<usize> {
    let mut buf = vec![0; 16 * 1500];
    let Side { association, memory, .. } = &mut net.sides[n];
    let mut out = TxBatch::new(&mut buf, memory, 16);
    let Some(train) = association.poll_transmit(net.now, grant, &mut out) else {
        return Vec::new();
    };
    buf[..train.len].chunks(train.segment).map(<[u8]>::len).collect()
}

#[test]
fn what_one_side_counts_as_sent_the_other_counts_as_received_to_the_byte() {
    let (mut net, channel) = talking(&Config::default());
    net.send(0, channel, &bytes(1, 50_000));
    net.send(1, channel, &bytes(2, 3000));
    net.run(500);
    for n in [0, 1] {
        let (sent, got) = (net.stats(n), net.stats(1 - n));
        assert!(sent.packets_sent > 2 && sent.bytes_sent > 3000, "{sent:?}");
        assert_eq!(sent.packets_sent, net.sides[n].sent);
        assert_eq!(got.packets_received, sent.packets_sent);
        assert_eq!(got.bytes_received, sent.bytes_sent);
        assert_eq!((sent.packets_marked, sent.forged, sent.refused), (0, 0, 0));
    }
    assert!(net.stats(0).bytes_sent > 50_000);
}

#[test]
fn packets_that_routers_marked_are_counted_and_the_sender_slows_down() {
    let config =
        Config { congestion: crate::congestion::CongestionKind::Aimd, ..Config::default() };
    for (ecn, marked, part) in [(3, true, 2), (1, false, 1), (2, false, 1)] {
        let (mut net, channel) = talking(&config);
        let window = net.sides[0].association.window();
        net.sides[1].ecn = ecn;
        net.send(0, channel, b"marked");
        net.run(100);
        assert_eq!(net.stats(1).packets_marked > 0, marked, "{ecn}");
        assert_eq!(net.sides[0].association.window(), window / part, "{ecn}");
    }
}

#[test]
fn a_key_serves_so_many_packets_and_both_sides_count_its_end() {
    let rekey = Rekey { packets: 10, ..Rekey::default() };
    let (mut net, channel) = talking(&Config { rekey, ..Config::default() });
    assert!(!net.sides[0].association.wants_keys() && !net.sides[1].association.wants_keys());
    assert_eq!((net.stats(0).keys_sent, net.stats(1).keys_received), (0, 0));
    assert_eq!(net.sides[1].association.opens_previous_until(), None);
    net.send(0, channel, &bytes(1, 40_000));
    net.run(12);
    // Neither has a third key yet: it is for whoever has the secrets to make it.
    assert_eq!((net.stats(0).keys_sent, net.stats(1).keys_received), (1, 1));
    assert!(net.sides[0].association.wants_keys() && net.sides[1].association.wants_keys());
    let until = net.sides[1].association.opens_previous_until().expect("a little longer");
    assert!(until > net.now && until < net.now + Duration::from_secs(2), "{until}");
    for side in &mut net.sides {
        side.association.replenish(&Labels);
        assert!(!side.association.wants_keys());
    }
    net.run(2000);
    assert_eq!(net.sides[1].association.opens_previous_until(), None, "it is gone");
    assert_eq!(net.sides[1].got.last(), Some(&(channel, bytes(1, 40_000))));
    assert_eq!((net.stats(0).keys_sent, net.stats(1).keys_received), (2, 2));
    assert_eq!(net.stats(1).forged, 0);
    let Side { association, memory, .. } = &mut net.sides[0];
    association.close(net.now, 300, "enough", memory);
    assert!(!association.wants_keys(), "it has ended");
}

#[test]
fn a_key_is_renewed_when_it_is_old_however_little_was_said() {
    let rekey = Rekey { age: Duration::from_secs(30), ..Rekey::default() };
    let (mut net, channel) = talking(&Config { rekey, ..Config::default() });
    net.run(29_000);
    assert_eq!(net.stats(0).keys_sent, 0);
    net.run(1000);
    net.send(0, channel, b"again");
    net.run(100);
    assert_eq!((net.stats(0).keys_sent, net.stats(1).keys_received), (1, 1));
    assert_eq!(net.sides[1].got.last(), Some(&(channel, b"again".to_vec())));
}

#[test]
fn a_key_that_has_served_its_time_ends_the_association_unless_the_peer_answers() {
    let rekey = Rekey { packets: 5, packets_max: 9, ..Rekey::default() };
    for cut in [false, true] {
        let (mut net, channel) = talking(&Config { rekey, ..Config::default() });
        net.sides[1].cut = cut;
        let before = net.stats(0).packets_sent;
        for n in 0..60 {
            if net.sides[0].association.is_open() {
                net.send(0, channel, &bytes(n, 1400));
            }
            net.run(10);
            net.sides.iter_mut().for_each(|s| s.association.replenish(&Labels));
        }
        net.run(100);
        let Some(end) = ended(&net, 0) else {
            assert!(!cut && net.stats(0).keys_sent > 8, "{:?}", net.stats(0));
            assert_eq!(net.sides[1].got.len(), 61);
            continue;
        };
        assert!(cut && matches!(end, End::Fault(why) if why.contains("key")), "{end:?}");
        let sent = net.stats(0).packets_sent - before;
        assert!((9..=5 + 9 + 3).contains(&sent), "two keys and the close: {sent}");
        assert_eq!(net.sides[0].memory.used(), 0, "what it had not sent was released");
    }
}

#[test]
fn so_many_forged_packets_end_it_and_one_fewer_do_not() {
    let rekey = Rekey { failures_max: 3, ..Rekey::default() };
    let (mut net, channel) = talking(&Config { rekey, ..Config::default() });
    let forge = |net: &mut Net, count: usize| {
        net.send(0, channel, b"true");
        net.transmit(0);
        let (at, mut datagram) = net.sides[1].coming.pop_back().expect("it was sent");
        datagram[DATA_HEADER - 1] ^= 1;
        (0..count).for_each(|_| net.sides[1].coming.push_back((at, datagram.clone())));
        net.run(500);
    };
    forge(&mut net, 2);
    assert_eq!((net.stats(1).forged, ended(&net, 1)), (2, None));
    assert_eq!(net.sides[1].got.len(), 2, "what was forged came true again");
    forge(&mut net, 1);
    assert!(matches!(ended(&net, 1), Some(End::Fault(_))), "{:?}", ended(&net, 1));
    assert!(matches!(ended(&net, 0), Some(End::ByPeer { reason: 1, .. })), "it is told");
}

#[test]
fn who_slept_hears_nothing_before_the_peer_has_answered() {
    let (mut net, channel) = talking(&Config::default());
    net.send(1, channel, b"before");
    net.transmit(1);
    net.now += TRIP;
    let before = net.sides[0].got.len();
    net.sides[0].association.slept(net.now);
    net.receive(0);
    assert_eq!(net.sides[0].got.len(), before, "the peer may have given us up");
    assert!(net.sides[0].association.poll_event().is_none());
    net.run(100);
    assert_eq!(net.sides[0].got.last(), Some(&(channel, b"before".to_vec())));
}

#[test]
fn who_slept_and_was_given_up_hears_that_and_nothing_else() {
    let (mut net, channel) = talking(&Config::default());
    net.send(1, channel, b"before");
    net.transmit(1);
    net.now += TRIP;
    net.sides[0].association.slept(net.now);
    net.receive(0);
    let Side { association, memory, .. } = &mut net.sides[1];
    association.close(net.now, 2, "lost", memory);
    net.run(100);
    assert_eq!(net.sides[0].got, [], "what came while it slept");
    let text = "lost".into();
    assert_eq!(last(&net, 0), &AssociationEvent::Over(End::ByPeer { reason: 2, text }));
    assert_eq!(net.sides[0].memory.used(), 0);
}

#[test]
fn a_watched_peer_is_asked_and_given_up_within_the_bounds_that_hold() {
    let (mut net, _) = talking(&Config::default());
    assert!(net.sides[0].association.watch(net.now, true));
    assert!(!net.sides[0].association.watch(net.now, true), "that is no news");
    net.run(3000);
    let heard = net.sides[0].association.heard_at();
    assert!(net.now.since(heard) < Duration::from_millis(520), "asked every 500 ms");
    assert_eq!(net.sides[0].association.silent_since(), None);
    net.sides[0].association.set_liveness(Liveness::after(Duration::from_millis(800)));
    net.sides[1].cut = true;
    let cut = net.now;
    net.run(600);
    let since = net.sides[0].association.silent_since().expect("it was asked since");
    assert!(since >= cut && ended(&net, 0).is_none());
    net.run(1000);
    assert!(matches!(ended(&net, 0), Some(End::Silent { .. })), "{:?}", ended(&net, 0));
    let over = net.sides[0].events.last().expect("an end").0;
    assert_eq!(over.since(since).as_millis(), 800);
    // Heard again, the peer is told that it was given up.
    net.sides[1].cut = false;
    net.run(5000);
    assert!(matches!(ended(&net, 1), Some(End::ByPeer { reason: 2, .. })), "{:?}", ended(&net, 1));
}

#[test]
fn a_question_goes_out_unless_the_peer_was_heard_or_asked_just_now() {
    let (mut net, _) = talking(&Config::default());
    net.run(100_000);
    let at = |net: &Net| net.now.since(net.sides[0].association.heard_at());
    assert!(at(&net) > Duration::from_millis(500));
    let before = net.sides[0].sent;
    let now = net.now;
    net.sides[0].association.ask(now, None);
    net.run(0);
    assert_eq!(net.sides[0].sent - before, 1);
    net.sides[0].association.ask(now + Duration::from_millis(499), None);
    net.run(0);
    assert_eq!(net.sides[0].sent - before, 1, "asked just now");
    net.run(100);
    assert!(at(&net) < Duration::from_millis(100));
    let now = net.now;
    net.sides[0].association.ask(now, None);
    net.run(0);
    assert_eq!(net.sides[0].sent - before, 1, "heard just now");
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_reason() {
    let (mut net, channel) = talking(&Config { messages_max: 3, ..Config::default() });
    let small = net.open(0, Opening { window: Some(200), ..BOTH });
    let ours = net.open(0, Opening { direction: Direction::Acceptor, ..BOTH });
    let send = |net: &mut Net, channel, len: u32, deadline| {
        let Side { association, memory, .. } = &mut net.sides[0];
        let block = memory.put(&bytes(0, len as usize)).expect("room");
        let sent = association.send_by(channel, block, len, deadline);
        if sent.is_err() {
            memory.release(block);
        }
        sent
    };
    let never = Instant::NEVER;
    let limit = 200 - 64;
    assert_eq!(
        send(&mut net, small, limit + 1, never),
        Err(SendError::TooLong { len: limit + 1, limit })
    );
    assert_eq!(send(&mut net, small, limit, never), Ok(0));
    assert_eq!(send(&mut net, small, 0, Instant::ZERO), Err(SendError::NotTimely));
    assert_eq!(send(&mut net, ours, 1, never), Err(SendError::NotOpen), "the peer's to send on");
    assert_eq!(send(&mut net, ChannelId(98), 1, never), Err(SendError::NotOpen));
    // One waits for credit, and two behind it.
    assert_eq!((send(&mut net, small, 9, never), send(&mut net, small, 9, never)), (Ok(1), Ok(2)));
    assert_eq!(send(&mut net, small, 9, never), Err(SendError::QueueFull { waiting: 3, limit: 3 }));
    let a = &net.sides[0].association;
    assert_eq!((a.waiting(small), a.waiting(channel), a.waiting(ChannelId(98))), (3, 0, 0));
    assert_eq!(a.backlog().collect::<Vec<_>>(), [small]);
    assert_eq!(a.blocked().collect::<Vec<_>>(), []);
    net.transmit(0);
    let a = &net.sides[0].association;
    assert_eq!(a.blocked().collect::<Vec<_>>(), [small], "its credit is used up");
    assert_eq!(a.backlog().collect::<Vec<_>>(), []);
    net.run(1000);
    let a = &mut net.sides[0].association;
    assert_eq!((a.waiting(small), a.blocked().count()), (0, 0));
    a.finish(small, 0);
    assert_eq!(send(&mut net, small, 1, never), Err(SendError::NotOpen));
    let Side { association, memory, .. } = &mut net.sides[0];
    association.close(net.now, 300, "", memory);
    assert_eq!(send(&mut net, channel, 1, never), Err(SendError::Ended));
}

#[test]
fn a_channel_ends_for_the_receiver_after_its_last_message_and_is_forgotten_once_both_are_done() {
    let (mut net, channel) = talking(&Config::default());
    assert_eq!(net.sides.each_ref().map(|s| s.association.channels()), [1, 1]);
    net.send(0, channel, &bytes(1, 20_000));
    net.sides[0].association.finish(channel, 9);
    net.run(300);
    let order: Vec<_> = net.sides[1].events.iter().map(|(_, e)| e).collect();
    let place = |wanted: &dyn Fn(&AssociationEvent) -> bool| {
        order.iter().rposition(|event| wanted(event)).expect("it was told")
    };
    let ended = place(&|e| *e == AssociationEvent::Ended { channel });
    assert!(ended > place(&|e| matches!(e, AssociationEvent::Message { .. })));
    let ends = order.iter().filter(|e| matches!(e, AssociationEvent::Ended { .. })).count();
    assert_eq!(ends, 1);
    assert_eq!(net.sides.each_ref().map(|s| s.association.channels()), [1, 1], "one way is open");
    net.send(1, channel, b"answer");
    net.sides[1].association.finish(channel, 0);
    net.run(300);
    assert_eq!(net.sides[0].got, [(channel, b"answer".to_vec())]);
    assert_eq!(net.sides.each_ref().map(|s| s.association.channels()), [0, 0]);
    assert_eq!(net.sides[0].association.channel_stats(channel), None);
}

#[test]
fn a_grant_bounds_the_bytes_and_names_the_channel() {
    let (mut net, a) = talking(&Config::default());
    let b = net.open(0, BOTH);
    net.run(100);
    net.send(0, a, &bytes(1, 4000));
    net.send(0, b, &bytes(2, 600));
    let free = Grant::free(LinkId(0));
    let of = |kind, bytes| Grant { kind, bytes, ..free };
    assert_eq!(train(&mut net, 0, Grant::free(LinkId(1))), [0; 0], "it has no path there");
    assert_eq!(train(&mut net, 0, of(GrantKind::All, 127)), [0; 0], "too little for a packet");
    assert_eq!(train(&mut net, 0, of(GrantKind::Data(b), 128)), [128]);
    let rest = train(&mut net, 0, of(GrantKind::Data(b), usize::MAX));
    assert!(rest.len() == 1 && (500..700).contains(&rest[0]), "{rest:?}");
    assert_eq!(
        train(&mut net, 0, of(GrantKind::Data(b), usize::MAX)),
        [0; 0],
        "that was all of it"
    );
    assert_eq!(train(&mut net, 0, of(GrantKind::Data(a), 1472)), [1472]);
    let rest = train(&mut net, 0, free);
    assert!(rest.len() == 2 && rest[0] == 1472 && rest[1] > 1000, "{rest:?}");
}

#[test]
fn there_are_sixteen_paths_at_most_and_what_is_under_way_is_told_of_all() {
    let (mut net, channel) = talking(&Config::default());
    let window = net.sides[0].association.window();
    let a = &mut net.sides[0].association;
    let remote = ([10, 0, 1, 1], 1).into();
    for n in 1..16 {
        assert_eq!(a.add_path(LinkId(n), remote), Some(PathId(n)));
    }
    assert_eq!(a.add_path(LinkId(16), remote), None);
    let mut links = Vec::new();
    a.each_link(|link| links.push(link.0));
    assert_eq!(links, (0..16).collect::<Vec<_>>());
    assert!(a.window() > window && a.in_flight() == 0);
    assert_eq!(a.remote(), ([10, 0, 0, 1], 1).into(), "the first one's");
    // Where the first is down the second carries what there is.
    net.send(0, channel, b"by another way");
    let now = net.now;
    net.sides[0].association.handle_path(now, LinkId(0), PathChange::Down);
    assert_eq!(train(&mut net, 0, Grant::free(LinkId(0))), [0; 0]);
    let sent = train(&mut net, 0, Grant::free(LinkId(1)));
    assert_eq!(net.sides[0].association.in_flight(), sent.iter().sum::<usize>() as u64);
    net.send(0, channel, b"by the first");
    net.sides[0].association.handle_path(now, LinkId(0), PathChange::Up);
    assert_eq!(train(&mut net, 0, Grant::free(LinkId(0))).len(), 1);
}

#[test]
fn what_a_link_says_of_its_longest_datagram_is_for_the_path_that_it_names() {
    let (mut net, _) = talking(&Config::default());
    let now = net.now;
    let a = &mut net.sides[0].association;
    let (remote, other) = (a.remote(), ([10, 9, 9, 9], 1).into());
    let longest = |remote, bytes| PathChange::Longest { remote, bytes };
    a.handle_path(now, LinkId(0), longest(other, 1300));
    a.handle_path(now, LinkId(1), longest(remote, 1300));
    assert_eq!(a.datagram(), 1472);
    a.handle_path(now, LinkId(0), longest(remote, 1300));
    assert_eq!(a.datagram(), 1300);
}

#[test]
fn the_longest_time_by_which_its_own_timer_was_late_is_kept() {
    let (mut net, _) = talking(&Config::default());
    let ms = Duration::from_millis;
    let mut late = |by| {
        let Side { association, memory, .. } = &mut net.sides[0];
        let (due, _) = association.poll_timeout().expect("a timer");
        association.handle_timeout(due, due + by, memory);
        association.stats().late_max
    };
    assert_eq!((late(ms(3)), late(ms(7)), late(ms(2))), (ms(3), ms(7), ms(7)));
}

#[test]
fn ends_are_told_to_people_with_the_times_that_count() {
    let s = Duration::from_millis;
    for (end, text) in [
        (End::Closed, "closed"),
        (
            End::ByPeer { reason: 300, text: "enough".into() },
            "closed by the peer for reason 300: enough",
        ),
        (End::Fault("malformed frame"), "the peer broke the protocol: malformed frame"),
        (
            End::Silent { for_: s(2000), asks: 13, excused: s(0) },
            "silent: 13 asks unanswered in 2.0s",
        ),
        (
            End::NoProgress { for_: s(20_000), excused: s(150) },
            "no progress: heard, but nothing acknowledged for 20.0s, own stalls of 150.0ms apart",
        ),
        (
            End::Unsent { for_: s(20_000), excused: s(0) },
            "unsent: the own link let nothing out for 20.0s",
        ),
    ] {
        assert_eq!(end.to_string(), text);
    }
}

#[test]
fn a_short_message_fills_a_datagram_to_the_last_byte() {
    for (len, lengths) in [(64, &[1472][..]), (65, &[1472, 57])] {
        let (mut net, channel) = talking(&Config::default());
        net.run(2000);
        // Header and tag, two frames' fronts and the first message leave room for 64 bytes.
        net.send(0, channel, &bytes(1, 1472 - 32 - 2 * 24 - 64));
        net.send(0, channel, &bytes(2, len));
        let sent = train(&mut net, 0, Grant::free(LinkId(0)));
        assert_eq!(sent, lengths, "{len} bytes");
    }
}

#[test]
fn a_packet_holds_63_pieces_at_most_and_room_for_an_open() {
    let (mut net, channel) = talking(&Config { datagram: 9000, ..Config::default() });
    net.run(2000);
    (0..100).for_each(|_| _ = net.send(0, channel, b""));
    let lengths: Vec<_> = (0..2).flat_map(|_| train(&mut net, 0, Grant::free(LinkId(0)))).collect();
    assert_eq!(lengths, [32 + 63 * 24, 32 + 37 * 24]);
}
