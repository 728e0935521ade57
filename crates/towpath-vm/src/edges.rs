//! What the tables of a host promise at their edges, as their owners see it.

use core::time::Duration;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use towpath_wire::id::SLOT_MAX;
use towpath_wire::{HostId, Instant, TaskId};

use crate::account::{RouteState, Sent};
use crate::catching::{Catching, OUTPUT_WINDOW, WINDOW_MIN};
use crate::host::{Host, HostState, HostTable};
use crate::log::{Change, ControlLog, LogError, RESTART_GAP, Snapshot};
use crate::members::{LEAVE_GRACE, Members, Origin, Pair, State};
use crate::message::{Exited, Message};
use crate::place::{Loads, choose};
use crate::requests::{REQUESTS_MAX, RequestEvent, RequestId, Requests};
use crate::spawning::{Spawned, Spawning};
use crate::talk::{Claim, Fault, Place};
use crate::task::{Ending, Stream, TaskExit, TaskSpec};
use crate::tasks::{Action, Tasks};
use crate::ties::Ties;

fn host(slot: u16) -> HostId {
    HostId::new(slot, 1).expect("in range")
}

fn task(slot: u16, n: u32) -> TaskId {
    host(slot).task(n).expect("in range")
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn entry(slot: u16, incarnation: u32, key: u16) -> Host {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&key.to_le_bytes());
    Host {
        id: HostId::new(slot, incarnation).expect("in range"),
        name: format!("n{key}"),
        addr: ([127, 0, 0, 1], 7000).into(),
        key: bytes,
        arch: "x86_64-linux".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        state: HostState::Up,
        fields: crate::Fields::default(),
    }
}

#[test]
fn slots_are_given_out_in_turn_then_those_of_the_lost_and_then_none() {
    let mut table = HostTable::default();
    assert_eq!((table.free_slot(), table.is_empty(), table.len()), (Some(1), true, 0));
    for slot in 1..SLOT_MAX {
        assert_eq!(table.free_slot(), Some(slot));
        table.insert(entry(slot, 1, slot));
    }
    assert_eq!(table.free_slot(), Some(SLOT_MAX), "the last is one, too");
    table.insert(entry(SLOT_MAX, 1, SLOT_MAX));
    assert_eq!((table.free_slot(), table.len(), table.is_empty()), (None, 4095, false));
    // Another life of the slot is not meant.
    table.set_lost(HostId::new(7, 2).expect("in range"));
    table.remove(HostId::new(8, 2).expect("in range"));
    assert_eq!((table.free_slot(), table.len(), table.up().count()), (None, 4095, 4095));
    for slot in [900, 7] {
        table.set_lost(host(slot));
    }
    assert_eq!((table.free_slot(), table.up().count()), (Some(7), 4093), "by slot order");
    table.remove(host(2000));
    assert_eq!(table.free_slot(), Some(2000), "one that nobody has goes before a lost one's");
    table.insert(entry(2000, 2, 5000));
    assert_eq!(table.free_slot(), Some(7), "behind the last one there is none: from the front");
    table.insert(entry(7, 2, 5001));
    assert_eq!(table.free_slot(), Some(900));
    assert_eq!((table.get(host(7)), table.by_key(&entry(7, 1, 7).key)), (None, None));
    assert_eq!(table.by_key(&entry(7, 2, 5001).key).map(|h| h.id.incarnation()), Some(2));
}

