//! What a task says to its daemon, and makes of what that says.

use towpath_task::{Answer as Told, Ending, Fault, RegistryAnswer, Stream, TaskInfo};
use towpath_vm::talk::{Mailbox as TaskBox, ToDaemon, ToTask};
use towpath_wire::talk::Header;

use super::super::contract::Place;
use super::super::daemon::{Daemon, Said, enrolled, host, host_id, task_id, welcome};
use super::*;

const ONE: i32 = 1 << 18;
const TWO: i32 = 2 << 18;
const THREE: i32 = 3 << 18;

/// Task 5 of host `one`.
fn member() -> (Member, Daemon) {
    let (task, daemon) = enrolled(welcome(task_id(1, 5)));
    (Member::new(task), daemon)
}

fn lost(mut host: towpath::Host) -> towpath::Host {
    host.state = HostState::Lost;
    host
}

fn info(id: TaskId, parent: Option<TaskId>, enrolled: bool) -> TaskInfo {
    TaskInfo {
        id,
        requester: id.host(),
        pid: 70 + id.pvm_tid() % 10,
        age_us: 0,
        command: "/bin/a b".into(),
        parent,
        enrolled,
        started: true,
        channels: 0,
        reserved_bps: 0,
    }
}

fn header(src: TaskId, tag: i64, context: u32, seq: u32) -> Header {
    Header { src, dst: task_id(1, 5), tag, context, seq, format: 8, total: 0, offset: 0 }
}

/// Takes in what comes until there is what was waited for.
fn until<R>(member: &mut Member, mut look: impl FnMut(&mut Member) -> Option<R>) -> R {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look(member) {
            return found;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "it did not come");
        member.wait(Some(left)).unwrap();
    }
}

/// The task has heard that a peer is gone.
fn gone(member: &mut Member, daemon: &Daemon, peer: TaskId) {
    daemon.say(&ToTask::Gone { peer });
    daemon.say(&ToTask::Notice {
        watch: 0,
        event: WatchEvent::TaskEnded { task: peer, ending: None },
    });
    until(member, Vm::event);
}

#[test]
fn a_task_is_who_its_daemon_says() {
    let mut known = welcome(task_id(1, 5));
    known.parent = Some(task_id(2, 9));
    known.siblings = vec![task_id(1, 5), task_id(3, 6)];
    known.context = 0x7fff_fffd;
    let (task, daemon) = enrolled(known);
    let mut member = Member::new(task);
    let siblings = vec![ONE | 5, THREE | 6];
    let expected = Identity { tid: ONE | 5, parent: Some(TWO | 9), siblings, context: -3 };
    assert_eq!(member.identity(), expected);
    // The hosts of its family are known: nobody is asked for them.
    for (tid, slot) in [(ONE, 1), (TWO | 9, 2), (THREE | 1, 3)] {
        assert_eq!(member.host(tid), Ok(Some(host_id(slot, 1))));
    }
    assert_eq!(daemon.said(), []);
    let (task, _daemon) = enrolled(welcome(task_id(1, 7)));
    let identity = Member::new(task).identity();
    assert_eq!((identity.tid, identity.parent, identity.siblings.len()), (ONE | 7, None, 0));
}

#[test]
fn hosts_that_are_there_have_pvms_names() {
    let (mut member, daemon) = member();
    let mut hosts = vec![
        host(host_id(1, 1), "one", "x86_64-linux"),
        lost(host(host_id(2, 1), "two", "x86_64-linux")),
        host(host_id(3, 4), "three", "odd"),
    ];
    hosts[2].speed = 7;
    daemon.hosts(hosts);
    let row = |tid, name: &str, arch: &str, speed| {
        let (name, arch) = (name.into(), arch.into());
        HostRow { tid, name, arch, speed, dsig: DSIG }
    };
    let expected = vec![row(ONE, "one", "LINUX64", 1001), row(THREE, "three", "odd", 7)];
    assert_eq!(member.hosts(), Ok(expected));
    // From then on they are known.
    daemon.said();
    assert_eq!(member.host(THREE), Ok(Some(host_id(3, 4))));
    assert_eq!(daemon.said(), []);
    assert_eq!(member.host(TWO), Ok(None));
    assert_eq!(daemon.said().len(), 1);
}

