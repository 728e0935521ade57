//! Two-phase set-up through the master of the sub-network (Cui 1999, chapter IV): the source
//! tests itself, the master has the destination test itself, then the master tests the whole
//! route, one request after the other, and tells both ends. Routes never change in a closed
//! sub-network, so nothing is refreshed.

use towpath_proto::Rng;
use towpath_wire::Instant;

use super::network::{
    Costs, Ledger, Outcome, Request, SignalError, SignalNetwork, SignalReport, Verdict, report,
};
use crate::kernel::Kernel;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The source begins with its own test.
    Ask,
    /// The request is at the master.
    AtMaster,
    /// The destination tests itself.
    AtDestination,
    /// The destination's answer is at the master, which decides.
    Decide,
    /// The answer is at the source.
    Answer,
    /// The source gives the channel back.
    Leave,
    /// The release is at the master.
    Release,
}

#[derive(Clone, Copy, Debug)]
enum Decision {
    None,
    Held,
    Refused { link: u32, short_bps: u64 },
}

struct Run<'a> {
    net: &'a SignalNetwork,
    costs: &'a Costs,
    requests: &'a [Request],
    kernel: Kernel<(u32, Step)>,
    ledger: Ledger,
    outcomes: Vec<Outcome>,
    decisions: Vec<Decision>,
    /// When the master will have worked off what it has.
    master_free_ns: u64,
    entries: u64,
    entries_max: u64,
    rng: Rng,
}

/// Runs the requests until `until_us`. A lost message is sent again after a refresh period's
/// thousandth (30 ms at the default), as any request does.
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
        decisions: vec![Decision::None; requests.len()],
        master_free_ns: 0,
        entries: 0,
        entries_max: 0,
        rng: Rng::new(seed, 0x03a5_7e2a),
    };
    for (i, r) in requests.iter().enumerate() {
        run.kernel.schedule(Instant::from_nanos(r.at_us * 1000), (i as u32, Step::Ask));
    }
    let until = Instant::from_nanos(until_us.saturating_mul(1000));
    while run.kernel.next_at().is_some_and(|at| at <= until) {
        let Some((now, (flow, step))) = run.kernel.pop() else { break };
        run.step(now.as_nanos(), flow, step);
    }
    Ok(report(run.outcomes, run.entries_max, run.ledger))
}

impl Run<'_> {
    fn step(&mut self, now: u64, flow: u32, step: Step) {
        let (i, requests) = (flow as usize, self.requests);
        let r = &requests[i];
        match step {
            Step::Ask => {
                if let Some(no) = self.shortest(&r.route[..1], r.rate_bps) {
                    self.decisions[i] = no;
                    return self.answer(now, flow);
                }
                self.send(now, flow, Step::AtMaster);
            }
            Step::AtMaster => {
                let done = self.master(now);
                self.send(done, flow, Step::AtDestination);
            }
            Step::AtDestination => {
                let done = now + self.costs.message_us * 1000;
                self.send(done, flow, Step::Decide);
            }
            Step::Decide => {
                let done = self.master(now);
                self.decisions[i] = self.decide(flow);
                self.send(done, flow, Step::Answer);
            }
            Step::Answer => self.answer(now, flow),
            Step::Leave => self.send(now, flow, Step::Release),
            Step::Release => {
                self.master(now);
                if matches!(self.decisions[i], Decision::Held) {
                    self.decisions[i] = Decision::None;
                    r.route.iter().for_each(|l| self.ledger.give_back(*l, r.rate_bps));
                    self.entries -= 1;
                }
            }
        }
    }

    /// The whole route at once: all of it is reserved, or none.
    fn decide(&mut self, flow: u32) -> Decision {
        let r = &self.requests[flow as usize];
        if let Some(no) = self.shortest(&r.route, r.rate_bps) {
            return no;
        }
        r.route.iter().for_each(|l| self.ledger.take(self.net, *l, r.rate_bps));
        self.entries += 1;
        self.entries_max = self.entries_max.max(self.entries);
        // The destination is told as well.
        self.outcomes[flow as usize].setup_messages += u64::from(self.costs.master_links);
        Decision::Held
    }

    /// The link of a route that is short by most, if any is.
    fn shortest(&self, route: &[u32], rate: u64) -> Option<Decision> {
        let short = |link: u32| (self.ledger.short(self.net, link, rate), link);
        let (short_bps, link) = route.iter().map(|l| short(*l)).max()?;
        (short_bps > 0).then_some(Decision::Refused { link, short_bps })
    }

    fn answer(&mut self, now: u64, flow: u32) {
        let r = &self.requests[flow as usize];
        let us = (now / 1000).saturating_sub(r.at_us);
        let verdict = match self.decisions[flow as usize] {
            Decision::Refused { link, short_bps } => {
                Verdict::Refused { link, short_bps, answer_us: us }
            }
            Decision::Held | Decision::None => Verdict::Admitted { setup_us: us },
        };
        self.outcomes[flow as usize].verdict = verdict;
        if matches!(verdict, Verdict::Admitted { .. }) {
            // The master learns of a death from the failure detector of the hosts, at once here.
            if let Some(at_us) = r.leave_us.into_iter().chain(r.die_us).min() {
                self.kernel.schedule(Instant::from_nanos(at_us * 1000), (flow, Step::Leave));
            }
        }
    }

    /// The master works on one message after the other.
    fn master(&mut self, now: u64) -> u64 {
        self.master_free_ns = self.master_free_ns.max(now) + self.costs.message_us * 1000;
        self.master_free_ns
    }

    /// A message between a host and the master, sent until it arrives.
    fn send(&mut self, now: u64, flow: u32, step: Step) {
        let links = self.costs.master_links;
        let mut at = now;
        loop {
            self.outcomes[flow as usize].setup_messages += u64::from(links);
            if !(0..links).any(|_| self.rng.chance_ppm(self.costs.loss_ppm.min(900_000))) {
                break;
            }
            at += self.costs.refresh_ms * 1000;
        }
        at += u64::from(links) * self.costs.link_us * 1000;
        self.kernel.schedule(Instant::from_nanos(at), (flow, step));
    }
}
