//! What clients ask, and what comes of their answers.

use std::time::Duration;

use towpath_vm::consensus::Command;
use towpath_wire::Instant;

use super::client::Wants;
use super::cluster::{CLIENTS, Cluster, Event};
use super::host::Reply;
use super::register::{KEYS, swap};

/// What a client waits for an answer before it asks another host.
const PATIENCE: Duration = Duration::from_millis(400);
/// After it was told that this host does not lead.
const AGAIN: Duration = Duration::from_millis(30);

impl Cluster {
    /// Begins a client's next question, or asks again.
    pub(super) fn ask(&mut self, now: Instant, n: usize, call: u64) {
        let client = &mut self.clients[n];
        if client.call != call || client.wants == Wants::Nothing {
            return;
        }
        client.call += 1;
        client.tries += 1;
        if client.tries == 1 {
            client.called = now;
        } else {
            client.at = client.next;
        }
        let (at, call) = (client.at, client.call);
        let delay = Duration::from_micros(50 + self.rng.below(500));
        if !self.rng.chance_ppm(self.loss_ppm) {
            self.after(delay, Event::Asked(at, n, call));
        }
        // Where it hears nothing, it asks another one.
        self.clients[n].next = self.rng.below(self.hosts.len() as u64) as usize;
        self.after(PATIENCE, Event::Ask(n, call));
    }

    pub(super) fn asked(&mut self, now: Instant, host: usize, n: usize, call: u64) {
        if self.stands(host, now) {
            let until = self.hosts[host].stands_until;
            self.kernel.schedule(until, Event::Asked(host, n, call));
            return;
        }
        let client = &self.clients[n];
        if client.call != call {
            return;
        }
        let at = &mut self.hosts[host];
        let reply = match client.wants {
            Wants::Nothing => None,
            Wants::Session(nonce) => at.open((n, call), nonce),
            Wants::Read { key } => at.read((n, call), key),
            Wants::Swap { key, value, number, len } => {
                let (session, settled) = (client.session, number - 1);
                let bytes = swap(key, value, len);
                at.command((n, call), Command { session, number, settled, bytes })
            }
        };
        if let Some(reply) = reply {
            self.reply(n, call, reply);
        }
        self.settle(host);
    }

    pub(super) fn reply(&mut self, client: usize, call: u64, reply: Reply) {
        let delay = Duration::from_micros(50 + self.rng.below(500));
        if !self.rng.chance_ppm(self.loss_ppm) {
            self.after(delay, Event::Replied(client, call, reply));
        }
    }

    pub(super) fn replied(&mut self, now: Instant, n: usize, call: u64, reply: Reply) {
        if self.clients[n].call != call {
            return;
        }
        match reply {
            Reply::NotHere(leader) => {
                let at = self.hosts.iter().position(|h| Some(h.id) == leader);
                if let Some(at) = at {
                    self.clients[n].next = at;
                }
                return self.after(AGAIN, Event::Ask(n, call));
            }
            Reply::Opened(session) => {
                (self.clients[n].session, self.clients[n].number) = (session, 0);
            }
            Reply::Held(value) => {
                self.clients[n].note(now, value);
                self.outcome.answered += 1;
                self.outcome.repeated += u64::from(self.clients[n].tries > 1);
            }
            Reply::Over => {
                let session = self.clients[n].session;
                self.checks.broken(format!("session {session} of client {n} is over"));
                self.clients[n].wants = Wants::Nothing;
                return;
            }
        }
        self.next_wish(now, n, call);
    }

    pub(super) fn next_wish(&mut self, now: Instant, n: usize, call: u64) {
        let since_healed = self.healed.is_some_and(|healed| self.clients[n].called >= healed);
        if since_healed && self.served.insert(n) && self.served.len() == CLIENTS {
            let healed = self.healed.expect("it is");
            self.outcome.available_ms = now.since(healed).as_millis() as u64;
        }
        let key = self.rng.below(KEYS.into()) as u8;
        // The first two mostly read, wherever they come to.
        let reads = self.rng.below(12) < if n < 2 { 10 } else { 3 };
        if n < 2 {
            self.clients[n].at = self.rng.below(self.hosts.len() as u64) as usize;
        }
        let len = self.rng.below(120) as usize;
        let client = &mut self.clients[n];
        client.tries = 0;
        client.wants = if since_healed {
            Wants::Nothing
        } else if reads {
            Wants::Read { key }
        } else {
            self.values += 1;
            client.number += 1;
            Wants::Swap { key, value: self.values, number: client.number, len }
        };
        let pause = Duration::from_micros(self.rng.below(30_000));
        self.after(pause, Event::Ask(n, call));
    }
}
