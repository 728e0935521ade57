//! Coming in, and being turned away.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::association::End;
use towpath_proto::endpoint::Refusal;
use towpath_proto::{Connect, ConnectFailure, EndpointEvent, HostKey, Psk, Rng};
use towpath_vm::message::Entries;
use towpath_vm::{Change, Entry, Fields, Host, HostState, Message, RequestEvent};
use towpath_wire::bytes::ParseError;
use towpath_wire::{Admission, HostId, LinkId};

use super::net::{EPOCH_S, Net, VM_KEY, addr, config, program};
use super::standin::StandIn;
use crate::config::{is_marked, mark, reason, refusal, token_psk};
use crate::hello::{Hello, Purpose};
use crate::joining::Referral;
use crate::{JoinFailure, Node, NodeEvent};

fn names(net: &mut Net, host: usize) -> Vec<(HostId, alloc::string::String)> {
    net.node(host).hosts().map(|h| (h.id, h.name.clone())).collect()
}

#[test]
fn hosts_that_join_know_each_other_and_are_numbered_by_the_entry_that_added_them() {
    let mut net = Net::founded(config(0, "one"));
    net.add(config(1, "two"));
    net.run(100);
    net.add(config(2, "three"));
    net.run(100);
    let id = |slot, incarnation| HostId::new(slot, incarnation).expect("a host");
    let all = [(id(1, 1), "one"), (id(2, 2), "two"), (id(3, 3), "three")];
    for host in 0..3 {
        let known: Vec<_> = all.iter().map(|(id, name)| (*id, (*name).to_string())).collect();
        assert_eq!(names(&mut net, host), known);
        let node = net.node(host);
        assert_eq!((node.me(), node.leader()), (Some(all[host].0), Some(all[0].0)));
        assert_eq!((node.log_index(), node.is_frozen(), node.malformed()), (3, false, 0));
    }
    let said = |events: Vec<NodeEvent>| -> Vec<(bool, HostId)> {
        let event = |e| match e {
            NodeEvent::Joined { me, again: false } => Some((true, me)),
            NodeEvent::HostAdded(host) => Some((false, host.id)),
            _ => None,
        };
        events.into_iter().filter_map(event).collect()
    };
    let ids = all.map(|(id, _)| id);
    assert_eq!(said(net.events(0)), [(true, ids[0]), (false, ids[1]), (false, ids[2])]);
    let two = [(true, ids[1]), (false, ids[0]), (false, ids[1]), (false, ids[2])];
    assert_eq!(said(net.events(1)), two);
    let three = [(true, ids[2]), (false, ids[0]), (false, ids[1]), (false, ids[2])];
    assert_eq!(said(net.events(2)), three);
    assert_eq!(net.node(1).join_addr(), Some(addr(0)));
    assert_eq!(net.node(0).join_addr(), None);
    let host = net.node(0).hosts().nth(1).expect("the second").clone();
    assert_eq!((host.addr, host.speed, host.cpus, host.slots), (addr(1), 1000, 2, 2));
    assert_eq!(host.state, HostState::Up);
}

#[test]
fn a_newcomer_hears_who_it_is_before_anything_else() {
    let mut net = Net::founded(config(0, "one"));
    net.add(config(1, "two"));
    net.lose_once((0, 1), |net| net.node(0).hosts().count() == 2);
    // What it is told of that is lost; this goes by another channel.
    let two = net.node(0).hosts().nth(1).map(|host| host.id).expect("it was let in");
    assert_eq!(net.node(1).me(), None);
    let request = net.spawn(0, two, program(&[]));
    net.run(1000);
    assert_eq!((net.node(1).me(), net.node(1).malformed()), (Some(two), 0));
    net.started(1);
    net.run(100);
    let news = net.news(0, request);
    assert!(matches!(news[..], [RequestEvent::Started { .. }]), "{news:?}");
}

#[test]
fn a_name_that_is_taken_gets_its_slot_behind_it() {
    let mut net = Net::founded(config(0, "one"));
    for index in 1..3 {
        net.add(config(index, "one"));
        net.run(100);
    }
    let known: Vec<_> = net.node(2).hosts().map(|h| h.name.clone()).collect();
    assert_eq!(known, ["one", "one~2", "one~3"]);
}

