use std::time::Duration;

use proptest::prelude::*;
use towpath_io::shared::SLOTS;
use towpath_vm::endpoint::POSTED_MAX;
use towpath_vm::matching::{Key, Pattern, Wanted};
use towpath_wire::TaskId;

use super::{Bytes, Cancelled, Operation, PendingReceive, QUEUED_MAX, StartedError};
use crate::error::{RecvError, SendError};
use crate::task::Task;
use crate::tests::actors::{Pair, enrol, neighbours, sent, with_ring};
use crate::tests::stage::{LONG, Stage};

const ANY: Wanted = Wanted::any();
const NOW: Option<Duration> = Some(Duration::ZERO);

#[derive(Clone, Debug)]
enum Call {
    /// With this tag, of this length.
    Send(i64, usize),
    StartSend(i64, usize),
    /// Of tags whose bits `mask` are these.
    Post(u64, u64),
    Cancel(usize),
    Finish(usize),
    Receive(Option<i64>),
}

/// Few, so that they meet; some take more than 32 bits.
fn tags() -> impl Strategy<Value = i64> {
    (0..4_i64, 0..2_i64).prop_map(|(low, high)| high << 40 | low)
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let len = prop_oneof![4 => 0..40_usize, 1 => 41..9000_usize];
    let mask = prop_oneof![3 => Just(u64::MAX), 1 => Just(u64::MAX << 32), 1 => Just(!1)];
    let call = prop_oneof![
        4 => (tags(), len.clone()).prop_map(|(tag, len)| Call::Send(tag, len)),
        2 => (tags(), len).prop_map(|(tag, len)| Call::StartSend(tag, len)),
        5 => (tags(), mask).prop_map(|(tag, mask)| Call::Post(tag.cast_unsigned(), mask)),
        1 => (0..6_usize).prop_map(Call::Cancel),
        4 => (0..6_usize).prop_map(Call::Finish),
        3 => proptest::option::of(tags()).prop_map(Call::Receive),
    ];
    proptest::collection::vec(call, 0..60)
}

/// The rule: two lists. Messages are known by their bytes, the first of which number them.
#[derive(Default)]
struct Model {
    waiting: Vec<(Key, Vec<u8>)>,
    posted: Vec<(Pattern, u32)>,
    came: Vec<(u32, Vec<u8>)>,
    next: u32,
}

impl Model {
    fn arrive(&mut self, key: Key, bytes: Vec<u8>) {
        match self.posted.iter().position(|(pattern, _)| pattern.matches(&key)) {
            Some(at) => {
                let (_, receive) = self.posted.remove(at);
                self.came.push((receive, bytes));
            }
            None => self.waiting.push((key, bytes)),
        }
    }

    fn post(&mut self, pattern: Pattern) -> u32 {
        self.next += 1;
        match self.waiting.iter().position(|(key, _)| pattern.matches(key)) {
            Some(at) => {
                let (_, bytes) = self.waiting.remove(at);
                self.came.push((self.next, bytes));
            }
            None => self.posted.push((pattern, self.next)),
        }
        self.next
    }

    fn came(&mut self, receive: u32) -> Option<Vec<u8>> {
        let at = self.came.iter().position(|(number, _)| *number == receive)?;
        Some(self.came.remove(at).1)
    }
}

struct Run<'a> {
    from: &'a mut Task,
    to: &'a mut Task,
    model: Model,
    open: Vec<(PendingReceive<Bytes>, u32)>,
    count: u8,
}

