//! Channels of tasks' own, through real daemons.

use std::time::Duration;

use towpath::task::{
    ChannelError, ChannelSpec, Class, Closed, Code, Fault, OpenError, Place, SendError, SpawnTasks,
    Task, TaskId,
};

use crate::support::{ANY, LONG, Vm, pattern};

/// One that works for two tasks in turn: `from` opens it, the other accepts.
fn opened(
    a: &mut Task,
    b: &mut Task,
    spec: ChannelSpec,
) -> (towpath::task::Channel, towpath::task::Channel) {
    let to = b.id();
    let from = a.id();
    let ours = a.open_channel(to, &spec).unwrap();
    let (theirs, said) = b.accept_channel(Some(LONG)).unwrap().expect("it was offered");
    assert_eq!((ours.peer(), theirs.peer(), said), (to, from, spec));
    (ours, theirs)
}

/// More than there is room for, both ways at once, on every class that loses nothing here.
fn stream(hosts: usize, class: Class) {
    const COUNT: u64 = 400;
    let vm = Vm::up(hosts);
    let (mut a, mut b) = (vm.task(1), vm.task(hosts));
    let spec = ChannelSpec { class, ..ChannelSpec::default() };
    let (ours, theirs) = opened(&mut a, &mut b, spec);
    let len = |n: u64| if n.is_multiple_of(7) { 65_472 } else { (n * 131 % 3000) as usize };
    let work = move |task: &mut Task, channel| {
        let (mut sent, mut got) = (0, Vec::new());
        while sent < COUNT || (got.len() as u64) < COUNT {
            let room =
                sent < COUNT && task.try_send_on(channel, &pattern(sent, len(sent))).unwrap();
            sent += u64::from(room);
            let wait = if room { Duration::ZERO } else { Duration::from_millis(20) };
            got.extend(task.recv_on(channel, Some(wait)).unwrap());
        }
        if class != Class::Ordered {
            got.sort_by_key(Vec::len);
        }
        let mut expected: Vec<_> = (0..COUNT).map(|n| pattern(n, len(n))).collect();
        if class != Class::Ordered {
            expected.sort_by_key(Vec::len);
            assert!(got.iter().map(Vec::len).eq(expected.iter().map(Vec::len)));
            return;
        }
        assert!(got == expected);
    };
    let there = std::thread::spawn(move || {
        work(&mut b, theirs);
        (b, theirs)
    });
    work(&mut a, ours);
    let (mut b, theirs) = there.join().unwrap();
    let status = b.channel_status(theirs).unwrap();
    assert_eq!((status.received, status.abandoned), (COUNT, 0));
    assert_eq!(status.rtt.is_some(), hosts == 2);
    a.close_channel(ours).unwrap();
    let over = b.recv_on(theirs, Some(LONG));
    assert_eq!(over, Err(ChannelError::Closed(Closed::ByPeer)));
    assert_eq!(a.recv_on(ours, None), Err(ChannelError::NotOpen));
}

#[test]
fn more_than_there_is_room_for_goes_both_ways_on_one_host() {
    stream(1, Class::Ordered);
}

#[test]
fn more_than_there_is_room_for_goes_both_ways_between_hosts() {
    stream(2, Class::Ordered);
    stream(2, Class::Unordered);
}

/// What is coded arrives as it was sent; what cannot be coded is refused by name.
#[test]
fn a_channel_is_coded_across_whatever_paths_there_are() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let code = |packets, parities| Some(Code { packets, parities, adaptive: false });
    let spec = ChannelSpec { code: code(17, 1), ..ChannelSpec::default() };
    let refused = a.open_channel(b.id(), &spec).unwrap_err().to_string();
    assert!(refused.contains("17 packets coded, from 1 to 16"), "{refused}");
    let spec = ChannelSpec { code: code(3, 1), ..ChannelSpec::default() };
    let (ours, theirs) = opened(&mut a, &mut b, spec);
    for n in 0..50 {
        let bytes = pattern(n, 20_000);
        a.send_on(ours, &bytes).unwrap();
        assert!(b.recv_on(theirs, Some(LONG)).unwrap() == Some(bytes));
    }
}