#[test]
fn a_log_takes_each_entry_once_and_in_order_and_the_later_term_is_the_later_state() {
    let mut leader = ControlLog::found(entry(1, 1, 0), 2000);
    assert_eq!((leader.leader(), leader.next_incarnation()), (host(1), 2));
    assert_eq!(leader.snapshot().lost_after_ms, 2000);
    let mut follower = leader.clone();
    let added = leader.append(Change::Added(entry(2, 2, 1)));
    assert_eq!((added.term, added.index, leader.next_incarnation()), (1, 2, 3));
    let lost = leader.append(Change::Lost(HostId::new(2, 2).expect("in range")));
    assert_eq!(leader.table().up().count(), 1);
    assert_eq!(follower.apply(&lost), Err(LogError::Gap { have: 1, got: 3 }));
    assert_eq!((follower.apply(&added), follower.apply(&lost)), (Ok(()), Ok(())));
    let left = leader.append(Change::Left(HostId::new(2, 2).expect("in range")));
    assert_eq!((leader.table().len(), follower.table().len()), (1, 2));
    // An old entry is no fault, of whatever term it is.
    let mut old = added;
    old.term = 9;
    assert_eq!(follower.apply(&old), Ok(()));
    assert_eq!(follower.apply(&left), Ok(()));
    assert_eq!((follower.table().len(), follower == leader), (1, true));
    assert_eq!(format!("{leader:?}"), "ControlLog { index: 4, hosts: 1 }");
    assert_eq!(LogError::Gap { have: 1, got: 3 }.to_string(), "log entry 3 follows on 1");
    let state = |term, index| Snapshot { term, index, ..leader.snapshot().clone() }.place();
    assert!(state(2, 1) > state(1, 9) && state(1, 9) > state(1, 8));
}

#[test]
fn each_life_of_a_founder_leaves_one_gap_of_indices() {
    let saved = ControlLog::found(entry(1, 1, 0), 2000).snapshot().clone();
    for (led, term) in [(0, 2), (1, 2), (2, 3), (7, 8)] {
        let log = ControlLog::lead_again(saved.clone(), led, |life| entry(1, life, 0));
        let index = 1 + (term - 1) * RESTART_GAP;
        assert_eq!((log.snapshot().term, log.snapshot().index), (term, index), "led {led}");
        assert_eq!(u64::from(log.leader().incarnation()), index);
        assert_eq!((log.table().len(), u64::from(log.next_incarnation())), (1, index + 1));
    }
}

#[test]
fn requests_have_one_end_each_and_strangers_are_counted() {
    let mut r = Requests::default();
    assert!(r.is_empty() && !r.any_on(host(2)));
    let a = r.open(host(2), 10, true).expect("room");
    let b = r.open(host(2), 10, false).expect("room");
    let c = r.open(host(3), 10, false).expect("room");
    assert_eq!((a, b, c), (RequestId(1), RequestId(2), RequestId(3)));
    assert_eq!((r.host(a), r.job(a), r.job(b)), (Some(host(2)), Some(true), Some(false)));
    assert_eq!((r.count_on(host(2)), r.count_on(host(3)), r.count_on(host(4))), (2, 1, 0));
    assert_eq!((r.len(), r.is_empty(), r.on(host(2))), (3, false, vec![a, b]));
    let running = RequestEvent::Started { task: task(2, 5), pid: 77 };
    assert_eq!(r.started(host(2), 1, task(2, 5), 77), Some(running));
    assert_eq!(r.input_taken(host(2), 1, 9), Some(RequestEvent::InputTaken(9)));
    assert_eq!(r.strays, 0);
    assert_eq!(r.started(host(3), 1, task(3, 5), 77), None);
    assert_eq!(r.input_taken(host(2), 9, 9), None);
    assert_eq!(r.output(host(3), 1, Stream::Err, vec![1]), [None, None]);
    assert_eq!(r.output(host(2), 1, Stream::Err, vec![1; 11]), [None, None], "beyond its window");
    assert_eq!(r.strays, 4);
    // All of the window may be used; its end waits for the last byte and not for one more.
    let ended = |bytes| {
        let exit = TaskExit { ending: Ending::Exited(3), wall_us: 5 };
        Exited { request: 1, exit, output_bytes: bytes }
    };
    let [first, none] = r.output(host(2), 1, Stream::Err, vec![1; 9]);
    let bytes = vec![1; 9];
    assert_eq!((first, none), (Some(RequestEvent::Output { stream: Stream::Err, bytes }), None));
    assert_eq!(r.exited(host(2), ended(10)), None);
    let [last, end] = r.output(host(2), 1, Stream::Out, vec![2]);
    assert!(last.is_some());
    assert_eq!(end, Some(RequestEvent::Ended(ended(0).exit)));
    assert_eq!((r.len(), r.count_on(host(2)), r.credit(a, 5)), (2, 1, None));
    assert_eq!(r.fail(a, Ending::HostLost), None, "it has had its end");
    assert!(r.any_on(host(2)) && r.fail(b, Ending::HostLost).is_some() && !r.any_on(host(2)));
    assert_eq!((r.host(b), r.job(b), r.on(host(2))), (None, None, vec![]));
    // No output, and so no wait.
    let exit = Exited { request: 3, ..ended(0) };
    assert!(r.exited(host(3), exit).is_some() && r.is_empty());
    for _ in 0..REQUESTS_MAX {
        assert!(r.open(host(2), 0, false).is_some());
    }
    assert_eq!((r.open(host(2), 0, false), r.len()), (None, REQUESTS_MAX));
}

