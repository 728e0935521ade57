//! Calls and replies.

use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};
use towpath_wire::talk::CONTEXT_OWN;

use super::actors::with_ring;
use super::stage::Heard;
use crate::calls::CallError;
use crate::message::Envelope;

const NOW: Option<std::time::Duration> = Some(std::time::Duration::ZERO);

#[test]
fn each_answer_goes_to_its_question_whatever_their_order() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    assert!(b.next_question(None, NOW).unwrap().is_none());
    let first = a.start_call(b.id(), 3, &[1.5_f64]).unwrap();
    let second = a.start_call(b.id(), 0, &[7_u16, 8]).unwrap();
    // Questions that wait are no messages of the program's.
    assert!(b.try_recv(&super::actors::ANY).unwrap().is_none());
    assert!(b.next_question(Some(4), NOW).unwrap().is_none());
    let later = b.next_question(Some(0), NOW).unwrap().expect("of this service");
    assert_eq!((later.caller(), later.service(), later.bytes().len()), (a.id(), 0, 4));
    assert_eq!(later.values::<u16>().unwrap(), [7, 8]);
    assert!(later.values::<f64>().is_err());
    let sooner = b.next_question(None, NOW).unwrap().expect("the other one");
    assert_eq!((sooner.service(), sooner.values::<f64>().unwrap()), (3, vec![1.5]));
    assert!(b.next_question(None, NOW).unwrap().is_none(), "each is told once");
    b.reply(later, &[-2_i32]).unwrap();
    b.reply(sooner, &[1_u8, 2, 3]).unwrap();
    assert_eq!(*a.finish_call::<u8>(first).unwrap(), [1, 2, 3]);
    assert_eq!(*a.finish_call::<i32>(second).unwrap(), [-2]);
}

#[test]
fn a_call_waits_for_its_answer_and_checks_what_it_is() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    std::thread::scope(|scope| {
        let to = b.id();
        let asks = scope.spawn(move || {
            let doubled = a.call::<u64, u64>(to, 1, &[21]).unwrap();
            assert_eq!(*doubled, [42]);
            a.call::<u64, f32>(to, 1, &[4])
        });
        for _ in 0..2 {
            let question = b.next_question(Some(1), None).unwrap().expect("it waits");
            let doubled: Vec<u64> =
                question.values().unwrap().iter().map(|n: &u64| 2 * n).collect();
            b.reply(question, &doubled).unwrap();
        }
        let other = asks.join().unwrap();
        assert!(matches!(other, Err(CallError::Content(_))), "{other:?}");
    });
}

#[test]
fn a_question_that_makes_no_sense_is_dropped() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let envelope = Envelope { tag: !2, context: CONTEXT_OWN, format: 0 };
    a.send_with(b.id(), envelope, b"short").unwrap();
    a.send_with(b.id(), envelope, &(-1_i64).to_le_bytes()).unwrap();
    a.send_with(b.id(), envelope, &(1_i64 << 40).to_le_bytes()).unwrap();
    a.send_with(b.id(), envelope, &[&0_i64.to_le_bytes()[..], b"sense"].concat()).unwrap();
    let question = b.next_question(Some(2), NOW).unwrap().expect("one makes sense");
    assert_eq!(question.bytes(), b"sense");
    assert!(b.next_question(None, NOW).unwrap().is_none());
}

#[test]
fn who_ends_before_it_answers_is_named() {
    let (mut a, mut a_side, b, _b_side) = with_ring();
    let peer = b.id();
    let pending = a.start_call(peer, 1, &[1_u8]).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| a.finish_call::<u8>(pending));
        let watch = loop {
            if let Heard::Control(ToDaemon::Watch { watch, .. }) = a_side.hear() {
                break watch;
            }
        };
        let event = WatchEvent::TaskEnded { task: peer, ending: None };
        a_side.say(&ToTask::Notice { watch, event });
        let told = waits.join().unwrap();
        assert!(matches!(told, Err(CallError::Ended(task)) if task == peer), "{told:?}");
    });
}

#[test]
fn a_task_may_ask_itself() {
    let (mut a, _a_side, _b, _b_side) = with_ring();
    let own = a.id();
    let pending = a.start_call(own, 5, &[3_i8]).unwrap();
    let question = a.next_question(None, NOW).unwrap().expect("its own");
    assert_eq!((question.caller(), question.service()), (own, 5));
    a.reply(question, &[4_i8]).unwrap();
    assert_eq!(*a.finish_call::<i8>(pending).unwrap(), [4]);
}
