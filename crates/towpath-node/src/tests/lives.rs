//! Lives of hosts of which one side knows, and the other not yet: the log tells each host in its
//! own time.

use alloc::vec::Vec;

use towpath_vm::channel::ChannelSpec;
use towpath_vm::message::{ChannelAsk, LABEL_CHANNEL, WatchTask};
use towpath_vm::talk::{Subject, ToDaemon, ToTask};
use towpath_wire::frame::{ChannelOpen, Direction, Reliability};
use towpath_wire::{ChannelId, HostId};

use super::net::{Net, config};

#[test]
fn of_tasks_of_an_earlier_life_the_log_tells_and_not_the_next_life() {
    let mut net = Net::new(2);
    let (there, here) = (net.id(0), net.id(1));
    let earlier = HostId::new(here.slot(), here.incarnation() - 1).expect("a host");
    let task = earlier.task(3).expect("a task");
    net.call(1, |node, now, memory| {
        node.handle_watch_task(now, there, WatchTask { task });
        node.pump(now, memory);
    });
    net.run(100);
    // It would take it for a lie: it knows this host by its present life alone.
    assert_eq!(net.node(0).malformed(), 0);
}

#[test]
fn a_channel_to_a_task_of_an_earlier_life_leads_to_nobody_and_leaves_nothing() {
    let mut net = Net::new(3);
    let (there, here) = (net.id(0), net.id(1));
    let life = |by: i32| {
        let life = here.incarnation().checked_add_signed(by).expect("it is small");
        HostId::new(here.slot(), life).expect("a host")
    };
    let earlier = life(-1);
    let spec = ChannelSpec::default();
    let id = net.node(1).association_to(there).expect("it is in contact");
    let from = there.task(7).expect("a task");
    let ask = |to: HostId| ChannelAsk { channel: 41, from, to: to.task(3).expect("a task"), spec };
    let open = ChannelOpen {
        channel: ChannelId(41),
        direction: Direction::Both,
        reliability: Reliability::ReliableOrdered,
        priority: 100,
        label: LABEL_CHANNEL,
        limit: 1,
        tspec: None,
        reservation: None,
        one_to_many: false,
        duplex: false,
    };
    for named_first in [true, false] {
        net.call(1, |node, now, _| {
            let wire = (id, ChannelId(41));
            if named_first {
                node.handle_channel_ask(now, there, id, ask(earlier));
                node.handle_channel_open(now, wire, open);
            } else {
                node.handle_channel_open(now, wire, open);
                node.handle_channel_ask(now, there, id, ask(earlier));
            }
            node.handle_channel_ended(wire);
            assert_eq!((node.malformed(), node.remains()), (0, Vec::new()));
        });
    }
    // Of another host, or a life that is not yet, it is a lie.
    for (lies, to) in [(1, net.id(2)), (2, life(1))] {
        net.call(1, |node, now, _| node.handle_channel_ask(now, there, id, ask(to)));
        assert_eq!(net.node(1).malformed(), lies);
    }
}

/// A task hears of one on a new host from somebody else, before its own host hears of that host.
#[test]
fn a_task_on_a_host_that_is_still_to_come_is_not_taken_for_gone() {
    let mut net = Net::new(2);
    let a = net.enrol(1);
    net.cut(0, 1);
    // Two of them: the entry of the first says nothing of the second.
    net.add(config(2, "one"));
    net.run(100);
    net.add(config(3, "two"));
    net.run(200);
    let b = net.enrol(3);
    assert!(net.node(1).hosts().all(|host| host.id != b.host()), "host 1 knows nothing of it");
    assert!(net.send(1, a, b, 0, 10));
    net.says(1, a, ToDaemon::Watch { watch: 1, subject: Subject::Task(b) });
    net.says(1, a, ToDaemon::Blocked { peer: b, need: 1000 });
    net.says(1, a, ToDaemon::OpenChannel { number: 2, to: b, spec: ChannelSpec::default() });
    net.run(500);
    assert_eq!((net.told(1, a), net.got(3, b)), (Vec::new(), Vec::new()));
    net.mend();
    net.run(1_000);
    assert_eq!((net.got(3, b), net.node(3).malformed()), ([0].into(), 0));
    let told = net.told(1, a);
    assert!(told.iter().any(|t| matches!(t, ToTask::Credit { peer, .. } if *peer == b)));
    let open = ToTask::ChannelOpen { number: 2, outcome: Ok(()) };
    assert!(told.contains(&open) && told.len() == 2, "{told:?}");
    net.says(1, a, ToDaemon::CloseChannel { number: 2 });
    net.left(3, b);
    net.run(200);
    let told = net.told(1, a);
    assert!(told.iter().any(|t| matches!(t, ToTask::Notice { watch: 1, .. })), "{told:?}");
    // One that never comes is gone after a while, for whoever does not lead; the leader knows.
    let never = HostId::new(9, 9999).expect("a host").task(1).expect("a task");
    assert!(net.send(1, a, never, 0, 10));
    net.run(2_500);
    assert_eq!(net.told(1, a), []);
    net.run(1_000);
    assert_eq!(net.told(1, a), [ToTask::Gone { peer: never }]);
    let c = net.enrol(0);
    assert!(net.send(0, c, never, 0, 10));
    assert_eq!(net.told(0, c), [ToTask::Gone { peer: never }]);
    for (host, task) in [(1, a), (0, c)] {
        net.left(host, task);
    }
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn of_hosts_that_never_come_few_are_waited_for_and_nothing_stays() {
    let mut net = Net::new(2);
    let a = net.enrol(1);
    let before = net.node(1).peers.by_host.len();
    let never = |n: u32| HostId::new(9, 100 + n).expect("a host").task(1).expect("a task");
    for n in 0..200 {
        assert!(net.send(1, a, never(n), 0, 10));
    }
    let waited = net.node(1).peers.by_host.len() - before;
    assert!((60..70).contains(&waited), "{waited}");
    assert_eq!(net.told(1, a).len(), 200 - waited, "the others are gone at once");
    // Nor one whose entry would be as far away as no founder's next life is.
    let far = HostId::new(9, 1 << 22).expect("a host").task(1).expect("a task");
    net.run(3_500);
    assert_eq!((net.told(1, a).len(), net.node(1).peers.by_host.len()), (waited, before));
    assert!(net.send(1, a, far, 0, 10));
    assert_eq!(net.told(1, a), [ToTask::Gone { peer: far }]);
    net.left(1, a);
    net.run(500);
    assert_eq!(net.node(1).peers.by_host.len(), before, "nobody is told of its end");
    net.nothing_is_left();
}

#[test]
fn who_says_to_be_a_host_before_the_log_does_is_asked_for_its_key() {
    let mut net = Net::new(3);
    let soon = net.node(0).log_index() as u32 + 1;
    let next = HostId::new(4, soon).expect("a host");
    // Host 2, that host 1 is in contact with, gives itself out as the next that joins.
    let two = net.id(2);
    net.call(1, |node, now, memory| node.connect_to(now, two, memory));
    net.run(100);
    assert!(net.node(1).association_to(two).is_some());
    net.call(1, |node, _, _| {
        assert!(node.is_another_by_now(two, next), "it may be");
        let id = node.peers.up(two).expect("it is in contact");
        node.peers.set_up(next, id);
    });
    net.add(config(3, "next"));
    net.run(300);
    assert_eq!(net.id(3), next, "somebody else has that number");
    let b = net.enrol(3);
    let a = net.enrol(1);
    assert!(net.send(1, a, b, 0, 10));
    net.run(1_000);
    assert_eq!(net.got(3, b), [0], "and gets what is for it");
}
