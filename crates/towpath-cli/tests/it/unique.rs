//! Tasks that must not run twice: ended by their host before it could be declared lost.

use std::time::{Duration, Instant};

use towpath::Task;
use towpath_vm::talk::{Place, SpawnTasks};

use crate::support::{PROMPT, Vm, text};

/// Until a file has a number in it.
fn number(vm: &Vm, name: &str) -> u32 {
    let begin = Instant::now();
    loop {
        let said = std::fs::read_to_string(vm.file(name)).unwrap_or_default();
        if let Ok(number) = said.trim().parse() {
            return number;
        }
        assert!(begin.elapsed() < PROMPT, "{said:?}");
    }
}

#[test]
fn a_unique_task_ends_where_its_host_hears_from_too_few_and_a_plain_one_goes_on() {
    let vm = Vm::new();
    let up = vm.towpath(&["up", "--hosts", "3", "--lost-after-ms", "3000"]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    vm.three_vote();
    let said = vm.towpath(&["run", "-n", "3", "--unique", "--no-tag", "--", "echo", "there"]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    assert_eq!(text(&said.stdout), "there\n".repeat(3));
    let mut task = Task::enrol_at(&vm.vm_dir().host(3).join("task.sock"), None).unwrap();
    let mut starts = |name: &str, unique| {
        let script = format!("echo $$ > {}; exec sleep 1000", vm.file(name).display());
        let tasks = SpawnTasks {
            program: b"sh".to_vec(),
            args: vec![b"-c".to_vec(), script.into_bytes()],
            place: Place::Host(task.id().host()),
            count: 1,
            unique,
            ..SpawnTasks::default()
        };
        assert!(task.spawn(tasks).unwrap().iter().all(Result::is_ok));
        number(&vm, name)
    };
    let (only, plain) = (starts("only", true), starts("plain", false));
    let runs = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    assert!(runs(only) && runs(plain));
    let others = [1, 2].map(|host| vm.pid(host));
    for pid in others {
        Vm::signal(pid, "-STOP");
    }
    let begin = Instant::now();
    while runs(only) {
        assert!(begin.elapsed() < PROMPT, "it is ended");
    }
    // It was sure as of its last question, 0.6 s before that at most, and for 2.7 s.
    let after = begin.elapsed();
    assert!(after > Duration::from_millis(1800) && after < Duration::from_secs(6), "{after:?}");
    assert!(runs(plain));
    for pid in others {
        Vm::signal(pid, "-CONT");
    }
    drop(task);
}