#[test]
fn endings_have_a_shells_status_and_words() {
    let not_started = |errno| Ending::NotStarted { errno, text: "why".into() };
    for (ending, status, words) in [
        (Ending::Exited(0), 0, "exit status 0"),
        (Ending::Exited(7), 7, "exit status 7"),
        (Ending::Signalled(9), 137, "ended by signal 9"),
        (Ending::TimedOut, 124, "timed out"),
        (not_started(2), 127, "could not be started: why"),
        (not_started(13), 126, "could not be started: why"),
        (not_started(0), 126, "could not be started: why"),
        (Ending::HostLost, 255, "host lost"),
        (Ending::Refused("full".into()), 255, "refused: full"),
    ] {
        assert_eq!((ending.shell_status(), ending.to_string()), (status, words.into()));
        assert_eq!(ending.is_success(), status == 0);
    }
    assert_eq!(TaskExit::without_run(Ending::HostLost).wall_us, 0);
}

#[test]
fn commands_are_shown_as_typed_and_cut_between_letters() {
    let command = |program: &str, args: &[&str]| {
        let args = args.iter().map(|a| a.as_bytes().to_vec()).collect();
        TaskSpec { program: program.into(), args, ..TaskSpec::default() }.command()
    };
    assert_eq!(command("p", &[]), "p");
    assert_eq!(command("p", &["a b", "c"]), "p a b c");
    assert_eq!(command(&"x".repeat(200), &["a"]), "x".repeat(200));
    assert_eq!(command(&"x".repeat(199), &["a"]), "x".repeat(199) + " ");
    assert_eq!(command(&"x".repeat(198), &["a"]), "x".repeat(198) + " a");
    assert_eq!(command("xx", &["é".repeat(200).as_str()]).len(), 199);
}

#[test]
fn states_of_a_route_have_their_own_words_and_counts_go_round() {
    let all: Vec<&str> = (0..10).map(|raw| RouteState::from_raw(raw).text()).collect();
    let mut unlike = all.clone();
    unlike.sort_unstable();
    unlike.dedup();
    assert_eq!((unlike.len(), all.iter().any(|text| text.is_empty())), (10, false));
    assert_eq!((RouteState::Stands.text(), RouteState::Stands.to_raw()), ("stands", 2));
    let mut sent = Sent { messages: 2, bytes: u64::MAX };
    sent += Sent { messages: 3, bytes: 5 };
    assert_eq!(sent, Sent { messages: 5, bytes: 4 });
}

#[test]
fn a_spawn_in_which_every_task_fails_is_placed_nowhere_and_done() {
    let mut s = Spawning::default();
    assert!(s.is_empty());
    let (first, second) = (s.begin(task(1, 1), 5, 2), s.begin(task(1, 2), 6, 1));
    assert_eq!((s.len(), first != second), (2, true));
    s.asked(first, 0, 50, host(2));
    s.asked(99, 0, 51, host(3));
    s.refused(first, 1, Fault::NoHost);
    s.ended(51, &Ending::HostLost);
    assert_eq!(s.poll(), None, "that spawn is not known");
    s.ended(50, &Ending::NotStarted { errno: 13, text: "no".into() });
    let (hosts, tasks) = ([host(2)].into(), vec![]);
    assert_eq!(s.poll(), Some(Spawned::Placed { number: first, hosts, tasks }));
    let results = vec![Err(Fault::NotStarted { errno: 13, text: "no".into() }), Err(Fault::NoHost)];
    assert_eq!(s.poll(), Some(Spawned::Done { asker: task(1, 1), question: 5, results }));
    // Started without having been accepted: it is both.
    s.asked(second, 0, 52, host(3));
    s.started(52, task(3, 9));
    let (hosts, tasks) = ([host(3)].into(), vec![task(3, 9)]);
    assert_eq!(s.poll(), Some(Spawned::Placed { number: second, hosts, tasks }));
    let results = vec![Ok(task(3, 9))];
    assert_eq!(s.poll(), Some(Spawned::Done { asker: task(1, 2), question: 6, results }));
    assert_eq!((s.poll(), s.is_empty()), (None, true));
    // Refused for another reason than its program: the reason is told.
    let third = s.begin(task(1, 1), 7, 1);
    s.asked(third, 0, 53, host(3));
    s.ended(53, &Ending::Refused("full".into()));
    s.poll();
    let results = vec![Err(Fault::NotStarted { errno: 0, text: "refused: full".into() })];
    assert_eq!(s.poll(), Some(Spawned::Done { asker: task(1, 1), question: 7, results }));
}

