//! Tasks asked for between hosts, and the checker of their ends.

use std::collections::BTreeMap;

use towpath_node::NodeEvent;
use towpath_proto::Rng;
use towpath_vm::{Ending, RequestEvent, RequestId};

use super::run::Violation;
use crate::process::{Program, output_byte};
use crate::scenario::between;
use crate::world::World;

/// Output under way per task.
const WINDOW: u32 = 32 * 1024;

#[derive(Debug)]
struct Asked {
    program: Program,
    missing: bool,
    output: u64,
    ended: u32,
}

/// All requests made.
#[derive(Debug, Default)]
pub(super) struct Work {
    asked: BTreeMap<(usize, RequestId), Asked>,
    crashed: Vec<usize>,
    pub(super) made: u64,
    pub(super) lost: u64,
}

impl Work {
    /// Asks a random host for a random task on another (or the same) one.
    pub(super) fn ask(&mut self, world: &mut World, rng: &mut Rng) {
        let n = world.hosts.len() as u64;
        let (from, to) = (rng.below(n) as usize, rng.below(n) as usize);
        let output_bytes = if rng.below(4) == 0 { rng.below(300_000) } else { rng.below(2000) };
        let program = Program {
            run_us: between(rng, 10, 300_000),
            output_bytes,
            status: rng.below(3) as i32,
        };
        let mut spec = program.spec(WINDOW, rng.below(2) == 0);
        let missing = rng.below(12) == 0;
        if missing {
            spec.program = b"missing".to_vec();
        }
        let Some(to) = world.hosts[to].node.as_ref().and_then(towpath_node::Node::me) else {
            return;
        };
        let made = world.with(from, |node, now, memory| node.spawn(now, to, spec, memory));
        // A host that is just being fenced refuses at once: that is an answer, too.
        if let Some(Ok(id)) = made {
            self.made += 1;
            let asked = Asked { program, missing, output: 0, ended: 0 };
            self.asked.insert((from, id), asked);
        }
    }

    pub(super) fn abandon(&mut self, host: usize) {
        self.crashed.push(host);
    }

    fn waits(&self, host: usize, asked: &Asked) -> bool {
        asked.ended == 0 && !self.crashed.contains(&host)
    }

    /// True when every request of a living host has ended.
    pub(super) fn done(&self) -> bool {
        self.asked.iter().all(|((host, _), a)| !self.waits(*host, a))
    }

    pub(super) fn missing(&self) -> Vec<String> {
        let open = self.asked.iter().filter(|((host, _), a)| self.waits(*host, a));
        open.map(|((host, id), a)| format!("request {} of host {host} has no end: {a:?}", id.0))
            .collect()
    }

    /// Looks at an event of a node.
    pub(super) fn handle(
        &mut self,
        world: &mut World,
        host: usize,
        event: &NodeEvent,
        violations: &mut Vec<Violation>,
    ) {
        let NodeEvent::Request { id, event } = event else { return };
        let Some(asked) = self.asked.get_mut(&(host, *id)) else {
            // A missing program may have failed before `ask` could note the request: only an end.
            return;
        };
        match event {
            RequestEvent::Started { .. } | RequestEvent::InputTaken(_) => {}
            RequestEvent::Output { bytes, .. } => {
                let right = bytes
                    .iter()
                    .enumerate()
                    .all(|(i, b)| *b == output_byte(asked.output + i as u64));
                if !right || asked.ended > 0 {
                    violations.push(Violation(format!(
                        "host {host}: output of request {} is out of place",
                        id.0
                    )));
                }
                asked.output += bytes.len() as u64;
                let len = bytes.len() as u32;
                world.with(host, |node, now, memory| node.credit(now, *id, len, memory));
            }
            RequestEvent::Ended(exit) => {
                asked.ended += 1;
                let whole = asked.output == asked.program.output_bytes;
                let right = match &exit.ending {
                    Ending::Exited(s) => !asked.missing && *s == asked.program.status && whole,
                    Ending::NotStarted { .. } => asked.missing,
                    Ending::HostLost => true,
                    _ => false,
                };
                self.lost += u64::from(exit.ending == Ending::HostLost);
                if !right || asked.ended != 1 {
                    violations.push(Violation(format!(
                        "host {host}: request {} ended with {:?} \
                         (end {} of it, {} bytes seen): {:?}",
                        id.0, exit.ending, asked.ended, asked.output, asked.program
                    )));
                }
            }
        }
    }
}
