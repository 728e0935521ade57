//! Random lives of hosts that keep the log on disks: they crash, alone and together, and start
//! again with what they have. Whatever a task was answered is there in the end, and one leads.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use towpath_proto::Rng;
use towpath_vm::talk::{Answer, MailRules, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask};
use towpath_wire::TaskId;

use super::disk::Disk;
use super::net::{Net, VM_KEY, config};
use super::standin::StandIn;
use super::voting::leaders;
use crate::{Node, NodeConfig, Saved};

/// What a host has on its disk while it does not run; `None`: nothing of the virtual machine.
type Files = Option<Saved>;

pub(super) struct Lives {
    pub(super) net: Net,
    pub(super) rng: Rng,
    files: Vec<Files>,
    voters: u8,
    /// Mailboxes that a task was told to have put something in.
    answered: BTreeSet<String>,
    puts: u32,
}

impl Lives {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 9);
        let voters = if rng.below(4) == 0 { 5 } else { 3 };
        let hosts = usize::from(voters) + rng.below(3) as usize;
        Self::of(hosts, voters, rng)
    }

    fn of(hosts: usize, voters: u8, rng: Rng) -> Self {
        let mut lives = Self {
            net: Net::founded(Self::config(0, voters)),
            rng,
            files: (0..hosts).map(|_| None).collect(),
            voters,
            answered: BTreeSet::new(),
            puts: 0,
        };
        lives.net.seats[0].disk = Some(Disk::new());
        for host in 1..hosts {
            lives.net.add(Self::config(host, voters));
            lives.net.seats[host].disk = Some(Disk::new());
            lives.run(100);
        }
        lives.run(1000);
        lives
    }

    fn config(host: usize, voters: u8) -> NodeConfig {
        NodeConfig { voters, keeps_table: true, ..config(host, &format!("h{host}")) }
    }

    /// Lets time pass; whoever keeps a table has it on its disk.
    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            self.net.run(100);
            for host in self.up() {
                if self.net.node(host).keeps() {
                    self.net.node(host).kept(u64::MAX);
                }
            }
        }
    }

    pub(super) fn up(&self) -> Vec<usize> {
        (0..self.net.seats.len()).filter(|host| self.net.seats[*host].node.is_some()).collect()
    }

    fn crash(&mut self, host: usize) {
        // A returning one changes nothing of what it has.
        let node = self.net.node(host);
        if node.me().is_some() || node.leads() {
            let life = node.log_name();
            let saved = node.keeps().then(|| node.saved()).flatten();
            let disk = self.net.seats[host].disk.as_ref().expect("it has one");
            self.files[host] = saved.map(|mut saved| {
                if let Some((life, _)) = life
                    && disk.stored.snapshot.index > 0
                {
                    assert!(saved.remember(life, &disk.stored).is_ok());
                }
                if host == 0 { saved } else { saved.let_in() }
            });
        }
        self.net.crash(host);
    }

    fn start(&mut self, host: usize) {
        let (crypto, config) =
            (Box::new(StandIn::new(host as u64 + 1)), Self::config(host, self.voters));
        let rng = Rng::new(self.rng.u64(), 1);
        let node = if let Some(saved) = self.files[host].clone() {
            let node = Node::found_again(self.net.now, config, crypto, rng, VM_KEY, saved);
            node.expect("it is its own")
        } else if let [leader] = leaders(&self.net)[..] {
            let target = self.net.target_of(leader, 60);
            Node::join(self.net.now, config, crypto, rng, target)
        } else {
            return;
        };
        (self.net.seats[host].node, self.net.seats[host].disk) = (Some(node), Some(Disk::new()));
    }

    /// A task puts something; whether it is told so before its host dies.
    fn put(&mut self, host: usize) {
        let node = self.net.node(host);
        if node.me().is_none() || node.is_frozen() {
            return;
        }
        let Ok(task) = self.net.enrol_by(host, None) else { return };
        self.puts += 1;
        let name = format!("m{}", self.puts);
        let rules = MailRules { persistent: true, ..MailRules::default() };
        let op = RegistryOp::Put {
            name: name.clone(),
            index: None,
            rules,
            format: 0,
            content: [1].into(),
        };
        let number = u64::from(self.puts);
        self.net.says(host, task, ToDaemon::Ask { number, question: Question::Registry(op) });
        let ms = [1, 3, 10, 200][self.rng.below(4) as usize];
        self.net.run(ms);
        let told = self.net.told(host, task);
        let is_put = |told: &ToTask| match told {
            ToTask::Answer { number: n, answer } => *n == number && answer.is_ok(),
            _ => false,
        };
        if told.iter().any(is_put) {
            self.answered.insert(name);
        }
    }

    pub(super) fn act(&mut self) {
        let hosts = self.files.len() as u64;
        let host = self.rng.below(hosts) as usize;
        let runs = self.net.seats[host].node.is_some();
        match self.rng.below(12) {
            0..=4 if runs => self.put(host),
            5 | 6 if runs => self.crash(host),
            7 => {
                for host in self.up() {
                    if self.rng.below(4) > 0 {
                        self.crash(host);
                    }
                }
            }
            8..=10 if !runs => self.start(host),
            _ => {
                let ms = [20, 300, 3000, 15_000][self.rng.below(4) as usize];
                self.run(ms);
            }
        }
        let leaders = leaders(&self.net);
        assert!(leaders.len() <= 1, "{leaders:?} lead");
    }

    /// All that does not run starts again, or all, and is given time.
    pub(super) fn end(&mut self, all: bool) {
        for host in self.up().into_iter().filter(|_| all) {
            self.crash(host);
        }
        self.run(1000);
        for host in 0..self.files.len() {
            if self.files[host].is_some() && self.net.seats[host].node.is_none() {
                self.start(host);
                self.run(300);
            }
        }
        self.run(120_000);
    }
}

