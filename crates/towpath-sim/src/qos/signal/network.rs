//! What both ways of setting up a reservation share: links, requests, costs, the report.

use serde::{Deserialize, Serialize};

use crate::qos::histogram::Summary;

/// A directed link with the node that sends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalLink {
    /// Name for people.
    pub name: String,
    /// What may be reserved.
    pub capacity_bps: u64,
    /// The node that sends on it speaks RSVP. One that does not passes messages on unread and
    /// never refuses.
    #[serde(default = "yes")]
    pub rsvp: bool,
}

const fn yes() -> bool {
    true
}

/// The links that requests name by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalNetwork {
    /// At most 65 536.
    pub links: Vec<SignalLink>,
}

/// A reservation asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// When the sender begins.
    pub at_us: u64,
    /// Links from sender to receiver; 1 to 32.
    pub route: Vec<u32>,
    /// What it reserves on each.
    pub rate_bps: u64,
    /// When its owner gives it back properly.
    #[serde(default)]
    pub leave_us: Option<u64>,
    /// When both ends die without a word.
    #[serde(default)]
    pub die_us: Option<u64>,
}

/// What messages cost, and how soft state lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Time of a message over one link.
    pub link_us: u64,
    /// Work of a node or of the master for one message.
    pub message_us: u64,
    /// Links between a host and the master.
    pub master_links: u32,
    /// RSVP's refresh period R, 30 s by RFC 2205 §3.7; each refresh comes after 0.5 to 1.5 R.
    pub refresh_ms: u64,
    /// RFC 2205's K: state lives (K + 0.5)·1.5·R after its last refresh.
    pub lives: u64,
    /// Messages lost per link, in a million; only RSVP's refreshes are sent again.
    pub loss_ppm: u32,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            link_us: 10,
            message_us: 50,
            master_links: 2,
            refresh_ms: 30_000,
            lives: 3,
            loss_ppm: 0,
        }
    }
}

impl Costs {
    /// How long soft state lives after its last refresh, ns: (K + 0.5)·1.5·R (RFC 2205 §3.7).
    pub const fn lifetime_ns(&self) -> u64 {
        (2 * self.lives + 1) * 3 * self.refresh_ms * 1_000_000 / 4
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// No answer when the run ended.
    Pending,
    /// Reserved on every link that reserves.
    Admitted {
        /// From the sender's first message to its knowing.
        setup_us: u64,
    },
    /// Refused.
    Refused {
        /// The link that had too little.
        link: u32,
        /// By how much.
        short_bps: u64,
        /// From the sender's first message to the refusal's reaching the end that asked.
        answer_us: u64,
    },
}

/// A request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The answer.
    pub verdict: Verdict,
    /// Messages over links that its set-up and end took, refreshes left out.
    pub setup_messages: u64,
    /// Refreshing messages over links.
    pub refresh_messages: u64,
    /// Its state was dropped because nobody refreshed it.
    pub timed_out: bool,
}

impl Outcome {
    /// Before its first message.
    pub(super) const PENDING: Self = Self {
        verdict: Verdict::Pending,
        setup_messages: 0,
        refresh_messages: 0,
        timed_out: false,
    };
}

/// What a run of requests cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalReport {
    /// One per request, in their order.
    pub outcomes: Vec<Outcome>,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Messages over links, refreshes left out.
    pub setup_messages: u64,
    /// Refreshing messages over links.
    pub refresh_messages: u64,
    /// Time from asking to being admitted.
    pub setup: Summary,
    /// Most entries of state in all nodes together.
    pub state_entries_max: u64,
    /// Per link: most that flows counted as theirs beyond what the link carries. Above 0 only
    /// where the node does not speak RSVP.
    pub oversubscribed_bps: Vec<u64>,
    /// What is still reserved on each link at the end.
    pub reserved_bps: Vec<u64>,
}

/// Why a run cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// A request names a link that there is not.
    #[error("request {request}: link {link} is not among the {links} links")]
    UnknownLink {
        /// Index of the request.
        request: usize,
        /// The link it names.
        link: u32,
        /// Links that there are.
        links: usize,
    },
    /// A route that is empty or too long.
    #[error("request {request}: its route has {links} links, must be 1 to 32")]
    Route {
        /// Index of the request.
        request: usize,
        /// Links of its route.
        links: usize,
    },
    /// A count below its limit.
    #[error("{what} is {value}, at least {least}")]
    TooLittle {
        /// What.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        least: u64,
    },
    /// A count or time beyond its limit.
    #[error("{what} is {value}, at most {limit}")]
    TooMuch {
        /// What.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
}

