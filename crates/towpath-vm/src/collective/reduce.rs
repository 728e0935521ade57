//! Reduce and allreduce.
//!
//! Short vectors go up a tree within each host; then, for a reduce, up a binomial tree of hosts,
//! for an allreduce through recursive doubling among the hosts, and down again within each.
//!
//! Long vectors are split: every member of a group gets its share of all the others' vectors,
//! combines it, and sends it to whoever needs it. On one host all members are the group; with
//! several, one of each host, after the vectors have gone up its tree. This is reduce-scatter and
//! then gather or allgather, as by Rabenseifner (2004), with the direct exchange that Thakur,
//! Rabenseifner and Gropp (2005) take for long messages: each of g members sends and receives
//! (g − 1) / g of a vector twice, the least possible, and combines 1/g of the whole.
//!
//! An operator that does not commute goes by rank, not by placement, and is not split.
//!
//! **Order of combination.** It depends on the number of members, their placement, the root and
//! the length, never on what comes first: the same inputs give the same bits. A node of a tree
//! combines its own vector with those of its local children by rank, then with those of the other
//! hosts, nearest subtree first; recursive doubling puts the lower group left; a share is combined
//! from the lowest rank to the highest. Allreduce gives every member the same bits.

use alloc::vec::Vec;

use super::broadcast::down;
use super::error::CollectiveError;
use super::machine::Member;
use super::operation::Output;
use super::operator::Operator;
use super::payload::Payload;
use super::team::{Place, Way, doublings};

/// Combines the children's vectors with `acc`, child by child.
async fn from_children(
    member: &Member,
    children: impl Iterator<Item = u32>,
    acc: &mut [u8],
    operator: &mut Operator,
) -> Result<(), CollectiveError> {
    for child in children {
        let part = whole(member.receive(child).await?, child, acc.len())?;
        operator.append(acc, &part);
    }
    Ok(())
}

/// The message, if it is as long as it must be.
fn whole(message: Payload, from: u32, expected: usize) -> Result<Payload, CollectiveError> {
    if message.len() == expected {
        Ok(message)
    } else {
        Err(CollectiveError::Malformed { rank: from })
    }
}

async fn from_parent(
    member: &Member,
    place: &Place,
    length: usize,
) -> Result<Payload, CollectiveError> {
    let Some(parent) = place.parent else { unreachable!("only those below the top come here") };
    whole(member.receive(parent).await?, parent, length)
}

pub(super) async fn to_root(
    member: Member,
    root: u32,
    data: Payload,
    mut operator: Operator,
) -> Result<Output, CollectiveError> {
    member.all_have(data.len());
    let by_rank = !operator.commutes();
    if !by_rank && let Some(split) = Split::new(&member, root, data.len(), &operator) {
        return split.reduce(&member, root, data, operator).await;
    }
    let place =
        if by_rank { member.team.place_by_rank() } else { member.team.place(root, Way::Up) };
    // By rank the whole comes together at rank 0.
    let top = if by_rank { 0 } else { root };
    let up = place.parent.or((top != root && member.team.rank() == top).then_some(root));
    let mut acc = data.into_vec();
    let length = acc.len();
    from_children(&member, place.children(), &mut acc, &mut operator).await?;
    if let Some(up) = up {
        member.send(up, alloc::vec![acc.into()]);
    } else {
        return Ok(Output::One(acc.into()));
    }
    if member.team.rank() == root {
        return Ok(Output::One(whole(member.receive(top).await?, top, length)?));
    }
    Ok(Output::None)
}

