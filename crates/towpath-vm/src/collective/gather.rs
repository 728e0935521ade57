//! Gather and allgather.
//!
//! Parts are gathered on each host by one member, the root on its own host, and go from host to
//! host in one message: h − 1 messages between hosts instead of n − h. A long part does not make
//! the detour: its place in that message says that it comes directly. For allgather the hosts
//! exchange what they have by the algorithm of Bruck et al. (1997): in round k a host sends what
//! it has from 2ᵏ hosts to the host 2ᵏ before it. The first member of each host then has all, and
//! multicasts it to the others.

use alloc::vec::Vec;

use super::bundle::{self, Item, Part};
use super::error::CollectiveError;
use super::machine::Member;
use super::operation::{Lengths, Output};
use super::payload::Payload;
use super::team::doublings;

/// Members on one host that tell each other what they have without a first one.
const EACH_MAX: u32 = 16;

/// Fails if an item is not as long as all must be.
pub(super) fn check(items: &[Item], expected: Option<u64>) -> Result<(), CollectiveError> {
    let Some(expected) = expected else { return Ok(()) };
    match items.iter().find(|item| item.bytes() != expected) {
        Some(item) => Err(CollectiveError::Length { rank: item.rank, got: item.bytes(), expected }),
        None => Ok(()),
    }
}

/// The item, if it is not too long.
fn checked(item: Item, limit: u64) -> Result<Item, CollectiveError> {
    let (rank, bytes) = (item.rank, item.bytes());
    if bytes > limit { Err(CollectiveError::TooLarge { rank, bytes, limit }) } else { Ok(item) }
}

fn expected(data: &Payload, lengths: Lengths) -> Option<u64> {
    (lengths == Lengths::Equal).then_some(data.len() as u64)
}

/// The parts of the own host's members, by rank.
async fn of_host(
    member: &Member,
    data: &Payload,
    direct_from: u64,
) -> Result<Vec<Item>, CollectiveError> {
    let (own, limit) = (member.team.rank(), member.team.settings.bytes_max);
    let mut items = Vec::new();
    for &rank in member.team.host_members() {
        if rank == own {
            items.push(Item::new(own, data, direct_from));
        } else {
            let message = member.receive(rank).await?;
            items.extend(bundle::parse(&message, rank, [rank].into_iter(), limit)?);
        }
    }
    Ok(items)
}

/// The part of `item`, which comes from `from` if it is not here.
pub(super) async fn part(
    member: &Member,
    item: Item,
    from: u32,
) -> Result<Payload, CollectiveError> {
    let bytes = match item.part {
        Part::Here(data) => return Ok(data),
        Part::Direct(bytes) => bytes,
    };
    let data = member.receive(from).await?;
    let malformed = CollectiveError::Malformed { rank: from };
    if data.len() as u64 == bytes { Ok(data) } else { Err(malformed) }
}

pub(super) async fn to_root(
    member: Member,
    root: u32,
    data: Payload,
    lengths: Lengths,
) -> Result<Output, CollectiveError> {
    let team = &member.team;
    let (own, limit) = (team.rank(), team.settings.bytes_max);
    let leader = team.leader(team.host(), root);
    let direct_from = team.settings.direct_from;
    if own != root && leader == root {
        // On the root's host there is no detour, and nothing to say but the part.
        member.send(root, alloc::vec![data]);
        return Ok(Output::None);
    }
    if own != root {
        let own_item = Item::new(own, &data, direct_from);
        let is_direct = matches!(own_item.part, Part::Direct(_));
        let items = if own == leader {
            of_host(&member, &data, direct_from).await?
        } else {
            alloc::vec![own_item]
        };
        member.send(if own == leader { root } else { leader }, bundle::emit(&items));
        if is_direct {
            member.send(root, alloc::vec![data]);
        }
        return Ok(Output::None);
    }
    let mut items = Vec::new();
    for &rank in team.host_members() {
        let part = if rank == own { data.clone() } else { member.receive(rank).await? };
        items.push(checked(Item { rank, part: Part::Here(part) }, limit)?);
    }
    for host in (0..team.host_count()).filter(|&host| host != team.host()) {
        let from = team.leader(host, root);
        let message = member.receive(from).await?;
        items.extend(bundle::parse(&message, from, team.members_of(host).iter().copied(), limit)?);
    }
    check(&items, expected(&data, lengths))?;
    items.sort_unstable_by_key(|item| item.rank);
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        let rank = item.rank;
        parts.push(part(&member, item, rank).await?);
    }
    Ok(Output::Many(parts))
}

