//! What calls mean, among tasks of a virtual machine in this process.

use std::cell::RefCell;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Function, Library, Wait, built_in};
use crate::code::{Code, Outcome};
use crate::message::{Element, Info};
use crate::strided::Strided;
use crate::tid;
use crate::vm::fake::World;

/// Longest time that a test waits for what must come.
const LONG: Duration = Duration::from_secs(20);

fn send(library: &Library, to: i32, tag: i32, value: i32) {
    library.init_send(0).unwrap();
    pack(library, value);
    library.send(to, tag).unwrap();
}

fn pack(library: &Library, value: i32) {
    let mut bytes = value.to_ne_bytes();
    // SAFETY: one int.
    let from = unsafe { Strided::new(bytes.as_mut_ptr(), 1, 1) }.unwrap();
    library.pack(Element::Int, from).unwrap();
}

fn unpack(library: &Library) -> Result<i32, Code> {
    let mut bytes = [0; 4];
    // SAFETY: one int.
    let to = unsafe { Strided::new(bytes.as_mut_ptr(), 1, 1) }.unwrap();
    library.unpack(Element::Int, to)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// Receives and gives tag and value.
fn receive(library: &Library, source: i32, tag: i32) -> (i32, i32) {
    let id = library.receive(source, tag, Wait::Until(Instant::now() + LONG)).unwrap();
    assert_ne!(id, 0, "nothing came from {source:#x} with tag {tag}");
    (library.buffer_info(id).unwrap().2.tag, unpack(library).unwrap())
}

#[test]
fn outside_a_machine_there_is_no_daemon() {
    let library = Library::new(|| Err(Code::SysErr));
    assert_eq!(library.my_tid(), Err(Code::SysErr));
    assert_eq!(library.send(0x4_0001, 1), Err(Code::SysErr));
    assert_eq!(library.exit(), Ok(0));
    // Buffers work nevertheless.
    let id = library.init_send(0).unwrap();
    pack(&library, 3);
    library.set_receive_buffer(id).unwrap();
    assert_eq!(unpack(&library), Ok(3));
    assert_eq!(unpack(&library), Err(Code::NoData));
}

#[test]
fn messages_are_matched_by_source_tag_and_context() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    for (tag, value) in [(1, 10), (2, 20), (1, 30)] {
        send(&library, me, tag, value);
    }
    assert_eq!(library.receive(me, 9, Wait::No), Ok(0));
    assert_eq!(library.receive(me + 1, -1, Wait::No), Ok(0));
    assert_eq!(receive(&library, -1, 2), (2, 20));
    assert_eq!(receive(&library, me, -1), (1, 10));
    library.set_context(5);
    assert_eq!(library.receive(-1, -1, Wait::No), Ok(0));
    send(&library, me, 4, 40);
    assert_eq!(library.set_context(-1), 5);
    assert_eq!(receive(&library, -1, -1), (1, 30));
    assert_eq!(receive(&library, -1, -1), (4, 40));
}

#[test]
fn a_wait_id_goes_with_its_message() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    for encoding in [0, 1] {
        let id = library.init_send(encoding).unwrap();
        pack(&library, 5);
        let info = Info { wait: 4711, ..library.buffer_info(id).unwrap().2 };
        library.set_buffer_info(id, info).unwrap();
        library.send(me, 1).unwrap();
        library.multicast(Some(&[me + 1]), 1).unwrap();
        assert_eq!(receive(&library, me, 1), (1, 5));
        let (len, shown, info) = library.buffer_info(library.receive_buffer()).unwrap();
        assert_eq!((len, info.wait), (4, 4711));
        assert_eq!(shown, library.buffer_info(id).unwrap().1);
        send(&library, me, 1, 6);
        receive(&library, me, 1);
        assert_eq!(library.buffer_info(library.receive_buffer()).unwrap().2.wait, 0);
    }
}

#[test]
fn a_probed_message_keeps_its_place() {
    let world = World::default();
    let (library, other) = (world.library(), world.library());
    let me = library.my_tid().unwrap();
    send(&other, me, 1, 10);
    send(&other, me, 2, 20);
    // One message comes with each look, as in PVM.
    assert_eq!(library.probe(-1, 2), Ok(0));
    let id = library.probe(-1, 2).unwrap();
    assert_eq!(library.buffer_info(id).unwrap().2.tag, 2);
    assert_eq!(library.probe(-1, 7), Ok(0));
    send(&other, me, 3, 30);
    assert_eq!(receive(&library, -1, -1), (1, 10));
    assert_eq!(receive(&library, -1, -1), (2, 20));
    assert_eq!(receive(&library, -1, -1), (3, 30));
}

/// What a task sends itself needs no daemon, in PVM neither: one look shows all of it.
#[test]
fn what_a_task_sends_itself_is_there_at_once() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    send(&library, me, 1, 10);
    send(&library, me, 2, 20);
    let id = library.probe(-1, 2).unwrap();
    assert_eq!(library.buffer_info(id).unwrap().2.tag, 2);
    assert_eq!(receive(&library, -1, -1), (1, 10));
    assert_eq!(receive(&library, -1, -1), (2, 20));
}

