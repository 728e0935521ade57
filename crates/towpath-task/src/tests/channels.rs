//! Channels of a task's own, with a daemon that the test plays.

use std::time::Duration;

use towpath_vm::channel::{ChannelSpec, ChannelStatus, Class, Closed};
use towpath_vm::talk::{Answer, Fault, Question, ToDaemon, ToTask};
use towpath_wire::{HostId, TaskId};

use super::actors::enrol;
use super::stage::{Heard, LONG, Side, Stage};
use crate::channels::Channel;
use crate::error::{ChannelError, OpenError};
use crate::task::Task;

const NOW: Option<Duration> = Some(Duration::ZERO);
const SHORT: Duration = Duration::from_millis(5);

fn peer() -> TaskId {
    HostId::new(2, 1).unwrap().task(9).unwrap()
}

fn actor() -> (Task, Side) {
    enrol(&mut Stage::new(), 1)
}

fn said(side: &mut Side) -> ToDaemon {
    match side.hear() {
        Heard::Control(said) => said,
        other => panic!("{other:?}"),
    }
}

/// A channel that the daemon has answered so.
fn opened(
    task: &mut Task,
    side: &mut Side,
    spec: &ChannelSpec,
    outcome: Result<(), Fault>,
) -> Result<Channel, OpenError> {
    std::thread::scope(|scope| {
        let opens = scope.spawn(|| task.open_channel(peer(), spec));
        let ToDaemon::OpenChannel { number, to, spec: wanted } = said(side) else {
            panic!("other")
        };
        assert_eq!((to, wanted, number % 2), (peer(), *spec, 0));
        side.say(&ToTask::ChannelOpen { number, outcome });
        opens.join().unwrap()
    })
}

#[test]
fn a_channel_stands_once_the_daemon_says_so_or_is_refused() {
    let (mut task, mut side) = actor();
    let spec = ChannelSpec::default();
    let first = opened(&mut task, &mut side, &spec, Ok(())).unwrap();
    assert_eq!((first.peer(), first.number()), (peer(), 0));
    let fault = Fault::NoTask;
    let refused = opened(&mut task, &mut side, &spec, Err(fault.clone()));
    assert!(matches!(refused, Err(OpenError::Refused(why)) if why == fault));
    let third = opened(&mut task, &mut side, &ChannelSpec { priority: 7, ..spec }, Ok(())).unwrap();
    assert_eq!(third.number(), 4, "a number is not used twice");
    let all: Vec<_> = task.channels().collect();
    assert_eq!(all, [(first, spec), (third, ChannelSpec { priority: 7, ..spec })]);
    assert_eq!((task.channel(4), task.channel(2)), (Some(third), None));
    // One that does not stand in time is wanted no more.
    assert!(task.open_channel_within(peer(), &spec, SHORT).unwrap().is_none());
    assert!(matches!(said(&mut side), ToDaemon::OpenChannel { number: 6, .. }));
    assert_eq!(said(&mut side), ToDaemon::CloseChannel { number: 6 });
    assert_eq!(task.channel(6), None);
    task.close_channel(first).unwrap();
    assert_eq!(said(&mut side), ToDaemon::CloseChannel { number: 0 });
    assert_eq!(task.close_channel(first), Err(ChannelError::NotOpen));
    assert_eq!(task.send_on(first, b"x"), Err(ChannelError::NotOpen));
    assert_eq!(task.recv_on(first, NOW), Err(ChannelError::NotOpen));
}

#[test]
fn no_more_is_sent_than_there_is_room_for_and_it_comes_back() {
    let (mut task, mut side) = actor();
    let spec = ChannelSpec { window: 4096, ..ChannelSpec::default() };
    let channel = opened(&mut task, &mut side, &spec, Ok(())).unwrap();
    let longest = spec.longest() as usize;
    let long = vec![1; longest + 1];
    let refused = task.send_on(channel, &long);
    assert_eq!(refused, Err(ChannelError::TooLong { len: longest + 1, limit: longest }));
    let mut sent = 0;
    while task.try_send_on(channel, &[7; 1000]).unwrap() {
        sent += 1;
    }
    assert_eq!(sent, 4096 / spec.cost(1000));
    for _ in 0..sent {
        let Heard::OnChannel(front, message) = side.hear() else { panic!("no message") };
        assert_eq!((front.number, front.left, message), (0, None, vec![7; 1000]));
    }
    // As much room as one byte less than it takes is none.
    let left = 4096 - sent * spec.cost(1000);
    side.say(&ToTask::ChannelSent { number: 0, bytes: spec.cost(1000) - left - 1 });
    task.poll().unwrap();
    assert!(!task.try_send_on(channel, &[7; 1000]).unwrap());
    side.say(&ToTask::ChannelSent { number: 0, bytes: 1 });
    task.send_on(channel, &[8; 1000]).unwrap();
    assert!(!task.try_send_on(channel, b"").unwrap());
    // Room of a channel that there is not counts nowhere.
    side.say(&ToTask::ChannelSent { number: 8, bytes: 4096 });
    task.poll().unwrap();
    assert!(!task.try_send_on(channel, b"").unwrap());
}