fn boxes(net: &mut Net, host: usize, task: TaskId) -> BTreeSet<String> {
    let pattern = "*".into();
    let asked = net.ask(host, task, Question::Registry(RegistryOp::Mailboxes { pattern }));
    match asked {
        Ok(Answer::Registry(RegistryAnswer::Mailboxes(boxes))) => {
            boxes.into_iter().map(|mailbox| mailbox.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn live(seed: u64) -> usize {
    let mut lives = Lives::new(seed);
    for _ in 0..40 {
        lives.act();
    }
    lives.end(seed.is_multiple_of(2));
    let [leader] = leaders(&lives.net)[..] else {
        let hosts = lives.up();
        let how: Vec<_> = hosts.iter().map(|h| lives.net.node(*h).voting()).collect();
        panic!("seed {seed}: {:?} lead of {hosts:?}: {how:#?}", leaders(&lives.net));
    };
    let task = lives.net.enrol(leader);
    let there = boxes(&mut lives.net, leader, task);
    let gone: Vec<_> = lives.answered.difference(&there).collect();
    assert!(gone.is_empty(), "seed {seed}: {gone:?} of {:?}", lives.answered);
    lives.answered.len()
}

#[test]
fn whatever_was_answered_outlives_all_crashes_and_starts() {
    let answered: usize = (0..60).map(live).sum();
    assert!(answered > 80, "{answered} puts were answered");
}

#[test]
fn the_second_of_two_gives_a_founder_that_starts_again_what_long_entries_hold() {
    let mut lives = Lives::of(2, 3, Rng::new(1, 9));
    let task = lives.net.enrol(1);
    let rules = MailRules { persistent: true, ..MailRules::default() };
    let (name, content) = ("long".into(), alloc::vec![7; 50_000]);
    let op = RegistryOp::Put { name, index: None, rules, format: 0, content: content.clone() };
    lives.net.ask(1, task, Question::Registry(op)).expect("it is put");
    lives.run(200);
    lives.crash(0);
    lives.run(1000);
    lives.start(0);
    lives.run(5000);
    let (name, wait) = ("long".into(), false);
    let get = RegistryOp::Get { name, index: None, from: 0, delete: false, wait };
    let answer = lives.net.ask(1, task, Question::Registry(get));
    let Ok(Answer::Registry(RegistryAnswer::Mail { content: c, .. })) = answer else {
        panic!("{answer:?}")
    };
    assert!(c == content);
}