#[test]
fn a_host_that_is_doubted_is_asked_for_and_an_old_life_hides_no_new_one() {
    let (mut member, daemon) = member();
    let (first, second) = (host_id(2, 1), host_id(2, 3));
    member.learn(second);
    member.learn(first);
    member.doubt(first);
    assert_eq!((member.host(TWO), daemon.said().len()), (Ok(Some(second)), 0));
    daemon.hosts(vec![host(second, "two", "")]);
    member.doubt(second);
    assert_eq!((member.host(TWO), daemon.said().len()), (Ok(Some(second)), 1), "it is there");
    assert_eq!((member.host(TWO), daemon.said().len()), (Ok(Some(second)), 0));
    daemon.hosts(Vec::new());
    member.doubt(second);
    assert_eq!(member.host(TWO), Ok(None));
    assert_eq!(member.task(TWO | 4), Ok(None));
    member.learn(host_id(2, 4));
    assert_eq!(member.task(TWO | 4), Ok(host_id(2, 4).task(4)));
    assert_eq!(member.task(ONE), Ok(None), "no task has the number 0");
}

#[test]
fn messages_come_with_pvms_numbers() {
    let (mut member, daemon) = member();
    let other = task_id(2, 9);
    daemon.deliver(header(other, 4, 0x7fff_ffff, 0), b"first");
    daemon.deliver(header(other, 1 << 40, 7, 1), b"second");
    let envelope = |tag, context| Envelope { tag, context, format: 8 };
    let Incoming { source, envelope: first, body } =
        until(&mut member, |member| member.take().unwrap());
    assert_eq!((source, first, body.bytes()), (TWO | 9, envelope(4, -1), &b"first"[..]));
    let second = until(&mut member, |member| member.take_matching(None, None, 7).unwrap());
    assert_eq!((second.envelope, second.body.bytes()), (envelope(i32::MAX, 7), &b"second"[..]));
    assert!(member.take().unwrap().is_none());
    // Its host is known now.
    daemon.said();
    assert_eq!((member.host(TWO), daemon.said().len()), (Ok(Some(host_id(2, 1))), 0));
}

#[test]
fn messages_are_taken_by_source_tag_and_context() {
    let (mut member, daemon) = member();
    let (a, b) = (task_id(2, 9), task_id(1, 6));
    for (n, (src, tag, context)) in
        [(a, 1, 0), (b, 1, 0), (a, 2, 0), (a, 1, 5)].into_iter().enumerate()
    {
        let seq = if src == b { 0 } else { [0, 0, 1, 2][n] };
        daemon.deliver(header(src, tag, context, seq), &[n as u8]);
    }
    let mut take = |source, tag, context| {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let taken = member.take_matching(source, tag, context).unwrap();
            if let Some(taken) = taken {
                return taken.body.bytes()[0];
            }
            assert!(Instant::now() < end, "it did not come");
            member.wait(Some(Duration::from_secs(1))).unwrap();
        }
    };
    assert_eq!(take(Some(TWO | 9), Some(1), 5), 3);
    assert_eq!(take(Some(ONE | 6), None, 0), 1);
    assert_eq!(take(None, Some(2), 0), 2);
    assert_eq!(take(Some(TWO | 9), Some(1), 0), 0);
    for (source, tag) in [(None, None), (Some(TWO | 9), None), (Some(THREE | 1), None)] {
        assert!(member.take_matching(source, tag, 0).unwrap().is_none());
    }
}

