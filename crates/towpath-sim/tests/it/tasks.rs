//! Tasks on whole nodes in virtual time: messages between hosts, credit, ends and who is told.

use std::time::Duration;

use crate::hosts::{Got, Vm, ms, wall_clock};
use towpath_node::{JoinFailure, NodeEvent};
use towpath_sim::clock::Clock;
use towpath_sim::link::LinkSpec;
use towpath_sim::process::Program;
use towpath_vm::credit::WINDOW_FAR;
use towpath_vm::talk::{
    Answer, CREDIT_FIRST, Claim, Enrol, Fault, MailRules, Place, Question, RegistryAnswer,
    RegistryOp, SpawnTasks, Subject, TALK_VERSION, ToDaemon, ToTask, WatchEvent,
};
use towpath_vm::{Ending, TaskSpec};
use towpath_wire::talk::{HEADER_LEN, Header, PIECE_CHARGE, PIECE_MAX};
use towpath_wire::{ByteSize, TaskId};

#[test]
fn messages_arrive_in_order_here_and_on_another_host() {
    let mut vm = Vm::up(2);
    let (a, b, c) = (vm.enrol(0), vm.enrol(0), vm.enrol(1));
    for seq in 0..5 {
        assert!(vm.send(0, a, b, seq, 100) && vm.send(0, a, c, seq, 1000));
        assert!(vm.send(1, c, a, seq, 0));
    }
    vm.run(ms(100));
    for task in [a, b, c] {
        assert_eq!(vm.seqs(task), [0, 1, 2, 3, 4], "{task}");
    }
    vm.nothing_is_left();
}

#[test]
fn hosts_whose_wall_clocks_are_hours_off_join_and_work() {
    let mut vm = Vm::up(3);
    let tasks: Vec<TaskId> = (0..3).map(|host| vm.enrol(host)).collect();
    for host in 0..3 {
        let asked = vm.ask(0, tasks[0], Question::Clock(vm.me(host)));
        let Ok(Answer::Clock(us)) = asked else { panic!("{asked:?}") };
        assert!(us.abs_diff(wall_clock(host)) < 60_000_000, "its clock is as wrong as it was made");
    }
    for task in &tasks {
        for (host, from) in tasks.iter().enumerate().filter(|(_, from)| *from != task) {
            assert!(vm.send(host, *from, *task, 0, 100));
        }
    }
    vm.run(ms(100));
    assert!(tasks.iter().all(|task| vm.seqs(*task) == [0; 2]));
    // A token is valid by the clock of who issued it, whatever a newcomer's says.
    for host in [3, 4] {
        let spec = LinkSpec { delay_us: 200, ..LinkSpec::default() };
        vm.world.add_host(Clock::new(0, 0), ByteSize::from_mib(512), true, |_| spec);
        vm.join(host, 0);
        vm.run(ms(1000));
        let expired = |e: &(usize, NodeEvent)| {
            e.0 == host
                && matches!(&e.1, NodeEvent::JoinFailed(JoinFailure::Refused(r))
                    if r.text.contains("expired"))
        };
        assert!(vm.others.iter().any(expired), "{:?}", vm.others);
        vm.join(host, 3600);
        vm.run(ms(1000));
        assert_eq!(vm.me(host).slot(), host as u16 + 1);
    }
}

#[test]
fn what_holds_an_association_up_can_be_shown() {
    let mut vm = Vm::up(2);
    let (a, b) = (vm.enrol(0), vm.enrol(1));
    assert!(vm.send(0, a, b, 0, 1000));
    vm.run(ms(100));
    let flows = |vm: &Vm| vm.world.hosts[0].node.as_ref().unwrap().flows(vm.world.local_now(0));
    assert_eq!(flows(&vm), [""; 0], "nothing is under way");
    let until = vm.world.now() + ms(500);
    vm.world.pause(1, until);
    assert!(vm.send(0, a, b, 1, 1000));
    vm.run(ms(1));
    let shown = flows(&vm);
    assert_eq!(shown.len(), 1);
    let host = vm.me(1);
    assert!(shown[0].contains(&format!("for {host}: 1")), "{shown:?}");
    assert!(shown[0].contains(" bytes in flight, window ") && shown[0].contains("pacer waits"));
    vm.run(ms(2000));
    assert!(flows(&vm).iter().all(|flow| flow.starts_with("0 messages")), "it has arrived");
    assert_eq!(vm.seqs(b), [0, 1]);
}

