//! Who takes part, and where each member runs.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// Most members of a team.
pub const TEAM_MAX: usize = 1 << 16;

/// How far one [`Step::Multicast`](super::Step::Multicast) of the caller's goes at about the cost
/// of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nowhere: it is a loop of sends.
    #[default]
    Nowhere,
    /// To the members on the sender's own host: one copy in shared memory that all read.
    Host,
    /// To all members: the link multicasts.
    Everywhere,
}

/// What the algorithms are chosen by. All members of a team must have the same.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What a multicast does.
    pub multicast: Reach,
    /// The caller can let the members of one host meet without messages; see
    /// [`HostStage`](super::HostStage).
    pub host_stage: bool,
    /// Children of a node in the tree within a host where no multicast is.
    pub local_fan: u32,
    /// A broadcast from this length on goes in segments along a chain of hosts, in bytes.
    pub pipeline_from: u64,
    /// Least length of such a segment, in bytes.
    pub segment_min: u64,
    /// A reduction from this length on is split among the members, in bytes.
    pub split_from: u64,
    /// Least length of each member's share of it, in bytes.
    pub share_min: u64,
    /// An item from this length on does not go through its host's first member, in bytes.
    pub direct_from: u64,
    /// Most bytes of one member's part of a result.
    pub bytes_max: u64,
}

impl Default for Settings {
    /// Tuned for tens of hosts with up to a few dozen tasks each, 20 µs to wake a task and links
    /// of 0.1 to 10 Gbit/s.
    fn default() -> Self {
        Self {
            multicast: Reach::Nowhere,
            host_stage: false,
            local_fan: 8,
            pipeline_from: 16 << 10,
            segment_min: 2 << 10,
            split_from: 64 << 10,
            share_min: 4 << 10,
            direct_from: 64 << 10,
            bytes_max: 1 << 30,
        }
    }
}

/// Why a team cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    /// More members than a team may have, or none.
    #[error("a team has 1 to {TEAM_MAX} members, not {0}")]
    Size(usize),
    /// The own rank is not one of them.
    #[error("rank {rank} is not in a team of {size}")]
    Rank {
        /// The own rank.
        rank: u32,
        /// Number of members.
        size: u32,
    },
    /// A tree whose nodes have no children.
    #[error("the tree within a host needs at least 1 child for each node (local_fan), not 0")]
    Fan,
}

/// A fixed list of members, seen by one of them. Ranks count from 0; hosts are numbered in the
/// order of their lowest rank.
#[derive(Debug)]
pub struct Team {
    pub(super) rank: u32,
    pub(super) settings: Settings,
    /// Host of each rank.
    hosts: Vec<u32>,
    /// Ranks of each host, ascending.
    members: Vec<Vec<u32>>,
}

/// Which way a tree is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the leaves to the root.
    Up,
    /// From the root to the leaves: a multicast within a host makes the tree flat there.
    Down,
}

/// A member's place in a tree that reaches every member.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parent: Option<u32>,
    /// Children on the own host, ascending.
    pub(super) local: Vec<u32>,
    /// Children on other hosts; the later ones have the larger subtrees.
    pub(super) remote: Vec<u32>,
}

impl Place {
    pub(super) fn children(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.local.iter().chain(&self.remote).copied()
    }
}

/// Parent and children of node `v` in the binomial tree of `size` nodes with root 0: the subtree
/// of `v` is `v .. v + lowest bit of v`.
pub(super) fn binomial(v: u32, size: u32) -> (Option<u32>, impl DoubleEndedIterator<Item = u32>) {
    let parent = (v != 0).then(|| v & (v - 1));
    let bits = if v == 0 { size.next_power_of_two().trailing_zeros() } else { v.trailing_zeros() };
    (parent, (0..bits).map(move |bit| v + (1 << bit)).filter(move |&child| child < size))
}

/// 1, 2, 4 … below `size`.
pub(super) fn doublings(size: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|bit| 1 << bit).take_while(move |&distance| distance < size)
}