#[test]
fn messages_go_to_tasks_of_hosts_that_are_there() {
    let (mut member, daemon) = member();
    let envelope = Envelope { tag: -4, context: -2, format: 16 };
    assert_eq!(member.send(TWO | 9, envelope, &[b"ab", b"c"]), Ok(()));
    let Said::Data(header, body) = daemon.heard() else { panic!("no message") };
    assert_eq!((header.dst, header.src, header.tag), (task_id(2, 9), task_id(1, 5), -4));
    assert_eq!((header.context, header.format, body), (0x7fff_fffe, 16, b"abc".to_vec()));
    // Nobody is there: silence.
    assert_eq!(member.send(THREE | 9, envelope, &[b"x"]), Ok(()));
    let mut loan = member.loan(8).unwrap_or_else(|| Loan::own(8));
    loan[..6].copy_from_slice(b"sealed");
    assert_eq!(member.send_sealed(TWO | 7, envelope, &loan.seal(6)), Ok(()));
    let Said::Data(header, body) = daemon.heard() else { panic!("no message") };
    assert_eq!((header.dst, body), (task_id(2, 7), b"sealed".to_vec()));
    assert_eq!(member.multicast(&[TWO | 1, THREE | 9, TWO | 2], envelope, &[b"m"]), Ok(()));
    assert!(matches!(daemon.heard(), Said::Many(_) | Said::Data(..)));
}

/// The number of a task whose host is gone may be another's, of the slot's next life.
#[test]
fn what_a_task_that_is_gone_would_get_goes_to_who_has_its_number_now() {
    let (mut member, daemon) = member();
    let envelope = Envelope { tag: 4, context: 0, format: 8 };
    member.send(TWO | 9, envelope, &[b"old"]).unwrap();
    assert!(matches!(daemon.heard(), Said::Data(..)));
    daemon.hosts(vec![host(host_id(2, 2), "two", "")]);
    gone(&mut member, &daemon, task_id(2, 9));
    member.send(TWO | 9, envelope, &[b"new"]).unwrap();
    let Said::Data(header, body) = daemon.heard() else { panic!("no message") };
    assert_eq!((header.dst, body), (host_id(2, 2).task(9).unwrap(), b"new".to_vec()));
    // On this host no number is anybody else's.
    daemon.said();
    member.send(ONE | 6, envelope, &[b"own"]).unwrap();
    assert!(matches!(daemon.heard(), Said::Data(..)));
    gone(&mut member, &daemon, task_id(1, 6));
    daemon.said();
    assert_eq!(member.send(ONE | 6, envelope, &[b"own"]), Ok(()));
    assert_eq!(member.host(ONE), Ok(Some(host_id(1, 1))));
    assert_eq!(daemon.said(), [], "its host is not doubted");
}

#[test]
fn events_are_those_of_pvm() {
    let (mut member, daemon) = member();
    let (a, b) = (task_id(2, 9), task_id(2, 8));
    let notice = |watch, event| daemon.say(&ToTask::Notice { watch, event });
    notice(1, WatchEvent::TaskEnded { task: a, ending: Some(Ending::Exited(3)) });
    notice(2, WatchEvent::HostAdded(host(host_id(3, 2), "three", "")));
    notice(3, WatchEvent::HostGone { host: host_id(3, 2), lost: true });
    daemon.say(&ToTask::Output { task: b, stream: Stream::Out, bytes: b"text".to_vec() });
    let watched = |watch, tid, status| Event::Watched { watch, tid, status };
    let output = Event::Output { tid: TWO | 8, bytes: b"text".to_vec() };
    for event in [watched(1, TWO | 9, 0x300), watched(2, THREE, 0), watched(3, THREE, 0), output] {
        assert_eq!(until(&mut member, Vm::event), event);
    }
    assert!(!member.has_event() && member.event().is_none());
    // The host that went is asked for.
    daemon.hosts(Vec::new());
    assert_eq!(member.host(THREE), Ok(None));
}

#[test]
fn who_has_taken_all_in_may_wait_for_the_descriptor() {
    let (mut member, daemon) = member();
    let shown = member.descriptor();
    assert!(shown >= LOWEST);
    assert_eq!(member.descriptor(), shown, "it is always the same");
    assert_ne!(member.task.descriptor().as_raw_fd(), shown, "and a copy");
    assert_eq!((member.arm(), member.is_armed(), member.has_event()), (Ok(true), true, false));
    let nap = member.settle().unwrap().unwrap();
    assert_eq!((nap.descriptor, nap.until), (member.task.descriptor().as_raw_fd(), None));
    let before = member.came();
    daemon.say(&ToTask::Output { task: task_id(1, 6), stream: Stream::Out, bytes: vec![1] });
    until(&mut member, |member| member.has_event().then_some(()));
    assert!(member.came() > before);
    assert_eq!((member.arm(), member.settle().map(|nap| nap.is_none())), (Ok(false), Ok(true)));
    assert!(member.event().is_some());
    assert_eq!(member.arm(), Ok(true));
    assert_eq!(daemon.heard(), Said::Control(ToDaemon::OutputCredit(1)));
    Box::new(member).leave();
    assert_eq!(daemon.heard(), Said::Control(ToDaemon::Leave));
}