#[test]
fn credit_lets_a_sender_go_on_as_the_receiver_reads_and_no_further() {
    let mut vm = Vm::up(2);
    let (a, b) = (vm.enrol(0), vm.enrol(1));
    vm.reads = false;
    let len = 4096 - PIECE_CHARGE as usize;
    let mut seq = 0;
    let mut limit = CREDIT_FIRST;
    // A receiver that does not read: four times the first limit, and so on.
    for _ in 0..6 {
        while (u64::from(seq) + 1) * 4096 <= limit {
            assert!(vm.send(0, a, b, seq, len));
            seq += 1;
        }
        vm.says(0, a, ToDaemon::Blocked { peer: b, need: 4096 });
        vm.run(ms(50));
        for got in vm.take(a) {
            let Got::Said(ToTask::Credit { peer, limit: more }) = got else { panic!("{got:?}") };
            assert!(peer == b && more > limit);
            limit = more;
        }
    }
    assert_eq!(limit, WINDOW_FAR);
    let all = (limit / 4096) as u32;
    assert_eq!(vm.seqs(b), (0..all).collect::<Vec<_>>());
    // It reads: the sender hears of more, without asking again.
    for (host, d) in core::mem::take(&mut vm.unread) {
        vm.world.with(host, |n, now, m| n.task_written(now, &d, m));
    }
    vm.run(ms(50));
    let Some(Got::Said(ToTask::Credit { limit, .. })) = vm.take(a).pop() else { panic!() };
    assert!(limit >= WINDOW_FAR * 3 / 2, "half a window beyond what it read: {limit}");
    // One that sends more than it may is cut off.
    while (u64::from(seq) + 1) * 4096 <= limit {
        assert!(vm.send(0, a, b, seq, len));
        seq += 1;
    }
    assert!(vm.others.is_empty());
    vm.send(0, a, b, seq, len);
    vm.run(Duration::ZERO);
    assert!(matches!(&vm.others[..], [(0, NodeEvent::CutOff { task, .. })] if *task == a));
}

#[test]
fn a_header_that_lies_cuts_its_sender_off() {
    let mut vm = Vm::up(1);
    let (a, b) = (vm.enrol(0), vm.enrol(0));
    let good =
        Header { src: a, dst: b, tag: 0, context: 0, seq: 0, format: 0, total: 9, offset: 0 };
    let bad = [
        (Header { src: b, ..good }.emit(), 9),
        (good.emit(), 10),
        (Header { offset: 5, ..good }.emit(), 5),
        (Header { total: 1 << 40, ..good }.emit(), PIECE_MAX + 1),
        ([0xff; HEADER_LEN], 0),
    ];
    for (header, len) in bad {
        vm.world.with(0, |n, now, m| n.task_data(now, a, &header, &vec![0; len], m));
        vm.run(Duration::ZERO);
        let cut = vm.others.pop();
        assert!(matches!(cut, Some((0, NodeEvent::CutOff { task, .. })) if task == a), "{len}");
    }
    assert!(vm.take(b).is_empty());
}

#[test]
fn all_that_had_to_do_with_a_task_hear_of_its_end_once_and_after_its_last_message() {
    let mut vm = Vm::up(3);
    let (a, b, c, d) = (vm.enrol(0), vm.enrol(1), vm.enrol(1), vm.enrol(2));
    // b gets messages from a, c watches a, d sent to it.
    vm.says(1, c, ToDaemon::Watch { watch: 3, subject: Subject::Task(a) });
    assert!(vm.send(2, d, a, 0, 10));
    vm.run(ms(100));
    for seq in 0..10 {
        assert!(vm.send(0, a, b, seq, 1000));
    }
    vm.left(0, a);
    vm.run(ms(100));
    let b_got = vm.take(b);
    assert_eq!(b_got.len(), 11);
    assert_eq!(b_got.last(), Some(&Got::Said(ToTask::Gone { peer: a })));
    let event = WatchEvent::TaskEnded { task: a, ending: None };
    assert_eq!(vm.take(c), [Got::Said(ToTask::Notice { watch: 3, event: event.clone() })]);
    assert_eq!(vm.take(d), [Got::Said(ToTask::Gone { peer: a })]);
    // Whoever comes too late hears it at once: a watch, a message, a question for credit.
    vm.says(2, d, ToDaemon::Watch { watch: 4, subject: Subject::Task(a) });
    assert!(vm.send(1, b, a, 0, 10));
    vm.says(1, c, ToDaemon::Blocked { peer: a, need: 74 });
    vm.run(ms(100));
    assert_eq!(vm.take(d), [Got::Said(ToTask::Notice { watch: 4, event })]);
    assert_eq!(vm.take(b), [Got::Said(ToTask::Gone { peer: a })]);
    assert_eq!(vm.take(c), [Got::Said(ToTask::Gone { peer: a })]);
    vm.nothing_is_left();
}