impl Team {
    /// The team whose members run on `hosts` (any numbers, one for each rank), as `rank` sees it.
    pub fn new(rank: u32, hosts: &[u32], settings: Settings) -> Result<Rc<Self>, TeamError> {
        if hosts.is_empty() || hosts.len() > TEAM_MAX {
            return Err(TeamError::Size(hosts.len()));
        }
        let size = hosts.len() as u32;
        if rank >= size {
            return Err(TeamError::Rank { rank, size });
        }
        if settings.local_fan == 0 {
            return Err(TeamError::Fan);
        }
        let (mut numbers, mut members) = (BTreeMap::new(), Vec::new());
        let mut number_of = |(rank, host): (u32, &u32)| {
            let number = *numbers.entry(*host).or_insert(members.len());
            if number == members.len() {
                members.push(Vec::new());
            }
            members[number].push(rank);
            number as u32
        };
        let hosts = (0..).zip(hosts).map(&mut number_of).collect();
        Ok(Rc::new(Self { rank, settings, hosts, members }))
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The own rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The ranks that share the own host, the own among them, ascending.
    pub fn host_members(&self) -> &[u32] {
        self.members_of(self.host())
    }

    pub(super) fn host(&self) -> u32 {
        self.host_of(self.rank)
    }

    pub(super) fn host_of(&self, rank: u32) -> u32 {
        self.hosts[rank as usize]
    }

    pub(super) fn host_count(&self) -> u32 {
        self.members.len() as u32
    }

    pub(super) fn members_of(&self, host: u32) -> &[u32] {
        &self.members[host as usize]
    }

    /// Who acts for `host` in an operation of `root`: the root on its own host, else the lowest.
    pub(super) fn leader(&self, host: u32, root: u32) -> u32 {
        if host == self.host_of(root) { root } else { self.members_of(host)[0] }
    }

    /// One leader for each host, in the order of the hosts, that of the root's first.
    pub(super) fn leaders(&self, root: u32) -> Vec<u32> {
        let (first, count) = (self.host_of(root), self.host_count());
        (0..count).map(|v| self.leader((first + v) % count, root)).collect()
    }

    /// All others, from the next rank on and round.
    pub(super) fn others(&self) -> impl Iterator<Item = u32> {
        let (rank, size) = (u64::from(self.rank), u64::from(self.size()));
        (1..size).map(move |step| ((rank + step) % size) as u32)
    }

    /// Place among the members of the own host alone, in an operation of `root`.
    pub(super) fn host_place(&self, root: u32, way: Way) -> Place {
        let leader = self.leader(self.host(), root);
        let members = self.host_members();
        let leader_at = members.partition_point(|&member| member < leader);
        // Position 0 is the leader, the others follow in order.
        let at = |position: usize| match position {
            0 => leader,
            _ if position <= leader_at => members[position - 1],
            _ => members[position],
        };
        let own_at = members.partition_point(|&member| member < self.rank);
        let own = if own_at < leader_at { own_at + 1 } else { own_at };
        let own = if self.rank == leader { 0 } else { own };
        let fan = match (way, self.settings.multicast) {
            (Way::Down, Reach::Host | Reach::Everywhere) => members.len(),
            _ => self.settings.local_fan as usize,
        };
        let first = own.saturating_mul(fan).saturating_add(1);
        let last = first.saturating_add(fan).min(members.len());
        Place {
            parent: (own > 0).then(|| at((own - 1) / fan)),
            local: (first..last).map(at).collect(),
            remote: Vec::new(),
        }
    }

    /// Place in the tree in which everyone else is a child of `root`.
    pub(super) fn star(&self, root: u32) -> Place {
        if self.rank == root {
            Place { local: self.others().collect(), ..Place::default() }
        } else {
            Place { parent: Some(root), ..Place::default() }
        }
    }

    /// Place in the tree of `root`: binomial from host to host, within each a tree of its own.
    pub(super) fn place(&self, root: u32, way: Way) -> Place {
        let mut place = self.host_place(root, way);
        if place.parent.is_none() {
            let leaders = self.leaders(root);
            let count = self.host_count();
            let v = (self.host() + count - self.host_of(root)) % count;
            let (parent, children) = binomial(v, count);
            place.parent = parent.map(|v| leaders[v as usize]);
            place.remote = children.map(|v| leaders[v as usize]).collect();
        }
        place
    }

    /// Place in the binomial tree of all ranks with root 0: every subtree is a run of ranks.
    pub(super) fn place_by_rank(&self) -> Place {
        let (parent, children) = binomial(self.rank, self.size());
        Place { parent, local: Vec::new(), remote: children.collect() }
    }
}
