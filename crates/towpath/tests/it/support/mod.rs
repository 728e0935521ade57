//! Virtual machines inside a test's own process: real daemons on loopback, an engine per thread.
#![allow(dead_code, missing_docs, unreachable_pub)] // each test file uses its part

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use towpath::daemon::EngineArgs;
use towpath::protocol::{Reply, Request};
use towpath::task::Wanted;
use towpath::{Client, DaemonOptions, Home, Role, Task, Token, daemon};
use towpath_wire::{Rate, TaskId};

/// What takes longer than this has gone wrong, also on a busy machine.
pub const LONG: Duration = Duration::from_mins(1);

pub struct Vm {
    dir: tempfile::TempDir,
    daemons: Vec<JoinHandle<()>>,
    link_rate: Option<Rate>,
}

impl Vm {
    /// A virtual machine of `hosts` hosts.
    pub fn up(hosts: usize) -> Self {
        let dir = tempfile::Builder::new().prefix("tp").tempdir().unwrap();
        let mut vm = Self { dir, daemons: Vec::new(), link_rate: None };
        for _ in 0..hosts {
            vm.add();
        }
        vm
    }

    /// The same, each paced at a rate.
    pub fn paced(hosts: usize, rate: Rate) -> Self {
        let mut vm = Self::up(0);
        vm.link_rate = Some(rate);
        for _ in 0..hosts {
            vm.add();
        }
        vm
    }

    /// One more host.
    pub fn add(&mut self) {
        let vm_dir = Home::at(self.dir.path().into()).vm("default").unwrap();
        let number = self.daemons.len() + 1;
        let role = if number == 1 {
            vm_dir.found().unwrap();
            Role::Found(vm_dir.vm_key().unwrap())
        } else {
            let asked = self.client(1).ask(&Request::Invite { ttl_s: 600, uses: None }, LONG);
            let asked = asked.unwrap();
            let Reply::Token(token) = asked else { panic!("{asked:?}") };
            Role::Join(token.parse::<Token>().unwrap())
        };
        let options = DaemonOptions {
            vm: "default".into(),
            dir: self.host(number),
            listen: vec![([127, 0, 0, 1], 0).into()],
            role,
            name: format!("h{number}"),
            speed: 1000,
            cpus: 2,
            slots: 2,
            lost_after_ms: Some(2000),
            // What daemons have open does not change while a test counts it.
            voters: Some(1),
            recover: false,
            link_rate: self.link_rate,
            stripe: None,
            coding: None,
            standby: Vec::new(),
            engine: EngineArgs::default(),
        };
        let (up, is_up) = channel();
        let run = move || {
            let ran = daemon::run(&options, &mut |_| up.send(()).unwrap());
            ran.unwrap_or_else(|e| panic!("{e}"));
        };
        self.daemons.push(std::thread::spawn(run));
        is_up.recv_timeout(LONG).expect("the daemon is up");
    }

    pub fn host(&self, number: usize) -> PathBuf {
        self.dir.path().join("default/hosts").join(number.to_string())
    }

    pub fn client(&self, host: usize) -> Client {
        Client::connect(&self.host(host).join("sock")).unwrap()
    }

    pub fn socket(&self, host: usize) -> PathBuf {
        self.host(host).join("task.sock")
    }

    /// A new task on a host, in this process.
    pub fn task(&self, host: usize) -> Task {
        Task::enrol_at(&self.socket(host), None).unwrap()
    }

    pub fn counter(&self, host: usize, name: &str) -> u64 {
        let info = self.client(host).info().unwrap();
        info.counters.iter().find(|(n, _)| n == name).unwrap().1
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        for host in (1..=self.daemons.len()).rev() {
            if let Ok(mut client) = Client::connect(&self.host(host).join("sock")) {
                let _ = client.ask(&Request::Shutdown, LONG);
            }
        }
        for daemon in self.daemons.drain(..) {
            let ended = daemon.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a daemon panicked");
        }
    }
}

/// Any message of context 0.
pub const ANY: Wanted = Wanted { source: None, tag: None, context: 0 };

/// Bytes that no other message has.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Sends and receives `count` messages of many lengths at once.
pub fn work(task: &mut Task, peer: TaskId, count: u64) {
    let len = |n: u64| [10, 0, 70_000, 3, 400_000, 16_384][n as usize % 6];
    let mut received = 0;
    let receive = |task: &mut Task, wait: bool, received: &mut u64| loop {
        let got = if wait { Some(task.recv(&ANY).unwrap()) } else { task.try_recv(&ANY).unwrap() };
        let Some(got) = got else { return };
        assert_eq!((got.src(), got.tag() as u64), (peer, *received), "in order");
        assert!(got.bytes() == pattern(*received, len(*received)), "message {received}");
        *received += 1;
        if *received == count {
            return;
        }
    };
    for n in 0..count {
        task.send(peer, n as i32, &pattern(n, len(n))).unwrap();
        if received < count {
            receive(task, false, &mut received);
        }
    }
    if received < count {
        receive(task, true, &mut received);
    }
}