pub(super) async fn to_all(
    member: Member,
    data: Payload,
    mut operator: Operator,
) -> Result<Output, CollectiveError> {
    member.all_have(data.len());
    let team = &member.team;
    let root = team.members_of(0)[0];
    let by_rank = !operator.commutes();
    let split = if by_rank { None } else { Split::new(&member, root, data.len(), &operator) };
    if let Some(split) = split {
        return split.all_reduce(&member, data, operator).await;
    }
    let (group, place, after) = if by_rank {
        ((0..team.size()).collect(), Place::default(), Place::default())
    } else {
        let place = |way| team.host_place(root, way);
        (team.leaders(root), place(Way::Up), place(Way::Down))
    };
    let doubling = Doubling::new(&member, &group);
    let length = data.len();
    let mut acc = data.into_vec();
    from_children(&member, place.children(), &mut acc, &mut operator).await?;
    let result = if let Some(doubling) = doubling {
        doubling.run(&member, acc, &mut operator).await?
    } else {
        member.send(place.parent.unwrap_or(root), alloc::vec![acc.into()]);
        from_parent(&member, &after, length).await?
    };
    down(&member, &after, core::slice::from_ref(&result));
    Ok(Output::One(result))
}

/// A group for recursive doubling. The first `2 × extra` members pair up with a neighbour, so
/// that a power of two take part; runs of the group stay runs.
struct Doubling<'a> {
    group: &'a [u32],
    extra: usize,
    power: usize,
    own: usize,
}

impl<'a> Doubling<'a> {
    /// `None` when this member is not of the group.
    fn new(member: &Member, group: &'a [u32]) -> Option<Self> {
        let own = group.iter().position(|&rank| rank == member.team.rank())?;
        let power = 1 << group.len().ilog2();
        Some(Self { group, extra: group.len() - power, power, own })
    }

    fn neighbour(&self) -> Option<u32> {
        (self.own < 2 * self.extra).then(|| self.group[self.own ^ 1])
    }

    /// The own place among those that take part, but for the second of a pair.
    fn index(&self) -> Option<usize> {
        match self.own {
            own if own >= 2 * self.extra => Some(own - self.extra),
            own if own % 2 == 0 => Some(own / 2),
            _ => None,
        }
    }

    /// Whom to exchange with, round by round, and whether they come after this member.
    fn partners(&self) -> impl Iterator<Item = (bool, u32)> {
        let rank_of = |index: usize| {
            self.group[if index < self.extra { 2 * index } else { index + self.extra }]
        };
        self.index().into_iter().flat_map(move |index| {
            let masks = doublings(self.power as u32).map(|mask| mask as usize);
            masks.map(move |mask| (index & mask == 0, rank_of(index ^ mask)))
        })
    }

    /// Every member of the group gets the combination of all, in the order of the group.
    async fn run(
        &self,
        member: &Member,
        mut acc: Vec<u8>,
        operator: &mut Operator,
    ) -> Result<Payload, CollectiveError> {
        let length = acc.len();
        let neighbour = self.neighbour();
        if let Some(neighbour) = neighbour {
            if self.index().is_none() {
                member.send(neighbour, alloc::vec![acc.into()]);
                return whole(member.receive(neighbour).await?, neighbour, length);
            }
            let part = whole(member.receive(neighbour).await?, neighbour, length)?;
            operator.append(&mut acc, &part);
        }
        let mut acc = Payload::from(acc);
        for (is_after, partner) in self.partners() {
            member.send(partner, alloc::vec![acc.clone()]);
            let part = whole(member.receive(partner).await?, partner, length)?;
            let mut sum = acc.into_vec();
            if is_after {
                operator.append(&mut sum, &part);
            } else {
                operator.prepend(&part, &mut sum);
            }
            acc = sum.into();
        }
        if let Some(neighbour) = neighbour {
            member.send(neighbour, alloc::vec![acc.clone()]);
        }
        Ok(acc)
    }
}

/// A long vector, split among the members of `group`: all of one host, or one of each host.
struct Split {
    group: Vec<u32>,
    /// Place within the host, below a member of the group, on the way up and down.
    up: Place,
    after: Place,
    element: usize,
    length: usize,
}

