//! A leader that has lost most of those that keep the log, and members in contact with it: each
//! operation that the log has to decide is refused or answered, and goes on once it is healed.

use alloc::string::ToString;
use alloc::vec::Vec;

use towpath_vm::talk::{
    Answer, Fault, MailRules, NOTHING_DECIDED, Question, RegistryAnswer, RegistryOp, ToDaemon,
    ToTask,
};
use towpath_vm::{HostState, RequestEvent};
use towpath_wire::TaskId;

use super::net::{Net, program};
use super::voting::{leader, leaders, net, sharing};
use crate::commit::OWNERS_MAX;
use crate::event::UNDECIDED;
use crate::invitations::InviteError;
use crate::{DeleteError, JoinFailure, NodeEvent};

/// Within which each of them is refused, in milliseconds: as long as a question is kept, since
/// another one may lead by then, from when the leader knows, 2 s after it has lost the others.
const BOUND_MS: u64 = 33_000;

/// Hosts: the leader and a member beside it, which does not keep the log; two that do, and one
/// beside them.
const LEADER: usize = 0;
const MEMBER: usize = 3;
const MOST: [usize; 3] = [1, 2, 4];

fn part(net: &mut Net) {
    for here in [LEADER, MEMBER] {
        for there in MOST {
            net.cut(here, there);
        }
    }
}

/// All that a task can ask and the log has to decide.
fn questions(net: &Net) -> Vec<Question> {
    let name = || "g".into();
    let put = RegistryOp::Put {
        name: name(),
        index: None,
        rules: MailRules { many: true, ..MailRules::default() },
        format: 0,
        content: b"there".to_vec(),
    };
    let get = |wait| RegistryOp::Get { name: name(), index: None, from: 0, delete: false, wait };
    let ops = [
        RegistryOp::Join(name()),
        RegistryOp::Leave(name()),
        RegistryOp::Members(name()),
        RegistryOp::Barrier { group: name(), count: 1 },
        RegistryOp::Freeze { group: name(), count: 1 },
        put,
        get(false),
        get(true),
        RegistryOp::Delete { name: name(), index: 0 },
        RegistryOp::Mailboxes { pattern: "*".into() },
        RegistryOp::Groups,
    ];
    let ops = ops.into_iter().map(Question::Registry);
    ops.chain([Question::DeleteHosts([net.id(MEMBER)].into()), Question::Halt]).collect()
}

/// Asks all of it; gives the numbers under which it is.
fn ask_all(net: &mut Net, host: usize, task: TaskId) -> Vec<u64> {
    let questions = questions(net);
    let ask = |question| {
        net.serial += 1;
        let number = net.serial;
        net.says(host, task, ToDaemon::Ask { number, question });
        number
    };
    questions.into_iter().map(ask).collect()
}

/// What became of these.
fn answers(net: &mut Net, host: usize, task: TaskId) -> Vec<(u64, Result<Answer, Fault>)> {
    let told = net.told(host, task).into_iter().filter_map(|told| match told {
        ToTask::Answer { number, answer } => Some((number, answer)),
        _ => None,
    });
    told.collect()
}

#[test]
fn whatever_the_log_is_to_decide_is_refused_within_a_bound_and_says_why() {
    let mut net = net(5);
    let tasks = [LEADER, MEMBER].map(|host| (host, net.enrol(host)));
    for (host, task) in tasks {
        net.ask(host, task, Question::Registry(RegistryOp::Join("g".into()))).expect("it joins");
    }
    part(&mut net);
    // At once, when the leader does not know yet, and later, when it does.
    for later in [false, true] {
        let mut asked = tasks.map(|(host, task)| ask_all(&mut net, host, task));
        net.run(BOUND_MS);
        for ((host, task), asked) in tasks.into_iter().zip(&mut asked) {
            for (number, answer) in answers(&mut net, host, task) {
                asked.retain(|asked| *asked != number);
                // Which hosts go, is told of each.
                let each = |answer: &Answer| match answer {
                    Answer::Each(each) => each.iter().all(Result::is_err),
                    _ => false,
                };
                let refused = match &answer {
                    Err(Fault::Frozen(None)) => true,
                    Ok(answer) => each(answer),
                    Err(_) => false,
                };
                assert!(refused, "{later} {host}: {number}: {answer:?}");
            }
            assert!(asked.is_empty(), "{later} {host}: {asked:?} have no answer");
        }
    }
    assert_eq!(Fault::Frozen(None).to_string(), NOTHING_DECIDED);
    assert!(!leaders(&net).contains(&LEADER) && leaders(&net).len() == 1, "another one leads");
    // What needs no decision goes on.
    let member = net.id(MEMBER);
    let request = net.spawn(LEADER, member, program(&[]));
    net.run(100);
    net.started(MEMBER);
    net.run(100);
    let started = |e: &RequestEvent| matches!(e, RequestEvent::Started { .. });
    assert!(net.news(LEADER, request).iter().any(started));
}

