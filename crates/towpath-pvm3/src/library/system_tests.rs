//! Questions that a hoster or tasker is asked, and what comes of those that nobody answers.

use super::*;
use crate::vm::fake::World;

const ONE: i32 = 1 << 18;
const TWO: i32 = 2 << 18;

fn of(ints: &[i32]) -> Message {
    let mut message = blank();
    for &int in ints {
        message.pack_int(int).unwrap();
    }
    message
}

/// A task that may use reserved tags.
fn system_task(world: &World) -> Library {
    let library = world.library();
    library.set_option(11, 1).unwrap();
    library
}

fn say(library: &Library, (to, tag, wait): (i32, i32, i32), ints: &[i32]) -> Outcome {
    library.init_send(0).unwrap();
    library.with(|session| {
        let message = session.buffers.sending().unwrap();
        message.info.wait = wait;
        for &int in ints {
            message.pack_int(int).unwrap();
        }
    });
    library.send(to, tag)
}

/// The next message with this tag: what stands beside it, and its ints.
fn hear(library: &Library, tag: i32) -> (Info, Vec<i32>) {
    let until = Instant::now() + Duration::from_secs(20);
    let id = loop {
        // Who plays no role yet leaves messages where they are.
        library.take_all_in().unwrap();
        match library.receive(-1, tag, Wait::No).unwrap() {
            0 => assert!(Instant::now() < until, "nothing came with tag {tag:#x}"),
            id => break id,
        }
        std::thread::yield_now();
    };
    let info = library.buffer_info(id).unwrap().2;
    let ints = library.with(|session| {
        let message = session.buffers.receiving().unwrap();
        std::iter::from_fn(|| message.unpack_int().ok()).collect()
    });
    (info, ints)
}

fn nothing(library: &Library, tag: i32) -> bool {
    library.receive(-1, tag, Wait::No) == Ok(0)
}

/// Asks `to` from a thread of its own; what it is answered.
fn ask(world: &World, to: i32, tag: i32, ints: &[i32]) -> std::thread::JoinHandle<Vec<i32>> {
    let (world, question) = (world.clone(), ints.to_vec());
    std::thread::spawn(move || {
        let library = world.library();
        let answer = library.ask_task(to, tag, &of(&question), |_, _| blank());
        let mut answer = answer.unwrap().expect("an answer");
        assert!(library.with(|session| session.system.is_idle()));
        std::iter::from_fn(|| answer.unpack_int().ok()).collect()
    })
}

#[test]
fn a_tasker_is_asked_and_tells_of_the_end_of_the_task_that_was_meant() {
    let world = World::default();
    let tasker = system_task(&world);
    let to = tasker.my_tid().unwrap();
    let first = ask(&world, to, START_TASK, &[ONE | 0x4d, 1]);
    let (info, ints) = hear(&tasker, START_TASK);
    assert_eq!((ints, info.context), (vec![ONE | 0x4d, 1], 0));
    let second = ask(&world, to, START_TASK, &[ONE | 0x4e, 2]);
    assert_eq!(hear(&tasker, START_TASK).1, [ONE | 0x4e, 2]);
    // Of a task that nobody asked for nothing is told.
    assert_eq!(say(&tasker, (tid::DAEMON, TASK_OVER, 0), &[ONE | 0x4f, 0]), Ok(0));
    assert_eq!(say(&tasker, (tid::DAEMON, TASK_OVER, 0), &[ONE | 0x4e, 256]), Ok(0));
    assert_eq!(second.join().unwrap(), [ONE | 0x4e, 256]);
    assert_eq!(say(&tasker, (tid::DAEMON, TASK_OVER, 0), &[ONE | 0x4d, 9]), Ok(0));
    assert_eq!(first.join().unwrap(), [ONE | 0x4d, 9]);
}