#[test]
fn a_lost_host_is_the_end_of_its_tasks() {
    let mut vm = Vm::up(3);
    let (a, b, lead) = (vm.enrol(1), vm.enrol(2), vm.enrol(0));
    let gone = vm.me(2);
    assert!(vm.send(1, a, b, 0, 10));
    vm.says(0, lead, ToDaemon::Watch { watch: 1, subject: Subject::Task(b) });
    vm.says(0, lead, ToDaemon::Watch { watch: 2, subject: Subject::Host(gone) });
    vm.says(1, a, ToDaemon::Watch { watch: 1, subject: Subject::Host(gone) });
    vm.run(ms(100));
    vm.take(b);
    vm.world.crash(2);
    vm.run(ms(3000));
    let lost = Got::Said(ToTask::Notice {
        watch: 1,
        event: WatchEvent::TaskEnded { task: b, ending: Some(Ending::HostLost) },
    });
    let host = |watch| {
        let event = WatchEvent::HostGone { host: gone, lost: true };
        Got::Said(ToTask::Notice { watch, event })
    };
    assert_eq!(vm.take(lead), [lost, host(2)]);
    assert_eq!(vm.take(a), [Got::Said(ToTask::Gone { peer: b }), host(1)]);
    vm.nothing_is_left();
}

#[test]
fn one_piece_for_many_goes_to_each_host_once() {
    let mut vm = Vm::up(3);
    let a = vm.enrol(0);
    let others: Vec<(TaskId, u32)> = (0..9).map(|i| (vm.enrol(i % 3), i as u32 + 5)).collect();
    let header =
        Header { src: a, dst: a, tag: 9, context: 1, seq: 0, format: 2, total: 500, offset: 0 };
    let (header, payload) = (header.emit(), [9; 500]);
    let done =
        vm.world.with(0, |n, now, m| n.task_multicast(now, a, &others, &header, &payload, m));
    assert_eq!(done, Some(true));
    vm.run(ms(100));
    for (task, number) in others {
        assert_eq!(vm.seqs(task), [number]);
    }
    vm.nothing_is_left();
}

#[test]
fn tasks_ask_for_what_other_hosts_know() {
    let mut vm = Vm::up(3);
    let (a, b) = (vm.enrol(0), vm.enrol(2));
    let (h1, h2) = (vm.me(1), vm.me(2));
    let Ok(Answer::Hosts(hosts)) = vm.ask(0, a, Question::Hosts) else { panic!() };
    assert_eq!(hosts.len(), 3);
    assert_eq!(vm.ask(0, a, Question::Tasks(Some(h1))), Ok(Answer::Tasks(vec![])));
    let Ok(Answer::Tasks(tasks)) = vm.ask(0, a, Question::Task(b)) else { panic!() };
    assert!(tasks.len() == 1 && tasks[0].id == b && tasks[0].enrolled);
    assert_eq!(vm.ask(0, a, Question::Clock(h2)).map(|_| ()), Ok(()));
}

#[test]
fn a_task_spawns_where_it_wants_and_hears_what_came_of_each() {
    let mut vm = Vm::up(3);
    let a = vm.enrol(1);
    let spawn = |program: &str, place, count| {
        Question::Spawn(SpawnTasks {
            program: program.into(),
            args: vec![],
            env: vec![],
            cwd: vec![],
            place,
            count,
            context: 3,
            orphan: false,
            unique: false,
        })
    };
    let missing = vm.ask(1, a, spawn("missing", Place::Any, 2)).unwrap();
    let Answer::Spawned(results) = missing else { panic!() };
    assert!(matches!(&results[..], [Err(Fault::NotStarted { errno: 2, .. }), Err(_)]));
    let nowhere = vm.ask(1, a, spawn("x", Place::Name("nowhere".into()), 1)).unwrap();
    assert_eq!(nowhere, Answer::Spawned(vec![Err(Fault::NoHost)]));
}

/// Has a task spawn some that run for a minute; on which slots they are.
fn spawn_slots(vm: &mut Vm, host: usize, asker: TaskId, place: Place, count: u32) -> Vec<u16> {
    let program = Program { run_us: 60_000_000, output_bytes: 0, status: 0 };
    let TaskSpec { program, args, env, .. } = program.spec(0, false);
    let spawn = SpawnTasks { program, args, env, count, place, ..SpawnTasks::default() };
    let Ok(Answer::Spawned(results)) = vm.ask(host, asker, Question::Spawn(spawn)) else {
        panic!()
    };
    results.into_iter().map(|task| task.expect("started").host().slot()).collect()
}