/// A master that asks for two tags in turn sees what came first first, though all is there.
#[test]
fn what_is_polled_for_by_two_tags_is_seen_in_the_order_in_which_it_came() {
    const RESULT: i32 = 1;
    const READY: i32 = 2;
    let world = World::default();
    let (library, slave) = (world.library(), world.library());
    let me = library.my_tid().unwrap();
    for number in 0..20 {
        send(&slave, me, RESULT, number);
        send(&slave, me, READY, number);
    }
    let (mut results, mut wishes) = (0, 0);
    while wishes < 20 || results < 20 {
        wishes += i32::from(library.receive(-1, READY, Wait::No).unwrap() > 0);
        assert!(wishes <= results, "wish {wishes} was seen before result {results}");
        results += i32::from(library.receive(-1, RESULT, Wait::No).unwrap() > 0);
    }
    // Who waits takes what he waits for out of turn.
    send(&slave, me, RESULT, 7);
    send(&slave, me, READY, 8);
    let source = slave.my_tid().unwrap();
    assert_eq!(receive(&library, source, READY), (READY, 8));
}

#[test]
fn a_barrier_asks_the_leader_once() {
    let world = World::default();
    let library = world.library();
    library.join_group("g").unwrap();
    let before = world.listings();
    assert_eq!(library.barrier("g", 1), Ok(0));
    assert_eq!(library.barrier("nobody's", 1), Err(Code::NoGroup));
    assert_eq!(world.listings(), before, "who is a member is known to who is asked anyway");
    assert_eq!(library.barrier("g", 0), Err(Code::Mismatch));
    assert_eq!(library.barrier("nobody's", 0), Err(Code::NoGroup));
}

/// The others' arrival falls between the look for the answer and the sleep.
#[test]
fn an_answer_that_comes_after_the_look_is_not_slept_over() {
    let world = World::default();
    let (done, waits) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let library = world.library();
        library.join_group("g").unwrap();
        world.meanwhile(|world| world.another_arrives("g", 2));
        let _ = done.send(library.barrier("g", 2));
    });
    assert_eq!(waits.recv_timeout(LONG), Ok(Ok(0)));
    thread.join().unwrap();
}

#[test]
fn a_process_that_enrols_again_goes_on_in_its_context() {
    let world = World::default();
    world.program("child", |library, _| {
        let (parent, given) = (library.parent().unwrap(), library.context());
        send(library, parent, 1, given);
    });
    let library = world.library();
    let before = library.my_tid().unwrap();
    assert_eq!(library.set_context_of_task(5), 0);
    assert_eq!(library.set_option(10, 65_536), Ok(4080));
    assert_eq!(library.set_option(18, 0), Ok(1));
    library.exit().unwrap();
    assert_ne!(library.my_tid(), Ok(before));
    assert_eq!((library.context_of_task(), library.options().fragment), (5, 4080));
    assert_eq!(library.options().show_tids, 0);
    library.spawn(b"child", &[], 0, b"", 1).unwrap();
    assert_eq!(receive(&library, -1, 1), (1, 5));
    world.finish();
}

#[test]
fn wrong_calls_get_the_codes_of_pvm() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    assert_eq!(library.send(me, 1), Err(Code::NoBuf));
    library.init_send(0).unwrap();
    assert_eq!(library.send(0x4_0000, 1), Err(Code::BadParam));
    assert_eq!(library.send(me, -5), Err(Code::BadParam));
    // A task that is not there takes it in silence.
    assert_eq!(library.send(0x6_0001, 1), Ok(0));
    assert_eq!(library.multicast(Some(&[me, -5]), 1), Err(Code::BadParam));
    library.set_option(11, 1).unwrap();
    assert_eq!(library.send(me, -5), Ok(0));
    assert_eq!(library.task_status(0x6_0001), Err(Code::NoTask));
    assert_eq!(library.task_status(0), Err(Code::BadParam));
    assert_eq!(library.kill(0), Err(Code::BadParam));
    assert_eq!(library.kill(0x6_0001), Ok(0));
    assert_eq!(library.init_send(9), Err(Code::BadParam));
    assert_eq!(library.pack_message(library.send_buffer()), Err(Code::BadParam));
    assert_eq!(library.pack_message(99), Err(Code::NoSuchBuf));
    assert_eq!(library.spawn(b"nothing", &[], 0, b"", 2), Ok(vec![-7, -7]));
    assert_eq!(library.spawn(b"nothing", &[], 0, b"", 0), Err(Code::BadParam));
    assert_eq!(library.host_clock(0), Err(Code::NoHost));
    assert_eq!(library.host_status("nowhere"), Err(Code::NoHost));
    assert_eq!(library.arch_code("VAX"), Err(Code::NotFound));
    assert_eq!(library.tasks(5), Err(Code::NoHost));
    assert_eq!(library.tasks(0x99 << 18), Err(Code::NoHost));
    assert_eq!(library.tickle(0), Err(Code::BadParam));
    assert_eq!(library.start_daemon(&[]), Err(Code::DupHost));
    assert_eq!(library.add_hosts(&[]), Err(Code::BadParam));
    assert_eq!(library.delete_hosts(&["nowhere".into()]), Ok(vec![Code::NoHost.number()]));
    assert_eq!(library.delete_hosts(&["x".into(), "two".into()]), Ok(vec![-6, 0]));
}

