//! Processes: what they are started with, what they say, how they end.

use towpath_vm::{Ending, TaskSpec};

use super::{Watcher, ask, first, host, nowhere, runs, script, until};
use crate::protocol::{ADOPTED_TAGS, Reply, Request, TaskEvent};
use crate::support::Vm;

#[test]
fn a_task_has_what_it_was_given_and_all_it_writes_comes() {
    let vm = Vm::up(2);
    let mut watcher = Watcher::of(&vm, 1);
    for (tag, on) in [(1, first()), (2, host(&vm, 2))] {
        let mut spec = script("echo $GREETING, $1 of $TOWPATH_VM in $(pwd); echo bad >&2; exit 3");
        spec.args.extend([b"sh".to_vec(), b"all".to_vec()]);
        spec.env.push((b"GREETING".to_vec(), b"hello".to_vec()));
        spec.cwd = b"/usr".to_vec();
        let ran = watcher.run(tag, on, spec);
        assert_eq!(ran.out(), "hello, all of default in /usr\n");
        assert_eq!((ran.err.as_slice(), ran.ending()), (&b"bad\n"[..], &Ending::Exited(3)));
        assert_eq!(ran.task.map(towpath_wire::TaskId::host), Some(on));
        assert!(ran.pid > 1 && ran.ended.as_ref().is_some_and(|(_, wall_us)| *wall_us > 0));
        // Without input of its own it finds the end of one.
        assert_eq!(watcher.run(tag + 10, on, script("cat; echo over")).out(), "over\n");
    }
}

