//! A manager, and who asks it, among tasks of a virtual machine in this process.

use std::time::{Duration, Instant};

use super::*;
use crate::library::Wait;
use crate::library::system::{
    ADD, ADD_ACK, ADD_HOST, CONFIG, DELETE_HOST, EXEC, EXEC_ACK, HAND_OFF, NOTIFY, SCHEDULE, SPAWN,
    TASK_OVER, TASKS,
};
use crate::message::{DSIG, Info};
use crate::vm::fake::World;

const ONE: i32 = 1 << 18;
const TWO: i32 = 2 << 18;

/// A task that manages and may use reserved tags.
fn manager(world: &World) -> Library {
    let library = world.library();
    let (before, first) = library.become_manager().unwrap();
    assert_eq!((before, first.tid), (0, ONE));
    library.set_option(11, 1).unwrap();
    library
}

fn say(
    library: &Library,
    (to, tag, wait): (i32, i32, i32),
    fill: impl FnOnce(&mut Message),
) -> Outcome {
    library.init_send(0).unwrap();
    library.with(|session| {
        let message = session.buffers.sending().unwrap();
        message.info.wait = wait;
        fill(message);
    });
    library.send(to, tag)
}

fn hear(library: &Library, tag: i32) -> Info {
    let until = Instant::now() + Duration::from_secs(20);
    let id = library.receive(-1, tag, Wait::Until(until)).unwrap();
    assert_ne!(id, 0, "nothing came with tag {tag:#x}");
    library.buffer_info(id).unwrap().2
}

fn ints(library: &Library) -> Vec<i32> {
    library.with(|session| {
        let message = session.buffers.receiving().unwrap();
        std::iter::from_fn(|| message.unpack_int().ok()).collect()
    })
}

fn text(message: &mut Message) -> String {
    String::from_utf8(message.unpack_text().unwrap()).unwrap()
}

fn put(message: &mut Message, ints: &[i32]) {
    for &int in ints {
        message.pack_int(int).unwrap();
    }
}

fn put_texts(message: &mut Message, texts: &[&str]) {
    message.pack_int(texts.len() as i32).unwrap();
    for text in texts {
        message.pack_text(text.as_bytes()).unwrap();
    }
}

/// What a manager tells a daemon: `count` tasks of `program` for `parent`.
fn order(message: &mut Message, parent: i32, program: &str, count: i32, args: &[&str]) {
    put(message, &[parent]);
    message.pack_text(program.as_bytes()).unwrap();
    put(message, &[0, count]);
    put_texts(message, args);
    put(message, &[0; 6]);
    put_texts(message, &["X=y", "none"]);
}

fn row(tid: i32, name: &str) -> HostRow {
    HostRow { tid, name: name.into(), arch: "VAX".into(), speed: 77, dsig: 9 }
}

/// Somebody asks; the manager hears `tag`, looks at the question and answers. What came of it.
fn answered<R: Send + 'static>(
    ask: impl FnOnce(&Library) -> R + Send + 'static,
    tag: i32,
    look: impl FnOnce(&mut Message),
    answer: impl FnOnce(&mut Message),
) -> R {
    let world = World::default();
    let manager = manager(&world);
    let asker = std::thread::spawn(move || {
        let library = world.library();
        let outcome = ask(&library);
        library.exit().unwrap();
        outcome
    });
    let came = hear(&manager, EXEC_ACK);
    assert_eq!((came.source, came.wait), (tid::DAEMON, 0), "a task that nobody placed came");
    let asked = hear(&manager, tag);
    assert_eq!(asked.context, 0);
    manager.with(|session| look(session.buffers.receiving().unwrap()));
    assert_eq!(say(&manager, (asked.source, tag, asked.wait), answer), Ok(0));
    let outcome = asker.join().unwrap();
    assert_eq!(manager.receive(-1, EXEC_ACK, Wait::No), Ok(0), "it is announced once");
    outcome
}

/// What [`who_asks_starts_what_the_manager_places`] wishes.
fn is_wish_for_children(message: &mut Message) {
    assert_eq!(text(message), "child");
    assert_eq!(message.unpack_int(), Ok(1));
    assert_eq!(text(message), "two");
    assert_eq!(message.unpack_int(), Ok(2));
    let args: Vec<_> = (0..message.unpack_int().unwrap()).map(|_| text(message)).collect();
    assert_eq!(args, ["a", "b"]);
    (0..6).for_each(|_| assert!(message.unpack_int().is_ok()));
    let env: Vec<_> = (0..message.unpack_int().unwrap()).map(|_| text(message)).collect();
    assert!(env.contains(&"PVMCTX=0x3".to_owned()), "{env:?}");
    assert_eq!(message.unpack_int(), Err(Code::NoData));
}