impl Run<'_> {
    fn message(&mut self, tag: i64, len: usize) -> Vec<u8> {
        self.count = self.count.wrapping_add(1);
        let bytes = vec![self.count; len];
        let key = Key { source: self.from.id(), tag, context: 0 };
        self.model.arrive(key, bytes.clone());
        bytes
    }

    fn call(&mut self, call: &Call) {
        let to = self.to.id();
        match *call {
            Call::Send(tag, len) => {
                let bytes = self.message(tag, len);
                self.from.send(to, tag, &bytes).unwrap();
            }
            Call::StartSend(tag, len) => {
                let bytes = self.message(tag, len);
                drop(self.from.start_send_bytes(to, tag, &bytes).unwrap());
            }
            Call::Post(tag, mask) => {
                let pattern = Pattern::masked(None, tag, mask);
                let room = Bytes(vec![0; 9000]);
                let receive = self.to.start_recv(pattern, room).unwrap();
                self.open.push((receive, self.model.post(pattern)));
            }
            Call::Cancel(at) if at < self.open.len() => self.cancel(at),
            Call::Finish(at) if at < self.open.len() => {
                let is_over = self.to.wait_started(&self.open[at].0, NOW).unwrap();
                let number = self.open[at].1;
                let came = self.model.came(number);
                assert_eq!(is_over, came.is_some());
                if let Some(bytes) = came {
                    let (Bytes(got), _) = self.to.finish_recv(self.open.remove(at).0).unwrap();
                    assert_eq!(got, bytes);
                }
            }
            Call::Receive(tag) => {
                let wanted = Wanted { source: None, tag, context: 0 };
                let got = self.to.try_recv(&wanted).unwrap().map(crate::Message::into_bytes);
                let waiting = &mut self.model.waiting;
                let at = waiting.iter().position(|(key, _)| wanted.matches(key));
                assert_eq!(got, at.map(|at| waiting.remove(at).1));
            }
            Call::Cancel(_) | Call::Finish(_) => {}
        }
    }

    fn cancel(&mut self, at: usize) {
        let (receive, number) = self.open.remove(at);
        let cancelled = self.to.cancel_recv(receive).unwrap();
        self.model.posted.retain(|(_, posted)| *posted != number);
        match (cancelled, self.model.came(number)) {
            (Cancelled::Back(Bytes(room)), None) => assert_eq!(room, [0; 9000]),
            (Cancelled::Came(Bytes(got), _), Some(bytes)) => assert_eq!(got, bytes),
            (got, expected) => panic!("{got:?}, expected {expected:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn posted_receives_get_what_two_lists_say(calls in calls(), by_ring in any::<bool>()) {
        let (mut from, _from_side, mut to, _to_side) =
            if by_ring { with_ring() } else { neighbours() };
        // To itself, where there is no ring: nobody carries what the daemon gets.
        let count = 0;
        if by_ring {
            let (model, open) = (Model::default(), Vec::new());
            let mut run = Run { from: &mut from, to: &mut to, model, open, count };
            for call in &calls {
                run.call(call);
            }
        } else {
            own(&mut to, &calls);
        }
    }
}

/// The same with messages of a task to itself.
fn own(task: &mut Task, calls: &[Call]) {
    let (mut model, mut open) = (Model::default(), Vec::new());
    for (count, call) in calls.iter().enumerate() {
        match *call {
            Call::Send(tag, len) | Call::StartSend(tag, len) => {
                let bytes = vec![count as u8; len];
                task.send(task.id(), tag, &bytes).unwrap();
                model.arrive(Key { source: task.id(), tag, context: 0 }, bytes);
            }
            Call::Post(tag, mask) => {
                let pattern = Pattern::masked(Some(task.id()), tag, mask);
                let receive = task.start_recv(pattern, Bytes(vec![0; 9000])).unwrap();
                open.push((receive, model.post(pattern)));
            }
            Call::Finish(at) if at < open.len() => {
                let (receive, number) = open.remove(at);
                if let Some(bytes) = model.came(number) {
                    assert_eq!(task.finish_recv(receive).unwrap().0.0, bytes);
                } else {
                    model.posted.retain(|(_, posted)| *posted != number);
                    // Dropped: its message is left to others.
                    drop(receive);
                }
            }
            _ => {}
        }
    }
    let any = Pattern::masked(None, 0, 0);
    while let Some((_, bytes)) = model.waiting.first().cloned() {
        model.waiting.remove(0);
        let got = task.start_recv(any, Bytes(vec![0; 9000])).unwrap();
        assert_eq!(task.finish_recv(got).unwrap().0.0, bytes);
    }
}

/// Numbered messages with this tag.
fn numbers(task: &mut Task, tag: i64, count: u64) -> Vec<u64> {
    (0..count).map(|_| task.recv_value::<u64>(&ANY.tag(tag)).unwrap()).collect()
}

#[test]
fn sends_that_are_started_leave_in_order_before_those_that_follow() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let (to, count) = (b.id(), 3 * SLOTS as u64);
    for number in 0..count {
        drop(a.start_send(to, 1, &[number]).unwrap());
    }
    assert!(a.started.has_queued(), "the ring has no room for all");
    let receiver = std::thread::spawn(move || numbers(&mut b, 1, count + 1));
    a.send_value(to, 1, count).unwrap();
    assert!(!a.started.has_queued());
    assert_eq!(receiver.join().unwrap(), (0..=count).collect::<Vec<_>>());
    // Also when the quick way is open again.
    assert_eq!(a.started.kept(), (0, 0));
    assert!(!a.directs.detour);
}

