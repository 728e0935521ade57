//! A founder that leads alone writes down what it decides, and begins its next life with that.

use alloc::boxed::Box;
use alloc::vec::Vec;

use towpath_proto::Rng;
use towpath_vm::consensus::Stored;
use towpath_vm::talk::{Answer, MailRules, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask};
use towpath_wire::TaskId;

use super::disk::Disk;
use super::net::{Net, VM_KEY, config};
use super::standin::StandIn;
use crate::{Node, NodeConfig, Saved};

fn keeping() -> NodeConfig {
    NodeConfig { keeps_table: true, ..config(0, "h0") }
}

fn join(net: &mut Net, disk: &mut Disk) {
    let index = net.seats.len();
    let now = net.now;
    let key = net.node(0).endpoint().public_key();
    let invitation = net.node(0).invite(now, 60, [index as u8; 16]).expect("it leads");
    disk.run(net, 20);
    let addr = super::net::addr(0);
    let target = crate::JoinTarget { addr, key, others: Vec::new(), invitation };
    net.add_by(config(index, "h"), target);
    disk.run(net, 200);
}

fn ask(net: &mut Net, task: TaskId, host: usize, op: RegistryOp) -> u64 {
    net.serial += 1;
    let number = net.serial;
    let question = Question::Registry(op);
    net.says(host, task, ToDaemon::Ask { number, question });
    number
}

fn answer(net: &mut Net, host: usize, task: TaskId, number: u64) -> Option<RegistryAnswer> {
    let told = net.told(host, task);
    told.into_iter().find_map(|told| match told {
        ToTask::Answer { number: n, answer: Ok(Answer::Registry(answer)) } if n == number => {
            Some(answer)
        }
        _ => None,
    })
}

fn answered(
    net: &mut Net,
    disk: &mut Disk,
    (host, task): (usize, TaskId),
    op: RegistryOp,
) -> RegistryAnswer {
    let number = ask(net, task, host, op);
    disk.run(net, 100);
    answer(net, host, task, number).expect("an answer")
}

fn put(name: &str, persistent: bool) -> RegistryOp {
    let rules = MailRules { persistent, ..MailRules::default() };
    let content = name.as_bytes().to_vec();
    RegistryOp::Put { name: name.into(), index: None, rules, format: 0, content }
}

fn members(net: &mut Net, disk: &mut Disk, at: (usize, TaskId)) -> Vec<Option<TaskId>> {
    match answered(net, disk, at, RegistryOp::Members("g".into())) {
        RegistryAnswer::Members { members, .. } => members,
        other => panic!("{other:?}"),
    }
}

fn founded() -> (Net, Disk) {
    let (mut net, mut disk) = (Net::founded(keeping()), Disk::new());
    disk.run(&mut net, 10);
    for _ in 0..2 {
        join(&mut net, &mut disk);
    }
    assert_eq!(net.node(0).hosts().count(), 3);
    (net, disk)
}

/// The founder begins its next life.
fn start(net: &mut Net, disk: &mut Disk, saved: Saved) {
    let (crypto, rng) = (Box::new(StandIn::new(1)), Rng::new(77, 1));
    let node = Node::found_again(net.now, keeping(), crypto, rng, VM_KEY, saved.led(7));
    net.seats[0].node = Some(node.expect("it is its own"));
    // Its owner would take the only copy away otherwise, while it asks its members.
    assert!(!net.node(0).leads() && net.node(0).keeps_log(), "it goes on with what it wrote");
    *disk = Disk::new();
    disk.run(net, 4000);
    assert!(net.node(0).leads());
}

/// The founder dies, and is there again with what is on its disk.
fn again(net: &mut Net, disk: &mut Disk) -> bool {
    let mut saved = net.node(0).saved().expect("it keeps it");
    net.crash(0);
    net.run(500);
    let remembers = saved.remember(1, &disk.stored).expect("it decodes");
    start(net, disk, saved);
    remembers
}

#[test]
fn nothing_follows_before_it_is_written() {
    let (mut net, mut disk) = founded();
    let task = net.enrol(1);
    let number = ask(&mut net, task, 1, RegistryOp::Join("g".into()));
    net.run(50);
    disk.take(&mut net, 0);
    net.run(50);
    assert_eq!(answer(&mut net, 1, task, number), None);
    disk.tell(&mut net, 0);
    net.run(50);
    assert!(answer(&mut net, 1, task, number).is_some());
}

#[test]
fn groups_and_mailboxes_outlive_a_founder_that_leads_alone() {
    for persistent in [false, true] {
        let (mut net, mut disk) = founded();
        let (a, b, own) = (net.enrol(1), net.enrol(2), net.enrol(0));
        for at in [(1, a), (2, b), (0, own)] {
            answered(&mut net, &mut disk, at, RegistryOp::Join("g".into()));
        }
        answered(&mut net, &mut disk, (1, a), put("of a", false));
        answered(&mut net, &mut disk, (0, own), put("of the founder's", persistent));
        // It waits for a third one, in vain: it is not waited for any more.
        let barrier = RegistryOp::Barrier { group: "g".into(), count: 3 };
        let waits = ask(&mut net, a, 1, barrier);
        disk.run(&mut net, 50);
        assert!(again(&mut net, &mut disk));
        assert_eq!(answer(&mut net, 1, a, waits), None);
        let there = members(&mut net, &mut disk, (1, a));
        assert_eq!(there.into_iter().flatten().collect::<Vec<_>>(), [a, b]);
        let get = |name: &str| {
            let name = name.into();
            RegistryOp::Get { name, index: None, from: 0, delete: false, wait: false }
        };
        let kept = answered(&mut net, &mut disk, (2, b), get("of a"));
        assert!(
            matches!(&kept, RegistryAnswer::Mail { content, .. } if content == b"of a"),
            "{kept:?}"
        );
        let boxes = RegistryOp::Mailboxes { pattern: "of the*".into() };
        let boxes = answered(&mut net, &mut disk, (2, b), boxes);
        let RegistryAnswer::Mailboxes(boxes) = boxes else { panic!("{boxes:?}") };
        assert_eq!(boxes.len(), usize::from(persistent), "its task has ended: {boxes:?}");
        // A second time, from what the second life wrote; and one ends while nobody leads.
        net.left(2, b);
        assert!(again(&mut net, &mut disk));
        let there = members(&mut net, &mut disk, (1, a));
        assert_eq!(there.into_iter().flatten().collect::<Vec<_>>(), [a]);
        answered(&mut net, &mut disk, (1, a), RegistryOp::Leave("g".into()));
    }
}