#[test]
fn who_asks_starts_what_the_manager_places() {
    let world = World::default();
    world.program("child", |library, args| {
        assert_eq!(args, ["a", "b"]);
        let parent = library.parent().unwrap();
        // As its environment says.
        library.with(|session| session.system.awaits_siblings = true);
        let until = Instant::now() + Duration::from_secs(20);
        assert_ne!(library.receive(parent, 5, Wait::Until(until)).unwrap(), 0);
        let siblings = library.siblings().unwrap();
        say(library, (parent, 6, 0), |message| put(message, &siblings)).unwrap();
    });
    let manager = manager(&world);
    let (me, others) = (manager.my_tid().unwrap(), world.clone());
    let asker = std::thread::spawn(move || {
        let library = others.library();
        let me = library.my_tid().unwrap();
        library.set_context(3);
        let tids = library.spawn(b"child", &[b"a", b"b"], 1, b"two", 2).unwrap();
        for &tid in &tids {
            say(&library, (tid, 5, 0), |_| {}).unwrap();
        }
        for _ in 0..2 {
            hear(&library, 6);
            assert_eq!(ints(&library), tids, "both know who was spawned together");
        }
        library.exit().unwrap();
        (me, tids)
    });
    let came = hear(&manager, EXEC_ACK);
    let asker_tid = ints(&manager)[1];
    assert_eq!((came.source, came.tag), (tid::DAEMON, EXEC_ACK));
    let asked = hear(&manager, SPAWN);
    assert_eq!(asked.source, asker_tid);
    manager.with(|session| is_wish_for_children(session.buffers.receiving().unwrap()));
    let mut made = Vec::new();
    for (host, wait, daemon) in [(TWO, 41, TWO), (0, 42, 0)] {
        let order = |message: &mut Message| order(message, asker_tid, "child", 1, &["a", "b"]);
        assert_eq!(say(&manager, (tid::DAEMON | host, EXEC, wait), order), Ok(0));
        let done = hear(&manager, EXEC_ACK);
        let expected = (tid::DAEMON | daemon, wait, me);
        assert_eq!((done.source, done.wait, done.destination), expected);
        let started = ints(&manager);
        assert_eq!((started.len(), started[0]), (2, 1));
        assert_eq!(tid::host_of(started[1]), if host == 0 { ONE } else { TWO });
        made.push(started[1]);
    }
    let answer = |message: &mut Message| put(message, &[2, made[0], made[1]]);
    assert_eq!(say(&manager, (asker_tid, SPAWN, asked.wait), answer), Ok(0));
    assert_eq!(asker.join().unwrap(), (asker_tid, made.clone()));
    // Their ends are told, and that of the task that came by itself.
    let mut over: Vec<(i32, Vec<i32>)> =
        (0..3).map(|_| (hear(&manager, TASK_OVER).source, ints(&manager))).collect();
    over.sort_unstable();
    let told = |tid: i32| vec![tid, 0, 0, 0, 0, 0];
    let mut expected = vec![
        (tid::DAEMON | TWO, told(made[0])),
        (tid::DAEMON, told(made[1])),
        (tid::DAEMON, told(asker_tid)),
    ];
    expected.sort_unstable();
    assert_eq!(over, expected);
    world.finish();
}

#[test]
fn a_manager_starts_itself_what_nobody_asked_for() {
    let world = World::default();
    world.program("child", |library, args| {
        let manager = args[0].parse().unwrap();
        let known = library.parent().unwrap_or(0);
        say(library, (manager, 5, 0), |message| put(message, &[known])).unwrap();
    });
    let manager = manager(&world);
    let me = manager.my_tid().unwrap();
    let name = me.to_string();
    for (parent, known) in [(me, me), (0, 0), (TWO | 0x63, 0)] {
        let order = |message: &mut Message| order(message, parent, "child", 1, &[&name]);
        assert_eq!(say(&manager, (tid::DAEMON | TWO, EXEC, 8), order), Ok(0));
        let done = hear(&manager, EXEC_ACK);
        assert_eq!((done.source, done.wait, done.destination), (tid::DAEMON | TWO, 8, me));
        let started = ints(&manager);
        hear(&manager, 5);
        assert_eq!(ints(&manager), [known], "an orphan knows nobody");
        hear(&manager, TASK_OVER);
        assert_eq!(ints(&manager), [started[1], 0, 0, 0, 0, 0]);
    }
    world.finish();
}