#[test]
fn multicast_leaves_the_caller_out_and_sends_once() {
    let world = World::default();
    world.program("echo", |library, _| {
        let parent = library.parent().unwrap();
        let (tag, value) = receive(library, parent, -1);
        send(library, parent, tag + 1, value);
    });
    let library = world.library();
    let me = library.my_tid().unwrap();
    let tids = library.spawn(b"echo", &[], 0, b"", 2).unwrap();
    library.init_send(1).unwrap();
    pack(&library, 7);
    library.multicast(Some(&[me, tids[1], tids[0], tids[1]]), 5).unwrap();
    assert_eq!(receive(&library, tids[0], 6), (6, 7));
    assert_eq!(receive(&library, tids[1], 6), (6, 7));
    assert_eq!(library.receive(-1, -1, Wait::No), Ok(0));
    world.finish();
}

#[test]
fn children_inherit_context_and_know_their_family() {
    let world = World::default();
    world.program("child", |library, args| {
        let parent = library.parent().unwrap();
        assert_eq!(library.siblings().unwrap().len(), 3);
        assert_eq!(args, ["a", "b c"]);
        let context = library.context();
        send(library, parent, 1, context);
    });
    world.program("orphan", |library, args| {
        assert_eq!(library.parent(), Err(Code::ParentNotSet));
        send(library, args[0].parse().unwrap(), 2, library.siblings().unwrap().len() as i32);
    });
    let library = world.library();
    let me = library.my_tid().unwrap();
    assert_eq!(library.parent(), Err(Code::NoParent));
    assert_eq!(library.siblings(), Ok(vec![me]));
    let context = library.new_context().unwrap();
    library.set_context(context);
    assert_eq!(library.spawn(b"child", &[b"a", b"b c"], 0, b"", 3).unwrap().len(), 3);
    for _ in 0..3 {
        assert_eq!(receive(&library, -1, 1), (1, context));
    }
    library.spawn(b"orphan", &[me.to_string().as_bytes()], 64, b"", 1).unwrap();
    assert_eq!(receive(&library, -1, 2), (2, 1));
    world.finish();
}

#[test]
fn contexts_are_given_out_and_taken_back() {
    let world = World::default();
    let library = world.library();
    assert_eq!(library.new_context(), Ok(0x4_0001));
    assert_eq!(library.new_context(), Ok(0x4_0002));
    assert_eq!(library.free_context(0x4_0001), Ok(0));
    assert_eq!(library.free_context(0x4_0001), Err(Code::NotFound));
    assert_eq!(library.free_context(77), Err(Code::NotFound));
    // As in PVM, freeing 0 gives a new one.
    assert_eq!(library.free_context(0), Ok(0x4_0001));
    assert_eq!(library.mailboxes("*"), Ok(Vec::new()));
}

thread_local! {
    static CALLED: RefCell<(Option<&'static Library>, Vec<String>)> =
        const { RefCell::new((None, Vec::new())) };
}

fn note(text: String) {
    CALLED.with_borrow_mut(|called| called.1.push(text));
}

fn current() -> &'static Library {
    CALLED.with_borrow(|called| called.0).unwrap()
}

/// A library that functions of the program can find, as programs find the one there is.
fn shared(world: &World) -> &'static Library {
    let library: &'static Library = Box::leak(Box::new(world.library()));
    CALLED.set((Some(library), Vec::new()));
    library
}

unsafe extern "C" fn handler(id: i32) -> i32 {
    let library = current();
    let (_, _, info) = library.buffer_info(id).unwrap();
    let (context, sending) = (library.context(), library.send_buffer());
    note(format!("tag {} value {:?} context {context} send {sending}", info.tag, unpack(library)));
    // It may send and receive itself.
    library.init_send(0).unwrap();
    pack(library, 1);
    library.send(info.source, info.tag + 100).unwrap();
    0
}

#[test]
fn handlers_are_called_with_the_message_and_nothing_is_changed() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    let number = library.add_handler(-1, 77, -1, handler).unwrap();
    let buffer = library.init_send(0).unwrap();
    pack(library, 5);
    library.set_context(3);
    library.send(me, 77).unwrap();
    library.send(me, 8).unwrap();
    library.set_context(0);
    assert_eq!(library.receive(-1, -1, Wait::No), Ok(0));
    assert_eq!(library.send_buffer(), buffer);
    let notes = CALLED.with_borrow(|called| called.1.clone());
    assert_eq!(notes, ["tag 77 value Ok(5) context 3 send 0"]);
    library.set_context(-1);
    assert_eq!(receive(library, -1, -1), (8, 5));
    assert_eq!(receive(library, -1, 177), (177, 1));
    library.delete_handler(number).unwrap();
    send(library, me, 77, 6);
    assert_eq!(receive(library, -1, 77), (77, 6));
}

/// Waits until a thread sleeps in a call.
fn until_asleep(library: &Library) {
    let end = Instant::now() + LONG;
    while !library.with(|session| session.sleepers.any()) {
        assert!(Instant::now() < end, "nobody sleeps");
        std::thread::yield_now();
    }
}

