//! A leader whose log commits late, or not at all.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use towpath_vm::control::{Command, Commits, Outcome, Ticket};
use towpath_vm::talk::{
    Answer, Fault, MailRules, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask,
};
use towpath_wire::{HostId, TaskId};

use super::net::{Net, config};
use crate::NodeEvent;
use crate::commit::{HOST_PROPOSALS_MAX, TASK_PROPOSALS_MAX};

/// What was proposed, and what the test has let become of it.
#[derive(Debug, Default)]
struct Held {
    proposed: VecDeque<(Ticket, Command)>,
    outcomes: VecDeque<Outcome>,
    last: u64,
    index: u64,
}

/// A log that decides when the test says so; about tokens at once.
#[derive(Clone, Debug, Default)]
struct Late(Rc<RefCell<Held>>);

impl Commits for Late {
    fn propose(&mut self, command: Command) -> Ticket {
        let mut held = self.0.borrow_mut();
        held.last += 1;
        let ticket = Ticket(held.last);
        if matches!(command, Command::Invite(_)) {
            held.index += 1;
            let outcome = Outcome::Committed(held.index, ticket, command);
            held.outcomes.push_back(outcome);
        } else {
            held.proposed.push_back((ticket, command));
        }
        ticket
    }

    fn poll(&mut self) -> Option<Outcome> {
        self.0.borrow_mut().outcomes.pop_front()
    }
}

impl Late {
    /// Takes the place of a leader's log.
    fn of(net: &mut Net) -> Self {
        let late = Self::default();
        // Behind all that was committed by the log before it.
        late.0.borrow_mut().index = 1000;
        net.node(0).lead.alone = Box::new(late.clone());
        late
    }

    fn waiting(&self) -> usize {
        self.0.borrow().proposed.len()
    }

    /// Everything proposed so far is committed, behind an entry of the log's own; or dropped.
    fn decide(&self, net: &mut Net, commits: bool) {
        let mut held = self.0.borrow_mut();
        held.index += 1;
        while let Some((ticket, command)) = held.proposed.pop_front() {
            held.index += 1;
            let outcome = if commits {
                Outcome::Committed(held.index, ticket, command)
            } else {
                Outcome::Dropped(ticket)
            };
            held.outcomes.push_back(outcome);
        }
        drop(held);
        net.call(0, |node, now, memory| node.pump(now, memory));
        net.run(100);
    }
}

fn joined(events: &[NodeEvent]) -> Option<HostId> {
    events.iter().find_map(|e| match e {
        NodeEvent::Joined { me, .. } => Some(*me),
        _ => None,
    })
}

#[test]
fn two_that_join_before_either_is_committed_are_two_hosts() {
    let mut net = Net::new(1);
    let late = Late::of(&mut net);
    net.add(config(1, "two"));
    net.add(config(2, "two"));
    net.run(100);
    assert_eq!((late.waiting(), net.node(0).hosts().count()), (2, 1));
    assert_eq!((joined(&net.events(1)), joined(&net.events(2))), (None, None), "nothing is told");
    late.decide(&mut net, true);
    let ids = [1, 2].map(|host| joined(&net.events(host)).expect("it is welcome"));
    let mut given: Vec<_> = ids.iter().map(|id| (id.slot(), id.incarnation())).collect();
    given.sort_unstable();
    assert_eq!(given, [(2, 2), (3, 3)]);
    for host in 0..3 {
        let mut names: Vec<_> = net.node(host).hosts().map(|h| h.name.clone()).collect();
        names.sort_unstable();
        assert_eq!(names, ["h0", "two", "two~3"]);
        assert_eq!((net.node(host).log_index(), net.node(host).malformed()), (3, 0));
    }
}

#[test]
fn a_join_that_is_dropped_leaves_nothing_behind_and_its_token_is_good() {
    let mut net = Net::new(1);
    let late = Late::of(&mut net);
    let now = net.now;
    let key = net.node(0).endpoint().public_key();
    let invitation = net.node(0).invite_for(now, 60, [9; 16], Some(1)).expect("a token");
    let addr = super::net::addr(0);
    net.add_by(config(1, "two"), crate::JoinTarget { addr, key, others: Vec::new(), invitation });
    net.run(100);
    assert_eq!((late.waiting(), net.node(0).invitations(now)[0].uses), (1, 0));
    late.decide(&mut net, false);
    assert_eq!((net.node(0).hosts().count(), net.node(0).invitations(now)[0].uses), (1, 0));
    assert_eq!(net.node(0).peers.associations().len(), 0, "it is turned away");
    assert_eq!(net.node(0).remains(), [""; 0]);
    // It asks again.
    net.run(2_000);
    assert_eq!(late.waiting(), 1);
    late.decide(&mut net, true);
    let me = joined(&net.events(1)).expect("it is welcome");
    assert_eq!((me.slot(), me.incarnation()), (2, 2), "the first took no number");
}