#[test]
fn orders_that_make_no_sense_start_nothing() {
    let world = World::default();
    let manager = manager(&world);
    for (count, outcome) in
        [(0, Err(Code::BadMsg)), (COUNT_MAX + 1, Err(Code::BadMsg)), (COUNT_MAX, Ok(0))]
    {
        let order = |message: &mut Message| order(message, 0, "none", count, &[]);
        assert_eq!(say(&manager, (tid::DAEMON, EXEC, 0), order), outcome, "{count}");
    }
    hear(&manager, EXEC_ACK);
    let failed = ints(&manager);
    assert_eq!((failed[0], failed.len() as i32, failed[1]), (COUNT_MAX, COUNT_MAX + 1, -7));
    assert_eq!(say(&manager, (tid::DAEMON, EXEC, 0), |_| {}), Err(Code::BadMsg));
    let of = |count: i32| {
        let mut message = blank();
        message.pack_int(count).unwrap();
        message.begin_unpacking();
        texts(&mut message)
    };
    assert_eq!((of(-1), of(0)), (Err(Code::BadMsg), Ok(Vec::new())));
    assert_eq!((of(TEXTS_MAX), of(TEXTS_MAX + 1)), (Err(Code::NoData), Err(Code::BadMsg)));
}

#[test]
fn an_order_has_variables_and_its_own_context() {
    let mut message = blank();
    put(&mut message, &[TWO | 7]);
    message.pack_text(b"program").unwrap();
    put(&mut message, &[super::super::spawn::ORPHAN | 1, 3]);
    put_texts(&mut message, &["x"]);
    put(&mut message, &[0; 6]);
    put_texts(&mut message, &["A=b=c", "none", "=", "B="]);
    message.begin_unpacking();
    let wanted = Wanted::read(&mut message, ONE, 5).unwrap();
    assert_eq!((wanted.parent, wanted.flags), (TWO | 7, 65));
    let SpawnRequest { program, args, flags, env, place, count, context, orphan } = wanted.request;
    assert_eq!((program, args), (b"program".to_vec(), vec![b"x".to_vec()]));
    assert_eq!((flags, count, context, orphan), (65, 3, 5, true));
    assert!(matches!(place, Place::On(ONE)));
    let variables = [("A", "b=c"), ("", ""), ("B", "")];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    assert_eq!(env, variables);
}

#[test]
fn hosts_are_those_that_the_manager_tells() {
    let config = |answer: fn(&mut Message)| {
        answered(Library::config, CONFIG, |message| assert_eq!(message.rest(), 0), answer)
    };
    let told = config(|message| {
        put(message, &[2, 1]);
        pack_host(message, &row(5 << 18, "five")).unwrap();
        pack_host(message, &row(6 << 18, "six")).unwrap();
    });
    let shown = |rows: &[HostRow]| -> Vec<(i32, String, String, i32, i32)> {
        let show =
            |row: &HostRow| (row.tid, row.name.clone(), row.arch.clone(), row.speed, row.dsig);
        rows.iter().map(show).collect()
    };
    assert_eq!(shown(&told.unwrap()), shown(&[row(5 << 18, "five"), row(6 << 18, "six")]));
    // The signature of formats may be missing at the end.
    let told = config(|message| {
        put(message, &[1, 1, 7 << 18]);
        message.pack_text(b"n").unwrap();
        message.pack_text(b"a").unwrap();
        put(message, &[500]);
    });
    assert_eq!(shown(&told.unwrap()), [(7 << 18, "n".into(), "a".into(), 500, DSIG)]);
    let failed = |answer| config(answer).err();
    assert_eq!(failed(|message| put(message, &[-6, 0])), Some(Code::NoHost));
    assert_eq!(failed(|message| put(message, &[-999, 0])), Some(Code::BadMsg));
    assert_eq!(failed(|message| put(message, &[4095, 0])), Some(Code::NoData));
    assert_eq!(failed(|message| put(message, &[4096, 0])), Some(Code::BadMsg));
    assert_eq!(failed(|message| put(message, &[0])), Some(Code::NoData));
}