#[test]
fn who_waits_for_others_sleeps_though_a_notice_came() {
    let world = World::default();
    world.program("member", |library, _| {
        library.join_group("g").unwrap();
        send(library, library.parent().unwrap(), 1, 0);
        receive(library, -1, 2);
        library.barrier("g", 2).unwrap();
    });
    let library = shared(&world);
    library.join_group("g").unwrap();
    let member = library.spawn(b"member", &[], 0, b"", 1).unwrap()[0];
    receive(library, member, 1);
    library.notify(3, 6, 1, &[]).unwrap();
    world.add_host(3 << 18);
    let waits = std::thread::spawn(|| library.barrier("g", 2));
    until_asleep(library);
    send(library, member, 2, 0);
    assert_eq!(waits.join().unwrap(), Ok(0));
    assert_eq!(receive(library, -1, 6), (6, 1));
    world.finish();
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn counts(_: i32) -> i32 {
    HANDLED.fetch_add(1, Relaxed);
    0
}

#[test]
fn who_waits_for_others_handles_messages_again_and_again() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    library.add_handler(-1, 77, -1, counts).unwrap();
    let other = world.library();
    let waits = std::thread::spawn(|| library.receive_info("late", 0, 32));
    let end = Instant::now() + LONG;
    for handled in 1..4 {
        until_asleep(library);
        send(&other, me, 77, 0);
        while HANDLED.load(Relaxed) < handled {
            assert!(Instant::now() < end, "handled {handled} of 3");
            std::thread::yield_now();
        }
    }
    other.put_info("late", other.send_buffer(), 0).unwrap();
    assert!(waits.join().unwrap().is_ok());
}

#[test]
fn a_call_ends_with_the_task_that_made_it() {
    let world = World::default();
    let library = shared(&world);
    let calls: [fn(&Library) -> Outcome; 2] =
        [|library| library.receive(-1, 1, Wait::Forever), |library| library.barrier("g", 2)];
    for call in calls {
        library.join_group("g").unwrap();
        let world = world.clone();
        let waits = std::thread::spawn(move || {
            // That thread, too, could enter the machine.
            drop(world.library());
            call(library)
        });
        until_asleep(library);
        assert_eq!(library.exit(), Ok(0));
        assert_eq!(waits.join().unwrap(), Err(Code::SysErr));
        assert_eq!(library.tid_now(), -1);
    }
}

unsafe extern "C" fn leaves(_: i32) -> i32 {
    current().exit().unwrap();
    0
}

#[test]
fn a_handler_may_leave_the_machine() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    library.add_handler(-1, 77, -1, leaves).unwrap();
    send(library, me, 77, 1);
    assert_eq!(library.receive(-1, 1, Wait::Forever), Err(Code::SysErr));
    assert_eq!(library.tid_now(), -1);
}

/// In the child, the thread that made the call is not there.
#[test]
fn a_child_forked_in_the_middle_of_a_call_gets_a_code() {
    let world = World::default();
    let library = world.library();
    let forked = library.enrolled(|_, _| {
        std::thread::scope(|scope| {
            let child = scope.spawn(|| {
                library.forked();
                library.my_tid()
            });
            Ok(child.join().unwrap())
        })
    });
    assert_eq!(forked, Ok(Err(Code::NotImpl)));
}

#[test]
fn a_thread_that_waits_for_an_array_lends_nothing() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    send(library, me, 1, 5);
    let buffer = library.receive(-1, 1, Wait::Forever).unwrap();
    let waits = std::thread::spawn(move || {
        let mut byte = [0];
        library.receive_array(me, 2, &mut byte).map(|got| (got, byte))
    });
    for _ in 0..1000 {
        assert_eq!(library.receive_buffer(), buffer);
        std::thread::yield_now();
    }
    library.send_array(me, 2, &[7]).unwrap();
    assert_eq!(waits.join().unwrap(), Ok(((me, 2, 1), [7])));
    assert_eq!(unpack(library), Ok(5));
}

#[test]
fn a_panic_in_a_step_costs_no_task() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    let step = || library.enrolled(|_, _| -> Outcome { panic!("meant") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)).is_err());
    assert_eq!(library.my_tid(), Ok(me));
    send(&library, me, 1, 5);
    assert_eq!(receive(&library, me, 1), (1, 5));
}

/// As a signal handler may find it.
#[test]
fn a_call_in_the_middle_of_a_step_gives_a_code() {
    let world = World::default();
    let library = world.library();
    let inner = library.enrolled(|_, _| {
        let unwound = std::panic::AssertUnwindSafe(|| library.init_send(0));
        let thrown = std::panic::catch_unwind(unwound).unwrap_err();
        assert_eq!(thrown.downcast_ref(), Some(&Code::NotImpl));
        assert_eq!((library.tid_now(), library.shown()), (-1, Err(Code::NotImpl)));
        Ok((library.exit(), library.my_tid()))
    });
    assert_eq!(inner, Ok((Err(Code::NotImpl), Err(Code::NotImpl))));
    assert!(library.my_tid().is_ok());
}

#[test]
fn handlers_have_their_turn_after_other_calls() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    library.add_handler(-1, 77, -1, handler).unwrap();
    send(library, me, 77, 5);
    library.handle();
    let count = || CALLED.with_borrow(|called| called.1.len());
    assert_eq!(count(), 1);
    library.exit().unwrap();
    library.handle();
    assert_eq!((count(), library.tid_now()), (1, -1));
}

unsafe extern "C" fn highest(id: i32, _: i32, limit: i32) -> i32 {
    // A match function may call the library.
    let tag = current().buffer_info(id).unwrap().2.tag;
    if tag > limit { 0 } else { tag }
}

unsafe extern "C" fn refuses(_: i32, _: i32, _: i32) -> i32 {
    Code::BadMsg.number()
}

#[test]
fn a_match_function_chooses() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    for tag in [5, 9, 7] {
        send(library, me, tag, tag);
    }
    assert!(library.set_match(Some(highest)).is_none());
    assert_eq!(receive(library, -1, 8), (7, 7));
    assert_eq!(receive(library, -1, 100), (9, 9));
    library.set_match(Some(refuses));
    assert_eq!(library.receive(-1, 1, Wait::No), Err(Code::BadMsg));
    assert!(library.set_match(None).is_some());
    assert_eq!(receive(library, -1, -1), (5, 5));
}