#[test]
fn a_newcomer_that_went_before_it_was_committed_is_a_host_out_of_contact() {
    let mut net = Net::new(1);
    let late = Late::of(&mut net);
    net.add(config(1, "two"));
    net.run(100);
    net.call(1, |node, now, memory| node.leave(now, "", memory));
    net.run(100);
    net.crash(1);
    late.decide(&mut net, true);
    assert_eq!(net.node(0).hosts().count(), 2);
    net.run(20_000);
    late.decide(&mut net, true);
    let lost = |e: &NodeEvent| matches!(e, NodeEvent::HostLost(_));
    assert!(net.events(0).iter().any(lost), "it is judged as any other");
}

fn ask(number: u64, question: Question) -> ToDaemon {
    ToDaemon::Ask { number, question }
}

#[test]
fn the_registry_answers_once_its_command_is_committed_and_says_so_where_it_will_not_be() {
    let mut net = Net::new(2);
    let task = net.enrol(1);
    let late = Late::of(&mut net);
    let joins = || Question::Registry(RegistryOp::Join("g".into()));
    net.says(1, task, ask(1, joins()));
    net.run(100);
    assert_eq!((late.waiting(), net.told(1, task)), (1, Vec::new()));
    late.decide(&mut net, false);
    let told = |number, answer| [ToTask::Answer { number, answer }];
    assert_eq!(net.told(1, task), told(1, Err(Fault::Frozen(None))));
    net.says(1, task, ask(2, joins()));
    net.run(100);
    late.decide(&mut net, true);
    let first = Ok(Answer::Registry(RegistryAnswer::Instance(0)));
    assert_eq!(net.told(1, task), told(2, first), "what was dropped did nothing");
    // A task that ends before what it asked for is committed leaves nothing either.
    net.says(1, task, ask(3, Question::Registry(RegistryOp::Join("other".into()))));
    net.left(1, task);
    net.run(100);
    assert_eq!(late.waiting(), 2);
    late.decide(&mut net, true);
    assert_eq!(net.node(0).remains(), [""; 0]);
}

#[test]
fn a_long_entry_is_kept_beside_the_log_from_the_question_to_the_last_answer() {
    let mut net = Net::new(2);
    let task = net.enrol(1);
    let late = Late::of(&mut net);
    let (name, content) = (|| alloc::string::String::from("m"), alloc::vec![7; 300_000]);
    let put = || {
        let (rules, content) = (MailRules::default(), content.clone());
        let op = RegistryOp::Put { name: name(), index: None, rules, format: 1, content };
        Question::Registry(op)
    };
    let kept = |net: &mut Net| net.node(0).voting.contents.len();
    net.says(1, task, ask(1, put()));
    net.run(100);
    let proposed = late.0.borrow().proposed.front().map(|(_, command)| command.encode().len());
    assert!(proposed.is_some_and(|len| len < 100), "{proposed:?} bytes");
    assert_eq!(kept(&mut net), 1);
    late.decide(&mut net, false);
    assert_eq!((kept(&mut net), net.told(1, task).len()), (0, 1), "dropped is forgotten");

    net.says(1, task, ask(2, put()));
    net.run(100);
    late.decide(&mut net, true);
    assert_eq!((kept(&mut net), net.told(1, task).len()), (1, 1));
    let get = RegistryOp::Get { name: name(), index: None, from: 0, delete: true, wait: false };
    net.says(1, task, ask(3, Question::Registry(get)));
    net.run(100);
    late.decide(&mut net, true);
    let told = net.told(1, task);
    let whole = matches!(&told[..], [ToTask::Answer {
        number: 3,
        answer: Ok(Answer::Registry(RegistryAnswer::Mail { content: c, .. })),
    }] if *c == content);
    assert!(whole, "{}", told.len());
    assert_eq!(kept(&mut net), 0);
    net.left(1, task);
    net.run(100);
    late.decide(&mut net, true);
    assert_eq!(net.node(0).remains(), [""; 0]);
}

/// A task joins so many groups, all of other names.
fn joins(net: &mut Net, host: usize, task: TaskId, count: usize) {
    for n in 0..count as u64 {
        let join = Question::Registry(RegistryOp::Join(format!("{task}-{n}")));
        net.says(host, task, ask(n, join));
    }
    net.run(100);
}

fn refused(number: u64, what: &str, limit: usize) -> ToTask {
    let (what, limit) = (what.into(), limit as u64);
    ToTask::Answer { number, answer: Err(Fault::Limit { what, limit }) }
}

