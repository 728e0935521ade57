//! What tasks ask, who answers, and that each has one answer.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use towpath_vm::talk::{
    Answer, Fault, MAIL_MAX, MailRules, NAME_MAX, Place, QUESTIONS_MAX, Question, RegistryAnswer,
    RegistryOp, SPAWN_MAX, SpawnTasks, Subject, ToDaemon, ToTask, WATCHES_MAX,
};
use towpath_vm::{Action, Ending, HostState, TaskInfo};
use towpath_wire::TaskId;

use super::net::{EPOCH_S, Net, program};
use crate::node::question::{check, check_spawn, parts_of};
use crate::{NodeEvent, SpawnError};

fn registry(op: RegistryOp) -> Question {
    Question::Registry(op)
}

fn join(name: &str) -> Question {
    registry(RegistryOp::Join(name.into()))
}

#[test]
fn every_question_is_answered_by_whom_it_concerns() {
    let mut net = Net::new(3);
    let (two, three) = (net.id(1), net.id(2));
    let (a, b) = (net.enrol(1), net.enrol(2));
    let hosts: Vec<_> = net.node(1).hosts().cloned().collect();
    assert_eq!(net.ask(1, a, Question::Hosts), Ok(Answer::Hosts(hosts)));
    for on in [two, three] {
        let Ok(Answer::Clock(us)) = net.ask(1, a, Question::Clock(on)) else { panic!("{on}") };
        let from = EPOCH_S * 1_000_000 + net.now.as_nanos() / 1000;
        assert!(us <= from && us + 100_000 >= from, "{us} of {from}");
    }
    let infos = |answer| match answer {
        Ok(Answer::Tasks(tasks)) => tasks,
        other => panic!("{other:?}"),
    };
    let there = infos(net.ask(1, a, Question::Tasks(Some(three))));
    let info = |tasks: &[TaskInfo]| -> Vec<(TaskId, u32, bool, bool)> {
        tasks.iter().map(|t| (t.id, t.pid, t.enrolled, t.started)).collect()
    };
    assert_eq!(info(&there), [(b, 50, true, false)]);
    assert_eq!(there[0].command, "by itself");
    assert_eq!(info(&infos(net.ask(1, a, Question::Task(b)))), [(b, 50, true, false)]);
    assert_eq!(info(&infos(net.ask(1, a, Question::Task(a)))), [(a, 50, true, false)]);
    let nobody = three.task(99).expect("a task");
    assert_eq!(net.ask(1, a, Question::Task(nobody)), Err(Fault::NoTask));
    let signal = |task| Question::Signal { task, signal: 10 };
    assert_eq!(net.ask(1, a, signal(nobody)), Err(Fault::NoTask));
    assert_eq!(net.ask(1, a, signal(b)), Ok(Answer::Done));
    let sent = NodeEvent::Action(Action::SignalProcess { pid: 50, signal: 10 });
    assert!(net.events(2).contains(&sent));
    let gone = towpath_wire::HostId::new(9, 9).expect("a host");
    assert_eq!(net.ask(1, a, Question::Clock(gone)), Err(Fault::NoHost));
    assert_eq!(net.ask(1, a, Question::Tasks(Some(gone))), Err(Fault::NoHost));
    let there = gone.task(1).expect("a task");
    assert_eq!(net.ask(1, a, Question::Task(there)), Err(Fault::NoTask));
    assert_eq!(net.ask(1, a, signal(there)), Err(Fault::NoTask));
    net.left(1, a);
    net.left(2, b);
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn all_tasks_are_listed_in_parts_of_a_thousand() {
    let mut net = Net::new(3);
    let a = net.enrol(1);
    for _ in 0..2100 {
        net.enrol(2);
    }
    net.enrol(0);
    net.says(1, a, ToDaemon::Ask { number: 1, question: Question::Tasks(None) });
    net.run(200);
    let told = net.told(1, a);
    let mut parts = Vec::new();
    for say in &told[..told.len() - 1] {
        let ToTask::Part { number: 1, tasks } = say else { panic!("{say:?}") };
        assert!(tasks.len() <= 1000);
        parts.push(tasks.len());
    }
    assert_eq!(parts.iter().sum::<usize>(), 2102);
    assert_eq!(told.last(), Some(&ToTask::Answer { number: 1, answer: Ok(Answer::Tasks(vec![])) }));
    // Those of one host: the last of them with the answer.
    let three = net.id(2);
    net.says(1, a, ToDaemon::Ask { number: 2, question: Question::Tasks(Some(three)) });
    net.run(200);
    let lens: Vec<(bool, usize)> = net
        .told(1, a)
        .into_iter()
        .map(|say| match say {
            ToTask::Part { tasks, .. } => (false, tasks.len()),
            ToTask::Answer { answer: Ok(Answer::Tasks(tasks)), .. } => (true, tasks.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lens, [(false, 1000), (false, 1000), (true, 100)]);
    // And the owner's list of them.
    let query = net.call(1, |node, now, memory| node.list(now, three, memory));
    net.run(200);
    let own = |e: &NodeEvent| match e {
        NodeEvent::Tasks { query: q, host, tasks: Ok(tasks) } if *q == query && *host == three => {
            Some(tasks.len())
        }
        _ => None,
    };
    assert_eq!(net.events(1).iter().filter_map(own).collect::<Vec<_>>(), [2100]);
    let two = net.id(1);
    let query = net.call(1, |node, now, memory| node.list(now, two, memory));
    let own = |e: &NodeEvent| match e {
        NodeEvent::Tasks { query: q, tasks: Ok(t), .. } => *q == query && t.len() == 1,
        _ => false,
    };
    assert!(net.events(1).iter().any(own), "at once");
    assert_eq!(net.node(1).tasks_here(towpath_wire::Instant::ZERO).len(), 1);
}

#[test]
fn a_list_is_cut_behind_each_thousand() {
    let info = |n: u32| TaskInfo {
        channels: 0,
        reserved_bps: 0,
        id: towpath_wire::HostId::new(1, 1).and_then(|h| h.task(n)).expect("a task"),
        requester: towpath_wire::HostId::new(1, 1).expect("a host"),
        pid: n,
        age_us: 0,
        command: "c".into(),
        parent: None,
        enrolled: false,
        started: false,
    };
    for (count, first) in [(0, 0), (1000, 0), (1001, 1), (2000, 1), (2001, 2)] {
        let (parts, last) = parts_of((1..=count).map(info).collect());
        assert_eq!(parts.len(), first, "{count}");
        let all: Vec<u32> = parts.into_iter().flatten().chain(last).map(|t| t.pid).collect();
        assert_eq!(all, (1..=count).collect::<Vec<_>>());
    }
}

#[test]
fn a_task_has_so_many_questions_and_lists_and_no_more() {
    let mut net = Net::new(2);
    let (two, a) = (net.id(1), net.enrol(0));
    net.cut(0, 1);
    let ask = |net: &mut Net, task, number, question| {
        net.says(0, task, ToDaemon::Ask { number, question });
    };
    for number in 0..QUESTIONS_MAX as u64 {
        ask(&mut net, a, number, Question::Clock(two));
    }
    assert_eq!(net.told(0, a), []);
    ask(&mut net, a, 9999, Question::Clock(two));
    let fault = Fault::Limit { what: "questions".into(), limit: 4096 };
    assert_eq!(net.told(0, a), [ToTask::Answer { number: 9999, answer: Err(fault) }]);
    ask(&mut net, a, 7, Question::Hosts);
    assert_eq!(net.cut_off(0, a), Some("question 7 is asked already".into()));
    // Lists of all hosts: of one host's tasks together.
    let (b, c) = (net.enrol(0), net.enrol(0));
    for number in 0..256 {
        ask(&mut net, if number % 2 == 0 { b } else { c }, number, Question::Tasks(None));
    }
    let answers = |told: Vec<ToTask>| -> Vec<ToTask> {
        told.into_iter().filter(|t| matches!(t, ToTask::Answer { .. })).collect()
    };
    assert_eq!(answers(net.told(0, b)).len() + answers(net.told(0, c)).len(), 0);
    ask(&mut net, b, 256, Question::Tasks(None));
    let fault = Fault::Limit { what: "lists of all tasks at once".into(), limit: 256 };
    assert_eq!(answers(net.told(0, b)), [ToTask::Answer { number: 256, answer: Err(fault) }]);
    // Each has its answer once the other host is lost.
    net.run(20_000);
    assert!(net.node(0).hosts().all(|h| h.id != two || h.state == HostState::Lost));
    let told = answers(net.told(0, a));
    assert_eq!(told.len(), QUESTIONS_MAX);
    assert!(told.iter().all(|t| matches!(t, ToTask::Answer { answer: Err(Fault::HostLost), .. })));
    let told: Vec<ToTask> = [b, c].into_iter().flat_map(|t| answers(net.told(0, t))).collect();
    assert_eq!(told.len(), 256);
    assert!(told.iter().all(|t| matches!(t, ToTask::Answer { answer: Ok(Answer::Tasks(_)), .. })));
    ask(&mut net, b, 256, Question::Tasks(None));
    assert_eq!(answers(net.told(0, b)).len(), 1, "there is room again");
    // Watches.
    for watch in 0..WATCHES_MAX as u64 {
        net.node(0).local.members.get_mut(c).expect("c").watches.insert(watch, Subject::NewHosts);
    }
    net.says(0, c, ToDaemon::Watch { watch: 1 << 40, subject: Subject::NewHosts });
    assert!(net.cut_off(0, c).expect("one too many").contains("65536"));
    net.says(0, b, ToDaemon::Watch { watch: 1, subject: Subject::NewHosts });
    assert_eq!(net.cut_off(0, b), None);
    net.says(0, b, ToDaemon::Watch { watch: 1, subject: Subject::NewHosts });
    assert!(net.cut_off(0, b).is_some(), "it is in use");
}

#[test]
fn what_is_asked_is_held_to_its_limits() {
    let long = "n".repeat(NAME_MAX + 1);
    let fits = &long[1..];
    let ops = |name: &str| {
        let name = || name.into();
        let (index, from, delete, wait) = (None, 0, false, false);
        let put = RegistryOp::Put {
            name: name(),
            index,
            rules: MailRules::default(),
            format: 0,
            content: vec![0; MAIL_MAX],
        };
        [
            put,
            RegistryOp::Join(name()),
            RegistryOp::Leave(name()),
            RegistryOp::Members(name()),
            RegistryOp::Barrier { group: name(), count: 1 },
            RegistryOp::Freeze { group: name(), count: 1 },
            RegistryOp::Get { name: name(), index, from, delete, wait },
            RegistryOp::Delete { name: name(), index: 0 },
            RegistryOp::Mailboxes { pattern: name() },
        ]
    };
    let name_limit = Err(Fault::Limit { what: "bytes of a name".into(), limit: 256 });
    for (good, bad) in ops(fits).into_iter().zip(ops(&long)) {
        assert_eq!(check(&registry(good.clone())), Ok(()), "{good:?}");
        assert_eq!(check(&registry(bad.clone())), name_limit, "{bad:?}");
    }
    assert_eq!(check(&registry(RegistryOp::Groups)), Ok(()));
    let host = towpath_wire::HostId::new(1, 1).expect("a host");
    assert_eq!(check(&Question::DeleteHosts(vec![host; 4096])), Ok(()));
    let many = Err(Fault::Limit { what: "hosts at once".into(), limit: 4096 });
    assert_eq!(check(&Question::DeleteHosts(vec![host; 4097])), many);
    // A command: its name, where it runs, each argument with 10 bytes more, each variable with 20.
    let (k, v) = (vec![b'k'; 1000], vec![b'v'; 1000]);
    let spawn = |arg: usize, count| SpawnTasks {
        program: vec![b'p'; 1000],
        cwd: vec![b'd'; 1000],
        args: vec![vec![b'a'; arg]],
        env: vec![(k.clone(), v.clone())],
        count,
        ..SpawnTasks::default()
    };
    let most = (512 << 10) - 4030;
    assert_eq!(check_spawn(&spawn(most, 1)), Ok(()));
    let fault = Fault::Limit { what: "bytes of a command".into(), limit: 512 << 10 };
    assert_eq!(check_spawn(&spawn(most + 1, 1)), Err(fault));
    assert_eq!(check_spawn(&spawn(most, 128)), Ok(()), "64 MiB in all");
    let fault = Fault::Limit { what: "bytes of all commands of a spawn".into(), limit: 64 << 20 };
    assert_eq!(check_spawn(&spawn(most, 129)), Err(fault));
    assert_eq!(check_spawn(&spawn(0, SPAWN_MAX)), Ok(()));
    assert!(matches!(check_spawn(&spawn(0, SPAWN_MAX + 1)), Err(Fault::Bad(_))));
    assert!(matches!(check_spawn(&spawn(0, 0)), Err(Fault::Bad(_))));
    for place in [Place::Name(long.clone()), Place::Arch(long.clone())] {
        let spawn = SpawnTasks { place, ..spawn(0, 1) };
        assert_eq!(check_spawn(&spawn), name_limit);
        assert_eq!(check(&Question::Spawn(spawn)), name_limit);
    }
}

#[test]
fn groups_and_mailboxes_are_the_leaders_and_end_with_their_tasks() {
    let mut net = Net::new(3);
    let tasks: Vec<(usize, TaskId)> = [0, 1, 1, 2].map(|h| (h, net.enrol(h))).to_vec();
    for (instance, (host, task)) in tasks.iter().enumerate() {
        let joined = Ok(Answer::Registry(RegistryAnswer::Instance(instance as u32)));
        assert_eq!(net.ask(*host, *task, join("g")), joined);
    }
    // A barrier ends for all at once, with one message to each host.
    let barrier = registry(RegistryOp::Barrier { group: "g".into(), count: 4 });
    for (number, (host, task)) in tasks.iter().enumerate() {
        let question = barrier.clone();
        net.says(*host, *task, ToDaemon::Ask { number: 50 + number as u64, question });
        net.run(50);
        let through = tasks.iter().filter(|(h, t)| {
            let answered = |say: &ToTask| matches!(say, ToTask::Answer { answer: Ok(_), .. });
            net.told(*h, *t).iter().any(answered)
        });
        assert_eq!(through.count(), if number == 3 { 4 } else { 0 });
    }
    let (host, task) = tasks[3];
    let members =
        |net: &mut Net| match net.ask(host, task, registry(RegistryOp::Members("g".into()))) {
            Ok(Answer::Registry(RegistryAnswer::Members { members, .. })) => members,
            other => panic!("{other:?}"),
        };
    let all: Vec<Option<TaskId>> = tasks.iter().map(|(_, t)| Some(*t)).collect();
    assert_eq!(members(&mut net), all);
    net.left(1, tasks[1].1);
    net.run(50);
    assert_eq!(members(&mut net), [all[0], None, all[2], all[3]]);
    // With a host its tasks leave.
    net.crash(1);
    net.run(8_000);
    assert_eq!(members(&mut net), [all[0], None, None, all[3]]);
    // An entry for which somebody waits.
    let get = RegistryOp::Get { name: "m".into(), index: None, from: 0, delete: true, wait: true };
    net.says(2, task, ToDaemon::Ask { number: 90, question: registry(get) });
    net.run(50);
    assert_eq!(net.told(2, task), []);
    let rules = MailRules { overwritable: true, ..MailRules::default() };
    let content = b"c".to_vec();
    let put = RegistryOp::Put { name: "m".into(), index: None, rules, format: 1, content };
    assert!(net.ask(0, tasks[0].1, registry(put)).is_ok());
    let told = net.told(2, task);
    assert!(matches!(&told[..], [ToTask::Answer { number: 90, answer: Ok(_) }]), "{told:?}");
    net.left(0, tasks[0].1);
    net.left(2, task);
    net.run(1_000);
    net.nothing_is_left();
}

/// So many MiB more wait at host 1 for another one.
fn crowd(net: &mut Net, host: towpath_wire::HostId, mib: usize) {
    let now = net.now;
    for _ in 0..mib {
        let bytes = vec![0; (1 << 20) - 72];
        let input = towpath_vm::message::Input { request: 77, bytes, end: false };
        net.node(1).tell(now, host, towpath_vm::Message::Input(input));
    }
}

#[test]
fn a_host_that_reads_nothing_gets_no_answers_and_no_tasks() {
    let mut net = Net::new(3);
    let (one, two) = (net.id(1), net.id(2));
    let a = net.enrol(1);
    net.cut(1, 2);
    // What waits for it: 8 MiB, then tasks wait; 64 MiB, then questions are turned away.
    crowd(&mut net, two, 7);
    assert!(net.node(1).has_room(two));
    assert_eq!(net.says(1, a, ToDaemon::Ask { number: 1, question: Question::Clock(two) }), None);
    crowd(&mut net, two, 1);
    assert!(!net.node(1).has_room(two));
    let spawn = SpawnTasks { count: 1, place: Place::Host(two), ..SpawnTasks::default() };
    let peer = two.task(5).expect("a task");
    for say in [
        ToDaemon::Ask { number: 2, question: Question::Clock(two) },
        ToDaemon::Ask { number: 2, question: Question::Tasks(None) },
        ToDaemon::Blocked { peer, need: 1 },
        ToDaemon::Direct { peer },
        ToDaemon::CloseDirect { peer },
        ToDaemon::Listening { peer, port: 1 },
        ToDaemon::Watch { watch: 1, subject: Subject::Task(peer) },
    ] {
        assert_eq!(net.says(1, a, say.clone()), Some(two), "{say:?}");
    }
    for say in [
        ToDaemon::Ask { number: 3, question: Question::Hosts },
        ToDaemon::Ask { number: 4, question: Question::Clock(one) },
        ToDaemon::Ask { number: 5, question: join("g") },
        ToDaemon::Watch { watch: 2, subject: Subject::Host(two) },
        ToDaemon::OutputCredit(1),
    ] {
        assert_eq!(net.says(1, a, say.clone()), None, "{say:?}");
    }
    net.told(1, a);
    crowd(&mut net, two, 55);
    // The job began here: it may be spawned there as long as 64 MiB do not wait.
    let say = ToDaemon::Ask { number: 6, question: Question::Spawn(spawn.clone()) };
    assert_eq!(net.says(1, a, say), None);
    assert_eq!(net.told(1, a), [], "it was asked");
    crowd(&mut net, two, 2);
    let say = ToDaemon::Ask { number: 7, question: Question::Spawn(spawn) };
    net.says(1, a, say);
    let told = net.told(1, a);
    let limit = |say: &ToTask| match say {
        ToTask::Answer { number: 7, answer: Ok(Answer::Spawned(results)) } => {
            matches!(&results[..], [Err(Fault::Limit { limit, .. })] if *limit == 64 << 20)
        }
        _ => false,
    };
    assert!(told.iter().any(limit), "{told:?}");
    let now = net.now;
    let asked = towpath_vm::message::Asked {
        asker: peer,
        number: 1,
        serial: <_>::default(),
        question: Question::Clock(one),
    };
    net.node(1).handle_message(now, two, towpath_vm::Message::Asked(asked));
    let answers = net.node(1).queued(two);
    assert!(answers.iter().any(|m| matches!(m, towpath_vm::Message::Answered(a)
            if matches!(&a.answer, Err(Fault::Limit { limit, .. }) if *limit == 64 << 20))),);
    // At 256 MiB it is given up, and what waited with it.
    crowd(&mut net, two, 188);
    assert!(!net.node(1).has_room(two));
    crowd(&mut net, two, 4);
    assert!(net.node(1).has_room(two));
    net.run(1);
    let told = net.told(1, a);
    let over =
        |say: &ToTask| matches!(say, ToTask::Answer { number: 1, answer: Err(Fault::HostLost) });
    assert!(told.iter().any(over), "{told:?}");
}

#[test]
fn requests_run_once_and_are_told_of_in_order() {
    use towpath_vm::{RequestEvent, Stream};
    let mut net = Net::new(2);
    for on in [0, 1] {
        let host = net.id(on);
        let request = net.spawn(0, host, program(&["x"]));
        assert_eq!(net.node(0).requests_open(), 1);
        net.run(50);
        let claim = net.started(on);
        let task = claim.task;
        net.call(on, |n, now, m| n.task_output(now, task, Stream::Out, b"out".to_vec(), m));
        net.call(on, |n, now, m| n.task_output(now, task, Stream::Err, b"err".to_vec(), m));
        net.run(50);
        let output = |stream, bytes: &[u8]| RequestEvent::Output { stream, bytes: bytes.to_vec() };
        assert_eq!(
            net.news(0, request),
            [
                RequestEvent::Started { task, pid: 77 },
                output(Stream::Out, b"out"),
                output(Stream::Err, b"err"),
            ]
        );
        net.call(0, |n, now, m| n.credit(now, request, 6, m));
        net.call(0, |n, now, m| n.input(now, request, b"in".to_vec(), true, m));
        net.call(0, |n, now, m| n.kill(now, request, 12, m));
        net.run(50);
        let actions: Vec<Action> = net
            .events(on)
            .into_iter()
            .filter_map(|e| if let NodeEvent::Action(a) = e { Some(a) } else { None })
            .collect();
        let input = Action::Input { task, bytes: b"in".to_vec(), end: true };
        let signal = Action::Signal { task, signal: 12 };
        assert_eq!(actions, [Action::Credit { task, bytes: 6 }, input, signal]);
        net.call(on, |n, now, m| n.task_input_taken(now, task, 2, m));
        net.run(50);
        assert_eq!(net.news(0, request), [RequestEvent::InputTaken(2)]);
        net.call(on, |n, now, m| n.task_exited(now, task, Ending::Exited(4), m));
        net.run(50);
        let news = net.news(0, request);
        assert!(matches!(&news[..], [RequestEvent::Ended(e)] if e.ending == Ending::Exited(4)));
        assert_eq!(net.node(0).requests_open(), 0);
        // Whatever is said of it afterwards is not heard.
        net.call(0, |n, now, m| n.kill(now, request, 12, m));
        net.call(0, |n, now, m| n.input(now, request, b"in".to_vec(), true, m));
        net.run(50);
        assert_eq!(net.events(on), []);
    }
}

#[test]
fn requests_that_cannot_be_made_say_why() {
    let mut net = Net::new(2);
    let nobody = towpath_wire::HostId::new(9, 9).expect("a host");
    let spawn = |net: &mut Net, host, spec| net.call(0, |n, now, m| n.spawn(now, host, spec, m));
    assert_eq!(spawn(&mut net, nobody, program(&[])), Err(SpawnError::UnknownHost(nobody)));
    let two = net.id(1);
    let limit = (1 << 20) - 64;
    let long = "a".repeat(limit);
    let refused = spawn(&mut net, two, program(&[&long]));
    assert!(matches!(refused, Err(SpawnError::TooLong { len, limit: l }) if l == limit && len > l));
    let over = match refused {
        Err(SpawnError::TooLong { len, limit }) => len - limit,
        _ => 0,
    };
    assert!(spawn(&mut net, two, program(&[&long[over..]])).is_ok());
    let target = net.target(60);
    let crypto = alloc::boxed::Box::new(super::standin::StandIn::new(9));
    let rng = towpath_proto::Rng::new(9, 1);
    let config = super::net::config(7, "new");
    let mut node = crate::Node::join(net.now, config, crypto, rng, target);
    let mut memory = towpath_proto::HeapMemory::new(towpath_wire::ByteSize::from_mib(1));
    let refused = node.spawn(net.now, two, program(&[]), &mut memory);
    assert_eq!(refused, Err(SpawnError::NotJoined));
    assert_eq!((node.me(), node.log_index(), node.snapshot_bytes()), (None, 0, 0));
    assert!(net.node(0).snapshot_bytes() > 100);
}

#[test]
fn a_library_of_another_version_is_turned_away() {
    let mut net = Net::new(1);
    let enrol = towpath_vm::talk::Enrol { version: 2, claim: None, pid: 1, command: "c".into() };
    let refused = net.call(0, |node, now, memory| node.task_enrol(now, &enrol, memory));
    let why = refused.expect_err("another version");
    assert!(why.contains("version 2, its daemon 5") && why.contains("\nhint: "), "{why}");
    assert_eq!(format!("{:?}", net.node(0).remains()), "[]");
}

#[test]
fn a_word_that_finds_no_message_memory_waits_for_it_without_haste() {
    use towpath_proto::Memory;
    use towpath_proto::memory::BLOCK_COST;
    let mut net = Net::new(2);
    let (a, two) = (net.enrol(0), net.id(1));
    net.run(1_000);
    let memory = &mut net.seats[0].memory;
    let rest = (512 << 20) - memory.used() - BLOCK_COST;
    let block = memory.store(vec![0; rest as usize]).expect("there is just room");
    net.says(0, a, ToDaemon::Ask { number: 1, question: Question::Clock(two) });
    // A timer that is always due would show here.
    net.run(500);
    assert_eq!(net.told(0, a), []);
    net.seats[0].memory.release(block);
    net.run(100);
    let told = net.told(0, a);
    assert!(matches!(&told[..], [ToTask::Answer { number: 1, answer: Ok(_) }]), "{told:?}");
}