#[test]
fn only_the_founder_gives_tokens_and_each_has_its_own_secret() {
    let mut net = Net::new(2);
    let now = net.now;
    assert_eq!(net.node(1).invite(now, 60, [1; 16]), None);
    let one = net.node(0).invite(now, 60, [1; 16]).expect("a token");
    // A second has passed since instant zero.
    assert_eq!((one.expiry_unix_s, one.nonce), (EPOCH_S + 61, [1; 16]));
    let other = net.node(0).invite(now, 60, [2; 16]).expect("a token");
    let node = net.node(0);
    assert_eq!(node.psk_of(one.expiry_unix_s, &one.nonce), one.psk);
    assert_eq!(node.psk_of(other.expiry_unix_s, &other.nonce), other.psk);
    assert!(one.psk != other.psk && node.psk_of(one.expiry_unix_s + 1, &one.nonce) != one.psk);
    // Of one that it does not know, what a host can make that comes back, and nobody else.
    let crypto = node.endpoint().crypto();
    assert_eq!(node.psk_of(9, &[3; 16]), token_psk(crypto, &VM_KEY, 9, &[3; 16]));
    assert_ne!(one.psk, token_psk(crypto, &VM_KEY, one.expiry_unix_s, &one.nonce));
    // The same number again is another token.
    let again = net.node(0).invite(now, 60, [1; 16]).expect("a token");
    assert_ne!(again.psk, one.psk);
    let Admission::Token { expiry_unix_s, nonce } = one.admission() else { panic!("a token") };
    assert_eq!((expiry_unix_s, nonce), (one.expiry_unix_s, one.nonce));
}

#[test]
fn tokens_are_listed_until_they_expire() {
    let mut net = Net::new(1);
    let now = net.now;
    net.node(0).invite(now, 60, [1; 16]).expect("a token");
    net.node(0).invite(now, 120, [2; 16]).expect("a token");
    let mut listed = |after| {
        let at = now + Duration::from_secs(after);
        net.node(0).invitations(at).iter().map(|i| i.nonce[0]).collect::<Vec<_>>()
    };
    assert_eq!((listed(0), listed(59)), (vec![1, 2], vec![1, 2]));
    assert_eq!((listed(60), listed(119), listed(120)), (vec![2], vec![2], vec![]));
}

/// What comes of a host that joins with this target.
fn joins(net: &mut Net, target: crate::JoinTarget, ms: u64) -> Option<JoinFailure> {
    let index = net.seats.len();
    net.add_by(config(index, "new"), target);
    net.run(ms);
    net.events(index).into_iter().find_map(|e| match e {
        NodeEvent::JoinFailed(failure) => Some(failure),
        NodeEvent::Joined { .. } | NodeEvent::HostAdded(_) => None,
        other => panic!("{other:?}"),
    })
}