#[test]
fn tasks_go_where_they_fit_and_loads_are_believed_for_ten_seconds() {
    let hosts = [entry(1, 1, 1), entry(2, 1, 2), entry(3, 1, 3)];
    let slots = |loads: [u64; 3], place: Place, count, last| -> Vec<u16> {
        let hosts = hosts.iter().zip(loads);
        choose(hosts, &place, count, last).iter().map(|h| h.slot()).collect()
    };
    assert_eq!(slots([0, 0, 0], Place::Host(host(2)), 2, 0), [2, 2]);
    assert_eq!(slots([0, 0, 0], Place::Host(HostId::new(2, 9).unwrap()), 2, 0), [0; 0]);
    assert_eq!(
        slots([5, 1, 3], Place::Any, 4, 0),
        [2, 2, 2, 3],
        "the emptiest, told so far counted"
    );
    assert_eq!(slots([0, 0, 0], Place::Any, 1, 3), [1], "behind the last comes the first");
    assert_eq!(slots([0, 0, 0], Place::Any, 1, 2), [3]);
    let mut none = entry(4, 1, 4);
    none.cpus = 0;
    assert_eq!(choose([(&none, 1)].into_iter(), &Place::Any, 1, 0), [host(4)], "counted as one");
    let mut loads = Loads::default();
    loads.told(at(0), host(2), 7, 2);
    let of = |ms| loads.of(at(ms), host(2), 1);
    assert_eq!((of(0), of(9999), of(10_000)), (6, 6, 1));
}

#[test]
fn catchers_are_known_by_host_until_their_last_request_is_over() {
    let mut c = Catching::default();
    assert!(c.is_empty() && c.on(host(1)).is_empty());
    assert_eq!(c.window(task(1, 5)), OUTPUT_WINDOW);
    assert!(c.catch(1, task(1, 5), 100) && !c.catch(2, task(1, 5), 100));
    assert!(c.catch(3, task(2, 5), 100), "another one's first");
    assert_eq!((c.len(), c.on(host(1)), c.catcher(2)), (2, vec![task(1, 5)], Some(task(1, 5))));
    c.sent(1, 40);
    c.ended(1);
    c.ended(2);
    assert_eq!((c.catcher(1), c.catcher(2), c.len()), (None, None, 2), "not all is taken");
    assert_eq!(c.paid(task(1, 5), 40), []);
    assert_eq!(c.paid(task(9, 9), 40), [], "nobody");
    c.ended(3);
    assert_eq!((c.len(), c.on(host(2))), (1, vec![]));
    assert_eq!(c.over(task(2, 5)), []);
    // One that ends gives each of its requests a whole window in all.
    c.catch(4, task(3, 1), OUTPUT_WINDOW);
    c.catch(5, task(3, 1), WINDOW_MIN);
    c.sent(4, 1000);
    assert_eq!(c.over(task(3, 1)), [(4, 1000), (5, OUTPUT_WINDOW - WINDOW_MIN)]);
    // A small window doubles with each payment until it is whole, and credit is never lost.
    c.catch(6, task(4, 1), 1000);
    let mut room = 1000;
    for expected in [2000, 4000, 8000, 16_000, 32_000, OUTPUT_WINDOW, OUTPUT_WINDOW] {
        c.sent(6, room);
        let paid: u32 = c.paid(task(4, 1), room).iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(paid, expected);
        room = paid;
    }
}