unsafe extern "C" fn frees_the_first(id: i32, _: i32, _: i32) -> i32 {
    if current().buffer_info(id).unwrap().2.tag == 5 {
        current().free_buffer(id).unwrap();
    }
    1
}

#[test]
fn a_message_that_is_gone_when_it_is_chosen_is_not_waited_for() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    send(library, me, 5, 5);
    send(library, me, 7, 7);
    library.set_match(Some(frees_the_first));
    let id = library.receive(-1, -1, Wait::No).unwrap();
    assert_eq!(library.buffer_info(id).unwrap().2.tag, 7);
}

#[test]
fn notices_come_after_the_last_message() {
    let world = World::default();
    world.program("last", |library, _| {
        let parent = library.parent().unwrap();
        receive(library, parent, 1);
        send(library, parent, 2, 20);
        send(library, parent, 3, 30);
    });
    let library = world.library();
    let child = library.spawn(b"last", &[], 0, b"", 1).unwrap()[0];
    library.notify(1, 9, 1, &[child]).unwrap();
    send(&library, child, 1, 1);
    assert_eq!(receive(&library, -1, 9), (9, child));
    assert_eq!(library.buffer_info(library.receive_buffer()).unwrap().2.source, tid::DAEMON);
    assert_eq!(receive(&library, -1, -1), (2, 20));
    assert_eq!(receive(&library, -1, -1), (3, 30));
    // A task that is not there has ended.
    library.notify(1, 9, 1, &[child]).unwrap();
    assert_eq!(receive(&library, -1, 9), (9, child));
    world.finish();
}

#[test]
fn notices_are_asked_for_as_in_pvm() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    assert_eq!(library.notify(1, 5, 0, &[]), Err(Code::BadParam));
    assert_eq!(library.notify(7, 5, 1, &[me]), Err(Code::BadParam));
    assert_eq!(library.notify(1, 5, 1, &[0x4_0000]), Err(Code::BadParam));
    assert_eq!(library.notify(1, -5, 1, &[me]), Err(Code::BadParam));
    // A cancelled notice comes at once.
    library.notify(1, 5, 1, &[me]).unwrap();
    assert_eq!(library.receive(-1, 5, Wait::No), Ok(0));
    library.notify(1 | 256, 5, 1, &[me]).unwrap();
    assert_eq!(receive(&library, -1, 5), (5, me));
    // Hosts that join, two of them.
    library.notify(3, 6, 2, &[]).unwrap();
    for host in [3 << 18, 4 << 18, 5 << 18] {
        world.add_host(host);
    }
    for host in [3 << 18, 4 << 18] {
        assert_eq!(receive(&library, -1, 6), (6, 1));
        assert_eq!(unpack(&library), Ok(host));
    }
    assert_eq!(library.receive(-1, 6, Wait::No), Ok(0));
    library.notify(3, 6, -1, &[]).unwrap();
    world.add_host(6 << 18);
    assert_eq!(receive(&library, -1, 6), (6, 1));
    library.notify(3 | 256, 6, 0, &[]).unwrap();
    world.add_host(7 << 18);
    assert_eq!(library.receive(-1, 6, Wait::No), Ok(0));
}

#[test]
fn output_of_children_is_printed_by_lines() {
    let world = World::default();
    world.program("prints", |library, _| {
        let parent = library.parent().unwrap();
        receive(library, parent, 1);
    });
    let library = world.library();
    let (lines, seen) = std::sync::mpsc::channel();
    let sink = move |line: &[u8]| lines.send(String::from_utf8(line.to_vec()).unwrap()).unwrap();
    library.catch_output(Some(Box::new(sink))).unwrap();
    let child = library.spawn(b"prints", &[], 0, b"", 1).unwrap()[0];
    world.print(child, "one\ntw");
    world.print(child, "o\nrest");
    send(&library, child, 1, 0);
    library.exit().unwrap();
    world.finish();
    let seen: Vec<String> = seen.iter().collect();
    let with = |text: &str| format!("[t{child:x}] {text}\n");
    assert_eq!(seen, ["BEGIN", "one", "two", "rest", "EOF"].map(with));
}