#[test]
fn what_comes_is_received_in_order_and_told_before_the_window_is_half_used() {
    let (mut task, mut side) = actor();
    let spec = ChannelSpec { window: 4096, ..ChannelSpec::default() };
    let channel = opened(&mut task, &mut side, &spec, Ok(())).unwrap();
    assert_eq!(task.recv_on(channel, NOW), Ok(None));
    let message = |n: u8| vec![n; 400];
    for n in 0..5 {
        side.on_channel(0, &message(n));
    }
    side.on_channel(8, b"on none");
    let mut room = [0; 399];
    let no_room = task.recv_on_into(channel, &mut room, Some(LONG));
    assert_eq!(no_room, Err(ChannelError::NoRoom { len: 400, room: 399 }));
    assert_eq!(task.recv_on(channel, Some(LONG)), Ok(Some(message(0))));
    assert_eq!(task.recv_on(channel, NOW), Ok(Some(message(1))));
    assert!(side.heard().is_none(), "two together are less than a quarter");
    let mut room = [9; 500];
    assert_eq!(task.recv_on_into(channel, &mut room, NOW), Ok(Some(400)));
    assert_eq!((&room[..400], room[400]), (&message(2)[..], 9));
    assert_eq!(said(&mut side), ToDaemon::ChannelTaken { number: 0, messages: 3 });
    assert_eq!(task.recv_on(channel, NOW), Ok(Some(message(3))));
    // What was not told yet goes with whatever goes next.
    task.unwatch(3).unwrap();
    let mut heard = [said(&mut side), said(&mut side)];
    heard.sort_by_key(|said| matches!(said, ToDaemon::Unwatch { .. }));
    assert_eq!(heard[0], ToDaemon::ChannelTaken { number: 0, messages: 1 });
    side.say(&ToTask::ChannelClosed { number: 0, why: Closed::ByPeer });
    task.poll().unwrap();
    assert_eq!(task.recv_on(channel, None), Ok(Some(message(4))), "before it is over");
    assert_eq!(task.recv_on(channel, None), Err(ChannelError::Closed(Closed::ByPeer)));
    assert_eq!(task.send_on(channel, b"x"), Err(ChannelError::Closed(Closed::ByPeer)));
    assert_eq!(task.channels().count(), 1, "until it is closed here");
    task.close_channel(channel).unwrap();
    assert_eq!(task.channels().count(), 0);
    assert!(side.heard().is_none(), "the daemon knows that it is over");
}

#[test]
fn a_channel_that_is_offered_is_accepted_once_unless_it_is_over() {
    let (mut task, mut side) = actor();
    assert_eq!(task.accept_channel(NOW), Ok(None));
    let spec = ChannelSpec { priority: 2, ..ChannelSpec::default() };
    for number in [1, 3, 5] {
        side.say(&ToTask::ChannelOffered { number, from: peer(), spec });
    }
    // Two are over: nothing has come on one of them.
    side.on_channel(5, b"last words");
    for number in [3, 5] {
        side.say(&ToTask::ChannelClosed { number, why: Closed::ByPeer });
    }
    let (first, said_of) = task.accept_channel(Some(LONG)).unwrap().expect("it is offered");
    assert_eq!((first.number(), first.peer(), said_of), (1, peer(), spec));
    let (last, _) = task.accept_channel(NOW).unwrap().expect("something came on it");
    assert_eq!(last.number(), 5);
    assert_eq!(task.recv_on(last, NOW), Ok(Some(b"last words".to_vec())));
    assert_eq!(task.recv_on(last, NOW), Err(ChannelError::Closed(Closed::ByPeer)));
    assert_eq!(task.accept_channel(NOW), Ok(None));
    // Closed before it was accepted.
    side.say(&ToTask::ChannelOffered { number: 7, from: peer(), spec });
    while task.channel(7).is_none() {
        task.poll().unwrap();
    }
    task.close_channel(task.channel(7).unwrap()).unwrap();
    assert_eq!(task.accept_channel(NOW), Ok(None));
}