#[test]
fn who_waits_for_something_else_goes_on_sending() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let (to, from, count) = (b.id(), a.id(), 3 * SLOTS as u64);
    let sends: Vec<_> = (0..count).map(|n| a.start_send(to, 1, &[n]).unwrap()).collect();
    let receiver = std::thread::spawn(move || {
        let got = numbers(&mut b, 1, count);
        b.send(from, 2, b"all here").unwrap();
        (got, b)
    });
    // A wait that has nothing to do with them.
    a.recv_timeout(&ANY.tag(2), LONG).unwrap().expect("they go on meanwhile");
    let (got, _b) = receiver.join().unwrap();
    assert_eq!(got, (0..count).collect::<Vec<_>>());
    for send in sends {
        assert!(a.is_over(&send).unwrap());
        a.finish_send(send).unwrap();
    }
}

#[test]
fn a_send_that_does_not_wait_says_when_it_would_have_to() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let mut sent = 0_u64;
    while a.try_send_slice(b.id(), 1, &[sent]).unwrap() {
        sent += 1;
    }
    assert!(sent >= SLOTS as u64 - 1, "{sent}");
    assert_eq!(b.recv_value::<u64>(&ANY).unwrap(), 0);
    b.poll().unwrap();
    assert!(a.try_send_slice(b.id(), 1, &[sent]).unwrap());
    assert_eq!(numbers(&mut b, 1, sent), (1..=sent).collect::<Vec<_>>());
}

#[test]
fn without_a_direct_route_the_daemon_gets_it_once_the_last_one_is_on_its_way() {
    let (mut a, mut a_side, b, _b_side) = neighbours();
    let long = vec![5_u8; 60_000];
    assert!(a.try_send(b.id(), 1, b"short").unwrap());
    assert!(a.try_send(b.id(), 2, &long).unwrap());
    // There is no credit for the rest of it.
    assert!(!a.try_send(b.id(), 3, b"too soon").unwrap());
    let queued = a.start_send(b.id(), 4, &[1_u8]).unwrap();
    assert!(!a.is_over(&queued).unwrap());
    a_side.say(&towpath_vm::talk::ToTask::Credit { peer: b.id(), limit: u64::MAX });
    a.finish_send(queued).unwrap();
    a.poll().unwrap();
    let got = sent(&mut a_side, b.id());
    assert_eq!(got.len(), 3);
    assert!(got[0].2 == b"short" && got[1].2 == long && got[2].1 == 4);
}

#[test]
fn what_does_not_fit_its_room_is_an_error_and_left_to_others() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    let short = task.start_recv(ANY.tag(1), vec![0.0_f64; 1]).unwrap();
    let other = task.start_recv(ANY.tag(1), vec![0_u32; 9]).unwrap();
    task.send_slice(own, 1, &[1.0, 2.0]).unwrap();
    let why = task.finish_recv(short).unwrap_err();
    let long = RecvError::TooLong { len: 16, room: 8 };
    assert!(matches!(why, StartedError::Recv(e) if e == long));
    let why = task.finish_recv(other).unwrap_err();
    assert!(matches!(why, StartedError::Recv(RecvError::Content(_))), "{why}");
    assert_eq!(*task.recv_slice::<f64>(&ANY).unwrap(), [1.0, 2.0]);
    assert_eq!(task.started.kept(), (0, 0));
}

#[test]
fn a_receive_that_is_dropped_takes_nothing() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    for count in 0..1000_u64 {
        drop(b.start_recv(ANY, vec![0_u64; 1]).unwrap());
        if count % 7 == 0 {
            a.send_value(b.id(), 1, count).unwrap();
            assert_eq!(b.recv_value::<u64>(&ANY).unwrap(), count);
        }
    }
    assert!(b.started.kept().0 < 200, "they are forgotten: {:?}", b.started.kept());
}

#[test]
fn the_first_that_is_over_is_named_first() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    let receives = [1, 2, 3].map(|tag| task.start_recv(ANY.tag(tag), vec![0_u8; 1]).unwrap());
    let all = |receives: &[PendingReceive<Vec<u8>>]| -> Vec<*const Operation> {
        receives.iter().map(|r| std::ptr::from_ref(r.as_ref())).collect()
    };
    assert_eq!(all(&receives).len(), 3);
    let each = receives.each_ref().map(AsRef::as_ref);
    assert_eq!(task.wait_any(&each, NOW).unwrap(), None);
    task.send_value(own, 3, 3_u8).unwrap();
    task.send_value(own, 1, 1_u8).unwrap();
    assert_eq!(task.wait_any(&each, NOW).unwrap(), Some(2));
    assert!(!task.wait_all(&each, NOW).unwrap());
    task.send_value(own, 2, 2_u8).unwrap();
    assert!(task.wait_all(&each, None).unwrap());
    let got = receives.map(|receive| task.finish_recv(receive).unwrap().0);
    assert_eq!(got, [[1], [2], [3]]);
}