#[test]
fn mailboxes_follow_pvms_rules() {
    let world = World::default();
    world.program("other", |library, args| {
        let parent = library.parent().unwrap();
        library.init_send(0).unwrap();
        let buffer = library.send_buffer();
        // Not over another's entry, unless its owner let others.
        assert_eq!(library.put_info("m", buffer, 0), Err(Code::Denied));
        assert_eq!(library.delete_info("m", 0), Err(Code::Denied));
        assert_eq!(library.receive_info("m", 0, 16), Err(Code::Denied));
        assert_eq!(library.put_info("open", buffer, 4), Ok(0));
        assert_eq!(library.put_info("stays", buffer, 1), Ok(0));
        assert_eq!(library.put_info("goes", buffer, 0), Ok(0));
        assert_eq!(args.len(), 0);
        send(library, parent, 1, 0);
    });
    let library = world.library();
    let me = library.my_tid().unwrap();
    library.init_send(0).unwrap();
    pack(&library, 42);
    let buffer = library.send_buffer();
    assert_eq!(library.put_info("", buffer, 0), Err(Code::BadParam));
    assert_eq!(library.put_info("m", 99, 0), Err(Code::NoSuchBuf));
    assert_eq!(library.put_info("m", buffer, 0), Ok(0));
    assert_eq!(library.put_info("m", buffer, 0), Ok(0));
    assert_eq!(library.put_info("m", buffer, 2), Ok(1));
    assert_eq!(library.put_info("m", buffer, 7 << 10), Ok(7));
    assert_eq!(library.put_info("open", buffer, 4), Ok(0));
    library.receive_info("m", 2, 8).unwrap();
    assert_eq!(unpack(&library), Ok(42));
    assert_eq!(library.receive_info("m", 5, 0), Err(Code::NotFound));
    assert_eq!(library.receive_info("m", -1, 0), Err(Code::BadParam));
    library.spawn(b"other", &[], 0, b"", 1).unwrap();
    receive(&library, -1, 1);
    world.finish();
    assert_eq!(library.mailboxes("st").unwrap().len(), 1, "a beginning");
    let boxes = library.mailboxes("").unwrap();
    let names: Vec<&str> = boxes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["m", "stays"]);
    assert_eq!(boxes[0].1.iter().map(|entry| entry.1).collect::<Vec<_>>(), [me; 3]);
    assert_eq!(boxes[1].1[0].1, 0, "its owner is gone");
    library.receive_info("m", 0, 16).unwrap();
    assert_eq!(library.receive_info("m", 0, 0), Err(Code::NotFound));
    assert_eq!(library.delete_info("m", 1), Ok(1));
    assert_eq!(library.delete_info("q", 0), Err(Code::NotFound));
    assert_eq!(library.insert("old", -1, 5), Ok(0));
    assert_eq!(library.insert("old", 0, 5), Err(Code::Denied));
    assert_eq!(library.look_up("old", -1), Ok((0, Some(5))));
    assert_eq!(library.look_up("old", 3), Err(Code::NotFound));
}

#[test]
fn a_task_can_wait_for_an_entry() {
    let world = World::default();
    world.program("waits", |library, _| {
        library.receive_info("later", 0, 32).unwrap();
        let value = unpack(library).unwrap();
        send(library, library.parent().unwrap(), 1, value);
    });
    let library = world.library();
    library.spawn(b"waits", &[], 0, b"", 1).unwrap();
    library.init_send(0).unwrap();
    pack(&library, 13);
    library.put_info("later", library.send_buffer(), 0).unwrap();
    assert_eq!(receive(&library, -1, 1), (1, 13));
    world.finish();
}

#[test]
fn groups_give_the_codes_of_pvm() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    assert_eq!(library.join_group(""), Err(Code::NullGroup));
    assert_eq!(library.join_group("g"), Ok(0));
    assert_eq!(library.join_group("g"), Err(Code::DupGroup));
    assert_eq!(library.group_size("g"), Ok(1));
    assert_eq!(library.group_size("q"), Err(Code::NoGroup));
    assert_eq!(library.instance("g", 5), Err(Code::NotInGroup));
    assert_eq!(library.instance("q", 5), Err(Code::NoGroup));
    assert_eq!(library.member("g", 0), Ok(me));
    assert_eq!(library.member("g", 1), Err(Code::NoInst));
    assert_eq!(library.member("g", -1), Err(Code::NoInst));
    library.init_send(0).unwrap();
    assert_eq!(library.broadcast("g", 1), Err(Code::NoInst));
    assert_eq!(library.broadcast("q", 1), Err(Code::NoGroup));
    assert_eq!(library.barrier("g", 1), Ok(0));
    assert_eq!(library.barrier("g", -1), Ok(0));
    assert_eq!(library.barrier("g", 0), Err(Code::Mismatch));
    assert_eq!(library.barrier("q", 1), Err(Code::NoGroup));
    assert_eq!(library.freeze_group("g", 1), Ok(1));
    assert_eq!(library.freeze_group("g", 1), Err(Code::DupGroup));
    assert_eq!(library.join_group("g"), Err(Code::NotInGroup));
    assert_eq!(library.leave_group("q"), Err(Code::NoGroup));
    assert_eq!(library.leave_group("g"), Ok(0));
    assert_eq!(library.leave_group("g"), Err(Code::NoGroup));
    assert_eq!(library.group_size("g"), Err(Code::NoGroup));
}

unsafe extern "C" fn sum(
    data_type: *mut i32,
    data: *mut u8,
    more: *mut u8,
    count: *mut i32,
    code: *mut i32,
) {
    // SAFETY: as the library calls it, here with doubles.
    unsafe {
        let len = *count as usize * 8;
        let data = std::slice::from_raw_parts_mut(data, len);
        let more = std::slice::from_raw_parts(more, len);
        *code = match built_in(Function::Sum, *data_type, data, more) {
            Ok(()) => 0,
            Err(code) => code.number(),
        };
    }
}