#[test]
fn no_more_output_comes_than_its_reader_has_room_for() {
    let vm = Vm::up(1);
    let mut watcher = Watcher::of(&vm, 1);
    let much = script("head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2");
    let spec = TaskSpec { output_window: 1000, ..much };
    watcher.client.sender.send(&Request::Spawn { tag: 5, host: first(), spec }).unwrap();
    let mut came = 0;
    while came < 1000 {
        match super::next(&mut watcher.client) {
            Reply::Task { event: TaskEvent::Output { bytes, .. }, .. } => came += bytes.len(),
            Reply::Task { event: TaskEvent::Started { .. }, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(came, 1000);
    for _ in 0..20 {
        assert!(matches!(ask(&mut watcher.client, &Request::Info), Reply::Info(_)), "no output");
    }
    watcher.tasks.insert(5, super::Heard::default());
    watcher.client.sender.send(&Request::Credit { tag: 5, bytes: 1000 }).unwrap();
    let ran = watcher.end(5);
    assert_eq!((ran.out.len(), ran.err.len()), (300_000 - 1000, 200_000));
    assert_eq!(*ran.ending(), Ending::Exited(0));
}

#[test]
fn input_reaches_a_task_in_order_and_is_counted_as_it_is_taken() {
    const WINDOW: usize = 40_000;
    let vm = Vm::up(2);
    let mut watcher = Watcher::of(&vm, 1);
    for (tag, on) in [(1, first()), (2, host(&vm, 2))] {
        let reads = TaskSpec { input_window: WINDOW as u32, ..script("cksum; echo done") };
        let bytes: Vec<u8> = (0..400_000_u32).map(|n| (n / 7) as u8).collect();
        watcher.spawn(tag, on, reads);
        let mut sent = 0;
        for piece in bytes.chunks(WINDOW / 2) {
            let room = |taken: u32| sent + piece.len() - taken as usize <= WINDOW;
            watcher.until(tag, |heard| heard.pid > 0 && room(heard.taken));
            sent += piece.len();
            watcher.input(tag, piece, sent == bytes.len());
        }
        let ran = watcher.end(tag);
        // POSIX's checksum of these bytes, by cksum itself on a pipe that a shell made.
        let by_file = std::process::Command::new("sh")
            .args(["-c", "cksum < \"$0\""])
            .arg(file_of(&bytes).path())
            .output()
            .unwrap();
        let expected = String::from_utf8(by_file.stdout).unwrap() + "done\n";
        assert_eq!(ran.out(), expected);
        assert_eq!(ran.taken as usize, bytes.len());
    }
}

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

#[test]
fn input_that_waits_for_a_task_that_does_not_read_yet_comes_when_it_does() {
    let vm = Vm::up(1);
    let mut watcher = Watcher::of(&vm, 1);
    // More than a pipe takes.
    let spec = script("trap 'cat; exit 4' USR1; echo up; while :; do sleep 0.01; done");
    watcher.spawn(1, first(), TaskSpec { input_window: 1 << 20, ..spec });
    watcher.until(1, |heard| heard.out() == "up\n");
    let long = vec![b'x'; 300_000];
    watcher.input(1, &long, true);
    watcher.signal(1, 10);
    let ran = watcher.end(1);
    assert_eq!((ran.out.len(), ran.taken as usize), (3 + long.len(), long.len()));
    assert_eq!(*ran.ending(), Ending::Exited(4));
}

#[test]
fn what_comes_for_a_task_that_has_closed_its_input_is_thrown_away_and_counted() {
    let vm = Vm::up(1);
    let mut watcher = Watcher::of(&vm, 1);
    let spec = script("exec <&-; echo closed; while :; do sleep 0.01; done");
    watcher.spawn(1, first(), TaskSpec { input_window: 100_000, ..spec });
    watcher.until(1, |heard| heard.out() == "closed\n");
    watcher.input(1, &vec![7; 70_000], false);
    watcher.until(1, |heard| heard.taken == 70_000);
    watcher.input(1, &vec![7; 30_000], true);
    watcher.until(1, |heard| heard.taken == 100_000);
    watcher.signal(1, 9);
    assert_eq!(*watcher.end(1).ending(), Ending::Signalled(9));
}

#[test]
fn a_signal_reaches_the_task_and_what_it_started() {
    let vm = Vm::up(2);
    let mut watcher = Watcher::of(&vm, 1);
    for (tag, on) in [(1, first()), (2, host(&vm, 2))] {
        // It hears one that it asked for, and goes on.
        watcher.spawn(
            tag,
            on,
            script("trap 'echo heard' USR1; (trap '' USR1; exec sleep 600) & echo $!; wait; wait"),
        );
        let child = watcher.until(tag, |heard| heard.out.ends_with(b"\n")).out();
        let child: u32 = child.trim().parse().unwrap();
        assert!(runs(child));
        // No such signal.
        watcher.signal(tag, 99);
        watcher.signal(tag, 10);
        watcher.until(tag, |heard| heard.out().ends_with("heard\n"));
        watcher.signal(tag, 15);
        assert_eq!(*watcher.end(tag).ending(), Ending::Signalled(15));
        assert!(!runs(child), "it is gone before the end is told");
    }
}

#[test]
fn who_does_not_end_politely_is_ended_firmly_once_its_client_is_gone() {
    let vm = Vm::up(2);
    let mut watcher = Watcher::of(&vm, 1);
    watcher.spawn(1, first(), script("trap '' TERM; echo up; while :; do sleep 0.01; done"));
    watcher.spawn(2, host(&vm, 2), script("echo up; sleep 600"));
    let pids = [1, 2].map(|tag| watcher.until(tag, |heard| heard.out() == "up\n").pid);
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop(watcher);
    until(|| (!runs(pids[1])).then_some(()));
    assert!(runs(pids[0]), "it has two seconds");
    until(|| (!runs(pids[0])).then_some(()));
    let mut client = vm.client(1);
    let none = || {
        matches!(ask(&mut client, &Request::Tasks { tag: 0, host: first() }),
        Reply::Tasks { tasks: Ok(tasks), .. } if tasks.is_empty())
    };
    let mut none = none;
    until(|| none().then_some(()));
}

#[test]
fn what_cannot_run_says_why() {
    let vm = Vm::up(1);
    let mut watcher = Watcher::of(&vm, 1);
    let missing = TaskSpec { program: b"/no/such/program".to_vec(), ..script("") };
    let lost = TaskSpec { cwd: b"/no/such/folder".to_vec(), ..script("true") };
    for (tag, spec, said) in [(1, missing, "/no/such/program: "), (2, lost, "working directory ")] {
        let Ending::NotStarted { errno: 2, text } =
            watcher.run(tag, first(), spec).ending().clone()
        else {
            panic!("it started")
        };
        assert!(text.starts_with(said), "{text}");
    }
    // A folder that is no folder.
    let file = TaskSpec { cwd: b"/etc/passwd".to_vec(), ..script("true") };
    assert!(matches!(watcher.run(3, first(), file).ending(), Ending::NotStarted { errno: 20, .. }));
    // A host that is not there.
    let Ending::Refused(why) = watcher.run(4, nowhere(), script("true")).ending().clone() else {
        panic!("it ran")
    };
    assert!(why.contains("in the host table"), "{why}");
    let late = TaskSpec { timeout_ms: 60, ..script("sleep 600") };
    let (ending, wall_us) = watcher.run(5, first(), late).ended.clone().unwrap();
    assert_eq!(ending, Ending::TimedOut);
    assert!(wall_us >= 60_000, "{wall_us}");
}

#[test]
fn tags_are_a_clients_own_and_free_again_after_the_end() {
    let vm = Vm::up(1);
    let mut watcher = Watcher::of(&vm, 1);
    let refused = |watcher: &mut Watcher, tag: u64| {
        let spawn = Request::Spawn { tag, host: first(), spec: script("true") };
        match ask(&mut watcher.client, &spawn) {
            Reply::Task { tag: of, event: TaskEvent::Ended(exit) } if of == tag => exit.ending,
            other => panic!("{other:?}"),
        }
    };
    watcher.spawn(7, first(), script("echo up; sleep 600"));
    watcher.until(7, |heard| heard.out() == "up\n");
    assert_eq!(refused(&mut watcher, 7), Ending::Refused("tag 7 is in use".into()));
    let Ending::Refused(why) = refused(&mut watcher, ADOPTED_TAGS) else { panic!("it ran") };
    assert!(why.contains("a client's own are below"), "{why}");
    // Another client's tags are others.
    let mut other = Watcher::of(&vm, 1);
    assert_eq!(*other.run(7, first(), script("true")).ending(), Ending::Exited(0));
    other.signal(7, 9);
    watcher.signal(8, 9);
    let info = ask(&mut watcher.client, &Request::Info);
    assert!(matches!(info, Reply::Info(_)), "it goes on: {info:?}");
    watcher.signal(7, 9);
    assert_eq!(*watcher.end(7).ending(), Ending::Signalled(9));
    assert_eq!(watcher.run(7, first(), script("echo again")).out(), "again\n");
}
