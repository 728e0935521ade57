//! RSVP: PATH downstream, RESV hop by hop upstream, soft state that must be refreshed.
//!
//! What is modelled, by clause of RFC 2205: path and reservation state per node with refresh timer
//! and lifetime (§3.7), refreshes hop by hop, state that times out sends the tear-down on (§2.3),
//! a refused reservation goes back to the receiver as RESVERR while what lies behind is held until
//! the receiver tears it down (§3.5), nodes that do not speak RSVP pass messages on and reserve
//! nothing (§2.9). Left out: merging, styles, multicast, policy, message formats. PATH state of a
//! refused request lives on until its sender leaves: no message tells a sender.

use towpath_proto::Rng;
use towpath_wire::Instant;

use super::network::{
    Costs, Ledger, Outcome, Request, SignalError, SignalNetwork, SignalReport, Verdict, report,
};
use crate::kernel::Kernel;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Path,
    Resv,
    ResvErr { link: u32, short_bps: u64 },
    PathTear,
    ResvTear,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start,
    Leave,
    /// Both ends fall silent: what the flow sent over nodes without RSVP is gone.
    Die,
    Arrive {
        node: u8,
        message: Message,
        refresh: bool,
    },
    RefreshPath {
        node: u8,
    },
    RefreshResv {
        node: u8,
    },
    Expire {
        node: u8,
        half: Half,
    },
}

/// What one node knows of one flow. Node 0 is the sender, node `i` sends on link `i` of the
/// route, the last node is the receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Soft {
    /// When the path state dies; 0: there is none.
    path_until: u64,
    /// When the reservation dies; 0: there is none.
    resv_until: u64,
    path_timer: bool,
    resv_timer: bool,
}

/// Either kind of state.
#[derive(Clone, Copy, Debug)]
enum Half {
    Path,
    Resv,
}

impl Half {
    /// When it dies.
    fn of(self, soft: &mut Soft) -> &mut u64 {
        match self {
            Self::Path => &mut soft.path_until,
            Self::Resv => &mut soft.resv_until,
        }
    }
}

struct Run<'a> {
    net: &'a SignalNetwork,
    costs: &'a Costs,
    requests: &'a [Request],
    kernel: Kernel<(u32, Event)>,
    ledger: Ledger,
    outcomes: Vec<Outcome>,
    soft: Vec<Soft>,
    first: Vec<u32>,
    /// Bits of links without RSVP on which the flow counts, and that it has ended.
    unreserved: Vec<u32>,
    ended: Vec<bool>,
    entries: u64,
    entries_max: u64,
    rng: Rng,
}

/// Runs the requests until `until_us`.
pub fn run(
    net: &SignalNetwork,
    costs: &Costs,
    requests: &[Request],
    until_us: u64,
    seed: u64,
) -> Result<SignalReport, SignalError> {
    net.check(costs, requests)?;
    let mut run = Run {
        net,
        costs,
        requests,
        kernel: Kernel::new(),
        ledger: Ledger::new(net.links.len()),
        outcomes: vec![Outcome::PENDING; requests.len()],
        soft: Vec::new(),
        first: Vec::with_capacity(requests.len()),
        unreserved: vec![0; requests.len()],
        ended: vec![false; requests.len()],
        entries: 0,
        entries_max: 0,
        rng: Rng::new(seed, 0x7259),
    };
    for (i, r) in requests.iter().enumerate() {
        run.first.push(run.soft.len() as u32);
        run.soft.resize(run.soft.len() + r.route.len() + 1, Soft::default());
        let mut at =
            |us: u64, e| run.kernel.schedule(Instant::from_nanos(us * 1000), (i as u32, e));
        at(r.at_us, Event::Start);
        r.leave_us.map(|us| at(us, Event::Leave));
        r.die_us.map(|us| at(us, Event::Die));
    }
    let until = Instant::from_nanos(until_us.saturating_mul(1000));
    while run.kernel.next_at().is_some_and(|at| at <= until) {
        let Some((now, (flow, event))) = run.kernel.pop() else { break };
        run.happen(now.as_nanos(), flow, event);
    }
    Ok(report(run.outcomes, run.entries_max, run.ledger))
}