#[test]
fn askers_on_two_hosts_do_not_pile_up_on_one() {
    let mut vm = Vm::up(5);
    let (a, b) = (vm.enrol(0), vm.enrol(1));
    let heavy = vm.me(3);
    assert_eq!(spawn_slots(&mut vm, 0, a, Place::Host(heavy), 8), [4; 8]);
    let mut tasks = [0, 1, 1, 0, 8, 0];
    let mut one = |vm: &mut Vm, host, asker| {
        let slots = spawn_slots(vm, host, asker, Place::Any, 1);
        tasks[usize::from(slots[0])] += 1;
        tasks
    };
    // The second asker knows nothing of the first one's tasks, but what their host says with the
    // first that it takes.
    let then = (0..12).map(|_| one(&mut vm, 1, b)).last().unwrap();
    assert!(then[4] <= 9, "{then:?}");
    // Both by turns from here on: all come to have as many.
    let turns = (0..12).map(|_| [one(&mut vm, 0, a), one(&mut vm, 1, b)]).last().unwrap();
    let all = &turns[1][1..];
    assert!(all.iter().max().unwrap() - all.iter().min().unwrap() <= 2, "{all:?}");
    // What was said long ago is not believed, and one task there tells again.
    vm.run(ms(70_000));
    let again = spawn_slots(&mut vm, 0, a, Place::Any, 5);
    assert!(again.contains(&4), "{again:?}");
}

fn registry(op: RegistryOp) -> Question {
    Question::Registry(op)
}

#[test]
fn groups_and_mail_are_one_for_all_hosts_and_end_with_their_tasks() {
    let mut vm = Vm::up(3);
    let tasks = [vm.enrol(0), vm.enrol(1), vm.enrol(2), vm.enrol(2)];
    let hosts = [0, 1, 2, 2];
    let join = || registry(RegistryOp::Join("g".into()));
    for (i, (host, task)) in hosts.into_iter().zip(tasks).enumerate() {
        let instance = Answer::Registry(RegistryAnswer::Instance(i as u32));
        assert_eq!(vm.ask(host, task, join()), Ok(instance));
    }
    let rules = MailRules::default();
    let put =
        RegistryOp::Put { name: "m".into(), index: None, rules, format: 0, content: vec![1; 9000] };
    assert!(vm.ask(1, tasks[1], registry(put)).is_ok());
    // Three wait in a barrier for four when the fourth's process ends.
    let barrier = RegistryOp::Barrier { group: "g".into(), count: 4 };
    for i in 0..3 {
        let question = registry(barrier.clone());
        vm.says(hosts[i], tasks[i], ToDaemon::Ask { number: 1, question });
    }
    vm.run(ms(100));
    vm.left(2, tasks[3]);
    vm.run(ms(100));
    for task in &tasks[..3] {
        let answer = Err(Fault::Broken);
        assert_eq!(vm.take(*task), [Got::Said(ToTask::Answer { number: 1, answer })]);
    }
    // A host is lost: its member is gone from the group, and so is what it left in the mailbox.
    vm.world.crash(1);
    vm.run(ms(3000));
    vm.got.clear();
    let members = registry(RegistryOp::Members("g".into()));
    let Ok(Answer::Registry(RegistryAnswer::Members { members, .. })) =
        vm.ask(2, tasks[2], members)
    else {
        panic!()
    };
    assert_eq!(members, [Some(tasks[0]), None, Some(tasks[2])]);
    let get =
        RegistryOp::Get { name: "m".into(), index: None, from: 0, delete: false, wait: false };
    assert_eq!(vm.ask(2, tasks[2], registry(get.clone())), Err(Fault::NotFound));
    // The leader is lost: whoever waits for it, or asks, is told.
    let wait =
        RegistryOp::Get { name: "m".into(), index: None, from: 0, delete: false, wait: true };
    vm.says(2, tasks[2], ToDaemon::Ask { number: 2, question: registry(wait) });
    vm.run(ms(100));
    assert_eq!(vm.take(tasks[2]), []);
    vm.world.crash(0);
    vm.run(ms(3000));
    let frozen = |got: &Got| {
        matches!(got, Got::Said(ToTask::Answer { number: 2, answer: Err(Fault::Frozen(Some(_))) }))
    };
    assert!(vm.take(tasks[2]).iter().any(frozen));
    assert!(matches!(vm.ask(2, tasks[2], registry(get)), Err(Fault::Frozen(Some(_)))));
}