fn code(failure: Option<JoinFailure>) -> u16 {
    match failure {
        Some(JoinFailure::Refused(refusal)) => refusal.code,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_token_is_good_until_its_last_second_and_only_as_it_was_made() {
    let mut net = Net::new(1);
    let target = net.target(5);
    net.run(4_900);
    assert_eq!(joins(&mut net, target.clone(), 50), None);
    assert_eq!(net.node(0).hosts().count(), 2);
    net.run(50);
    assert_eq!(code(joins(&mut net, target, 50)), refusal::EXPIRED);
    // Somebody who makes his token last longer does not know its secret.
    let mut longer = net.target(5);
    longer.invitation.expiry_unix_s += 1;
    assert_eq!(joins(&mut net, longer, 6_000), Some(JoinFailure::WrongKey));
    // Nobody is there.
    let mut nobody = net.target(60);
    nobody.addr = addr(200);
    let failure = joins(&mut net, nobody, 6_000);
    assert!(matches!(failure, Some(JoinFailure::NoAnswer(d)) if d.as_secs() == 5), "{failure:?}");
    assert_eq!(net.node(0).hosts().count(), 2, "none of these came in");
}

#[test]
fn only_the_leader_lets_anybody_in() {
    let mut net = Net::new(2);
    let mut target = net.target(60);
    (target.addr, target.key) = (addr(1), net.node(1).endpoint().public_key());
    // It does not know the VM key, and so not the token's secret.
    let failure = joins(&mut net, target, 6_000);
    assert!(failure.is_some(), "{failure:?}");
    assert_eq!(net.node(1).hosts().count(), 2);
}

#[test]
fn a_full_table_takes_nobody() {
    let mut net = Net::new(1);
    let host = net.node(0).hosts().next().expect("itself").clone();
    let node = net.node(0);
    for slot in 2..=4095 {
        let mut key = [9; 32];
        key[..2].copy_from_slice(&u16::to_le_bytes(slot));
        let id = HostId::new(slot, slot.into()).expect("a host");
        super::append(node, Change::Added(Host { id, key, ..host.clone() }));
    }
    let target = net.target(60);
    assert_eq!(code(joins(&mut net, target.clone(), 50)), refusal::FULL);
    let last = HostId::new(4095, 4095).expect("a host");
    super::append(net.node(0), Change::Left(last));
    assert_eq!(joins(&mut net, target, 50), None);
    assert!(net.node(0).hosts().any(|h| h.id.slot() == 4095 && h.name == "new"));
}

#[test]
fn a_host_cannot_join_itself() {
    let mut net = Net::new(2);
    let target = net.target(60);
    let hello = hello(Purpose::Join);
    net.stranger(1); // the founder's key
    let token = target.invitation.clone();
    let refused = knock(&mut net, 0, token.admission(), token.psk.clone(), &hello.encode("test"));
    assert_eq!(refused, Err(refusal::SELF));
}

fn hello(purpose: Purpose) -> Hello {
    Hello {
        purpose,
        name: "stranger".into(),
        arch: "any".into(),
        speed: 1,
        cpus: 1,
        slots: 1,
        fields: Fields::default(),
        life: 0,
    }
}

/// What becomes of a stranger's handshake with `host`.
pub(super) fn knock(
    net: &mut Net,
    host: usize,
    admission: Admission,
    psk: Psk,
    hello: &[u8],
) -> Result<(), u16> {
    knock_for(net, host, admission, psk, hello).map_err(|refusal| refusal.code)
}

/// The same, with what is said of it.
fn knock_for(
    net: &mut Net,
    host: usize,
    admission: Admission,
    psk: Psk,
    hello: &[u8],
) -> Result<(), Refusal> {
    let key = net.node(host).endpoint().public_key();
    let (link, remote, now) = (LinkId(0), addr(host), net.now);
    let stranger = net.stranger.as_mut().expect("somebody is there");
    stranger.events.clear();
    let connect = Connect { link, remote, key, admission, psk, hello };
    stranger.endpoint.connect(now, &connect).expect("there is room");
    net.run(100);
    let stranger = net.stranger.as_mut().expect("somebody is there");
    match stranger.events.first() {
        Some(EndpointEvent::Connected { .. }) => Ok(()),
        Some(EndpointEvent::ConnectFailed { failure: ConnectFailure::Refused(r), .. }) => {
            Err(r.clone())
        }
        other => panic!("{other:?}"),
    }
}

/// Who is let in, by what they say and what the table knows of them.
#[test]
fn a_member_is_who_the_table_says() {
    let mut net = Net::new(3);
    let member = |id| (Admission::Member, Psk::MEMBER, hello(Purpose::Member(id)).encode("test"));
    let (two, three) = (net.id(1), net.id(2));
    // A key that the table does not have.
    net.stranger(50);
    let (admission, psk, hello_) = member(two);
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), &hello_), Err(refusal::NOT_MEMBER));
    assert_eq!(knock(&mut net, 1, admission, psk.clone(), &hello_), Err(refusal::NOT_MEMBER));
    let again = hello(Purpose::Rejoin).encode("test");
    assert_eq!(knock(&mut net, 1, admission, psk.clone(), &again), Err(refusal::NOT_LEADER));
    // The third host's key, whose process was replaced.
    net.crash(2);
    net.stranger(3);
    let (admission, psk, hello_) = member(three);
    assert_eq!(knock(&mut net, 1, admission, psk.clone(), &hello_), Ok(()));
    assert!(net.node(1).association_to(three).is_some());
    // It says to be another host, or an earlier life of its own.
    let (_, _, other) = member(two);
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), &other), Err(refusal::FENCED));
    let (_, _, old) = member(HostId::new(3, 1).expect("a host"));
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), &old), Err(refusal::FENCED));
    // Not in the language of hellos.
    let half = &hello_[..hello_.len() - 10];
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), half), Err(refusal::MALFORMED));
    // Of another build, or of none.
    let other = hello(Purpose::Member(three)).encode("other");
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), &other), Err(refusal::BUILD));
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), b"hello"), Err(refusal::BUILD));
    // A member does not come with a token, and nobody joins without one, wherever he asks.
    let token = net.target(60).invitation;
    assert_eq!(
        knock(&mut net, 0, token.admission(), token.psk.clone(), &hello_),
        Err(refusal::MALFORMED)
    );
    let join = hello(Purpose::Join).encode("test");
    assert_eq!(knock(&mut net, 0, admission, psk.clone(), &join), Err(refusal::NOT_MEMBER));
    assert_eq!(knock(&mut net, 1, admission, psk.clone(), &join), Err(refusal::NOT_LEADER));
    let rejoin = hello(Purpose::Rejoin).encode("test");
    let refused = knock_for(&mut net, 1, admission, psk, &rejoin).expect_err("it does not lead");
    // Whoever was a member hears under which key it is let in; nobody else does.
    let key = net.node(0).endpoint.public_key();
    let referral = Referral { addr: addr(0), key, name: "h0".into() };
    assert_eq!((refused.code, refused.text), (refusal::REFERRED, referral.emit()));
}