#[test]
fn what_the_owner_of_such_a_leader_asks_for_is_refused_and_says_why() {
    let mut net = net(5);
    let member = net.id(MEMBER);
    let token = net.target_of(LEADER, 600);
    part(&mut net);
    // It does not know yet: it hears when it does.
    let ask = |net: &mut Net| {
        net.call(LEADER, |node, now, memory| {
            [
                node.drain_host(now, 7, member, true, memory),
                node.delete_host(now, 8, member, memory),
            ]
        })
    };
    assert_eq!(ask(&mut net), [Ok(()), Ok(())]);
    let invite = |net: &mut Net| {
        net.call(LEADER, |node, now, _| node.invite_for(now, 60, [9; 16], None).map(|_| ()))
    };
    assert_eq!(invite(&mut net), Ok(()));
    let network = super::promising::star(5);
    let set = |net: &mut Net| {
        let text = network.clone();
        net.call(LEADER, |node, now, memory| node.set_network(now, 9, text, memory))
    };
    assert!(set(&mut net));
    net.add_by(sharing(5), token);
    net.run(20_000);
    let events = net.events(LEADER);
    let changed = |number| {
        let outcome = Err(DeleteError::Undecided);
        events.contains(&NodeEvent::TableChanged { number, outcome })
    };
    assert!(changed(7) && changed(8), "{events:?}");
    let decided = NodeEvent::TokenDecided { nonce: [9; 16], outcome: Err(InviteError::Undecided) };
    assert!(events.contains(&decided), "{events:?}");
    let said = |e: &NodeEvent| matches!(e, NodeEvent::Network { number: 9, outcome: Err(_) });
    assert!(events.iter().any(said), "{events:?}");
    assert!(DeleteError::Undecided.to_string() == UNDECIDED && UNDECIDED.contains("status"));
    // A newcomer gives up, and hears why.
    let gives_up = |e: &NodeEvent| matches!(e, NodeEvent::JoinFailed(_));
    let newcomer = net.events(5);
    assert!(newcomer.iter().any(gives_up), "{newcomer:?}");
    let refused = |e: &NodeEvent| match e {
        NodeEvent::JoinFailed(JoinFailure::Refused(refusal)) => refusal.text.contains("decide"),
        _ => false,
    };
    assert!(newcomer.iter().any(refused), "{newcomer:?}");
    // Now it knows.
    assert_eq!(ask(&mut net), [Err(DeleteError::NothingDecided); 2]);
    assert_eq!(invite(&mut net), Err(InviteError::NothingDecided));
    assert!(!set(&mut net) && net.node(LEADER).has_lost_most());
    for (told, words) in [
        (DeleteError::NothingDecided.to_string(), NOTHING_DECIDED),
        (InviteError::NothingDecided.to_string(), NOTHING_DECIDED),
    ] {
        assert_eq!(told, words);
    }
}

#[test]
fn more_changes_of_the_owner_than_may_wait_are_refused_with_the_limit() {
    let mut net = net(5);
    let member = net.id(MEMBER);
    part(&mut net);
    for number in 0..=OWNERS_MAX as u64 {
        let asked = net.call(LEADER, |node, now, m| node.drain_host(now, number, member, true, m));
        assert_eq!(asked, Ok(()), "it does not know yet that nothing is decided");
    }
    let (number, limit) = (OWNERS_MAX as u64, OWNERS_MAX as u64);
    let refused = NodeEvent::TableChanged { number, outcome: Err(DeleteError::Full(limit)) };
    assert_eq!(net.events(LEADER).last(), Some(&refused));
}

#[test]
fn once_it_is_healed_all_go_on_as_who_they_were() {
    let mut net = net(5);
    let task = net.enrol(MEMBER);
    let ids = [0, 1, 2, 3, 4].map(|host| net.id(host));
    // Only those that vote are out of contact with each other: nobody leads.
    net.cut(0, 1);
    net.cut(0, 2);
    net.cut(1, 2);
    net.run(5000);
    assert_eq!(leaders(&net), []);
    net.serial += 1;
    let number = net.serial;
    let question = Question::Registry(RegistryOp::Join("g".into()));
    net.says(MEMBER, task, ToDaemon::Ask { number, question });
    net.run(1000);
    net.mend();
    net.run(10_000);
    // It was kept, and is answered once somebody leads.
    let told = answers(&mut net, MEMBER, task);
    assert!(matches!(told[..], [(n, Ok(_))] if n == number), "{told:?}");
    let leads = leader(&mut net);
    let asked = Question::Registry(RegistryOp::Members("g".into()));
    let Ok(Answer::Registry(RegistryAnswer::Members { members, .. })) =
        net.ask(MEMBER, task, asked)
    else {
        panic!("the group is there")
    };
    assert_eq!(members, [Some(task)], "it joined once");
    assert_eq!([0, 1, 2, 3, 4].map(|host| net.id(host)), ids);
    let up = net.node(leads).hosts().filter(|h| h.state == HostState::Up).count();
    assert_eq!(up, 5);
    let member = net.id(MEMBER);
    let drained = net.call(leads, |node, now, m| node.drain_host(now, 7, member, true, m));
    assert_eq!(drained, Ok(()));
    net.run(200);
    let done = NodeEvent::TableChanged { number: 7, outcome: Ok(()) };
    assert!(net.events(leads).contains(&done));
}