#[test]
fn groups_and_mailboxes_are_asked_for_without_waiting() {
    let (mut member, daemon) = member();
    let answer = |member: &mut Member, number| until(member, |member| member.answer(number));
    daemon.answers_of_registry(RegistryAnswer::Done);
    let number = member.ask(Question::Barrier { group: "g", count: 3 }).unwrap();
    assert!(matches!(answer(&mut member, number), Ok(Answer::Passed)));
    let members = vec![Some(task_id(1, 5)), None, Some(host_id(3, 2).task(1).unwrap())];
    daemon.answers_of_registry(RegistryAnswer::Members { members, version: 1, context: 9 });
    let number = member.ask(Question::Freeze { group: "g", count: 2 }).unwrap();
    let Ok(Answer::Members(members)) = answer(&mut member, number) else { panic!("no members") };
    assert_eq!(members, [ONE | 5, 0, THREE | 1]);
    let rules = towpath::MailRules::default();
    daemon.answers_of_registry(RegistryAnswer::Mail {
        index: 4,
        owner: None,
        rules,
        format: 0,
        content: b"content".to_vec(),
    });
    let wanted = MailWanted { index: 4, wait: true, ..MailWanted::default() };
    let number = member.ask(Question::Mail { name: "box", wanted }).unwrap();
    let Ok(Answer::Mail(mail)) = answer(&mut member, number) else { panic!("no mail") };
    assert_eq!(mail, Mail { index: 4, content: b"content".to_vec() });
    daemon.answers(Ok(Told::Done));
    let number = member.ask(Question::Barrier { group: "g", count: 0 }).unwrap();
    assert!(matches!(answer(&mut member, number), Err(Code::DSysErr)), "of another question");
    daemon.answers(Err(Fault::NotInGroup));
    let number = member.ask(Question::Barrier { group: "g", count: 0 }).unwrap();
    assert!(matches!(answer(&mut member, number), Err(Code::NotInGroup)));
    assert!(member.answer(number).is_none(), "once");
    let asked: Vec<_> = daemon.asked().into_iter().take(3).collect();
    let op = towpath::Question::Registry;
    let get =
        RegistryOp::Get { name: "box".into(), index: Some(4), from: 4, delete: false, wait: true };
    assert_eq!(
        asked,
        [
            op(RegistryOp::Barrier { group: "g".into(), count: 3 }),
            op(RegistryOp::Freeze { group: "g".into(), count: 2 }),
            op(get)
        ]
    );
    // Members' hosts are known.
    assert_eq!((member.host(THREE), daemon.said().len()), (Ok(Some(host_id(3, 2))), 0));
}

#[test]
fn groups_have_members_by_instance() {
    let (mut member, daemon) = member();
    let op = |op| towpath::Question::Registry(op);
    daemon.answers_of_registry(RegistryAnswer::Instance(3));
    assert_eq!(member.join("g"), Ok(3));
    daemon.answers_of_registry(RegistryAnswer::Done);
    assert_eq!(member.leave_group("g"), Ok(()));
    let members = vec![None, Some(task_id(2, 4))];
    daemon.answers_of_registry(RegistryAnswer::Members { members, version: 1, context: 0 });
    assert_eq!(member.members("g"), Ok(vec![0, TWO | 4]));
    daemon.answers(Err(Fault::NoGroup));
    assert_eq!(member.members("g"), Err(Code::NoGroup));
    let name = || "g".to_owned();
    let members = || op(RegistryOp::Members(name()));
    let expected =
        [op(RegistryOp::Join(name())), op(RegistryOp::Leave(name())), members(), members()];
    assert_eq!(daemon.asked(), expected);
}