#[test]
fn a_host_that_was_declared_lost_is_not_taken_for_the_member_that_it_was() {
    let mut net = Net::new(3);
    let three = net.id(2);
    // Long enough for both to say something, so that the silence is noticed.
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    net.run(100);
    net.crash(2);
    net.run(8_000);
    let lost = NodeEvent::HostLost(three);
    assert!(net.events(0).contains(&lost) && net.events(1).contains(&lost));
    net.stranger(3);
    let hello_ = hello(Purpose::Member(three)).encode("test");
    for host in 0..2 {
        let answer = knock(&mut net, host, Admission::Member, Psk::MEMBER, &hello_);
        assert_eq!(answer, Err(refusal::FENCED), "host {host}");
        assert_eq!(net.node(host).association_to(three), None, "host {host}");
    }
    // It may come back as another one: a host that knows nothing of its new life gets none either.
    let rejoin = hello(Purpose::Rejoin).encode("test");
    assert_eq!(knock(&mut net, 0, Admission::Member, Psk::MEMBER, &rejoin), Ok(()));
    let id = net.node(0).hosts().find(|h| h.name == "stranger").expect("it is back").id;
    assert_ne!(id, three);
    assert_eq!(id.incarnation(), 5, "the fifth entry: three hosts, one of them lost");
    assert_eq!(
        knock(&mut net, 1, Admission::Member, Psk::MEMBER, &hello_),
        Err(refusal::FENCED),
        "its first life is over"
    );
}

#[test]
fn nobody_rejoins_whose_key_is_not_in_the_table() {
    let mut net = Net::new(2);
    net.stranger(60);
    let rejoin = hello(Purpose::Rejoin).encode("test");
    assert_eq!(
        knock(&mut net, 0, Admission::Member, Psk::MEMBER, &rejoin),
        Err(refusal::NOT_MEMBER)
    );
    // One that was deleted is let in to hear of its end, and comes back as nobody.
    let two = net.id(1);
    net.call(0, |node, now, memory| node.delete_host(now, 1, two, memory)).expect("it is there");
    net.run(100);
    net.crash(1);
    net.stranger(2);
    for _ in 0..2 {
        _ = knock(&mut net, 0, Admission::Member, Psk::MEMBER, &rejoin);
        assert_eq!(net.node(0).hosts().count(), 1);
    }
}

#[test]
fn a_deleted_host_that_connects_twice_goes_on_hearing_of_its_end() {
    let mut net = Net::new(2);
    let two = net.id(1);
    net.crash(1);
    net.call(0, |node, now, memory| node.delete_host(now, 1, two, memory)).expect("it is there");
    net.run(2_000);
    net.stranger(2);
    let member = hello(Purpose::Member(two)).encode("test");
    for time in ["once", "twice"] {
        assert_eq!(knock(&mut net, 0, Admission::Member, Psk::MEMBER, &member), Ok(()), "{time}");
        net.run(50);
        assert!(net.node(0).association_to(two).is_some(), "{time}");
    }
}

