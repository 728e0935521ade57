//! Most of those that keep the log start again, and others still run: of several, one goes on.

use alloc::vec::Vec;

use towpath_vm::HostState;
use towpath_vm::talk::{Answer, Question, RegistryAnswer, RegistryOp};

use super::net::Net;
use super::voting::{leader, leaders};
use super::written::{boxes, net_of, put, saved, start};

/// Five keep the log, and of these the ones named do not start again; whoever leads and follows
/// then is given. With `lags` the first of those that live does not hear of what is decided last.
fn three_of_five_start_again(live: [usize; 2], lags: bool) -> usize {
    let mut net = net_of(6, 5);
    let others: Vec<usize> = (0..5).filter(|host| !live.contains(host)).collect();
    // The sixth never votes.
    let tasks = [live[0], live[1], 5].map(|host| (host, net.enrol(host)));
    for (host, task) in tasks {
        net.ask(host, task, Question::Registry(RegistryOp::Join("g".into()))).expect("joins");
    }
    let ids = live.map(|host| net.id(host));
    if lags {
        (0..6).filter(|host| *host != live[0]).for_each(|host| net.cut(live[0], host));
        net.run(300);
    }
    let elsewhere = net.enrol(others[1]);
    net.ask(others[1], elsewhere, put("last")).expect("it is put");
    let all: Vec<_> = others.iter().map(|host| saved(&mut net, *host)).collect();
    for host in &others {
        net.crash(*host);
    }
    net.mend();
    net.run(5000);
    assert_eq!(leaders(&net), [], "two of five decide nothing");
    for (host, saved) in others.iter().zip(all) {
        start(&mut net, *host, saved.let_in()).expect("it asks to be let in");
    }
    net.run(60_000);
    let leads = leader(&mut net);
    assert_eq!(live.map(|host| net.id(host)), ids, "they are who they were");
    for (host, task) in tasks {
        let asked = Question::Registry(RegistryOp::Members("g".into()));
        let members = net.ask(host, task, asked);
        let Ok(Answer::Registry(RegistryAnswer::Members { members, .. })) = members else {
            panic!("{members:?}")
        };
        assert_eq!(members.into_iter().flatten().collect::<Vec<_>>(), tasks.map(|t| t.1));
        assert_eq!(boxes(&mut net, host, task), ["last"]);
    }
    let up = net.node(leads).hosts().filter(|h| h.state == HostState::Up).count();
    assert_eq!(up, 6);
    // All five keep the log again, once it is written down who may lead.
    net.node(leads).kept(u64::MAX);
    net.run(60_000);
    assert_eq!(net.node(leads).voters().0.len(), 5);
    net.ask(5, tasks[2].1, put("after it")).expect("it is put");
    leads
}

#[test]
fn two_that_live_go_on_with_their_tasks_where_three_of_five_start_again() {
    for live in [[0, 1], [1, 2], [3, 4]] {
        assert!(live.contains(&three_of_five_start_again(live, false)), "{live:?}");
    }
    // The one that has everything goes on.
    assert_eq!(three_of_five_start_again([1, 2], true), 2);
}

#[test]
fn two_that_live_and_do_not_reach_each_other_do_not_both_go_on() {
    let mut net: Net = net_of(5, 5);
    let all = [2, 3, 4].map(|host| (host, saved(&mut net, host)));
    for host in [2, 3, 4] {
        net.crash(host);
    }
    net.cut(0, 1);
    net.run(5000);
    for (host, saved) in all {
        start(&mut net, host, saved.let_in()).expect("it asks to be let in");
    }
    for _ in 0..60 {
        net.run(1000);
        assert!(leaders(&net).len() <= 1, "{:?} lead", leaders(&net));
    }
    net.mend();
    net.run(60_000);
    leader(&mut net);
}