#[test]
fn entries_of_mailboxes_have_the_places_of_pvm() {
    let (mut member, daemon) = member();
    let put = |index, many| RegistryOp::Put {
        name: "box".into(),
        index,
        rules: towpath::MailRules { many, ..towpath::MailRules::default() },
        format: 0,
        content: vec![7],
    };
    for (index, many, place) in
        [(0, false, Some(0)), (3, false, Some(3)), (0, true, None), (1, true, Some(1))]
    {
        daemon.answers_of_registry(RegistryAnswer::Index(9));
        let rules = MailRules { many, ..MailRules::default() };
        assert_eq!(member.mail_put("box", index, rules, vec![7]), Ok(9));
        assert_eq!(daemon.asked(), [towpath::Question::Registry(put(place, many))]);
    }
    for (fault, code) in [
        (Fault::Exists, Code::Denied),
        (Fault::Denied, Code::Denied),
        (Fault::NotFound, Code::NotFound),
    ] {
        daemon.answers(Err(fault));
        assert_eq!(member.mail_put("box", 0, MailRules::default(), Vec::new()), Err(code));
    }
    let rules = towpath::MailRules { persistent: true, ..towpath::MailRules::default() };
    let (format, content) = (0, vec![1, 2]);
    daemon.answers_of_registry(RegistryAnswer::Mail {
        index: 6,
        owner: None,
        rules,
        format,
        content,
    });
    let wanted = MailWanted { index: 6, later: true, ..MailWanted::default() };
    assert_eq!(member.mail_get("box", wanted), Ok(Mail { index: 6, content: vec![1, 2] }));
    daemon.said();
    daemon.answers_of_registry(RegistryAnswer::Done);
    assert_eq!(member.mail_delete("box", 6), Ok(()));
    let delete = RegistryOp::Delete { name: "box".into(), index: 6 };
    assert_eq!(daemon.asked(), [towpath::Question::Registry(delete)]);
    let entries = vec![(6, None, rules), (7, Some(task_id(2, 4)), towpath::MailRules::default())];
    let boxes = vec![TaskBox { name: "box".into(), entries }];
    daemon.answers_of_registry(RegistryAnswer::Mailboxes(boxes));
    let persistent = MailRules { persistent: true, ..MailRules::default() };
    let entries = vec![(6, 0, persistent), (7, TWO | 4, MailRules::default())];
    assert_eq!(member.mailboxes("b*"), Ok(vec![("box".into(), entries)]));
}

#[test]
fn hosts_are_deleted_and_their_clocks_read() {
    let (mut member, daemon) = member();
    daemon.answers(Ok(Told::Each(vec![Ok(()), Err(Fault::Denied)])));
    assert_eq!(member.delete_hosts(&[TWO, ONE]), Ok(vec![0, Code::Denied.number()]));
    let hosts = vec![host_id(2, 1), host_id(1, 1)];
    assert_eq!(daemon.asked(), [towpath::Question::DeleteHosts(hosts)]);
    assert_eq!(member.delete_hosts(&[TWO, THREE]), Err(Code::NoHost));
    assert_eq!(daemon.asked(), []);
    daemon.answers(Ok(Told::Clock(77)));
    assert_eq!((member.clock(TWO), member.clock(THREE)), (Ok(77), Err(Code::NoHost)));
    daemon.answers(Ok(Told::Done));
    assert_eq!(member.halt(), Ok(()));
    let asked = [towpath::Question::Clock(host_id(2, 1)), towpath::Question::Halt];
    assert_eq!(daemon.asked(), asked);
    assert_eq!(member.halt(), Err(Code::SysErr), "not joined");
}