#[test]
fn a_newcomer_that_others_have_not_heard_of_is_tried_again_for_three_seconds() {
    let mut net = Net::new(2);
    // The second host hears of nobody who joins.
    net.cut_way(0, 1);
    net.add(config(2, "three"));
    net.run(100);
    let two = net.id(1);
    net.call(2, |node, now, memory| node.connect_to(now, two, memory));
    net.run(300);
    let tries = net.passed[&(2, 1)];
    assert!((4..=9).contains(&tries), "{tries} tries in 300 ms");
    assert_eq!(net.node(2).association_to(two), None);
    net.mend();
    net.run(1_000);
    assert!(net.node(2).association_to(two).is_some(), "the word has come meanwhile");
}

#[test]
fn hellos_say_what_fits() {
    let long = "x".repeat(63) + "\u{e9}\u{e9}";
    let said = Hello { name: long.clone(), arch: "a\nb\u{7}c".into(), ..hello(Purpose::Join) };
    let heard = Hello::decode(&said.encode("test"), "test").expect("it decodes");
    assert_eq!((heard.name, heard.arch), (long[..63].to_string(), "abc".to_string()));
    assert!(Hello::decode(b"", "test").is_err());
}

#[test]
fn of_a_host_with_several_addresses_all_are_told() {
    let mut net = Net::new(2);
    let mut many = config(2, "three");
    let others = [([192, 0, 2, 1], 7).into(), ([0, 0, 0, 0], 7).into(), ([192, 0, 2, 2], 0).into()];
    many.links = crate::Links::new([addr(2)].into_iter().chain(others).collect());
    net.add(many);
    net.run(100);
    net.add(config(3, "four"));
    net.run(100);
    let three = net.id(2);
    let said = [addr(2), others[0]];
    for host in [0, 1, 3] {
        let entry = net.node(host).hosts().find(|h| h.id == three).expect("it is there").clone();
        assert_eq!(entry.fields.addresses(), said);
        assert_eq!(net.node(host).addrs_of(&entry), said);
        assert_eq!(net.node(host).addr_to_try(&entry, 0), said[0]);
        assert_eq!(net.node(host).addr_to_try(&entry, 1), said[1]);
        assert_eq!(net.node(host).addr_to_try(&entry, 2), said[0]);
        assert_eq!(net.node(host).addr_of(&entry), said[0]);
    }
    // One with a single address says nothing.
    let two = net.id(1);
    assert!(net.node(0).hosts().find(|h| h.id == two).expect("it is there").fields.is_empty());
    assert!(net.node(0).next_address(three));
    assert!(!net.node(0).next_address(three), "both were tried");
    assert!(!net.node(0).next_address(two));
    let eleven: Vec<_> = (1..12).map(addr).collect();
    assert_eq!(crate::node::addresses::told(eleven.clone()), eleven[..8]);
}

#[test]
fn what_a_newcomer_says_of_kinds_that_nobody_knows_stands_in_every_table() {
    let mut net = Net::new(2);
    net.stranger(60);
    let token = net.target(60).invitation;
    let mut later = hello(Purpose::Join);
    later.fields.set(200, b"later").expect("there is room");
    later.fields.set(5, b"must").expect("there is room");
    // What must not be passed over is refused by name.
    let critical = later.encode("test");
    let refused = knock_for(&mut net, 0, token.admission(), token.psk.clone(), &critical);
    let text = "the hello: a field of a host has value 5, which this version does not know";
    assert_eq!(refused.map_err(|r| (r.code, r.text)), Err((refusal::KIND, text.into())));
    let mut later = hello(Purpose::Join);
    later.fields.set(200, b"later").expect("there is room");
    let token = net.target(60).invitation;
    let join = later.encode("test");
    assert_eq!(knock(&mut net, 0, token.admission(), token.psk.clone(), &join), Ok(()));
    net.run(100);
    // Also in that of a host that comes after it.
    net.add(config(3, "four"));
    net.run(100);
    for host in [0, 1, 2] {
        let entry = net.node(host).hosts().find(|h| h.name == "stranger").expect("it is there");
        assert_eq!(entry.fields, later.fields, "host {host}");
    }
    // And in what the founder keeps.
    let kept = net.node(0).saved().expect("it leads");
    assert_eq!(crate::Saved::decode(&kept.encode()), Ok(kept));
}