#[test]
fn there_are_limits_and_they_are_named() {
    let (mut a, _a_side, b, _b_side) = with_ring();
    let posted: Vec<_> =
        (0..POSTED_MAX).map(|_| a.start_recv(ANY, Bytes::default()).unwrap()).collect();
    let full = a.start_recv(ANY, Bytes::default()).unwrap_err();
    assert_eq!(full.to_string(), "4096 receives are posted, the most there may be");
    drop(posted);
    drop(a.start_recv(ANY, Bytes::default()).unwrap());
    while a.try_send(b.id(), 1, &[]).unwrap() {}
    let long = vec![0_u8; QUEUED_MAX / 64];
    (0..64).for_each(|_| drop(a.start_send(b.id(), 1, &long).unwrap()));
    let why = a.start_send(b.id(), 1, &[0_u8]).unwrap_err();
    assert_eq!(why.to_string(), "67108865 bytes would wait to leave, limit 67108864");
}

#[test]
fn what_is_queued_for_a_task_that_ends_fails_and_another_tasks_handle_is_refused() {
    let (mut a, mut a_side, b, _b_side): Pair = with_ring();
    let to: TaskId = b.id();
    while a.try_send(to, 1, &[]).unwrap() {}
    let queued = a.start_send(to, 1, &[1_u8]).unwrap();
    let taken_back = a.start_send(to, 1, &[2_u8]).unwrap();
    assert!(a.cancel_send(taken_back).unwrap());
    a_side.say(&towpath_vm::talk::ToTask::Gone { peer: to });
    let why = a.finish_send(queued).unwrap_err();
    assert!(matches!(why, StartedError::Send(SendError::NoTask(task)) if task == to));
    let (mut c, _c_side) = enrol(&mut Stage::new(), 1);
    let foreign = a.start_recv(ANY, Bytes::default()).unwrap();
    assert!(matches!(c.is_over(&foreign), Err(StartedError::Foreign)));
    let drops = c.start_recv(ANY, Bytes::default()).unwrap();
    assert!(matches!(a.finish_recv(drops), Err(StartedError::Foreign)));
}

#[test]
fn a_send_that_is_taken_back_never_comes_and_one_that_has_left_does() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    let left = a.start_send_bytes(to, 1, b"first").unwrap();
    assert!(!a.cancel_send(left).unwrap(), "it has left");
    while a.try_send(to, 1, b"more").unwrap() {}
    let queued = a.start_send_bytes(to, 7, b"taken back").unwrap();
    let kept = a.start_send_bytes(to, 8, b"kept").unwrap();
    assert!(a.cancel_send(queued).unwrap());
    let mut tags = Vec::new();
    while tags.last() != Some(&8) {
        tags.extend(b.try_recv(&ANY).unwrap().map(|message| message.tag()));
        a.poll().unwrap();
    }
    a.finish_send(kept).unwrap();
    assert!(!tags.contains(&7) && tags[0] == 1, "{tags:?}");
    // Nothing is queued any more: what follows goes out at once.
    assert!(a.try_send(to, 9, b"x").unwrap());
    assert_eq!(b.recv_timeout(&ANY, LONG).unwrap().map(|message| message.tag()), Some(9));
}

#[test]
fn so_many_sends_may_be_started_and_not_more() {
    let (mut a, _a_side, b, _b_side) = with_ring();
    while a.try_send(b.id(), 1, &[]).unwrap() {}
    let started: Vec<_> =
        (0..super::SENDS_MAX).map(|_| a.start_send_bytes(b.id(), 1, &[]).unwrap()).collect();
    let why = a.start_send_bytes(b.id(), 1, &[]).unwrap_err();
    assert!(matches!(why, StartedError::Sends { limit: super::SENDS_MAX }), "{why:?}");
    for pending in started {
        assert!(a.cancel_send(pending).unwrap());
    }
    drop(a.start_send_bytes(b.id(), 1, &[]).unwrap());
}