/// Joins, waits for four members, and does every operation; the root is instance 2.
fn member_of_four(library: &Library) {
    let mine = library.join_group("four").unwrap();
    library.barrier("four", 4).unwrap();
    let double = |value: f64| value.to_ne_bytes();
    let mut data = [double(f64::from(mine)), double(1.0)].concat();
    library.reduce(sum, &mut data, 6, 5, "four", 2).unwrap();
    if mine == 2 {
        assert_eq!(data, [double(6.0), double(4.0)].concat());
    }
    let mut bytes = [mine as u8, 100];
    let mut all = [0_u8; 8];
    let base = all.as_mut_ptr();
    // SAFETY: inside `all`, which lives as long as the calls.
    let place = |instance: usize| unsafe { Strided::new(base.add(instance * 2), 2, 1) };
    let result = (mine == 2).then_some(place);
    library.gather(result, Strided::bytes_mut(&mut bytes), 1, 6, "four", 2).unwrap();
    if mine == 2 {
        assert_eq!(all, [0, 100, 1, 100, 2, 100, 3, 100]);
    }
    let data = (mine == 2).then_some(place);
    let mut part = [9, 9];
    library.scatter(Strided::bytes_mut(&mut part), data, 1, 7, "four", 2).unwrap();
    assert_eq!(part, [mine as u8, 100]);
    if mine == 0 {
        library.init_send(0).unwrap();
        pack(library, 11);
        library.broadcast("four", 8).unwrap();
    } else {
        assert_eq!(receive(library, -1, 8), (8, 11));
    }
    library.barrier("four", -1).unwrap();
    library.leave_group("four").unwrap();
}

#[test]
fn group_operations() {
    let world = World::default();
    world.program("member", |library, _| member_of_four(library));
    let library = world.library();
    library.my_tid().unwrap();
    library.spawn(b"member", &[], 0, b"", 1).unwrap();
    library.spawn(b"member", &[], 1, b"two", 2).unwrap();
    member_of_four(&library);
    world.finish();
}

#[test]
fn a_thread_that_waits_lets_others_send() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&library, -1, 7));
        let id = library.make_buffer(0).unwrap();
        library.set_send_buffer(id).unwrap();
        pack(&library, 70);
        library.send(me, 7).unwrap();
        assert_eq!(waiting.join().unwrap(), (7, 70));
    });
}

#[test]
fn a_task_that_left_becomes_another() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    send(&library, me, 1, 1);
    assert_eq!(library.exit(), Ok(0));
    assert_eq!(library.tid_now(), -1);
    assert_ne!(library.my_tid().unwrap(), me);
    assert_eq!(library.receive(-1, -1, Wait::No), Ok(0));
}

#[test]
fn a_reset_spares_those_who_ask_for_it() {
    let world = World::default();
    world.program("spared", |library, _| {
        library.my_tid().unwrap();
        library.set_option(25, 1).unwrap();
        send(library, library.parent().unwrap(), 1, 0);
        receive(library, -1, 2);
    });
    world.program("ended", |library, _| {
        send(library, library.parent().unwrap(), 1, 0);
        receive(library, -1, 2);
    });
    let library = world.library();
    let me = library.my_tid().unwrap();
    let spared = library.spawn(b"spared", &[], 0, b"", 1).unwrap()[0];
    let ended = library.spawn(b"ended", &[], 0, b"", 1).unwrap()[0];
    receive(&library, -1, 1);
    receive(&library, -1, 1);
    assert_eq!(library.no_resets(), Ok(vec![spared]));
    library.reset(me, true, "", -1).unwrap();
    assert_eq!(world.signals(), [(ended, 15)]);
    for tid in [spared, ended] {
        send(&library, tid, 2, 0);
    }
    world.finish();
}

#[test]
fn some_roles_are_for_one_and_some_for_one_of_each_host() {
    use super::{HOSTER, TASKER};
    let world = World::default();
    world.program("there", |library, args| {
        let parent = library.parent().unwrap();
        let hoster = library.toggle_role(HOSTER, &[], true);
        let tasker = library.toggle_role(TASKER, &[], true);
        assert_eq!((hoster, tasker), (Err(Code::HostrNMstr), Ok(0)));
        assert_eq!(args.len(), 0);
        send(library, parent, 1, 0);
        receive(library, parent, 2);
    });
    let (library, other) = (world.library(), world.library());
    let toggle = |library: &Library, role| library.toggle_role(role, &[], true);
    assert_eq!((toggle(&library, HOSTER), toggle(&library, TASKER)), (Ok(0), Ok(0)));
    let there = library.spawn(b"there", &[], 1, b"two", 1).unwrap()[0];
    receive(&library, there, 1);
    for role in [HOSTER, TASKER] {
        assert_eq!(toggle(&other, role), Err(Code::Already), "{role}");
    }
    assert_eq!(library.mailboxes(HOSTER).unwrap()[0].1.len(), 1, "who was refused left nothing");
    assert_eq!((toggle(&library, HOSTER), toggle(&other, HOSTER)), (Ok(0), Ok(0)));
    send(&library, there, 2, 0);
    world.finish();
}