#[test]
fn a_child_knows_its_family_and_its_parent_catches_its_output() {
    let mut vm = Vm::up(3);
    let parent = vm.enrol(1);
    vm.says(1, parent, ToDaemon::CatchOutput(true));
    let program = Program { run_us: 300_000, output_bytes: 100_000, status: 4 };
    let TaskSpec { program, args, env, .. } = program.spec(0, false);
    let spawn = SpawnTasks { program, args, env, count: 3, context: 9, ..SpawnTasks::default() };
    let question = Question::Spawn(spawn);
    vm.says(1, parent, ToDaemon::Ask { number: 5, question });
    vm.run(ms(50));
    let mut caught = 0;
    let mut children = vec![];
    for got in vm.take(parent) {
        match got {
            Got::Said(ToTask::Answer { number: 5, answer: Ok(Answer::Spawned(results)) }) => {
                children = results.into_iter().map(|r| r.expect("started")).collect();
            }
            Got::Said(ToTask::Output { bytes, .. }) => caught += bytes.len() as u32,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(caught, 3 * (32 << 10), "no more until it is paid for");
    let mut slots: Vec<u16> = children.iter().map(|t| t.host().slot()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [1, 1, 3], "the least loaded: the parent is on the second");
    // They enrol with what they were started with, and no other way.
    let (child, cookie) = vm.started.iter().find(|(t, _)| *t == children[0]).copied().unwrap();
    let host = usize::from(child.host().slot()) - 1;
    for cookie in [cookie + 1, cookie, cookie] {
        let claim = Some(Claim { task: child, cookie });
        let enrol = Enrol { version: TALK_VERSION, claim, pid: 2, command: "child".into() };
        let task = vm.world.with(host, |n, now, m| n.task_enrol(now, &enrol, m));
        vm.run(ms(1));
        let task = task.unwrap().unwrap();
        let [Got::Said(ToTask::Welcome(welcome))] = &vm.take(task)[..] else { panic!() };
        if task == child {
            assert_eq!((welcome.parent, welcome.context), (Some(parent), 9));
            assert_eq!(welcome.siblings, children);
        } else {
            assert_eq!((welcome.parent, &welcome.siblings[..]), (None, &[][..]));
        }
    }
    // What is paid for comes, to the end.
    let mut ended = 0;
    for _ in 0..20 {
        vm.says(1, parent, ToDaemon::OutputCredit(50_000));
        vm.run(ms(50));
        for got in vm.take(parent) {
            let Got::Said(ToTask::Output { bytes, .. }) = got else { panic!("{got:?}") };
            caught += bytes.len() as u32;
            ended += u32::from(bytes.is_empty());
        }
    }
    assert_eq!((caught, ended), (300_000, 3));
}

#[test]
fn two_hosts_that_cannot_reach_each_other_stay_and_their_tasks_go_on_with_others() {
    let mut vm = Vm::up(4);
    let (a, b, c) = (vm.enrol(1), vm.enrol(2), vm.enrol(3));
    for seq in 0..3 {
        assert!(vm.send(1, a, b, seq, 1000) && vm.send(2, b, a, seq, 1000));
        assert!(vm.send(1, a, c, seq, 1000) && vm.send(2, b, c, seq, 1000));
    }
    vm.run(ms(200));
    assert_eq!([a, b, c].map(|task| vm.seqs(task).len()), [3, 3, 6]);
    let ids = [1, 2, 3].map(|h| vm.me(h));
    vm.world.apart.part(1, 2);
    vm.world.apart.part(2, 1);
    vm.run(ms(4000));
    // Both are told at once that the other is gone; what they send is not delivered late.
    assert_eq!(vm.take(a), [Got::Said(ToTask::Gone { peer: b })]);
    assert_eq!(vm.take(b), [Got::Said(ToTask::Gone { peer: a })]);
    vm.run(ms(60_000));
    assert!(vm.send(1, a, c, 3, 1000) && vm.send(2, b, c, 3, 1000));
    vm.world.apart.join(1, 2);
    vm.world.apart.join(2, 1);
    vm.run(ms(15_000));
    let lost = |(_, e): &&(usize, NodeEvent)| matches!(e, NodeEvent::HostLost(_));
    assert_eq!(vm.others.iter().find(lost), None);
    assert_eq!([1, 2, 3].map(|h| vm.me(h)), ids, "they are who they were");
    assert_eq!((vm.take(a), vm.take(b), vm.seqs(c).len()), (Vec::new(), Vec::new(), 2));
    // Others of both hosts know nothing of it.
    let [here, there] = [1, 2].map(|host| vm.enrol(host));
    assert!(vm.send(1, here, there, 0, 1000));
    vm.run(ms(200));
    assert_eq!(vm.seqs(there).len(), 1);
    vm.nothing_is_left();
}