#[test]
fn tasks_of_the_machine_are_listed() {
    let (mut member, daemon) = member();
    let starter = "towpath pvm --by-tasker 3 --flags=0 -- /bin/c d";
    let mut stands = info(task_id(2, 3), Some(task_id(1, 5)), false);
    stands.command = starter.into();
    let mut asks = info(task_id(2, 4), None, true);
    asks.pid = stands.pid;
    let tasks = vec![
        info(task_id(2, 1), None, true),
        // Started by `towpath run`, and no task yet.
        info(task_id(2, 2), None, false),
        stands.clone(),
        asks,
    ];
    daemon.answers(Ok(Told::Tasks(tasks)));
    let row = |number, parent, program: &str, pid: u32| {
        let (program, pid) = (program.into(), pid.cast_signed());
        TaskRow { tid: TWO | number, parent, host: TWO, program, pid }
    };
    let own = info(task_id(2, 1), None, true).pid;
    let expected = vec![row(1, 0, "/bin/a", own), row(3, ONE | 5, "/bin/c", stands.pid)];
    assert_eq!(member.tasks(TWO), Ok(expected));
    daemon.answers(Ok(Told::Tasks(Vec::new())));
    assert_eq!((member.tasks(0), member.tasks(THREE)), (Ok(Vec::new()), Err(Code::NoHost)));
    let asked = [towpath::Question::Tasks(Some(host_id(2, 1))), towpath::Question::Tasks(None)];
    assert_eq!(daemon.asked(), asked);
}

#[test]
fn whether_a_task_runs_is_asked_of_its_host() {
    let (mut member, daemon) = member();
    let parent = Some(task_id(1, 5));
    for (answer, runs) in [
        (Ok(Told::Tasks(vec![info(task_id(2, 9), None, true)])), Ok(true)),
        (Ok(Told::Tasks(vec![info(task_id(2, 9), parent, false)])), Ok(true)),
        (Ok(Told::Tasks(vec![info(task_id(2, 9), None, false)])), Ok(false)),
        (Err(Fault::NoTask), Ok(false)),
        (Err(Fault::NoHost), Ok(false)),
        (Err(Fault::HostLost), Ok(false)),
        (Err(Fault::NotJoined), Err(Code::SysErr)),
    ] {
        daemon.answers(answer);
        assert_eq!(member.runs(TWO | 9), runs);
        assert_eq!(daemon.asked(), [towpath::Question::Task(task_id(2, 9))]);
    }
    assert_eq!((member.runs(THREE | 1), daemon.asked()), (Ok(false), vec![]));
    daemon.answers(Ok(Told::Done));
    assert_eq!(member.signal(TWO | 9, 10), Ok(()));
    assert_eq!(member.signal(THREE | 9, 10), Err(Code::NoTask));
    let signal = towpath::Question::Signal { task: task_id(2, 9), signal: 10 };
    assert_eq!(daemon.asked(), [signal]);
}

fn wanted(place: Place, count: u32) -> SpawnRequest {
    SpawnRequest {
        program: b"/bin/a".to_vec(),
        args: vec![b"b".to_vec()],
        flags: 0,
        env: vec![(b"X".to_vec(), b"y".to_vec())],
        place,
        count,
        context: -3,
        orphan: true,
    }
}

#[test]
fn tasks_are_started_where_the_program_wants() {
    let (mut member, daemon) = member();
    daemon.hosts(vec![
        lost(host(host_id(4, 1), "two", "x86_64-linux")),
        host(host_id(1, 1), "one", "x86_64-linux"),
        host(host_id(2, 1), "two", "aarch64-linux"),
    ]);
    let on = |slot| Some(towpath::Place::Host(host_id(slot, 1)));
    let arch = Some(towpath::Place::Arch("x86_64-linux".into()));
    for (place, found) in [
        (Place::Any, Some(towpath::Place::Any)),
        (Place::Here, on(1)),
        (Place::On(TWO | 9), on(2)),
        (Place::On(THREE), None),
        (Place::Named("two".into()), on(2)),
        (Place::Named("three".into()), None),
        (Place::Arch("LINUX64".into()), arch),
        (Place::Arch("VAX".into()), None),
        (Place::NotNamed("one".into()), Some(towpath::Place::Not(host_id(1, 1)))),
        (Place::NotNamed("two".into()), Some(towpath::Place::Not(host_id(2, 1)))),
        (Place::NotNamed("three".into()), Some(towpath::Place::Any)),
        (Place::NotArch("LINUX64".into()), on(2)),
        (Place::NotArch("VAX".into()), on(1)),
    ] {
        assert_eq!(member.place(&place), Ok(found), "{place:?}");
    }
}