/// Everyone to everyone, on one host: n (n − 1) messages, but nobody waits for what waits itself.
async fn to_each(
    member: &Member,
    data: Payload,
    lengths: Lengths,
) -> Result<Output, CollectiveError> {
    let (team, expected) = (&member.team, expected(&data, lengths));
    let mut others: Vec<u32> = team.others().collect();
    member.multicast(&others, alloc::vec![data.clone()]);
    let mut parts = alloc::vec![Payload::EMPTY; team.size() as usize];
    parts[team.rank() as usize] = data;
    // Those that sent to this member first are those before it.
    others.reverse();
    for rank in others {
        let data = member.receive(rank).await?;
        let item = checked(Item { rank, part: Part::Here(data) }, team.settings.bytes_max)?;
        check(core::slice::from_ref(&item), expected)?;
        parts[rank as usize] = part(member, item, rank).await?;
    }
    Ok(Output::Many(parts))
}

pub(super) async fn to_all(
    member: Member,
    data: Payload,
    lengths: Lengths,
) -> Result<Output, CollectiveError> {
    let team = &member.team;
    if team.host_count() == 1 && team.size() <= EACH_MAX {
        return to_each(&member, data, lengths).await;
    }
    let (own, direct_from) = (team.rank(), team.settings.direct_from);
    let others = |ranks: &[u32]| ranks.iter().copied().filter(|&r| r != own).collect::<Vec<_>>();
    let (members, neighbours) = (team.host_members(), others(team.host_members()));
    let leader = members[0];
    let own_item = Item::new(own, &data, direct_from);
    let direct_to = if matches!(own_item.part, Part::Direct(_)) {
        let hosts = (0..team.host_count()).filter(|&host| host != team.host());
        hosts.map(|host| team.members_of(host)[0]).chain(neighbours.iter().copied()).collect()
    } else {
        Vec::new()
    };
    let items = if own == leader {
        let items = of_host(&member, &data, direct_from).await?;
        let items = between_hosts(&member, items).await?;
        member.multicast(&neighbours, bundle::emit(&items));
        items
    } else {
        member.send(leader, bundle::emit(&[own_item]));
        let message = member.receive(leader).await?;
        let ranks = by_host(&member, 0, team.host_count());
        bundle::parse(&message, leader, ranks, team.settings.bytes_max)?
    };
    check(&items, expected(&data, lengths))?;
    member.multicast(&direct_to, alloc::vec![data.clone()]);
    Ok(Output::Many(direct_parts(&member, items, &data, &neighbours).await?))
}

/// The ranks of `count` hosts from `first` on and round, by host.
fn by_host(member: &Member, first: u32, count: u32) -> impl Iterator<Item = u32> {
    let (team, hosts) = (&member.team, member.team.host_count());
    (0..count).flat_map(move |step| team.members_of((first + step) % hosts).iter().copied())
}

/// The first member of the host that is `distance` before the own one, and round.
fn before(member: &Member, distance: u32) -> u32 {
    let (team, hosts) = (&member.team, member.team.host_count());
    team.members_of((team.host() + hosts - distance) % hosts)[0]
}

/// The parts of all hosts, those of host 0 first, given the own host's.
async fn between_hosts(
    member: &Member,
    mut items: Vec<Item>,
) -> Result<Vec<Item>, CollectiveError> {
    let team = &member.team;
    let (host, hosts) = (team.host(), team.host_count());
    for distance in doublings(hosts) {
        // What the other has is all up to itself.
        let count = distance.min(hosts - distance);
        let known = by_host(member, host, count).count();
        member.send(before(member, distance), bundle::emit(&items[..known]));
        let from = before(member, hosts - distance);
        let message = member.receive(from).await?;
        let ranks = by_host(member, (host + distance) % hosts, count);
        items.extend(bundle::parse(&message, from, ranks, team.settings.bytes_max)?);
    }
    // The hosts behind the last come first.
    let after = by_host(member, host, hosts - host).count();
    items.rotate_left(after);
    Ok(items)
}

/// All parts, by rank. Each long one goes to its neighbours and to the other hosts' first members,
/// who pass it on here.
async fn direct_parts(
    member: &Member,
    mut items: Vec<Item>,
    data: &Payload,
    neighbours: &[u32],
) -> Result<Vec<Payload>, CollectiveError> {
    let team = &member.team;
    let (own, leader) = (team.rank(), team.host_members()[0]);
    items.sort_unstable_by_key(|item| item.rank);
    let is_direct = |rank: u32| matches!(items[rank as usize].part, Part::Direct(_));
    let mut parts: Vec<Payload> = items
        .iter()
        .map(|item| if let Part::Here(data) = &item.part { data.clone() } else { Payload::EMPTY })
        .collect();
    // A first member has sent its own part before it passes on others.
    let order = [leader].into_iter().chain((0..team.size()).filter(|&rank| rank != leader));
    for rank in order.filter(|&rank| is_direct(rank)) {
        let is_near = team.host_of(rank) == team.host();
        parts[rank as usize] = if rank == own {
            data.clone()
        } else {
            let from = if is_near || own == leader { rank } else { leader };
            let data = part(member, items[rank as usize].clone(), from).await?;
            if !is_near && own == leader {
                member.multicast(neighbours, alloc::vec![data.clone()]);
            }
            data
        };
    }
    Ok(parts)
}