#[test]
fn where_little_room_is_left_a_window_grows_by_a_sixteenth_of_it() {
    use crate::catching::CATCH_MAX;
    let mut c = Catching::default();
    c.catch(1, task(1, 5), CATCH_MAX - 2600);
    c.catch(2, task(1, 5), 1000);
    for room in [1600, 1500, 1407] {
        c.sent(2, 1000);
        assert_eq!(c.paid(task(1, 5), 1000), [(2, 1000 + room / 16)], "{room} left");
    }
    // What has its whole window needs no credit when its catcher ends.
    c.catch(3, task(2, 5), OUTPUT_WINDOW);
    c.catch(4, task(2, 5), OUTPUT_WINDOW - 1);
    assert_eq!(c.over(task(2, 5)), [(4, 1)]);
}

fn origin(cookie: Option<u64>, family: Option<u64>) -> Origin {
    Origin { cookie, parent: None, root: (host(1), 1), context: 0, family }
}

#[test]
fn members_are_listed_and_those_that_take_part_are_told_apart() {
    let mut m = Members::default();
    assert!(m.is_empty() && m.ids().is_empty() && m.poll_timeout().is_none());
    m.add(task(1, 2), origin(Some(7), None));
    m.add(task(1, 1), origin(None, Some(4)));
    assert_eq!((m.len(), m.is_empty(), m.ids()), (2, false, vec![task(1, 1), task(1, 2)]));
    let siblings = |m: &Members, n| m.get(task(1, n)).expect("added").siblings.clone();
    assert_eq!((siblings(&m, 1), siblings(&m, 2)), (None, Some(vec![])), "one has a family");
    assert!(m.enrolled(task(1, 1)).is_none());
    m.get_mut(task(1, 1)).expect("added").state = State::Enrolled;
    assert!(m.enrolled(task(1, 1)).is_some() && m.enrolled(task(1, 9)).is_none());
    assert_eq!(m.registered().count(), 0);
    m.get_mut(task(1, 1)).expect("added").registered = true;
    assert_eq!(m.registered().collect::<Vec<_>>(), [task(1, 1)]);
    assert!(!m.claims(&Claim { task: task(1, 9), cookie: 7 }));
    assert!(!m.process_over(task(1, 9), Ending::Exited(0)));
    assert!(!m.connection_over(at(0), task(1, 9)));
    // One that waits for its siblings' names has a connection that may end, too.
    m.get_mut(task(1, 2)).expect("added").state = State::Welcomed;
    assert!(!m.connection_over(at(5), task(1, 2)));
    assert_eq!(m.get(task(1, 2)).map(|t| t.state.clone()), Some(State::Left(at(5) + LEAVE_GRACE)));
    assert_eq!((m.poll_over(at(2004)), m.poll_over(at(2005))), (None, Some(task(1, 2))));
    assert!(m.remove(task(1, 2)).is_some() && m.remove(task(1, 2)).is_none());
    assert_eq!((m.poll_timeout(), m.len()), (None, 1));
}

#[test]
fn what_came_by_two_classes_says_its_place_from_then_on() {
    use crate::data::Class;
    let mut pair = Pair::default();
    pair.goes_by(Class::Small);
    pair.goes_by(Class::Small);
    assert!(!pair.placed);
    pair.goes_by(Class::Bulk);
    assert!(pair.placed);
    pair.goes_by(Class::Bulk);
    assert!(pair.placed, "for ever");
}

#[test]
fn ties_of_one_kind_stay_when_those_of_the_other_go() {
    let mut ties = Ties::default();
    assert!(ties.is_empty());
    ties.tie(task(1, 1), task(2, 1));
    ties.watch(task(1, 1), 5, task(2, 1));
    assert_eq!((ties.len(), ties.is_empty(), ties.any_on(host(2))), (1, false, true));
    ties.untie(task(1, 1), task(2, 1));
    assert!(ties.any_on(host(2)), "it is watched");
    ties.tie(task(1, 2), task(2, 1));
    ties.unwatch(task(1, 1), 5, task(2, 1));
    let tie = ties.take(task(2, 1)).expect("a partner is left");
    assert_eq!((tie.partners, tie.watches.len()), ([task(1, 2)].into(), 0));
    assert_eq!((ties.take(task(2, 1)), ties.len()), (None, 0));
}