#[test]
fn what_is_spawned_is_told_to_the_daemon() {
    let (mut member, daemon) = member();
    let no_taskers = || daemon.answers_of_registry(RegistryAnswer::Mailboxes(Vec::new()));
    no_taskers();
    let child = host_id(3, 2).task(1).unwrap();
    daemon.answers(Ok(Told::Spawned(vec![Ok(child), Err(Fault::NoHost)])));
    let spawned = member.spawn(&wanted(Place::On(TWO), 2));
    assert_eq!(spawned, Ok(vec![THREE | 1, Code::NoHost.number()]));
    let Some(towpath::Question::Spawn(tasks)) = daemon.asked().pop() else { panic!("no spawn") };
    assert_eq!((tasks.program, tasks.args), (b"/bin/a".to_vec(), vec![b"b".to_vec()]));
    assert_eq!((tasks.place, tasks.count), (towpath::Place::Host(host_id(2, 1)), 2));
    assert_eq!((tasks.context, tasks.orphan, tasks.cwd), (0x7fff_fffd, true, Vec::new()));
    assert_eq!(tasks.env[0], (b"X".to_vec(), b"y".to_vec()));
    for (name, _) in &tasks.env[1..] {
        assert!(PASSED_ON.iter().any(|passed| passed.as_bytes() == name), "{name:?}");
    }
    assert_eq!((member.host(THREE), daemon.said()), (Ok(Some(host_id(3, 2))), vec![]));
    // Where nothing can be started nobody is asked to.
    assert_eq!(member.spawn(&wanted(Place::Any, SPAWN_MAX + 1)), Err(Code::OutOfRes));
    let nowhere = member.spawn(&wanted(Place::Named("nowhere".into()), 2));
    assert_eq!(nowhere, Ok(vec![Code::NoHost.number(); 2]));
    let nameless = SpawnRequest { program: Vec::new(), ..wanted(Place::Any, 3) };
    assert_eq!(member.spawn(&nameless), Ok(vec![Code::NoFile.number(); 3]));
    assert_eq!(daemon.asked(), []);
    no_taskers();
    daemon.answers(Ok(Told::Spawned(Vec::new())));
    assert_eq!(member.spawn(&wanted(Place::Any, SPAWN_MAX)), Ok(Vec::new()));
    daemon.said();
    member.catch_output(true).unwrap();
    assert_eq!(daemon.heard(), Said::Control(ToDaemon::CatchOutput(true)));
}

#[test]
fn where_there_is_a_tasker_it_starts_programs() {
    let (mut member, daemon) = member();
    let tasker = task_id(2, 4);
    let rules = towpath::MailRules::default();
    let entries = vec![(0, Some(tasker), rules), (1, None, rules), (2, Some(tasker), rules)];
    let boxes = vec![TaskBox { name: "taskers".into(), entries }];
    daemon.answers_of_registry(RegistryAnswer::Mailboxes(boxes));
    daemon.answers(Ok(Told::Spawned(Vec::new())));
    let request = SpawnRequest { flags: 65, ..wanted(Place::Any, 1) };
    member.spawn(&request).unwrap();
    let Some(towpath::Question::Spawn(tasks)) = daemon.asked().pop() else { panic!("no spawn") };
    assert_eq!(tasks.program, b"towpath");
    let args: Vec<String> =
        tasks.args.into_iter().map(|arg| String::from_utf8(arg).unwrap()).collect();
    let numbers = format!("{0},{0}", tasker.to_raw());
    assert_eq!(args, ["pvm", "--by-tasker", &numbers, "--flags=65", "--", "/bin/a", "b"]);
}