/// A year: times beyond it are refused.
const TIME_US_MAX: u64 = 366 * 24 * 3600 * 1_000_000;

impl SignalNetwork {
    /// Checks what a run is made of.
    pub fn check(&self, costs: &Costs, requests: &[Request]) -> Result<(), SignalError> {
        let limits = [
            ("links", self.links.len() as u64, 65_536),
            ("requests", requests.len() as u64, 1_000_000),
            ("link_us", costs.link_us, 1_000_000_000),
            ("message_us", costs.message_us, 1_000_000_000),
            ("master_links", costs.master_links.into(), 32),
            ("refresh_ms", costs.refresh_ms, 3_600_000),
            ("lives", costs.lives, 1000),
            ("loss_ppm", costs.loss_ppm.into(), 1_000_000),
        ];
        if let Some((what, value, limit)) = limits.into_iter().find(|(_, v, limit)| v > limit) {
            return Err(SignalError::TooMuch { what, value, limit });
        }
        for (request, r) in requests.iter().enumerate() {
            if r.route.is_empty() || r.route.len() > 32 {
                return Err(SignalError::Route { request, links: r.route.len() });
            }
            let links = self.links.len();
            if let Some(&link) = r.route.iter().find(|l| **l as usize >= links) {
                return Err(SignalError::UnknownLink { request, link, links });
            }
            let latest = r.at_us.max(r.leave_us.unwrap_or(0)).max(r.die_us.unwrap_or(0));
            if latest > TIME_US_MAX {
                let what = "a request's time in us";
                return Err(SignalError::TooMuch { what, value: latest, limit: TIME_US_MAX });
            }
        }
        Ok(())
    }
}

/// Reserved rates per link, and by how much flows count on more than there is.
#[derive(Debug)]
pub(super) struct Ledger {
    reserved: Vec<u64>,
    over: Vec<u64>,
}

impl Ledger {
    pub(super) fn new(links: usize) -> Self {
        Self { reserved: vec![0; links], over: vec![0; links] }
    }

    /// By how much `rate` is more than what `link` has left.
    pub(super) fn short(&self, net: &SignalNetwork, link: u32, rate: u64) -> u64 {
        let i = link as usize;
        let wanted = u128::from(self.reserved[i]) + u128::from(rate);
        wanted.saturating_sub(net.links[i].capacity_bps.into()).min(u64::MAX.into()) as u64
    }

    pub(super) fn take(&mut self, net: &SignalNetwork, link: u32, rate: u64) {
        let i = link as usize;
        self.reserved[i] = self.reserved[i].saturating_add(rate);
        let over = self.reserved[i].saturating_sub(net.links[i].capacity_bps);
        self.over[i] = self.over[i].max(over);
    }

    pub(super) fn give_back(&mut self, link: u32, rate: u64) {
        let r = &mut self.reserved[link as usize];
        *r = r.saturating_sub(rate);
    }

    pub(super) fn into_parts(self) -> (Vec<u64>, Vec<u64>) {
        (self.reserved, self.over)
    }
}

/// Sums the outcomes up.
pub(super) fn report(
    outcomes: Vec<Outcome>,
    state_entries_max: u64,
    ledger: Ledger,
) -> SignalReport {
    let mut setup = crate::qos::Histogram::new();
    let (mut admitted, mut refused) = (0, 0);
    for o in &outcomes {
        match o.verdict {
            Verdict::Admitted { setup_us } => {
                admitted += 1;
                setup.record(setup_us * 1000);
            }
            Verdict::Refused { .. } => refused += 1,
            Verdict::Pending => {}
        }
    }
    let (reserved_bps, oversubscribed_bps) = ledger.into_parts();
    SignalReport {
        admitted,
        refused,
        setup_messages: outcomes.iter().map(|o| o.setup_messages).sum(),
        refresh_messages: outcomes.iter().map(|o| o.refresh_messages).sum(),
        setup: setup.summary(),
        state_entries_max,
        oversubscribed_bps,
        reserved_bps,
        outcomes,
    }
}
