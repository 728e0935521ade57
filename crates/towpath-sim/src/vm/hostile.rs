//! Tasks that do not keep the rules, against one node: whatever they say, nothing panics, nothing
//! is held beyond its bound, and nothing is left once they are gone.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_node::{Delivery, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::{Block, Config, HeapMemory, Machine, Rng};
use towpath_vm::channel::{ChannelSpec, Class};
use towpath_vm::talk::{
    Claim, Enrol, MailRules, Question, RegistryOp, SpawnTasks, Subject, TALK_VERSION, ToDaemon,
    decode,
};
use towpath_vm::{Action, Ending};
use towpath_wire::talk::{ChannelFront, HEADER_LEN, PIECE_MAX};
use towpath_wire::{ByteSize, HostId, Instant, TaskId};

use crate::crypto::StandIn;

const MEMORY: ByteSize = ByteSize::from_mib(64);
const TASKS_MAX: usize = 12;

/// The bytes that decide what happens, and zeros behind them.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let n = n.min(self.0.len());
        self.0.split_off(..n).unwrap_or(&[])
    }
}

struct Bench {
    node: Node,
    memory: HeapMemory,
    now: Instant,
    tasks: Vec<TaskId>,
    processes: Vec<(TaskId, u64)>,
    unread: VecDeque<Delivery>,
    /// On channels: task, number, block.
    on_channels: VecDeque<(TaskId, u32, Block)>,
}