#[test]
fn a_log_that_decides_nothing_has_shares_for_tasks_and_hosts_and_refuses_what_exceeds_them() {
    let mut net = Net::new(2);
    let greedy: Vec<_> = (0..4).map(|_| net.enrol(1)).collect();
    let (other, elsewhere) = (net.enrol(1), net.enrol(0));
    let late = Late::of(&mut net);
    let (task_max, host_max) = (TASK_PROPOSALS_MAX, HOST_PROPOSALS_MAX);
    // A task has its share, and no more; the rest of the host's is there for others.
    joins(&mut net, 1, greedy[0], task_max + 2);
    let what = "changes of one task that wait for the log";
    let expected = [task_max, task_max + 1].map(|n| refused(n as u64, what, task_max));
    assert_eq!((late.waiting(), net.told(1, greedy[0])), (task_max, expected.into()));
    for task in &greedy[1..] {
        joins(&mut net, 1, *task, task_max);
        assert_eq!(net.told(1, *task), []);
    }
    joins(&mut net, 1, other, 1);
    let what = "changes of one host that wait for the log";
    assert_eq!(net.told(1, other), [refused(0, what, host_max)]);
    // Another host is not kept from asking by that, nor a newcomer from joining.
    joins(&mut net, 0, elsewhere, 1);
    net.add(config(2, "late"));
    net.run(100);
    assert_eq!((net.told(0, elsewhere), late.waiting()), (Vec::new(), host_max + 2));
    let counted = |net: &mut Net| {
        let counters = net.node(0).counters();
        counters.into_iter().find(|(name, _)| *name == "proposals_refused").map(|(_, n)| n)
    };
    assert_eq!(counted(&mut net), Some(3));
    // What nobody waits for goes on: a task's end.
    net.left(1, greedy[0]);
    net.run(100);
    assert_eq!(late.waiting(), host_max + 3);
    // What is decided is room again.
    late.decide(&mut net, true);
    assert!(joined(&net.events(2)).is_some());
    assert_eq!(net.told(0, elsewhere).len(), 1);
    joins(&mut net, 1, other, 1);
    assert_eq!((late.waiting(), net.told(1, other)), (1, Vec::new()));
    for task in greedy[1..].iter().chain([&other]) {
        net.left(1, *task);
    }
    net.left(0, elsewhere);
    net.run(100);
    late.decide(&mut net, true);
    assert_eq!(net.node(0).remains(), [""; 0]);
}

#[test]
fn what_nobody_waits_for_is_proposed_once_until_it_is_decided_or_something_stands_behind_it() {
    let mut net = Net::new(2);
    let task = net.enrol(1);
    let (host, other) = (net.id(1), net.id(0));
    joins(&mut net, 1, task, 1);
    let late = Late::of(&mut net);
    let says = |net: &mut Net, command: Command| {
        net.call(0, |node, now, _| node.propose(now, command));
    };
    for command in [
        Command::TaskOver(task),
        Command::ForgetWaits(host),
        Command::ForgetWaits(other),
        Command::ForgetWaits(host),
        Command::TaskOver(task),
    ] {
        says(&mut net, command);
    }
    let repeated = |net: &mut Net| {
        let counters = net.node(0).counters();
        counters.into_iter().find(|(name, _)| *name == "proposals_repeated").map(|(_, n)| n)
    };
    assert_eq!((late.waiting(), repeated(&mut net)), (3, Some(2)));
    // What it asks now is not undone by what was stated before.
    joins(&mut net, 1, task, 1);
    says(&mut net, Command::ForgetWaits(host));
    says(&mut net, Command::ForgetWaits(host));
    says(&mut net, Command::ForgetWaits(other));
    assert_eq!((late.waiting(), repeated(&mut net)), (5, Some(4)));
    // Dropped or committed, it may be said again.
    for commits in [false, true] {
        late.decide(&mut net, commits);
        says(&mut net, Command::ForgetWaits(host));
        assert_eq!(late.waiting(), 1);
    }
    net.left(1, task);
    net.run(100);
    late.decide(&mut net, true);
    assert_eq!(net.node(0).remains(), [""; 0]);
}

#[test]
fn hosts_are_deleted_and_the_asker_told_once_all_of_it_is_committed() {
    let mut net = Net::new(3);
    let task = net.enrol(1);
    let (two, three) = (net.id(2), HostId::new(9, 9).expect("a host"));
    let late = Late::of(&mut net);
    let delete = || Question::DeleteHosts([two, three, two].into());
    net.says(1, task, ask(1, delete()));
    net.run(100);
    assert_eq!((net.told(1, task), net.node(0).hosts().count()), (Vec::new(), 3));
    late.decide(&mut net, false);
    let frozen = ToTask::Answer { number: 1, answer: Err(Fault::Frozen(None)) };
    assert_eq!((net.told(1, task), net.node(0).hosts().count()), ([frozen].into(), 3));
    net.says(1, task, ask(2, delete()));
    net.run(100);
    late.decide(&mut net, true);
    let each = [Ok(()), Err(Fault::NoHost), Err(Fault::NoHost)].into();
    let done = ToTask::Answer { number: 2, answer: Ok(Answer::Each(each)) };
    assert_eq!((net.told(1, task), net.node(0).hosts().count()), ([done].into(), 2));
    assert!(net.events(2).contains(&NodeEvent::Deleted));
}
