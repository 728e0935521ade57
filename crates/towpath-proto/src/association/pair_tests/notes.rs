//! What owners say once.

use super::*;
use crate::association::NOTE_MAX;

fn noted(net: &Net, n: usize) -> Vec<Vec<u8>> {
    let events = net.sides[n].events.iter();
    let note = |(_, event): &(Instant, AssociationEvent)| match event {
        AssociationEvent::Noted(bytes) => Some(bytes.clone()),
        _ => None,
    };
    events.filter_map(note).collect()
}

/// A pair that has nothing more to say, and what each side has sent so far.
fn quiet() -> (Net, [u64; 2]) {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(200);
    let sent = [net.sides[0].sent, net.sides[1].sent];
    (net, sent)
}

#[test]
fn a_note_is_one_packet_and_nothing_follows_from_it() {
    let (mut net, before) = quiet();
    for n in 0..5 {
        assert!(net.sides[0].association.note(vec![n; 100]));
        net.run(20);
    }
    assert_eq!(noted(&net, 1), (0..5).map(|n| vec![n; 100]).collect::<Vec<_>>());
    assert_eq!(noted(&net, 0), Vec::<Vec<u8>>::new());
    let sent = [net.sides[0].sent, net.sides[1].sent];
    assert_eq!(sent, [before[0] + 5, before[1]], "none asks for an acknowledgement");
    assert_eq!(net.sides[0].association.in_flight(), 0);
    let waits = net.sides[0].association.poll_timeout().expect("a keep-alive");
    assert_eq!(waits.1, TimerKind::KeepAlive, "nothing is probed, nobody is silent");
}

#[test]
fn a_lost_note_is_lost_and_one_that_has_not_left_makes_room_for_the_next() {
    let (mut net, before) = quiet();
    let lost = before[0];
    net.sides[0].loses.push(lost);
    assert!(net.sides[0].association.note(b"lost".into()));
    net.run(100);
    assert!(net.sides[0].association.note(b"old".into()));
    assert!(net.sides[0].association.note(b"new".into()));
    assert!(!net.sides[0].association.note(vec![0; NOTE_MAX + 1]), "too long");
    net.run(100);
    assert_eq!(noted(&net, 1), [b"new".to_vec()]);
    assert!(net.sides[0].association.note(vec![3; NOTE_MAX]));
    net.run(100);
    assert_eq!(noted(&net, 1)[1..], [vec![3; NOTE_MAX]]);
}

#[test]
fn notes_that_cannot_be_told_yet_do_not_gather() {
    let (mut net, _) = quiet();
    let now = net.now;
    net.sides[1].association.slept(now);
    net.sides[1].cut = true;
    for n in 0..5 {
        assert!(net.sides[0].association.note(vec![n]));
        net.run(20);
    }
    assert_eq!(noted(&net, 1), Vec::<Vec<u8>>::new(), "not before its peer has answered");
    net.sides[1].cut = false;
    net.run(1000);
    assert_eq!(noted(&net, 1), [vec![4]]);
}