impl Bench {
    fn new() -> Self {
        let config = NodeConfig {
            name: "bench".into(),
            build: "test".into(),
            links: Links::one(([10, 0, 0, 1], 7077).into()),
            arch: "any".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            unix_us_at_zero: 1_000_000,
            paced: false,
            voters: 1,
            keeps_table: false,
            life: 0,
            proto: Config::default(),
        };
        let crypto = Box::new(StandIn::new(Rng::new(1, 1)));
        Self {
            node: Node::found(config, crypto, Rng::new(1, 2), [7; 32]),
            memory: HeapMemory::new(MEMORY),
            now: Instant::ZERO,
            tasks: Vec::new(),
            processes: Vec::new(),
            unread: VecDeque::new(),
            on_channels: VecDeque::new(),
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.node.poll_event() {
            match event {
                NodeEvent::Deliver(delivery) => self.unread.push_back(delivery),
                NodeEvent::OnChannel { task, number, block, .. } => {
                    // Its connection may have ended since, as with `CutOff` in the same turn.
                    if self.tasks.contains(&task) {
                        self.on_channels.push_back((task, number, block));
                    } else {
                        self.node.channel_written(block, &mut self.memory);
                    }
                }
                NodeEvent::CutOff { task, .. } => self.left(task),
                NodeEvent::Action(Action::Start { task, cookie, .. }) => {
                    self.processes.push((task, cookie));
                }
                _ => {}
            }
        }
    }

    fn left(&mut self, task: TaskId) {
        self.tasks.retain(|t| *t != task);
        let theirs = self.unread.iter().filter(|d| d.header.dst == task).copied();
        for delivery in theirs.collect::<Vec<_>>() {
            self.node.task_written(self.now, &delivery, &mut self.memory);
        }
        self.unread.retain(|d| d.header.dst != task);
        for (of, _, block) in &self.on_channels {
            if *of == task {
                self.node.channel_written(*block, &mut self.memory);
            }
        }
        self.on_channels.retain(|(of, ..)| *of != task);
        self.node.task_left(self.now, task, &mut self.memory);
    }

    fn exited(&mut self, task: TaskId) {
        self.processes.retain(|(t, _)| *t != task);
        self.node.task_exited(self.now, task, Ending::Exited(0), &mut self.memory);
    }

    /// A task of this host, or of one that there is not.
    fn someone(&self, c: &mut Choices<'_>) -> TaskId {
        let far = HostId::new(9, 3).and_then(|h| h.task(4)).expect("a task");
        let i = c.below(self.tasks.len() + 2);
        let known = self.tasks.get(i).copied();
        known.or(self.processes.first().map(|(t, _)| *t)).unwrap_or(far)
    }

    fn enrol(&mut self, c: &mut Choices<'_>) {
        if self.tasks.len() >= TASKS_MAX {
            return;
        }
        let claim = self.processes.get(c.below(4)).copied();
        let off = u64::from(c.byte() & 1);
        let claim = claim.map(|(task, cookie)| Claim { task, cookie: cookie + off });
        let version = if c.byte() == 255 { 9 } else { TALK_VERSION };
        let enrol = Enrol { version, claim, pid: 1, command: "x".repeat(c.below(300)) };
        if let Ok(task) = self.node.task_enrol(self.now, &enrol, &mut self.memory) {
            self.tasks.push(task);
        }
    }

    fn data(&mut self, task: TaskId, c: &mut Choices<'_>) {
        let mut header = [0; HEADER_LEN];
        let dst = self.someone(c);
        let src = if c.byte() == 0 { dst } else { task };
        header[..8].copy_from_slice(&src.to_raw().to_le_bytes());
        header[8..16].copy_from_slice(&dst.to_raw().to_le_bytes());
        let len = match c.below(4) {
            0 => PIECE_MAX + c.below(2),
            n => c.below(256) << (2 * n),
        };
        header[16..36].copy_from_slice(&[c.byte(); 20]);
        let total = if c.byte() == 0 { c.word() } else { len as u64 + u64::from(c.byte()) };
        header[40..48].copy_from_slice(&total.to_le_bytes());
        header[48..].copy_from_slice(&u64::from(c.byte() >> 4).to_le_bytes());
        let payload = vec![1; len];
        let (now, memory) = (self.now, &mut self.memory);
        if c.byte() < 200 {
            self.node.task_data(now, task, &header, &payload, memory);
        } else {
            let to: Vec<(TaskId, u32)> = (0..c.below(6)).map(|i| (dst, i as u32)).collect();
            self.node.task_multicast(now, task, &to, &header, &payload, memory);
        }
    }

    /// The number of a channel that the task may have: of its own, or offered.
    fn number(c: &mut Choices<'_>) -> u32 {
        c.below(12) as u32
    }

    fn on_channel(&mut self, task: TaskId, c: &mut Choices<'_>) {
        let left = (c.byte() & 1 == 0).then(|| Duration::from_millis(c.byte().into()));
        let front = ChannelFront { number: Self::number(c), left };
        let payload = vec![3; c.below(256) << (2 * c.below(4))];
        self.node.task_channel(self.now, task, front, &payload, &mut self.memory);
    }

    fn channel(&self, c: &mut Choices<'_>) -> ToDaemon {
        let number = Self::number(c);
        match c.below(4) {
            0 => ToDaemon::CloseChannel { number },
            1 => ToDaemon::ChannelTaken { number, messages: c.below(3) as u32 },
            _ => {
                let classes = [Class::Ordered, Class::Unordered, Class::Timely, Class::Once];
                let class = classes[c.below(4)];
                let timely = (class == Class::Timely) != (c.byte() == 255);
                let deadline = timely.then(|| Duration::from_millis(20));
                let (priority, window) = (c.byte() % 9, u32::from(c.byte()) << 10);
                let spec =
                    ChannelSpec { class, priority, deadline, window, reserve: None, code: None };
                ToDaemon::OpenChannel { number: number & !1, to: self.someone(c), spec }
            }
        }
    }

    fn question(&self, c: &mut Choices<'_>) -> Question {
        let name = || format!("g{}", 1);
        match c.below(13) {
            12 => Question::Channel(Self::number(c)),
            0 => Question::Tasks(None),
            1 => Question::Task(self.someone(c)),
            2 => Question::Signal { task: self.someone(c), signal: 15 },
            3..=4 => Question::Spawn(SpawnTasks {
                program: b"p".to_vec(),
                count: u32::from(c.byte() % 4),
                ..SpawnTasks::default()
            }),
            5 => Question::Registry(RegistryOp::Join(name())),
            6 => Question::Registry(RegistryOp::Leave(name())),
            7 => {
                Question::Registry(RegistryOp::Barrier { group: name(), count: c.below(4) as u32 })
            }
            8 => Question::Registry(RegistryOp::Freeze { group: name(), count: c.below(4) as u32 }),
            9 => {
                let bits = c.byte();
                let rules =
                    MailRules { persistent: false, many: bits & 1 > 0, overwritable: bits & 2 > 0 };
                let index = (bits & 4 > 0).then_some(u32::from(bits >> 4));
                let content = vec![2; c.below(200) << (bits & 8)];
                let name = name();
                Question::Registry(RegistryOp::Put { name, index, rules, format: 0, content })
            }
            10 => {
                let (bits, name) = (c.byte(), name());
                let (delete, wait) = (bits & 1 > 0, bits & 2 > 0);
                Question::Registry(RegistryOp::Get { name, index: None, from: 0, delete, wait })
            }
            _ => Question::Registry(RegistryOp::Mailboxes { pattern: "*".into() }),
        }
    }

    fn say(&mut self, task: TaskId, c: &mut Choices<'_>) {
        let peer = self.someone(c);
        let number = u64::from(c.byte());
        let say = match c.below(15) {
            12..=14 => self.channel(c),
            0 => ToDaemon::Blocked { peer, need: c.word() },
            1 => ToDaemon::Direct { peer },
            2 => ToDaemon::CloseDirect { peer },
            3 => ToDaemon::RingFailed { peer },
            4 => ToDaemon::Listening { peer, port: 9 },
            5 => ToDaemon::Watch { watch: number, subject: Subject::Task(peer) },
            6 => ToDaemon::Watch { watch: number, subject: Subject::Host(peer.host()) },
            7 => ToDaemon::Unwatch { watch: number },
            8 => ToDaemon::CatchOutput(number > 9),
            9 => ToDaemon::OutputCredit(number as u32),
            _ => ToDaemon::Ask { number, question: self.question(c) },
        };
        self.node.task_says(self.now, task, say, &mut self.memory);
    }

    fn step(&mut self, c: &mut Choices<'_>) {
        let task = self.tasks.get(c.below(self.tasks.len())).copied();
        match (c.below(16), task) {
            (0..=1, _) | (_, None) => self.enrol(c),
            (2..=5, Some(task)) => self.data(task, c),
            (6, Some(task)) => self.on_channel(task, c),
            (7..=10, Some(task)) => self.say(task, c),
            (11, Some(task)) => {
                let n = c.below(64);
                // Anything at all that decodes; but the end of everything is the owner's.
                if let Ok(say) = decode::<ToDaemon>(c.bytes(n))
                    && !matches!(say, ToDaemon::Ask { question: Question::Halt, .. })
                {
                    self.node.task_says(self.now, task, say, &mut self.memory);
                }
            }
            (12, Some(_)) => {
                if let Some(delivery) = self.unread.pop_front() {
                    self.node.task_written(self.now, &delivery, &mut self.memory);
                }
                if let Some((.., block)) = self.on_channels.pop_front() {
                    self.node.channel_written(block, &mut self.memory);
                }
            }
            (13, Some(task)) => self.left(task),
            (14, _) => {
                if let Some((task, _)) = self.processes.get(c.below(4)).copied() {
                    if c.byte() & 1 == 0 {
                        self.node.task_started(self.now, task, 7, &mut self.memory);
                    } else {
                        self.exited(task);
                    }
                }
            }
            _ => {
                self.now += Duration::from_millis(1 << c.below(12));
                self.node.handle_timeout(self.now, &mut self.memory);
            }
        }
        self.drain();
    }

    fn end(&mut self) {
        while let Some(task) = self.tasks.first().copied() {
            self.left(task);
            self.drain();
        }
        while let Some((task, _)) = self.processes.first().copied() {
            self.exited(task);
            self.drain();
        }
        self.now += Duration::from_secs(20);
        self.node.handle_timeout(self.now, &mut self.memory);
        self.drain();
        while let Some(delivery) = self.unread.pop_front() {
            self.node.task_written(self.now, &delivery, &mut self.memory);
        }
        let left = self.node.remains();
        // Whatever decoded may have been mail that outlives its owner.
        let left: Vec<&String> = left.iter().filter(|w| !w.ends_with("mailbox entries")).collect();
        assert!(left.is_empty(), "left over: {left:?}");
        assert_eq!(self.memory.used(), 0, "bytes of messages left over");
    }
}

/// Does what `bytes` say; panics when a promise is broken.
pub fn hostile(bytes: &[u8]) {
    let mut bench = Bench::new();
    let mut choices = Choices(bytes);
    bench.drain();
    while !choices.0.is_empty() {
        bench.step(&mut choices);
        let held = bench.memory.used();
        // What was granted, the first bytes of every pair, and what each block costs beside.
        let pairs = (TASKS_MAX * (TASKS_MAX + 4)) as u64;
        assert!(held <= pairs * (1 << 20) * 2, "{held} bytes held");
    }
    bench.end();
}

#[cfg(test)]
mod tests {
    /// Two tasks are cut off in one turn, with a message on a channel for one of them behind it.
    #[test]
    fn what_comes_on_a_channel_behind_the_end_of_its_task_is_given_back() {
        super::hostile(include_bytes!("../../data/hostile-cut-off.bin"));
    }
}