impl Split {
    fn new(member: &Member, root: u32, length: usize, operator: &Operator) -> Option<Self> {
        let (team, settings) = (&member.team, &member.team.settings);
        let (group, up, after) = if team.host_count() == 1 {
            ((0..team.size()).collect(), Place::default(), Place::default())
        } else {
            let mut leaders = team.leaders(root);
            leaders.sort_unstable();
            (leaders, team.host_place(root, Way::Up), team.host_place(root, Way::Down))
        };
        let share = length / group.len();
        let long = length as u64 >= settings.split_from && share as u64 >= settings.share_min;
        (long && group.len() > 1).then_some(Self {
            group,
            up,
            after,
            element: operator.element_bytes(),
            length,
        })
    }

    fn own(&self, member: &Member) -> Option<usize> {
        self.group.iter().position(|&rank| rank == member.team.rank())
    }

    /// The bytes that are `index`'s to combine.
    fn share(&self, index: usize) -> core::ops::Range<usize> {
        let elements = (self.length / self.element) as u128;
        let bound = |index: usize| {
            (elements * index as u128 / self.group.len() as u128) as usize * self.element
        };
        bound(index)..bound(index + 1)
    }

    /// Vectors of the host, then shares of the group: the combined share of this member, or
    /// `None` when it is not of the group.
    async fn scatter(
        &self,
        member: &Member,
        data: Payload,
        operator: &mut Operator,
    ) -> Result<Option<Payload>, CollectiveError> {
        let own = self.own(member);
        let mut data = data;
        if !self.up.local.is_empty() {
            let mut acc = data.into_vec();
            from_children(member, self.up.children(), &mut acc, operator).await?;
            data = acc.into();
        }
        let Some(own) = own else {
            if let Some(parent) = self.up.parent {
                member.send(parent, alloc::vec![data]);
            }
            return Ok(None);
        };
        let count = self.group.len();
        for step in 1..count {
            let to = (own + step) % count;
            member.send(self.group[to], alloc::vec![data.slice(self.share(to))]);
        }
        let range = self.share(own);
        let mut acc = Vec::new();
        for (index, &rank) in self.group.iter().enumerate() {
            let part = if index == own {
                data.slice(range.clone())
            } else {
                whole(member.receive(rank).await?, rank, range.len())?
            };
            if index == 0 {
                acc = part.into_vec();
            } else {
                operator.append(&mut acc, &part);
            }
        }
        Ok(Some(acc.into()))
    }

    /// All shares, one behind the other.
    async fn collect(&self, member: &Member, own: Payload) -> Result<Payload, CollectiveError> {
        let mut all = Vec::with_capacity(self.length);
        for (index, &rank) in self.group.iter().enumerate() {
            if rank == member.team.rank() {
                all.extend_from_slice(&own);
            } else {
                let part = member.receive(rank).await?;
                all.extend_from_slice(&whole(part, rank, self.share(index).len())?);
            }
        }
        Ok(all.into())
    }

    async fn reduce(
        self,
        member: &Member,
        root: u32,
        data: Payload,
        mut operator: Operator,
    ) -> Result<Output, CollectiveError> {
        let Some(own) = self.scatter(member, data, &mut operator).await? else {
            return Ok(Output::None);
        };
        if member.team.rank() == root {
            return Ok(Output::One(self.collect(member, own).await?));
        }
        member.send(root, alloc::vec![own]);
        Ok(Output::None)
    }

    async fn all_reduce(
        self,
        member: &Member,
        data: Payload,
        mut operator: Operator,
    ) -> Result<Output, CollectiveError> {
        let result = if let Some(own) = self.scatter(member, data, &mut operator).await? {
            let rank = member.team.rank();
            let others: Vec<u32> = self.group.iter().copied().filter(|&r| r != rank).collect();
            member.multicast(&others, alloc::vec![own.clone()]);
            self.collect(member, own).await?
        } else {
            from_parent(member, &self.after, self.length).await?
        };
        down(member, &self.after, core::slice::from_ref(&result));
        Ok(Output::One(result))
    }
}