impl Run<'_> {
    fn happen(&mut self, now: u64, flow: u32, event: Event) {
        match event {
            Event::Start => self.path(now, flow, 0, false),
            Event::Leave => {
                self.end(flow);
                self.path_tear(now, flow, 0);
            }
            Event::Die => self.end(flow),
            Event::Arrive { node, message, refresh } => {
                self.arrive(now, flow, node, message, refresh);
            }
            Event::RefreshPath { node } => self.refresh_path(now, flow, node),
            Event::RefreshResv { node } => self.refresh_resv(now, flow, node),
            Event::Expire { node, half } => self.expire(now, flow, node, half),
        }
    }

    fn links(&self, flow: u32) -> u8 {
        self.requests[flow as usize].route.len() as u8
    }

    fn soft(&mut self, flow: u32, node: u8) -> &mut Soft {
        &mut self.soft[self.first[flow as usize] as usize + usize::from(node)]
    }

    /// The ends always speak RSVP.
    fn speaks(&self, flow: u32, node: u8) -> bool {
        let route = &self.requests[flow as usize].route;
        node == 0 || route.get(usize::from(node)).is_none_or(|l| self.net.links[*l as usize].rsvp)
    }

    fn arrive(&mut self, now: u64, flow: u32, node: u8, message: Message, refresh: bool) {
        if !self.speaks(flow, node) {
            return self.send(now, flow, node, message, refresh);
        }
        match message {
            Message::Path => self.path(now, flow, node, refresh),
            Message::Resv => self.resv(now, flow, node, refresh),
            Message::ResvErr { link, short_bps } if node == self.links(flow) => {
                let at_us = self.requests[flow as usize].at_us;
                let answer_us = (now / 1000).saturating_sub(at_us);
                let verdict = Verdict::Refused { link, short_bps, answer_us };
                self.outcomes[flow as usize].verdict = verdict;
                self.ended[flow as usize] = true;
                self.resv_tear(now, flow, node);
            }
            Message::ResvErr { .. } => self.send(now, flow, node, message, refresh),
            Message::PathTear => self.path_tear(now, flow, node),
            Message::ResvTear => self.resv_tear(now, flow, node),
        }
    }

    fn path(&mut self, now: u64, flow: u32, node: u8, refresh: bool) {
        let last = node == self.links(flow);
        if last && self.ended[flow as usize] {
            return;
        }
        let new = self.renew(now, flow, node, Half::Path);
        if !new {
            return;
        }
        if !last {
            self.send(now, flow, node, Message::Path, refresh);
            if !core::mem::replace(&mut self.soft(flow, node).path_timer, true) {
                self.again(now, flow, Event::RefreshPath { node });
            }
        } else if self.renew(now, flow, node, Half::Resv) {
            self.send(now, flow, node, Message::Resv, refresh);
            self.start_resv_timer(now, flow, node);
        }
    }

    fn resv(&mut self, now: u64, flow: u32, node: u8, refresh: bool) {
        if self.soft(flow, node).path_until == 0 {
            return;
        }
        let r = &self.requests[flow as usize];
        let (link, rate, at_us) = (r.route[usize::from(node)], r.rate_bps, r.at_us);
        if self.soft(flow, node).resv_until == 0 {
            let short_bps = self.ledger.short(self.net, link, rate);
            if short_bps > 0 {
                return self.send(now, flow, node, Message::ResvErr { link, short_bps }, refresh);
            }
            self.ledger.take(self.net, link, rate);
        }
        if !self.renew(now, flow, node, Half::Resv) {
            return;
        }
        if node > 0 {
            self.send(now, flow, node, Message::Resv, refresh);
            return self.start_resv_timer(now, flow, node);
        }
        let setup_us = (now / 1000).saturating_sub(at_us);
        self.outcomes[flow as usize].verdict = Verdict::Admitted { setup_us };
        if !self.ended[flow as usize] {
            self.count_unreserved(flow);
        }
    }

    /// An admitted flow sends, also over links whose nodes were never asked.
    fn count_unreserved(&mut self, flow: u32) {
        let r = &self.requests[flow as usize];
        for (node, link) in r.route.iter().enumerate() {
            let bit = 1 << node;
            if !self.speaks(flow, node as u8) && self.unreserved[flow as usize] & bit == 0 {
                self.unreserved[flow as usize] |= bit;
                self.ledger.take(self.net, *link, r.rate_bps);
            }
        }
    }

    fn end(&mut self, flow: u32) {
        let r = &self.requests[flow as usize];
        self.ended[flow as usize] = true;
        let bits = core::mem::take(&mut self.unreserved[flow as usize]);
        for (_, link) in r.route.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1) {
            self.ledger.give_back(*link, r.rate_bps);
        }
    }

    /// Sets a lifetime anew; true when there was no state before.
    fn renew(&mut self, now: u64, flow: u32, node: u8, half: Half) -> bool {
        let until = now + self.costs.lifetime_ns();
        let new = core::mem::replace(half.of(self.soft(flow, node)), until) == 0;
        if new {
            self.entries += 1;
            self.entries_max = self.entries_max.max(self.entries);
            let event = Event::Expire { node, half };
            self.kernel.schedule(Instant::from_nanos(until), (flow, event));
        }
        new
    }

    /// State whose lifetime has passed goes; state that was refreshed is looked at again later.
    fn expire(&mut self, now: u64, flow: u32, node: u8, half: Half) {
        let until = *half.of(self.soft(flow, node));
        if until > now {
            let again = Event::Expire { node, half };
            self.kernel.schedule(Instant::from_nanos(until), (flow, again));
        } else if until > 0 {
            self.outcomes[flow as usize].timed_out = true;
            match half {
                Half::Path => self.path_tear(now, flow, node),
                Half::Resv => self.resv_tear(now, flow, node),
            }
        }
    }

    /// Path state ends, and the reservation that stands on it; the next node is told.
    fn path_tear(&mut self, now: u64, flow: u32, node: u8) {
        if self.soft(flow, node).path_until == 0 {
            return;
        }
        self.soft(flow, node).path_until = 0;
        self.entries -= 1;
        self.drop_reservation(flow, node);
        if node < self.links(flow) {
            self.send(now, flow, node, Message::PathTear, false);
        }
    }

    /// A reservation ends; the node before is told.
    fn resv_tear(&mut self, now: u64, flow: u32, node: u8) {
        if self.drop_reservation(flow, node) && node > 0 {
            self.send(now, flow, node, Message::ResvTear, false);
        }
    }

    fn drop_reservation(&mut self, flow: u32, node: u8) -> bool {
        if core::mem::take(&mut self.soft(flow, node).resv_until) == 0 {
            return false;
        }
        self.entries -= 1;
        let r = &self.requests[flow as usize];
        if let Some(link) = r.route.get(usize::from(node)) {
            self.ledger.give_back(*link, r.rate_bps);
        }
        true
    }

    fn refresh_path(&mut self, now: u64, flow: u32, node: u8) {
        if self.soft(flow, node).path_until == 0 || (node == 0 && self.silent(now, flow)) {
            self.soft(flow, node).path_timer = false;
            return;
        }
        if node == 0 {
            self.renew(now, flow, 0, Half::Path);
        }
        self.send(now, flow, node, Message::Path, true);
        self.again(now, flow, Event::RefreshPath { node });
    }

    fn refresh_resv(&mut self, now: u64, flow: u32, node: u8) {
        let last = node == self.links(flow);
        let silent = last && self.silent(now, flow);
        if self.soft(flow, node).resv_until == 0 || silent {
            self.soft(flow, node).resv_timer = false;
            return;
        }
        if last {
            self.renew(now, flow, node, Half::Resv);
        }
        self.send(now, flow, node, Message::Resv, true);
        self.again(now, flow, Event::RefreshResv { node });
    }

    fn start_resv_timer(&mut self, now: u64, flow: u32, node: u8) {
        if !core::mem::replace(&mut self.soft(flow, node).resv_timer, true) {
            self.again(now, flow, Event::RefreshResv { node });
        }
    }

    fn silent(&self, now: u64, flow: u32) -> bool {
        self.requests[flow as usize].die_us.is_some_and(|us| us * 1000 <= now)
    }

    /// After 0.5 to 1.5 refresh periods, so that timers do not fall into step (RFC 2205 §3.7).
    fn again(&mut self, now: u64, flow: u32, event: Event) {
        let period = self.costs.refresh_ms.max(1) * 1_000_000;
        let at = now + period / 2 + self.rng.below(period);
        self.kernel.schedule(Instant::from_nanos(at), (flow, event));
    }

    /// A message to the next node its way: downstream, or upstream for RESV and RESVTEAR.
    fn send(&mut self, now: u64, flow: u32, node: u8, message: Message, refresh: bool) {
        let up = matches!(message, Message::Resv | Message::ResvTear);
        let next = if up { node - 1 } else { node + 1 };
        let o = &mut self.outcomes[flow as usize];
        if refresh {
            o.refresh_messages += 1;
        } else {
            o.setup_messages += 1;
        }
        if self.rng.chance_ppm(self.costs.loss_ppm) {
            return;
        }
        let work = if self.speaks(flow, node) { self.costs.message_us } else { 0 };
        let at = Instant::from_nanos(now + (work + self.costs.link_us) * 1000);
        self.kernel.schedule(at, (flow, Event::Arrive { node: next, message, refresh }));
    }
}