#[test]
fn a_hosters_answer_is_for_the_question_with_its_wait_id() {
    let world = World::default();
    let hoster = system_task(&world);
    let to = hoster.my_tid().unwrap();
    // Both questions are the first of who asks, and have its wait id.
    let first = ask(&world, to, START_HOST, &[1]);
    let (one, _) = hear(&hoster, START_HOST);
    assert_eq!(one.wait, 1);
    assert_eq!(say(&hoster, (tid::DAEMON, HOST_ACK, 1), &[10]), Ok(0));
    assert_eq!(first.join().unwrap(), [10]);
    // Without a wait id it is for the oldest.
    let second = ask(&world, to, START_HOST, &[2]);
    hear(&hoster, START_HOST);
    assert_eq!(say(&hoster, (tid::DAEMON, HOST_ACK, 0), &[20]), Ok(0));
    assert_eq!(second.join().unwrap(), [20]);
    assert_eq!(say(&hoster, (tid::DAEMON, HOST_ACK, 0), &[30]), Ok(0), "nobody asked");
}

#[test]
fn of_a_tasks_questions_the_one_with_the_wait_id_is_answered() {
    let world = World::default();
    let (asker, asked) = (world.library(), system_task(&world));
    let (from, to) = (asker.my_tid().unwrap(), asked.my_tid().unwrap());
    for wait in [3, 4, 5] {
        asker
            .enrolled(|session, vm| {
                session.system.asked.insert(wait, VecDeque::new());
                let header = Header { kind: Kind::Question, tag: CONFIG, wait, host: ONE };
                Session::send_system(vm, to, header, &of(&[wait]))
            })
            .unwrap();
        assert_eq!(hear(&asked, CONFIG).0.wait, wait);
    }
    // First by its wait id, then the oldest.
    for (wait, value) in [(5, 50), (0, 30), (0, 40)] {
        assert_eq!(say(&asked, (from, CONFIG, wait), &[value]), Ok(0));
    }
    asker.take_all_in().unwrap();
    for wait in [3, 4, 5] {
        let mut pending = asker.with(|session| session.system.asked.remove(&wait)).unwrap();
        let Some(Pending::Answer(mut answer)) = pending.pop_front() else {
            panic!("no answer to {wait}")
        };
        assert_eq!((answer.unpack_int(), answer.info.source), (Ok(wait * 10), to));
        assert!(pending.is_empty());
    }
    // A message of the program's, then, as any other.
    assert_eq!(say(&asked, (from, CONFIG, 0), &[60]), Ok(0));
    assert_eq!(hear(&asker, CONFIG).1, [60]);
    assert!(nothing(&asker, -1));
}

#[test]
fn who_was_told_to_start_tasks_and_ends_has_started_none() {
    let world = World::default();
    let (asker, manager) = (world.library(), system_task(&world));
    let (from, to) = (asker.my_tid().unwrap(), manager.my_tid().unwrap());
    asker
        .enrolled(|_, vm| {
            let header = Header { kind: Kind::Question, tag: SPAWN, wait: 7, host: ONE };
            Session::send_system(vm, to, header, &blank())
        })
        .unwrap();
    hear(&manager, SPAWN);
    manager.set_context(6);
    manager
        .enrolled(|session, vm| {
            assert_eq!(session.question_of(from, TASKS), None);
            assert_eq!(session.question_of(to, SPAWN), None);
            let question = session.question_of(from, SPAWN).unwrap();
            let mut what = of(&[1]);
            what.info.wait = 33;
            session.pass_start_on(vm, question, (TWO, 2), &what)
        })
        .unwrap();
    asker.exit().unwrap();
    let (info, ints) = hear(&manager, EXEC_ACK);
    let failed = Code::NoTask.number();
    assert_eq!(ints, [2, failed, failed]);
    assert_eq!((info.source, info.wait, info.destination), (tid::DAEMON | TWO, 33, to));
    assert_eq!(info.context, 6);
    assert!(manager.with(|session| session.system.is_idle()));
}

#[test]
fn hosts_that_come_and_go_are_told_to_who_manages() {
    let world = World::default();
    let manager = system_task(&world);
    manager.become_manager().unwrap();
    world.add_host(3 << 18);
    manager.take_all_in().unwrap();
    world.lose_host(TWO);
    let (info, ints) = hear(&manager, HOST_OVER);
    assert_eq!((info.source, ints), (tid::DAEMON, vec![tid::DAEMON | TWO]));
    world.lose_host(3 << 18);
    assert_eq!(hear(&manager, HOST_OVER).1, [tid::DAEMON | 3 << 18]);
    world.lose_host(3 << 18);
    assert!(nothing(&manager, HOST_OVER), "each once");
}