#[test]
fn watches_are_for_tasks_hosts_and_what_is_gone() {
    let (mut member, daemon) = member();
    let runs = || daemon.answers(Ok(Told::Tasks(vec![info(task_id(2, 9), None, true)])));
    runs();
    let task = member.watch(Watched::Task(TWO | 9)).unwrap();
    let watched = |watch, subject| Said::Control(ToDaemon::Watch { watch, subject });
    assert_eq!(daemon.heard(), watched(task, Subject::Task(task_id(2, 9))));
    let host = member.watch(Watched::Host(TWO)).unwrap();
    assert_eq!(daemon.heard(), watched(host, Subject::Host(host_id(2, 1))));
    let new = member.watch(Watched::NewHosts).unwrap();
    assert_eq!(daemon.heard(), watched(new, Subject::NewHosts));
    member.unwatch(host).unwrap();
    assert_eq!(daemon.heard(), Said::Control(ToDaemon::Unwatch { watch: host }));
    assert!(member.event().is_none());
    // What is gone is told of at once.
    for (watched, tid) in [(Watched::Task(THREE | 9), THREE | 9), (Watched::Host(THREE), THREE)] {
        let watch = member.watch(watched).unwrap();
        assert_ne!(watch, new);
        assert_eq!(member.event(), Some(Event::Watched { watch, tid, status: 0 }));
        assert!(matches!(daemon.heard(), Said::Control(ToDaemon::Watch { .. })));
        assert!(matches!(daemon.heard(), Said::Control(ToDaemon::Unwatch { .. })));
    }
}

#[test]
fn the_notice_about_a_task_that_is_over_is_there_when_the_call_ends() {
    let (mut member, daemon) = member();
    let event = WatchEvent::TaskEnded { task: task_id(2, 9), ending: Some(Ending::Signalled(9)) };
    daemon.ended(ToTask::Notice { watch: 0, event });
    daemon.answers(Err(Fault::NoTask));
    let watch = member.watch(Watched::Task(TWO | 9)).unwrap();
    assert!(member.has_event());
    assert_eq!(member.event(), Some(Event::Watched { watch, tid: TWO | 9, status: 9 }));
    // Where none comes, the call ends all the same.
    daemon.answers(Err(Fault::NoTask));
    let before = Instant::now();
    member.watch(Watched::Task(TWO | 9)).unwrap();
    let waited = before.elapsed();
    assert!((NOTICE_TIME..NOTICE_TIME * 10).contains(&waited), "{waited:?}");
    assert!(!member.has_event());
}

#[test]
fn hosts_are_added_by_a_program_of_ours_on_the_founder() {
    let (mut member, daemon) = member();
    let names = ["two lo=x".to_owned(), "three".to_owned(), "four sp=2".to_owned()];
    let starter = task_id(1, 8);
    daemon.answers(Ok(Told::Spawned(vec![Ok(starter)])));
    let event = WatchEvent::TaskEnded { task: starter, ending: Some(Ending::Exited(0)) };
    daemon.ended(ToTask::Notice { watch: 0, event });
    let codes = [Code::DupHost, Code::CantStart, Code::CantStart].map(Code::number);
    assert_eq!(member.add_hosts(&names), Ok(codes.to_vec()));
    let Some(towpath::Question::Spawn(tasks)) = daemon.asked().pop() else { panic!("no spawn") };
    let args: Vec<String> =
        tasks.args.into_iter().map(|arg| String::from_utf8(arg).unwrap()).collect();
    assert_eq!(args, ["pvm", "--add", "three", "--add", "four sp=2"]);
    assert_eq!((tasks.program, tasks.count, tasks.orphan), (b"towpath".to_vec(), 1, true));
    assert_eq!(tasks.place, towpath::Place::Host(host_id(1, 1)));
    assert!(member.event().is_none(), "the program hears nothing of it");
    // All there already: nothing is started.
    let known = ["one".to_owned(), "two".to_owned()];
    assert_eq!(member.add_hosts(&known), Ok(vec![Code::DupHost.number(); 2]));
    assert_eq!(daemon.asked(), []);
    daemon.answers(Ok(Told::Spawned(vec![Err(Fault::NoHost)])));
    assert_eq!(member.add_hosts(&names), Err(Code::NoHost));
    daemon.answers(Ok(Told::Spawned(Vec::new())));
    assert_eq!(member.add_hosts(&names), Err(Code::SysErr));
}