#[test]
fn a_member_takes_no_entry_that_says_what_it_does_not_know_and_must() {
    let mut net = Net::new(2);
    let leader = net.id(0);
    let mut fields = Fields::default();
    fields.set(5, b"must").expect("there is room");
    let mut host = net.node(0).hosts().next().expect("one").clone();
    host = Host { id: HostId::new(9, 9).expect("a host"), key: [9; 32], fields, ..host };
    let entry = Entry { term: 1, index: 3, change: Change::Added(host) };
    let entries = Message::Entries(Entries { entries: vec![entry] });
    net.call(0, |node, now, memory| {
        let member = node.hosts().nth(1).expect("two").id;
        node.tell(now, member, entries);
        node.pump(now, memory);
    });
    net.run(50);
    let why = ParseError::Unknown { field: "a field of a host", value: 5 };
    assert!(net.events(1).contains(&NodeEvent::Unread { host: Some(leader), why }));
    assert_eq!((net.node(1).hosts().count(), net.node(1).log_index()), (2, 2));
    let ended = |e: &NodeEvent| {
        matches!(e, NodeEvent::ContactOver { end: End::ByPeer { reason: reason::KIND, .. }, .. })
    };
    assert!(net.events(0).iter().any(ended), "the other side hears why");
}

#[test]
fn a_key_that_joins_anew_replaces_its_host() {
    let mut net = Net::new(3);
    let three = net.id(2);
    net.crash(2);
    // Its daemon is started again at once, with the same key and a token: nobody missed it.
    let target = net.target(60);
    net.stranger(3);
    let token = target.invitation;
    let join = hello(Purpose::Join).encode("test");
    assert_eq!(knock(&mut net, 0, token.admission(), token.psk.clone(), &join), Ok(()));
    let id = net.node(0).hosts().find(|h| h.name == "stranger").expect("it is there").id;
    for host in 0..2 {
        let hosts: Vec<HostId> = net.node(host).hosts().map(|h| h.id).collect();
        assert!(!hosts.contains(&three) && hosts.contains(&id), "{hosts:?}");
        assert!(net.events(host).contains(&NodeEvent::HostLost(three)));
    }
}

#[test]
fn keys_are_told_apart() {
    let mut net = Net::new(2);
    let keys: Vec<HostKey> = (0..2).map(|h| net.node(h).endpoint().public_key()).collect();
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn a_host_that_starts_again_elsewhere_does_not_wait_for_calls_to_where_it_was() {
    let mut net = Net::new(5);
    let saved = net.node(0).saved().expect("it leads");
    for host in 0..5 {
        net.crash(host);
    }
    let (crypto, rng) = (Box::new(StandIn::new(1)), Rng::new(77, 1));
    let node = Node::found_again(net.now, config(0, "h0"), crypto, rng, VM_KEY, saved);
    net.seats[0].node = Some(node.expect("it is its own"));
    net.run(2500);
    assert!(net.node(0).leads());
    // It calls them all where they were, and they are elsewhere, whichever key is the smaller one.
    for host in 1..5 {
        let target = net.target(60);
        let (crypto, rng) = (Box::new(StandIn::new(host + 1)), Rng::new(host, 2));
        let index = net.seats.len();
        let config = config(index, &alloc::format!("h{index}"));
        net.sit(Node::join(net.now, config, crypto, rng, target));
        net.run(1500);
        assert!(net.node(index).me().is_some(), "host {host}");
    }
}

#[test]
fn a_token_is_known_as_one_of_its_virtual_machine_by_those_that_hold_the_key() {
    let crypto = StandIn::new(1);
    let mut nonce = [5; 16];
    mark(&crypto, &VM_KEY, &mut nonce);
    assert_eq!(nonce[..8], [5; 8], "the rest tells it from others");
    assert!(is_marked(&crypto, &VM_KEY, &nonce) && !is_marked(&crypto, &[8; 32], &nonce));
    nonce[0] += 1;
    assert!(!is_marked(&crypto, &VM_KEY, &nonce) && !is_marked(&crypto, &VM_KEY, &[5; 16]));
}