#[test]
fn a_task_that_ended_while_nobody_led_is_no_member() {
    let (mut net, mut disk) = founded();
    let (a, b) = (net.enrol(1), net.enrol(2));
    for at in [(1, a), (2, b)] {
        answered(&mut net, &mut disk, at, RegistryOp::Join("g".into()));
    }
    let mut saved = net.node(0).saved().expect("it keeps it");
    net.crash(0);
    net.run(100);
    net.left(2, b);
    net.run(3000);
    assert_eq!(saved.remember(1, &disk.stored), Ok(true));
    start(&mut net, &mut disk, saved);
    let there = members(&mut net, &mut disk, (1, a));
    assert_eq!(there.into_iter().flatten().collect::<Vec<_>>(), [a]);
}

#[test]
fn what_cannot_be_written_is_decided_and_the_next_write_has_all_of_it() {
    let (mut net, mut disk) = founded();
    let (a, b) = (net.enrol(1), net.enrol(2));
    answered(&mut net, &mut disk, (1, a), RegistryOp::Join("g".into()));
    let number = ask(&mut net, b, 2, RegistryOp::Join("g".into()));
    net.run(50);
    net.call(0, |node, now, memory| node.wrote(now, None, memory));
    net.run(50);
    assert!(answer(&mut net, 2, b, number).is_some(), "a full disk stops nobody");
    disk.run(&mut net, 50);
    let state = crate::ledger::Ledger::read(&disk.stored).expect("it decodes");
    assert_eq!(state.registered().iter().copied().collect::<Vec<_>>(), [a, b]);
    assert!(again(&mut net, &mut disk));
    assert_eq!(members(&mut net, &mut disk, (1, a)).len(), 2);
}

#[test]
fn the_state_takes_the_place_of_many_entries() {
    let (mut net, mut disk) = founded();
    let a = net.enrol(1);
    let many = |round: u64| {
        let rules = MailRules { overwritable: true, ..MailRules::default() };
        let content = [round as u8; 4000].into();
        RegistryOp::Put { name: "m".into(), index: Some(0), rules, format: 0, content }
    };
    for round in 0..700 {
        ask(&mut net, a, 1, many(round));
        disk.run(&mut net, 5);
    }
    assert!(disk.stored.entries.len() < 350, "{}", disk.stored.entries.len());
    let state = crate::ledger::Ledger::read(&disk.stored).expect("it decodes");
    assert_eq!(state.encode(), {
        let live = net.node(0).log.as_ref().expect("it leads");
        live.encode()
    });
}

#[test]
fn what_an_earlier_life_wrote_is_passed_over_and_what_is_none_is_refused() {
    let (mut net, mut disk) = founded();
    let a = net.enrol(1);
    answered(&mut net, &mut disk, (1, a), RegistryOp::Join("g".into()));
    let old = disk.stored.clone();
    assert!(again(&mut net, &mut disk));
    let mut saved = net.node(0).saved().expect("it keeps it");
    assert_eq!(saved.remember(1, &old), Ok(false));
    assert!(saved.remember(1, &disk.stored).expect("it decodes"));
    assert!(saved.remember(1, &Stored::empty()).is_err());
}

#[test]
fn a_slow_disk_that_has_everything_is_not_given_it_again() {
    let (mut net, mut disk) = founded();
    let task = net.enrol(1);
    ask(&mut net, task, 1, RegistryOp::Join("g".into()));
    net.run(50);
    disk.take(&mut net, 0);
    let (asked, effective) = net.node(0).decided().expect("it is written down");
    assert_eq!(effective + 1, asked);
    // It takes too long, and is there in the end.
    net.call(0, |node, now, memory| node.wrote(now, None, memory));
    assert_eq!(net.node(0).decided(), Some((asked, asked)));
    net.call(0, |node, now, memory| node.wrote(now, Some(disk.number), memory));
    assert_eq!(net.node(0).to_write(), None);
    assert!(again(&mut net, &mut disk));
    assert_eq!(members(&mut net, &mut disk, (1, task)).len(), 1);
}

#[test]
fn a_host_that_joined_just_before_is_known_though_the_table_is_older() {
    let (mut net, mut disk) = founded();
    let mut saved = net.node(0).saved().expect("it keeps it");
    join(&mut net, &mut disk);
    let late = net.enrol(3);
    answered(&mut net, &mut disk, (3, late), RegistryOp::Join("g".into()));
    net.crash(0);
    net.run(500);
    assert_eq!(saved.remember(1, &disk.stored), Ok(true));
    start(&mut net, &mut disk, saved);
    assert_eq!(net.node(0).hosts().count(), 4);
    assert_eq!(members(&mut net, &mut disk, (3, late)), [Some(late)]);
}