#[test]
fn tasks_are_those_that_the_manager_tells() {
    let asked = |message: &mut Message| {
        assert_eq!((message.unpack_int(), message.rest()), (Ok(TWO), 0));
    };
    let tasks =
        |answer: fn(&mut Message)| answered(|library| library.tasks(TWO), TASKS, asked, answer);
    let told = tasks(|message| {
        put(message, &[0]);
        for number in [1, 2] {
            put(message, &[TWO | number, 7, TWO, 4]);
            message.pack_text(b"program").unwrap();
            put(message, &[100 + number]);
        }
    });
    let told: Vec<_> = told.unwrap().into_iter().collect();
    assert_eq!(told.len(), 2);
    let TaskRow { tid, parent, host, program, pid } = &told[1];
    assert_eq!((*tid, *parent, *host, program.as_str(), *pid), (TWO | 2, 7, TWO, "program", 102));
    assert!(tasks(|message| put(message, &[0])).unwrap().is_empty());
    assert_eq!(tasks(|message| put(message, &[-31])).err(), Some(Code::NoTask));
    assert_eq!(tasks(|message| put(message, &[-999])).err(), Some(Code::SysErr));
    assert_eq!(tasks(|message| put(message, &[0, 5])).err(), Some(Code::NoData));
}

#[test]
fn a_manager_adds_and_deletes_hosts() {
    let names = ["x".to_owned(), "y".to_owned()];
    let asked = |message: &mut Message| {
        assert_eq!(message.unpack_int(), Ok(2));
        assert_eq!((text(message), text(message), message.rest()), ("x".into(), "y".into(), 0));
    };
    let own = names.clone();
    let added = |answer: fn(&mut Message)| {
        let names = own.clone();
        answered(move |library| library.add_hosts(&names), ADD_HOST, asked, answer)
    };
    let both = added(|message| {
        put(message, &[2, 1]);
        pack_host(message, &row(5 << 18, "x")).unwrap();
        pack_host(message, &row(-28, "")).unwrap();
    });
    assert_eq!(both, Ok(vec![5 << 18, -28]));
    assert_eq!(added(|message| put(message, &[1, 1])), Err(Code::OutOfRes));
    assert_eq!(added(|message| put(message, &[-6])), Err(Code::NoHost));
    assert_eq!(added(|message| put(message, &[-999])), Err(Code::SysErr));
    let deleted = |answer: fn(&mut Message)| {
        let names = own.clone();
        answered(move |library| library.delete_hosts(&names), DELETE_HOST, asked, answer)
    };
    assert_eq!(deleted(|message| put(message, &[2, 0, -6])), Ok(vec![0, -6]));
    assert_eq!(deleted(|message| put(message, &[1, 0])), Err(Code::OutOfRes));
    assert_eq!(deleted(|message| put(message, &[-6])), Err(Code::NoHost));
    assert_eq!(deleted(|message| put(message, &[-999])), Err(Code::SysErr));
}

#[test]
fn a_spawn_fails_as_the_manager_says() {
    let spawn = |answer: fn(&mut Message)| {
        answered(|library| library.spawn(b"child", &[], 0, b"", 2), SPAWN, |_| {}, answer)
    };
    assert_eq!(spawn(|message| put(message, &[-6])), Err(Code::NoHost));
    assert_eq!(spawn(|message| put(message, &[1, ONE | 5])), Err(Code::OutOfRes));
    assert_eq!(spawn(|message| put(message, &[2, -7, ONE | 5])), Ok(vec![ONE | 5, -7]));
}

#[test]
fn one_manager_is_asked_whether_there_may_be_another() {
    let manage = |answer: fn(&mut Message)| {
        let ask = |library: &Library| library.become_manager().map(|(before, _)| before);
        answered(ask, SCHEDULE, |message| assert_eq!(message.rest(), 0), answer)
    };
    assert_eq!(manage(|message| put(message, &[TWO])), Ok(TWO));
    assert_eq!(manage(|message| put(message, &[0])), Ok(0));
    assert_eq!(manage(|message| put(message, &[-6])), Err(Code::NoHost));
    assert_eq!(manage(|message| put(message, &[-999])), Err(Code::Denied));
}