#[test]
fn a_message_of_a_timely_channel_says_for_how_long_it_is_of_use() {
    let (mut task, mut side) = actor();
    let ordered = opened(&mut task, &mut side, &ChannelSpec::default(), Ok(())).unwrap();
    assert_eq!(task.send_on_within(ordered, b"x", SHORT), Err(ChannelError::NotTimely));
    let spec = ChannelSpec {
        class: Class::Timely,
        deadline: Some(Duration::from_millis(20)),
        window: 4096,
        ..ChannelSpec::default()
    };
    let timely = opened(&mut task, &mut side, &spec, Ok(())).unwrap();
    assert_eq!(task.send_on_within(timely, b"x", Duration::ZERO), Err(ChannelError::TooLate));
    task.send_on_within(timely, b"x", LONG).unwrap();
    let Heard::OnChannel(front, message) = side.hear() else { panic!("no message") };
    assert_eq!((front.number, message), (2, b"x".to_vec()));
    assert!(front.left.is_some_and(|left| left <= LONG && left > LONG / 2), "{front:?}");
    while task.try_send_on(timely, &[0; 100]).unwrap() {}
    assert_eq!(task.send_on_within(timely, &[0; 100], SHORT), Err(ChannelError::TooLate));
}

#[test]
fn whoever_waits_hears_of_a_message_on_a_channel_and_what_fits_exactly_is_taken() {
    let (mut task, mut side) = actor();
    let channel = opened(&mut task, &mut side, &ChannelSpec::default(), Ok(())).unwrap();
    side.on_channel(channel.number(), b"four");
    assert!(task.wait(Some(LONG)).unwrap(), "something came");
    let mut out = [0; 4];
    let short = task.recv_on_into(channel, &mut out[..3], NOW);
    assert_eq!(short, Err(ChannelError::NoRoom { len: 4, room: 3 }));
    assert_eq!(task.recv_on_into(channel, &mut out, NOW), Ok(Some(4)));
    assert_eq!(&out, b"four");
}

#[test]
fn a_channel_that_is_over_is_closed_without_a_word() {
    let (mut task, mut side) = actor();
    let channel = opened(&mut task, &mut side, &ChannelSpec::default(), Ok(())).unwrap();
    let closed = ToTask::ChannelClosed { number: channel.number(), why: Closed::ByPeer };
    side.say(&closed);
    let over = task.recv_on(channel, Some(LONG));
    assert_eq!(over, Err(ChannelError::Closed(Closed::ByPeer)));
    assert!(over.unwrap_err().to_string().contains("the other task closed it"));
    let cut = ChannelError::Closed(Closed::Cut).to_string();
    assert!(cut.contains("was lost") && cut.contains("hint: open another"), "{cut}");
    task.close_channel(channel).unwrap();
    task.poll().unwrap();
    assert_eq!(side.heard(), None);
}

#[test]
fn how_a_channel_stands_is_what_the_daemon_says() {
    let (mut task, mut side) = actor();
    let spec = ChannelSpec::default();
    let channel = opened(&mut task, &mut side, &spec, Ok(())).unwrap();
    let status = ChannelStatus {
        number: channel.number(),
        peer: peer(),
        spec,
        sent: 1,
        bytes_sent: 2,
        abandoned: 3,
        late: 4,
        repaired: 5,
        received: 6,
        bytes_received: 7,
        waiting: 8,
        rtt: Some(SHORT),
        reserved: false,
        promised: Some(SHORT),
        took: None,
    };
    let told = std::thread::scope(|scope| {
        let asks = scope.spawn(|| task.channel_status(channel));
        let ToDaemon::Ask { number, question } = said(&mut side) else { panic!("no question") };
        assert_eq!(question, Question::Channel(channel.number()));
        side.say(&ToTask::Answer { number, answer: Ok(Answer::Channel(status.into())) });
        asks.join().unwrap()
    });
    assert_eq!(told.unwrap(), status);
}
