//! Long mailbox entries, where several hosts keep the log: all that vote have what they name.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use towpath_vm::consensus::checksum::crc32c;
use towpath_vm::message::{Content, Contents, Said};
use towpath_vm::registry::Kept;
use towpath_vm::talk::{
    Answer, Fault, MailRules, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask,
};
use towpath_wire::TaskId;

use super::net::Net;
use super::voting::{leader, leaders, net};

const LEN: usize = 300_000;

fn content(byte: u8) -> Vec<u8> {
    vec![byte; LEN]
}

fn put(byte: u8) -> Question {
    let rules = MailRules { persistent: true, many: true, ..MailRules::default() };
    let (name, content) = ("m".into(), content(byte));
    Question::Registry(RegistryOp::Put { name, index: None, rules, format: 0, content })
}

fn get(index: u32, delete: bool) -> Question {
    let (name, index, wait) = ("m".into(), Some(index), false);
    Question::Registry(RegistryOp::Get { name, index, from: 0, delete, wait })
}

fn is_mail(answer: &Result<Answer, Fault>, byte: u8) -> bool {
    let Ok(Answer::Registry(RegistryAnswer::Mail { content: c, .. })) = answer else {
        return false;
    };
    *c == content(byte)
}

/// How many contents each host has.
fn kept(net: &mut Net) -> Vec<usize> {
    let len = |host: usize| net.seats[host].node.as_ref().map_or(0, |n| n.voting.contents.len());
    (0..net.seats.len()).map(len).collect()
}

/// Loses what a host keeps.
fn wipe(net: &mut Net, host: usize) {
    net.node(host).voting.contents.retain(&BTreeSet::new());
}

/// Four hosts, of which three vote, and a task on the last one that has put two entries.
fn with_two() -> (Net, TaskId) {
    let mut net = net(4);
    let task = net.enrol(3);
    for byte in 0..2 {
        net.ask(3, task, put(byte)).expect("it is put");
    }
    net.run(100);
    assert_eq!(kept(&mut net), [2, 2, 2, 0], "those that vote have them");
    (net, task)
}

#[test]
fn a_long_entry_outlives_the_leader_whoever_leads_next() {
    // The next one may have been slow, and lack some of it.
    for wiped in [None, Some(1), Some(2)] {
        let (mut net, task) = with_two();
        if let Some(wiped) = wiped {
            wipe(&mut net, wiped);
        }
        net.crash(0);
        net.run(8000);
        leader(&mut net);
        for byte in 0..2 {
            let answer = net.ask(3, task, get(byte.into(), false));
            assert!(is_mail(&answer, byte), "without {wiped:?}: {:?}", answer.err());
        }
        net.run(10_000);
        assert_eq!(kept(&mut net)[1..], [2, 2, 2], "who votes instead has them, too");
        for byte in 0..2 {
            assert!(is_mail(&net.ask(3, task, get(byte.into(), true)), byte));
        }
        net.ask(3, task, Question::Registry(RegistryOp::Groups)).expect("it has its answers");
        net.run(100);
        assert_eq!(kept(&mut net), [0; 4]);
    }
}

#[test]
fn what_no_voter_has_is_looked_for_and_then_said_to_be_lost() {
    let (mut net, task) = with_two();
    (0..3).for_each(|host| wipe(&mut net, host));
    net.crash(0);
    net.run(8000);
    leader(&mut net);
    net.ask(3, task, Question::Registry(RegistryOp::Join("g".into()))).expect("groups go on");
    assert_eq!(net.ask(3, task, get(0, false)).err(), Some(Fault::HostLost));
    net.ask(3, task, put(7)).expect("others are put");
    assert!(is_mail(&net.ask(3, task, get(2, false)), 7));
}