fn spec(queued: bool) -> TaskSpec {
    let (output_window, input_window) = (10, 6);
    TaskSpec { program: b"p".to_vec(), queued, output_window, input_window, ..TaskSpec::default() }
}

fn actions(t: &mut Tasks) -> Vec<Action> {
    core::iter::from_fn(|| t.poll_action()).collect()
}

fn told(t: &mut Tasks) -> Vec<String> {
    let words = |(to, message): (HostId, Message)| match message {
        Message::Started(s) => format!("{to}: {} runs as {}", s.request, s.pid),
        Message::Output(o) => format!("{to}: {} wrote {}", o.request, o.bytes.len()),
        Message::InputTaken(c) => format!("{to}: {} took {}", c.request, c.bytes),
        Message::Exited(e) => format!(
            "{to}: {} ended after {} us and {} B: {}",
            e.request, e.exit.wall_us, e.output_bytes, e.exit.ending
        ),
        other => format!("{to}: {other:?}"),
    };
    core::iter::from_fn(|| t.poll_message()).map(words).collect()
}

#[test]
fn a_requester_hears_all_of_a_task_once_and_in_order() {
    let mut t = Tasks::new(host(1), 0);
    assert!(t.is_empty() && t.load() == 0 && t.poll_timeout().is_none());
    let id = t.spawn(at(0), host(2), 7, spec(true), 5, false).expect("at least one slot");
    assert_eq!(t.spawn(at(0), host(2), 7, spec(true), 5, false), None, "asked twice");
    assert_eq!((t.len(), t.load(), t.is_empty()), (1, 1, false));
    assert!(matches!(&actions(&mut t)[..], [Action::Start { task, cookie: 5, .. }] if *task == id));
    t.started(at(10), id, 99);
    t.output(id, Stream::Out, vec![0; 4]);
    t.credit(host(2), 7, 3);
    t.credit(host(3), 7, 3);
    assert_eq!(actions(&mut t), [Action::Credit { task: id, bytes: 3 }], "its requester's only");
    t.output(id, Stream::Err, vec![0; 9]);
    t.input_taken(id, 2);
    t.exited(at(15), id, Ending::Exited(1));
    assert_eq!(
        told(&mut t),
        [
            "h2.1: 7 runs as 99",
            "h2.1: 7 wrote 4",
            "h2.1: 7 wrote 9",
            "h2.1: 7 took 2",
            "h2.1: 7 ended after 5000 us and 13 B: exit status 1",
        ]
    );
    assert_eq!((t.poll_over(), t.poll_over()), (Some((id, Ending::Exited(1))), None));
    assert_eq!((t.len(), t.load(), t.any_for(host(2))), (0, 0, false));
    t.exited(at(16), id, Ending::Exited(1));
    assert_eq!((told(&mut t).len(), t.poll_over()), (0, None), "once");
}

#[test]
fn a_task_that_waits_for_a_slot_ends_at_once_and_its_slot_goes_to_the_next() {
    let mut t = Tasks::new(host(1), 1);
    let ids = [1, 2, 3].map(|n| t.spawn(at(0), host(2), n, spec(true), 0, false).expect("room"));
    assert_eq!((actions(&mut t).len(), t.load(), t.len()), (1, 1, 3));
    t.kill(at(1), host(3), 2, 15);
    assert_eq!(t.len(), 3, "another host's request");
    t.kill(at(1), host(2), 2, 15);
    assert_eq!(told(&mut t), ["h2.1: 2 ended after 0 us and 0 B: ended by signal 15"]);
    t.kill(at(1), host(2), 1, 15);
    assert_eq!(actions(&mut t), [Action::Signal { task: ids[0], signal: 15 }]);
    t.exited(at(2), ids[0], Ending::Signalled(15));
    assert!(matches!(&actions(&mut t)[..], [Action::Start { task, .. }] if *task == ids[2]));
    // One that needs no slot takes none.
    t.spawn(at(3), host(2), 4, spec(false), 0, false).expect("room");
    t.spawn(at(3), host(2), 5, spec(true), 0, false).expect("room");
    assert_eq!((actions(&mut t).len(), t.load()), (1, 2));
}