#[test]
fn only_a_parent_tells_who_the_siblings_are() {
    let world = World::default();
    world.program("child", |library, _| {
        let parent = library.parent().unwrap();
        library.with(|session| session.system.awaits_siblings = true);
        hear(library, 5);
        assert!(library.with(|session| session.system.awaits_siblings), "a stranger's word");
        say(library, (parent, 6, 0), &[0]).unwrap();
        let siblings = library.siblings().unwrap();
        say(library, (parent, 7, 0), &siblings).unwrap();
    });
    let (parent, stranger) = (world.library(), world.library());
    let child = parent.spawn(b"child", &[], 0, b"", 1).unwrap()[0];
    let tell = |who: &Library, tids: &[i32]| {
        who.enrolled(|_, vm| Session::tell_siblings(vm, tids)).unwrap();
    };
    tell(&stranger, &[child, ONE | 0x37]);
    say(&stranger, (child, 5, 0), &[]).unwrap();
    hear(&parent, 6);
    // Codes stand for those that were not started.
    tell(&parent, &[child, -7, ONE | 0x38]);
    assert_eq!(hear(&parent, 7).1, [child, ONE | 0x38]);
    world.finish();
}

#[test]
fn a_task_is_announced_once_to_each_manager() {
    let world = World::default();
    let (task, first, second) = (world.library(), system_task(&world), system_task(&world));
    let me = task.my_tid().unwrap();
    let to = |manager: &Library| {
        let tid = manager.my_tid().unwrap();
        task.enrolled(|session, vm| session.announce(vm, tid)).unwrap();
    };
    to(&first);
    to(&first);
    to(&second);
    for manager in [&first, &second] {
        let (info, ints) = hear(manager, EXEC_ACK);
        assert_eq!((ints, info.source), (vec![1, me], tid::DAEMON));
        assert!(nothing(manager, -1));
    }
    // Its end is told from then on.
    task.exit().unwrap();
    assert_eq!(hear(&first, TASK_OVER).1, [me, 0, 0, 0, 0, 0]);
}

#[test]
fn every_kind_of_message_is_known_by_its_number() {
    let kinds = [
        (0, Kind::Question),
        (1, Kind::OfDaemon),
        (2, Kind::Answer),
        (3, Kind::Start),
        (4, Kind::Started),
        (5, Kind::Siblings),
    ];
    for (number, kind) in kinds {
        let header = Header { kind, tag: 0x0102, wait: 3, host: -4 };
        let bytes = header.bytes();
        let ints = [number, 0, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff];
        assert_eq!(bytes, ints);
        assert_eq!(Header::read(&bytes), Some((header, b"".as_slice())));
    }
    let mut bytes = Header { kind: Kind::Siblings, tag: 0, wait: 0, host: 0 }.bytes();
    bytes[0] = 6;
    assert_eq!(Header::read(&bytes), None);
}

#[test]
fn reserved_tags_are_those_of_pvm() {
    let tags = [
        SPAWN,
        EXEC,
        EXEC_ACK,
        TASKS,
        CONFIG,
        ADD_HOST,
        DELETE_HOST,
        ADD,
        ADD_ACK,
        NOTIFY,
        TASK_OVER,
        HOST_OVER,
        HAND_OFF,
        SCHEDULE,
        START_HOST,
        HOST_ACK,
        START_TASK,
    ];
    for (number, tag) in (0x8004_0001_u32..).zip(tags) {
        assert_eq!(tag.cast_unsigned(), number);
        assert!(is_system(tag));
    }
    assert!(!is_system(FIRST - 1) && !is_system(LAST + 1));
    let info = |tag, context| Info { context, tag, ..Info::default() };
    assert!(Session::is_system_message(&info(TAG, OWN_CONTEXT)));
    assert!(!Session::is_system_message(&info(TAG, 0)));
    assert!(!Session::is_system_message(&info(1, OWN_CONTEXT)));
}