/// A message finds its way although another channel of the same two tasks is full.
#[test]
fn a_full_channel_holds_neither_another_nor_messages_up() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (full, _unread) = opened(&mut a, &mut b, ChannelSpec::default());
    let (free, theirs) = opened(&mut a, &mut b, ChannelSpec { priority: 7, ..Default::default() });
    let mut sent = 0;
    let begun = std::time::Instant::now();
    // The transport keeps a window of them, too, until there is credit.
    while begun.elapsed() < Duration::from_millis(300) {
        sent += usize::from(a.try_send_on(full, &[1; 4096]).unwrap());
        a.wait(Some(Duration::from_millis(1))).unwrap();
    }
    assert!(sent <= 2 * 65_536 / 4160, "{sent}");
    a.send_on(free, b"past it").unwrap();
    a.send(b.id(), 3, b"a message").unwrap();
    assert_eq!(b.recv_on(theirs, Some(LONG)).unwrap().unwrap(), b"past it");
    assert_eq!(b.recv(&ANY).unwrap().bytes(), b"a message");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let vm = Vm::up(1);
    let (mut a, mut b) = (vm.task(1), vm.task(1));
    let to = b.id();
    let (usual, deadline) = (ChannelSpec::default(), Some(Duration::from_millis(50)));
    let says = |error: OpenError| error.to_string();
    let wrong = a.open_channel(to, &ChannelSpec { deadline, ..usual }).unwrap_err();
    assert!(says(wrong).contains("a deadline on a channel of class Ordered, which keeps none"));
    let nobody = TaskId::try_from(to.to_raw() + 99).unwrap();
    assert_eq!(a.open_channel(nobody, &usual), Err(OpenError::Refused(Fault::NoTask)));
    let (ordered, _) = opened(&mut a, &mut b, usual);
    let late = a.send_on_within(ordered, b"x", Duration::from_millis(1));
    assert_eq!(late, Err(ChannelError::NotTimely));
    let long = a.send_on(ordered, &vec![0; 65_473]);
    assert_eq!(long, Err(ChannelError::TooLong { len: 65_473, limit: 65_472 }));
    let (timely, theirs) =
        opened(&mut a, &mut b, ChannelSpec { class: Class::Timely, deadline, ..usual });
    assert_eq!(a.send_on_within(timely, b"x", Duration::ZERO), Err(ChannelError::TooLate));
    // Nobody receives: there is no room in time.
    let full =
        (0..99).find_map(|_| a.send_on_within(timely, &[0; 4096], Duration::from_millis(50)).err());
    assert_eq!(full, Some(ChannelError::TooLate));
    assert!(b.recv_on(theirs, Some(LONG)).unwrap().is_some());
    assert_eq!(a.channels().count(), 2);
}

/// A program that never enrols: who waits for it can stop waiting, and may ask again.
#[test]
fn an_open_that_nobody_answers_is_given_up_in_time() {
    let vm = Vm::up(2);
    let mut a = vm.task(1);
    let host = vm.task(2).host();
    let (place, count) = (Place::Host(host), 1);
    let (program, args) = (b"sleep".to_vec(), vec![b"60".to_vec()]);
    let sleeps = SpawnTasks { program, args, place, count, ..SpawnTasks::default() };
    let child = a.spawn(sleeps).unwrap().remove(0).unwrap();
    let spec = ChannelSpec::default();
    for _ in 0..2 {
        let opened = a.open_channel_within(child, &spec, Duration::from_millis(100));
        assert_eq!(opened, Ok(None));
    }
    a.signal(child, 9).unwrap();
    // Once it has ended, the answer comes.
    let gone = loop {
        match a.open_channel_within(child, &spec, LONG) {
            Err(OpenError::Refused(fault)) => break fault,
            other => assert_eq!(other, Ok(None)),
        }
    };
    assert_eq!((gone, a.channels().count()), (Fault::NoTask, 0));
}

/// One ends without a word; the other hears of it behind the last message.
#[test]
fn the_end_of_a_task_closes_its_channels() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (ours, theirs) = opened(&mut a, &mut b, ChannelSpec::default());
    a.send_on(ours, b"last").unwrap();
    a.leave().unwrap();
    assert_eq!(b.recv_on(theirs, Some(LONG)).unwrap().unwrap(), b"last");
    let over = ChannelError::Closed(Closed::ByPeer);
    assert_eq!(b.recv_on(theirs, Some(LONG)), Err(over.clone()));
    assert_eq!(b.send_on(theirs, b"to nobody"), Err(over));
    b.close_channel(theirs).unwrap();
    // The task itself goes on.
    let own = b.id();
    let sent: Result<(), SendError> = b.send(own, 1, b"to myself");
    sent.unwrap();
    assert_eq!(b.recv(&ANY).unwrap().bytes(), b"to myself");
}
