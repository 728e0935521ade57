//! Tasks that spawn tasks.

use crate::support::{ANY, LONG, Vm};
use towpath::task::{Ending, Event, Fault, Place, SpawnTasks, Subject, WatchEvent};

/// So many tasks with a role.
fn copies(role: &str, count: u32) -> SpawnTasks {
    let arg = |text: &str| text.as_bytes().to_vec();
    SpawnTasks {
        program: crate::roles().into_os_string().into_encoded_bytes(),
        args: vec![arg("child"), arg(role)],
        count,
        context: 7,
        ..SpawnTasks::default()
    }
}

#[test]
fn spawned_tasks_know_their_parent_and_their_siblings() {
    let vm = Vm::up(2);
    let mut task = vm.task(1);
    let spawned = task.spawn(copies("family", 4)).unwrap();
    let all: Vec<_> = spawned.into_iter().map(Result::unwrap).collect();
    let hosts: std::collections::BTreeSet<_> = all.iter().map(|t| t.host()).collect();
    assert_eq!((all.len(), hosts.len()), (4, 2), "by load they go to both hosts");
    for _ in 0..4 {
        let got = task.recv_timeout(&ANY, LONG).unwrap().expect("each writes");
        let told: Vec<u64> = got
            .bytes()
            .chunks_exact(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(told, all.iter().map(|t| t.to_raw()).collect::<Vec<_>>());
        assert!(all.contains(&got.src()));
    }
    for child in all {
        task.send(child, 0, b"enough").unwrap();
    }
}

#[test]
fn the_end_of_a_spawned_task_is_told_with_its_status() {
    let vm = Vm::up(2);
    let mut task = vm.task(1);
    let other = task.hosts().unwrap().into_iter().find(|h| h.id != task.host()).unwrap();
    let place = Place::Host(other.id);
    let child =
        task.spawn(SpawnTasks { place, ..copies("exit 3", 1) }).unwrap()[0].clone().unwrap();
    assert_eq!(child.host(), other.id);
    // Whoever asks too late is told the same.
    for _ in 0..2 {
        let watch = task.watch(Subject::Task(child)).unwrap();
        let event = loop {
            match task.next_event() {
                Some(event) => break event,
                None => assert!(task.wait(Some(LONG)).unwrap()),
            }
        };
        let ending = Some(Ending::Exited(3));
        let event_expected = WatchEvent::TaskEnded { task: child, ending };
        assert_eq!(event, Event::Notice { watch, event: event_expected });
    }
    assert!(task.try_recv(&ANY).unwrap().is_some(), "its message came before");
}

#[test]
fn what_cannot_be_started_is_an_error_of_its_own() {
    let vm = Vm::up(1);
    let mut task = vm.task(1);
    let nothing = SpawnTasks { program: b"/no/such/program".to_vec(), ..copies("", 2) };
    for result in task.spawn(nothing).unwrap() {
        assert!(matches!(result, Err(Fault::NotStarted { errno: 2, .. })), "{result:?}");
    }
}

#[test]
fn hundreds_of_tasks_are_started_heard_and_ended() {
    const COUNT: u32 = 300;
    let vm = Vm::up(1);
    let mut task = vm.task(1);
    let spawned = task.spawn(copies("family", COUNT)).unwrap();
    let mut left: std::collections::BTreeSet<_> = spawned.into_iter().map(Result::unwrap).collect();
    assert_eq!(left.len(), COUNT as usize);
    for _ in 0..COUNT {
        let got = task.recv_timeout(&ANY, LONG).unwrap().expect("each writes");
        assert_eq!(got.len(), 8 * COUNT as usize);
        task.watch(Subject::Task(got.src())).unwrap();
        task.send(got.src(), 0, b"enough").unwrap();
    }
    while !left.is_empty() {
        match task.next_event() {
            Some(Event::Notice { event: WatchEvent::TaskEnded { task, ending }, .. }) => {
                assert_eq!(ending, Some(Ending::Exited(0)));
                assert!(left.remove(&task));
            }
            Some(other) => panic!("{other:?}"),
            None => assert!(task.wait(Some(LONG)).unwrap()),
        }
    }
    assert_eq!(vm.counter(1, "tasks_connected"), 1, "only this one is left");
}