#[test]
fn notices_are_the_managers_affair_and_have_no_answer() {
    let world = World::default();
    let manager = manager(&world);
    let asker = world.library();
    let me = asker.my_tid().unwrap();
    asker.set_context(6);
    assert_eq!(asker.notify(1, 9, 2, &[me, TWO | 3]), Ok(0));
    hear(&manager, EXEC_ACK);
    assert_eq!(ints(&manager), [1, me]);
    let asked = hear(&manager, NOTIFY);
    assert_eq!((asked.source, asked.wait), (me, 0));
    assert_eq!(ints(&manager), [1, 6, 9, 2, me, TWO | 3]);
    // Hosts that join have no numbers yet.
    assert_eq!(asker.notify(3, 9, 4, &[5]), Ok(0));
    hear(&manager, NOTIFY);
    assert_eq!(ints(&manager), [3, 6, 9, 4]);
    // The manager asks itself.
    assert_eq!(manager.notify(1, 9, 1, &[me]), Ok(0));
    asker.exit().unwrap();
    hear(&manager, 9);
    assert_eq!(ints(&manager), [me]);
}

#[test]
fn who_asked_a_manager_that_is_gone_does_it_itself() {
    let world = World::default();
    let manager = manager(&world);
    let others = world.clone();
    let asker = std::thread::spawn(move || {
        let library = others.library();
        let rows = library.config().unwrap();
        (rows.len(), library.with(|session| session.system.is_idle()))
    });
    hear(&manager, CONFIG);
    manager.exit().unwrap();
    assert_eq!(asker.join().unwrap(), (2, true));
}

#[test]
fn a_manager_hands_its_part_to_another_task() {
    let world = World::default();
    let manager = manager(&world);
    let (next, third) = (world.library(), world.library());
    let next_tid = next.my_tid().unwrap();
    let of_third = || third.enrolled(|session, vm| session.manager(vm));
    assert_eq!(of_third(), Ok(Some(manager.my_tid().unwrap())));
    assert_eq!(manager.enrolled(|session, vm| session.manager(vm)), Ok(None), "itself");
    let hand_off = |message: &mut Message| put(message, &[next_tid]);
    assert_eq!(say(&manager, (tid::DAEMON, HAND_OFF, 0), hand_off), Ok(0));
    assert_eq!(of_third(), Ok(Some(next_tid)));
    assert_eq!(next.enrolled(|session, vm| session.manager(vm)), Ok(None), "itself");
    // Only who manages can.
    assert_eq!(say(&manager, (tid::DAEMON, HAND_OFF, 0), hand_off), Err(Code::Denied));
    third.set_option(11, 1).unwrap();
    assert_eq!(say(&third, (tid::DAEMON, HAND_OFF, 0), hand_off), Err(Code::Denied));
    // To nobody: nobody manages.
    let other = World::default();
    let manager = self::manager(&other);
    let third = other.library();
    let hand_off = |message: &mut Message| put(message, &[0]);
    assert_eq!(say(&manager, (tid::DAEMON, HAND_OFF, 0), hand_off), Ok(0));
    assert_eq!(third.enrolled(|session, vm| session.manager(vm)), Ok(None));
}

#[test]
fn a_manager_tells_the_first_daemon_to_add_hosts() {
    let world = World::default();
    let manager = manager(&world);
    let add = |message: &mut Message| put_texts(message, &["x", "two"]);
    assert_eq!(say(&manager, (tid::DAEMON, ADD, 12), add), Ok(0));
    let done = hear(&manager, ADD_ACK);
    let me = manager.my_tid().unwrap();
    assert_eq!((done.source, done.wait, done.destination), (tid::DAEMON, 12, me));
    manager.with(|session| {
        let message = session.buffers.receiving().unwrap();
        assert_eq!((message.unpack_int(), message.unpack_int()), (Ok(2), Ok(1)));
        let (failed, there) = (unpack_host(message).unwrap(), unpack_host(message).unwrap());
        let failed = (failed.tid, failed.name, failed.arch, failed.speed, failed.dsig);
        assert_eq!(failed, (Code::CantStart.number(), String::new(), String::new(), 0, 0));
        assert_eq!((there.tid, there.name, there.speed), (TWO, "two".into(), 1000));
        assert_eq!(message.rest(), 0);
    });
    assert_eq!(say(&manager, (tid::DAEMON, ADD, 0), |_| {}), Err(Code::NoData));
    let unknown = |message: &mut Message| {
        put(message, &[1]);
        message.pack_text(b"\xff").unwrap();
    };
    assert_eq!(say(&manager, (tid::DAEMON, ADD, 0), unknown), Err(Code::BadMsg));
    // What else is said to daemons has no effect.
    assert_eq!(say(&manager, (tid::DAEMON, CONFIG, 0), |_| {}), Ok(0));
}
