//! A daemon that has no descriptor left. The only test of its process: it changes the limit.

#[path = "it/support/mod.rs"]
mod support;

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{LONG, Vm};
use towpath::Task;
use towpath::task::EnrolError;

fn enrol(socket: PathBuf) -> Result<Task, EnrolError> {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let _ = done.send(Task::enrol_at(&socket, None));
    });
    is_done.recv_timeout(LONG).expect("the daemon answers")
}

#[test]
fn who_comes_when_there_is_no_descriptor_is_told_so_at_once() {
    let vm = Vm::up(1);
    let task = vm.task(1);
    let limit = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let few = Rlimit { current: Some(open + 20), ..limit };
    setrlimit(Resource::Nofile, few).unwrap();
    let mut fill: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // Both ends are in this process: one for the task, then none, one or two for the daemon.
    for free in 1..=2 {
        fill.pop();
        for _ in 0..50 {
            match enrol(vm.socket(1)) {
                Err(EnrolError::Refused(why)) => {
                    assert!(why.contains("Too many open files"), "{free} left: {why}");
                }
                // With two, one may get in, without shared memory.
                Ok(_) if free == 2 => {}
                other => panic!("{free} left: {other:?}"),
            }
        }
    }
    drop(fill);
    setrlimit(Resource::Nofile, limit).unwrap();
    drop(enrol(vm.socket(1)).expect("there are descriptors again"));
    drop(task);
}