#[test]
fn a_task_has_so_long_and_two_seconds_more() {
    let mut t = Tasks::new(host(1), 1);
    let spec = TaskSpec { timeout_ms: 500, ..spec(false) };
    let id = t.spawn(at(0), host(2), 1, spec, 0, false).expect("room");
    assert_eq!(t.poll_timeout(), None, "it does not run yet");
    t.started(at(100), id, 9);
    actions(&mut t);
    assert_eq!(t.poll_timeout(), Some(at(600)));
    t.handle_timeout(at(599));
    assert_eq!(actions(&mut t), []);
    t.handle_timeout(at(600));
    assert_eq!(actions(&mut t), [Action::Signal { task: id, signal: 15 }]);
    assert_eq!(t.poll_timeout(), Some(at(2600)));
    t.handle_timeout(at(2600));
    assert_eq!(actions(&mut t), [Action::Signal { task: id, signal: 9 }]);
    assert_eq!(t.poll_timeout(), None);
    t.exited(at(2700), id, Ending::Signalled(9));
    assert_eq!(told(&mut t)[1], "h2.1: 1 ended after 2600000 us and 0 B: timed out");
}

#[test]
fn the_tasks_of_a_requester_that_is_gone_end_and_the_others_go_on() {
    let mut t = Tasks::new(host(1), 1);
    let runs = t.spawn(at(0), host(2), 1, spec(false), 0, false).expect("room");
    let alone = t.spawn(at(0), host(2), 2, spec(false), 0, true).expect("room");
    let others = t.spawn(at(0), host(3), 1, spec(true), 0, false).expect("room");
    let waits = t.spawn(at(0), host(2), 3, spec(true), 0, false).expect("room");
    for id in [runs, alone, others] {
        t.started(at(1), id, 1);
    }
    actions(&mut t);
    told(&mut t);
    t.requester_lost(at(5), host(2));
    let all = u32::MAX;
    assert_eq!(
        actions(&mut t),
        [
            Action::Signal { task: runs, signal: 15 },
            Action::Credit { task: runs, bytes: all },
            Action::Credit { task: alone, bytes: all },
        ]
    );
    assert_eq!((t.poll_over(), t.poll_over()), (Some((waits, Ending::HostLost)), None));
    assert_eq!((t.requester(runs), t.requester(others)), (None, Some((host(3), 1))));
    assert_eq!(
        (t.poll_timeout(), t.any_for(host(2)), t.any_for(host(3))),
        (Some(at(2005)), false, true)
    );
    t.handle_timeout(at(2005));
    assert_eq!(actions(&mut t), [Action::Signal { task: runs, signal: 9 }]);
    // They write and end, and nobody is told.
    t.output(runs, Stream::Out, vec![0; 100_000]);
    t.exited(at(2006), runs, Ending::Signalled(9));
    t.input_taken(alone, 1);
    assert_eq!(told(&mut t), [""; 0]);
    t.end_all(at(3000));
    assert_eq!(
        actions(&mut t).iter().filter(|a| matches!(a, Action::Signal { signal: 15, .. })).count(),
        2,
        "everything ends, whoever it runs for"
    );
}

#[test]
fn numbers_of_a_later_life_begin_elsewhere() {
    let life = |n: u32| HostId::new(1, n).expect("in range");
    let first = |mut t: Tasks| t.adopt(at(0), 1, "c").map(TaskId::number);
    assert_eq!(first(Tasks::new(life(4000), 1)), Some(1));
    assert_eq!(first(Tasks::new_after(life(4000), 1)), Some(251));
    assert_eq!(first(Tasks::new_after(life(0), 1)), Some(1));
    let last = 0x3_ffff << 4;
    assert_eq!(first(Tasks::new_after(life(last), 1)), Some(1), "numbers come round");
    let mut t = Tasks::new(life(1), 1);
    let old = t.adopt(at(0), 1, "c").expect("room");
    t.rename(life(2));
    assert_eq!(t.adopt(at(0), 1, "c").map(TaskId::host), Some(life(2)));
    assert!(t.info(at(0), old).is_some());
    t.release(old);
    assert_eq!((t.info(at(0), old), t.load()), (None, 1));
}