#[test]
fn routes_close_at_once_and_hosts_are_awaited_no_more() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    library.set_context(4);
    assert_eq!(library.notify(5, 8, 2, &[me, 0x8_0001]), Ok(0));
    assert_eq!(library.notify(4, 8, 2, &[me]), Ok(0), "nothing comes of routes that open");
    for about in [me, 0x8_0001] {
        assert_eq!(receive(&library, me, 8), (8, about));
    }
    assert_eq!(library.receive(-1, -1, Wait::No), Ok(0));
    assert_eq!(library.notify(5, 8, 1, &[0x4_0000]), Err(Code::BadParam));
    assert_eq!(library.notify(5, 8, 0, &[]), Err(Code::BadParam));
    assert_eq!(library.notify(2, 8, 0, &[]), Err(Code::BadParam));
    // A host that is lost is told by the number that was given.
    library.notify(2, 8, 1, &[0x8_0000]).unwrap();
    world.lose_host(0x8_0000);
    assert_eq!(receive(&library, tid::DAEMON, 8), (8, 0x8_0000));
    // Hosts that join are told until that is taken back, by whatever count.
    library.notify(3, 6, -1, &[]).unwrap();
    world.add_host(3 << 18);
    assert_eq!(receive(&library, -1, 6), (6, 1));
    library.notify(3 | 256, 6, 1, &[]).unwrap();
    world.add_host(4 << 18);
    assert_eq!(library.receive(-1, 6, Wait::No), Ok(0));
    // One of two equal requests is cancelled at a time.
    library.notify(1, 5, 2, &[me, me]).unwrap();
    library.notify(1 | 256, 5, 1, &[me]).unwrap();
    assert_eq!(receive(&library, -1, 5), (5, me));
    assert_eq!(library.receive(-1, 5, Wait::No), Ok(0));
    library.notify(1 | 256, 5, 1, &[me]).unwrap();
    assert_eq!(receive(&library, -1, 5), (5, me));
    library.notify(1 | 256, 5, 1, &[me]).unwrap();
    assert_eq!(library.receive(-1, 5, Wait::No), Ok(0), "there is none left");
}

#[test]
fn notices_that_make_no_sense_are_not_passed_to_a_manager() {
    let world = World::default();
    let (manager, library) = (world.library(), world.library());
    manager.become_manager().unwrap();
    let me = library.my_tid().unwrap();
    for (what, tag, count, about) in
        [(1, 5, 0, me), (2, 5, 0, me), (1, 5, 1, 0x4_0000), (1, -5, 1, me), (7, 5, 1, me)]
    {
        assert_eq!(library.notify(what, tag, count, &[about]), Err(Code::BadParam), "{what} {tag}");
    }
    assert_eq!(library.notify(5, 5, 1, &[me]), Ok(0));
    manager.take_all_in().unwrap();
    assert_eq!(manager.receive(-1, -1, Wait::No), Ok(0), "it heard nothing");
}

#[test]
fn tasks_that_are_spared_are_told_once_each() {
    let world = World::default();
    let (one, two) = (world.library(), world.library());
    assert_eq!(one.set_option(25, 1), Err(Code::BadParam), "no task yet");
    let tids = [one.my_tid().unwrap(), two.my_tid().unwrap()];
    for library in [&one, &two] {
        assert_eq!((library.set_option(25, 1), library.set_option(25, 5)), (Ok(0), Ok(1)));
    }
    assert_eq!(one.no_resets(), Ok(tids.to_vec()));
    assert_eq!((one.set_option(25, 0), one.set_option(25, 0)), (Ok(5), Ok(0)));
    assert_eq!(two.no_resets(), Ok(vec![tids[1]]));
}

#[test]
fn a_handler_stays_when_another_is_deleted() {
    let world = World::default();
    let library = shared(&world);
    let me = library.my_tid().unwrap();
    let first = library.add_handler(-1, 77, -1, handler).unwrap();
    let second = library.add_handler(-1, 78, -1, handler).unwrap();
    library.delete_handler(second).unwrap();
    send(library, me, 77, 5);
    library.handle();
    let count = || CALLED.with_borrow(|called| called.1.len());
    assert_eq!(count(), 1);
    library.delete_handler(first).unwrap();
    send(library, me, 77, 6);
    library.handle();
    assert_eq!((count(), receive(library, me, 77)), (1, (77, 6)));
}

#[test]
fn reserved_numbers_are_for_those_who_ask_for_them() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    assert_eq!(library.send_array(me, -1, &[1]), Err(Code::BadParam));
    assert_eq!(library.send_array(0x4_0000, 1, &[1]), Err(Code::BadParam));
    assert_eq!(library.send_array(me, 0, &[1]), Ok(0));
    library.set_option(11, 1).unwrap();
    assert_eq!(library.send_array(me, -9, &[2]), Ok(0));
    let mut byte = [0];
    assert_eq!(
        library.receive_array(me, -9, &mut byte).map(|got| (got, byte)),
        Ok(((me, -9, 1), [2]))
    );
    assert_eq!(
        library.receive_array(me, 0, &mut byte).map(|got| (got, byte)),
        Ok(((me, 0, 1), [1]))
    );
}

#[test]
fn output_comes_as_messages_where_the_program_wants_them() {
    let world = World::default();
    world.program("prints", |library, _| {
        receive(library, library.parent().unwrap(), 1);
    });
    let library = world.library();
    let me = library.my_tid().unwrap();
    library.set_option(4, me).unwrap();
    library.set_option(5, 9).unwrap();
    library.set_option(21, 3).unwrap();
    let child = library.spawn(b"prints", &[], 0, b"", 1).unwrap()[0];
    world.print(child, "text");
    send(&library, child, 1, 0);
    world.finish();
    library.set_context(3);
    let next = |ints: &[i32], text: &str| {
        assert_eq!(receive(&library, tid::DAEMON, 9), (9, ints[0]));
        for int in &ints[1..] {
            assert_eq!(unpack(&library), Ok(*int));
        }
        let mut bytes = vec![0; text.len()];
        library.unpack(Element::Byte, Strided::bytes_mut(&mut bytes)).unwrap();
        assert_eq!(bytes, text.as_bytes());
        assert_eq!(unpack(&library), Err(Code::NoData));
    };
    next(&[child, -2, me], "");
    next(&[child, -1, me], "");
    next(&[child, 4], "text");
    next(&[child, 0], "");
}
