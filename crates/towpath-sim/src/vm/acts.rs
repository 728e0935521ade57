//! What a task does next, drawn from its own numbers.

use std::time::Duration;

use towpath_vm::talk::{MailRules, Place, Question, RegistryOp, SpawnTasks, Subject, ToDaemon};
use towpath_wire::TaskId;

use super::program::{Pending, Stage, group_op};
use super::run::{CALL_ACT, CALL_WAKE, Run};
use crate::process::Program;

/// Names of groups and mailboxes that tasks use.
const NAMES: u64 = 40;

impl Run<'_> {
    fn someone(&mut self, index: usize) -> Option<TaskId> {
        let task = &mut self.tasks[index];
        if !task.known.is_empty() && task.rng.below(2) == 0 {
            let i = task.rng.below(task.known.len() as u64) as usize;
            return Some(task.known[i]);
        }
        let hosts = self.directory.len();
        let away = task.rng.below(self.scenario.partners as u64 + 1) as usize;
        let there = &self.directory[(task.host + away) % hosts];
        let i = task.rng.below(there.len().max(1) as u64) as usize;
        there.get(i).copied()
    }

    /// What a task does when its time has come.
    pub(super) fn act(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        if task.stage != Stage::Enrolled || self.world.hosts[task.host].node.is_none() {
            return;
        }
        let at = self.after(self.scenario.pace_us);
        self.world.call_at(at, CALL_ACT | index as u64);
        let task = &mut self.tasks[index];
        if task.asleep {
            return;
        }
        if task.acts_left == 0 {
            if !task.is_busy() && self.world.now() >= task.stays_until {
                self.leave(index);
            }
            return;
        }
        if task.is_busy() && task.rng.below(4) > 0 {
            return; // a program that waits
        }
        task.acts_left -= 1;
        let choice = task.rng.below(100);
        self.choose(index, choice);
    }

    fn choose(&mut self, index: usize, choice: u64) {
        let someone = self.someone(index);
        match (choice, someone) {
            (40..45, Some(to)) => {
                self.tasks[index].use_line(&mut self.world, &mut self.ledger, to);
            }
            (0..40, Some(to)) => {
                self.tasks[index].send(&mut self.world, to, &mut self.ledger);
            }
            (45..52, _) => {
                let to: Vec<TaskId> = (0..5).filter_map(|_| self.someone(index)).collect();
                let mut to = to;
                to.sort_unstable();
                to.dedup();
                self.tasks[index].multicast(&mut self.world, &to, &mut self.ledger);
            }
            (52..60, Some(peer)) => {
                let task = &mut self.tasks[index];
                task.next += 1;
                self.ledger.watch(task.id, task.next, peer);
                let watch = ToDaemon::Watch { watch: task.next, subject: Subject::Task(peer) };
                self.tasks[index].says(&mut self.world, watch);
            }
            (60..72, _) if self.scenario.mail_bytes_max > 0 => self.mail(index),
            (60..72, someone) => self.ask(index, someone),
            (72..80, _) => self.spawn(index),
            (80..90, _) if self.scenario.mail_bytes_max == 0 => {
                let task = &mut self.tasks[index];
                let name = format!("g{}", task.id.to_raw() % NAMES);
                let (op, pending) = group_op(&mut task.rng, name, task.joined);
                task.ask(&mut self.world, Question::Registry(op), pending);
            }
            (80..94, _) => self.mail(index),
            (94..97, _) => {
                let task = &mut self.tasks[index];
                task.asleep = true;
                let us = task.rng.below(400_000);
                let at = self.world.now() + Duration::from_micros(us);
                self.world.call_at(at, CALL_WAKE | index as u64);
            }
            (97, _) => self.leave(index),
            (98, _) => self.die(index, 9),
            (99, Some(task)) => {
                let signal = Question::Signal { task, signal: 15 };
                self.tasks[index].ask(&mut self.world, signal, Pending::Soon);
            }
            _ => {}
        }
    }

    fn ask(&mut self, index: usize, someone: Option<TaskId>) {
        let task = &mut self.tasks[index];
        let question = match (task.rng.below(6), someone) {
            (0..=2, Some(t)) => Question::Task(t),
            (3, Some(t)) => Question::Tasks(Some(t.host())),
            (4, Some(t)) => Question::Clock(t.host()),
            _ => Question::Hosts,
        };
        task.ask(&mut self.world, question, Pending::Soon);
    }

    fn spawn(&mut self, index: usize) {
        let wanted = self.scenario.tasks.saturating_sub(self.tasks.len());
        let task = &mut self.tasks[index];
        let count = (1 + task.rng.below(4)).min(wanted as u64) as u32;
        if count == 0 {
            return;
        }
        let program = Program { run_us: 1 << 40, output_bytes: task.rng.below(3000), status: 0 };
        let spec = program.spec(0, false);
        let place = match task.rng.below(6) {
            0 => Place::Host(task.id.host()),
            1 => Place::Arch("odd".into()),
            2 => Place::Not(task.id.host()),
            _ => Place::Any,
        };
        let (program, args) = if task.rng.below(20) == 0 {
            (b"missing".to_vec(), Vec::new())
        } else {
            (spec.program, spec.args)
        };
        let unique = self.scenario.unique && task.rng.below(2) == 0;
        let spawn = SpawnTasks { program, args, place, count, unique, ..SpawnTasks::default() };
        if task.rng.below(2) == 0 {
            task.says(&mut self.world, ToDaemon::CatchOutput(true));
        }
        let task = &mut self.tasks[index];
        task.ask(&mut self.world, Question::Spawn(spawn), Pending::Spawn(count));
    }

    fn mail(&mut self, index: usize) {
        let shared = self.scenario.voters > 1;
        let longest = u64::from(self.scenario.mail_bytes_max);
        let task = &mut self.tasks[index];
        // What was asked of a leader that is gone is not to be done twice.
        if shared && task.rng.below(2) == 0 {
            // Nobody else puts anything there.
            let rules = MailRules { persistent: false, many: true, overwritable: false };
            let name = format!("own {}", task.id);
            if longest > 0 && task.rng.below(3) == 0 {
                let (index, wait) =
                    (Some(task.rng.below(u64::from(task.own.max(1))) as u32), false);
                let op = RegistryOp::Get { name, index, from: 0, delete: false, wait };
                return task.ask(&mut self.world, Question::Registry(op), Pending::Mail);
            }
            let content = vec![2; task.rng.below(longest.max(500)) as usize];
            let op = RegistryOp::Put { name, index: None, rules, format: 0, content };
            task.own += 1;
            let pending = Pending::Own(task.own - 1);
            return task.ask(&mut self.world, Question::Registry(op), pending);
        }
        let name = format!("m{}", task.rng.below(NAMES));
        let many = task.rng.below(2) == 0;
        let overwritable = task.rng.below(2) == 0;
        let rules = MailRules { persistent: false, many, overwritable };
        let wait = task.rng.below(4) == 0;
        let op = if task.rng.below(2) == 0 {
            let content = vec![1; task.rng.below(longest.max(3000)) as usize];
            RegistryOp::Put { name, index: None, rules, format: 0, content }
        } else {
            RegistryOp::Get { name, index: None, from: 0, delete: many, wait }
        };
        let pending = if wait { Pending::Waits } else { Pending::Mail };
        task.ask(&mut self.world, Question::Registry(op), pending);
    }
}
