//! Unique tasks: over before anybody could have begun their work elsewhere.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::config::Liveness;
use towpath_vm::tasks::Action;
use towpath_vm::{Ending, RequestEvent, TaskSpec};
use towpath_wire::{HostId, TaskId};

use super::net::{Net, program};
use super::voting::{net_of, sharing};
use crate::{NodeConfig, NodeEvent};

const LOST_AFTER: Duration = Duration::from_secs(10);
/// In milliseconds: how long a host is sure, and how old what it is sure of may be.
const SURE: u64 = 9000;
const OLD: u64 = 2100;

/// Four hosts, of which so many vote.
fn net(voters: u8) -> Net {
    let mut founder = NodeConfig { voters, ..sharing(0) };
    founder.proto.liveness = Liveness::after(LOST_AFTER);
    net_of(4, founder)
}

fn unique(queued: bool) -> TaskSpec {
    TaskSpec { unique: true, queued, ..program(&[]) }
}

fn killed(net: &mut Net, host: usize) -> Vec<TaskId> {
    let is = |e: NodeEvent| match e {
        NodeEvent::Action(Action::Signal { task, signal: 9 }) => Some(task),
        _ => None,
    };
    net.events(host).into_iter().filter_map(is).collect()
}

fn ended(news: &[RequestEvent], ending: &Ending) -> bool {
    let is = |e: &RequestEvent| match e {
        RequestEvent::Ended(exit) => exit.ending == *ending,
        _ => false,
    };
    news.iter().any(is)
}

fn is_lost(net: &mut Net, at: usize, host: HostId) -> bool {
    net.events(at).iter().any(|e| matches!(e, NodeEvent::HostLost(lost) if *lost == host))
}

#[test]
fn they_are_ended_before_their_host_is_lost_whoever_leads() {
    for (voters, host) in [(3, 0), (3, 1), (3, 3), (1, 2)] {
        let mut net = net(voters);
        let (id, from) = (net.id(host), if host == 1 { 2 } else { 1 });
        net.spawn(from, id, unique(false));
        net.run(100);
        let task = net.started(host).task;
        // It goes on for as long as somebody answers.
        net.run(25_000);
        assert_eq!(killed(&mut net, host), []);
        assert_eq!(net.node(host).unique_running(), 1);
        for other in (0..4).filter(|other| *other != host) {
            net.cut(host, other);
        }
        let (mut ended, mut lost) = (None, None);
        for ms in (0..25_000_u64).step_by(50) {
            net.run(50);
            if killed(&mut net, host) == [task] {
                ended.get_or_insert(ms);
            }
            if is_lost(&mut net, from, id) {
                lost.get_or_insert(ms);
            }
        }
        let (ended, lost) = (ended.expect("it is ended"), lost.expect("it is lost"));
        assert!(ended < lost, "host {host}: ended after {ended} ms, lost after {lost}");
        assert!((SURE - OLD..=SURE + 100).contains(&ended), "host {host}: {ended}");
        assert!((10_000 - 100..16_500).contains(&lost), "host {host}: {lost}");
    }
}

#[test]
fn none_is_started_where_it_is_not_known_that_its_host_is_a_member() {
    for queued in [false, true] {
        let mut net = net(3);
        // The leader of it, and who else votes, are out of reach; who asks is not.
        let (id, from) = (net.id(3), 2);
        net.spawn(from, id, program(&[]));
        net.run(100);
        net.started(3);
        for other in [0, 1] {
            net.cut(3, other);
        }
        let request = net.spawn(from, id, unique(queued));
        net.run(1000);
        assert_eq!(net.starts(3).len(), 0);
        net.run(SURE);
        let news = net.news(from, request);
        assert!(ended(&news, &Ending::Unsure), "{news:?}");
        // Once it is a member again, or still, others are.
        net.mend();
        net.run(3000);
        net.spawn(from, net.id(3), unique(queued));
        net.run(100);
        assert_eq!(net.starts(3).len(), 1);
    }
}

#[test]
fn others_notice_nothing_of_them() {
    let mut net = net(3);
    let id = net.id(3);
    net.spawn(1, id, program(&[]));
    let request = net.spawn(1, id, unique(false));
    net.run(100);
    let [plain, only] = net.starts(3)[..] else { panic!("two start") };
    // The leader is another one, after a while without any.
    net.crash(0);
    net.run(20_000);
    assert_eq!(killed(&mut net, 3), []);
    // It ends as any other; then nobody is asked any more.
    net.call(3, |node, now, m| node.task_exited(now, only.task, Ending::Exited(3), m));
    net.run(50);
    let news = net.news(1, request);
    assert!(ended(&news, &Ending::Exited(3)), "{news:?}");
    assert_eq!(net.node(3).jobs.certainty.due(), None);
    for other in 1..3 {
        net.cut(3, other);
    }
    net.run(9500);
    assert_eq!(killed(&mut net, 3), [], "{:?} goes on", plain.task);
}