#[test]
fn an_entry_is_not_put_before_most_have_it_and_one_voter_may_be_gone() {
    let mut net = net(4);
    let task = net.enrol(3);
    let asked = |net: &mut Net, number, question| {
        net.says(3, task, ToDaemon::Ask { number, question });
        net.run(100);
        let told = net.told(3, task).into_iter();
        told.filter_map(|say| match say {
            ToTask::Answer { number, .. } => Some(number),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    // Of the log they hear, and say nothing of contents: too few have it.
    for host in 1..3 {
        net.seats[host].node.as_mut().expect("it runs").lead.sharing.mute = true;
    }
    assert_eq!(asked(&mut net, 1, put(1)), [0; 0]);
    // What the task asks behind it waits, what others ask does not.
    assert_eq!(asked(&mut net, 2, Question::Registry(RegistryOp::Groups)), [0; 0]);
    let other = net.enrol(1);
    net.ask(1, other, Question::Registry(RegistryOp::Groups)).expect("nothing is in its way");
    net.seats[1].node.as_mut().expect("it runs").lead.sharing.mute = false;
    net.run(1000);
    assert_eq!(asked(&mut net, 3, Question::Registry(RegistryOp::Groups)), [1, 2, 3]);
    net.crash(2);
    assert_eq!(asked(&mut net, 4, put(2)), [4], "one is enough");
}

#[test]
fn a_task_that_ends_while_its_entry_waits_leaves_nothing() {
    let mut net = net(4);
    let task = net.enrol(3);
    for host in 1..3 {
        net.node(host).lead.sharing.mute = true;
    }
    net.says(3, task, ToDaemon::Ask { number: 1, question: put(1) });
    net.run(100);
    assert_eq!((kept(&mut net), net.node(0).lead.sharing.len()), (vec![1, 0, 0, 0], 1));
    net.left(3, task);
    net.run(100);
    assert_eq!(kept(&mut net), [0; 4]);
    for host in 1..3 {
        net.node(host).lead.sharing.mute = false;
    }
    net.run(2000);
    net.nothing_is_left();
}

#[test]
fn what_was_taken_out_just_before_the_leader_is_gone_is_said_by_the_next_one() {
    let (mut net, task) = with_two();
    net.cut_way(0, 3);
    net.says(3, task, ToDaemon::Ask { number: 9, question: get(0, true) });
    net.run(100);
    assert_eq!(kept(&mut net), [2, 2, 2, 0], "it may have to be said again");
    net.crash(0);
    net.mend();
    net.run(8000);
    let told = net.told(3, task);
    let answer = told.iter().find_map(|say| match say {
        ToTask::Answer { number: 9, answer } => Some(answer),
        _ => None,
    });
    assert!(answer.is_some_and(|answer| is_mail(answer, 0)), "{} answers", told.len());
}

#[test]
fn a_leader_that_is_cut_off_answers_what_waits_and_what_it_kept_goes_when_it_follows() {
    let (mut net, _) = with_two();
    let here = net.enrol(0);
    for other in 1..4 {
        net.cut(0, other);
    }
    net.says(0, here, ToDaemon::Ask { number: 1, question: put(5) });
    net.run(6000);
    assert_eq!(leaders(&net).len(), 1);
    assert_eq!((net.node(0).lead.sharing.len(), kept(&mut net)[0]), (0, 3));
    net.mend();
    net.run(30_000);
    leader(&mut net);
    let all = kept(&mut net);
    assert!(all.iter().all(|n| [0, 2, 3].contains(n)), "{all:?}");
    assert_eq!(all.iter().filter(|n| **n > 0).count(), 3, "{all:?}");
}

#[test]
fn contents_are_taken_of_who_leads_and_within_limits() {
    let (mut net, _) = with_two();
    let now = net.now;
    let [lead, two, four] = [0, 1, 3].map(|host| net.id(host));
    let bytes = vec![1; 5000];
    let own = Kept { holder: two, number: 1, len: 5000, crc: crc32c(0, &bytes) };
    let said = |of, count| Contents { of, which: vec![own; count] };
    // Of one that does not lead, or to one that does, or to one that keeps no log: nothing.
    for (host, from) in [(1, four), (0, two), (3, lead)] {
        let before = kept(&mut net);
        let node = net.node(host);
        node.handle_content(now, from, Content { kept: own, bytes: bytes.clone() });
        node.handle_contents(now, from, said(Said::Needed, 1));
        node.handle_contents(now, from, said(Said::Over, 1));
        node.handle_contents(now, from, said(Said::Asked, 1));
        assert_eq!((node.malformed(), node.queued(from).len()), (0, 0), "{host} by {from}");
        assert_eq!(kept(&mut net), before);
    }
    let node = net.node(1);
    node.handle_contents(now, lead, said(Said::Needed, Contents::MAX + 1));
    assert_eq!((node.malformed(), node.voting.contents.len()), (1, 2), "that is too many");
    let content = Content { kept: Kept { crc: own.crc ^ 1, ..own }, bytes: bytes.clone() };
    node.handle_content(now, lead, content);
    assert_eq!((node.malformed(), node.voting.contents.len()), (2, 2), "it is something else");
    node.handle_content(now, lead, Content { kept: own, bytes });
    assert_eq!((node.malformed(), node.voting.contents.len()), (2, 3));
    node.handle_contents(now, lead, said(Said::Over, 1));
    assert_eq!(node.voting.contents.len(), 2);
}
