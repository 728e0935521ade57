//! All-to-all: everyone sends each other member of its host its part, the next one first and
//! round, so that no member is everybody's first. What goes to other hosts goes through the first
//! member of each host, in one message from host to host: with m members on each of h hosts,
//! h (h − 1) messages between hosts instead of m² times as many. A long part does not make the
//! detour: its place in that message says that it comes directly. Where each host has one member
//! there is nothing to put together, and everyone sends to everyone.

use alloc::vec::Vec;

use super::bundle::{self, Item, Part};
use super::error::CollectiveError;
use super::gather;
use super::machine::Member;
use super::operation::{Lengths, Output};
use super::payload::Payload;

pub(super) async fn run(
    member: Member,
    mut parts: Vec<Payload>,
    lengths: Lengths,
) -> Result<Output, CollectiveError> {
    let team = &member.team;
    let own = team.rank();
    let longest = parts.iter().map(|part| part.len() as u64).max();
    let expected = longest.filter(|_| lengths == Lengths::Equal);
    let by_hosts = 1 < team.host_count() && team.host_count() < team.size();
    let is_near = |rank: u32| !by_hosts || team.host_of(rank) == team.host();
    for to in team.others().filter(|&to| is_near(to)) {
        member.send(to, alloc::vec![parts[to as usize].clone()]);
    }
    let leader = team.host_members()[0];
    if by_hosts && own != leader {
        member.send(leader, bundle::emit(&for_far(&member, &parts)));
        send_long(&member, &parts);
    }
    // Those that sent to this member first are those before it.
    let mut before: Vec<u32> = team.others().filter(|&from| is_near(from)).collect();
    before.reverse();
    for from in before {
        let data = member.receive(from).await?;
        check(&member, &Item { rank: from, part: Part::Here(data.clone()) }, expected)?;
        parts[from as usize] = data;
    }
    let from_far = if !by_hosts {
        Vec::new()
    } else if own == leader {
        between_hosts(&member, &parts).await?
    } else {
        let message = member.receive(leader).await?;
        bundle::parse(&message, leader, far(&member), team.settings.bytes_max)?
    };
    for item in from_far {
        check(&member, &item, expected)?;
        let rank = item.rank;
        parts[rank as usize] = gather::part(&member, item, rank).await?;
    }
    Ok(Output::Many(parts))
}

fn check(member: &Member, item: &Item, expected: Option<u64>) -> Result<(), CollectiveError> {
    let (rank, bytes, limit) = (item.rank, item.bytes(), member.team.settings.bytes_max);
    if bytes > limit {
        return Err(CollectiveError::TooLarge { rank, bytes, limit });
    }
    gather::check(core::slice::from_ref(item), expected)
}

fn other_hosts(member: &Member) -> impl Iterator<Item = &[u32]> {
    let team = &member.team;
    let hosts = (0..team.host_count()).filter(|&host| host != team.host());
    hosts.map(|host| team.members_of(host))
}

/// The ranks of the other hosts, host by host.
fn far(member: &Member) -> impl Iterator<Item = u32> {
    other_hosts(member).flatten().copied()
}

/// This member's parts for those of other hosts.
fn for_far(member: &Member, parts: &[Payload]) -> Vec<Item> {
    let direct_from = member.team.settings.direct_from;
    far(member).map(|rank| Item::new(rank, &parts[rank as usize], direct_from)).collect()
}

/// Sends the long parts for those of other hosts.
fn send_long(member: &Member, parts: &[Payload]) {
    for item in for_far(member, parts) {
        if let Part::Direct(_) = item.part {
            member.send(item.rank, alloc::vec![parts[item.rank as usize].clone()]);
        }
    }
}

/// Passes on, as the first member of this host, what goes to other hosts and comes from them.
/// What is for this member itself, by sender.
async fn between_hosts(member: &Member, parts: &[Payload]) -> Result<Vec<Item>, CollectiveError> {
    let (team, limit) = (&member.team, member.team.settings.bytes_max);
    let members = team.host_members();
    let mut outgoing = alloc::vec![for_far(member, parts)];
    for &rank in &members[1..] {
        let message = member.receive(rank).await?;
        outgoing.push(bundle::parse(&message, rank, far(member), limit)?);
    }
    let mut at = 0;
    for host in other_hosts(member) {
        let mut items = Vec::with_capacity(members.len() * host.len());
        for (&rank, of_rank) in members.iter().zip(&outgoing) {
            let parts = of_rank[at..at + host.len()].iter().map(|item| item.part.clone());
            items.extend(parts.map(|part| Item { rank, part }));
        }
        member.send(host[0], bundle::emit(&items));
        at += host.len();
    }
    send_long(member, parts);
    let mut incoming: Vec<Vec<Item>> = members.iter().map(|_| Vec::new()).collect();
    for host in other_hosts(member) {
        let message = member.receive(host[0]).await?;
        let ranks = host.iter().flat_map(|&rank| members.iter().map(move |_| rank));
        for (index, item) in bundle::parse(&message, host[0], ranks, limit)?.into_iter().enumerate()
        {
            incoming[index % members.len()].push(item);
        }
    }
    for (&rank, items) in members.iter().zip(&incoming).skip(1) {
        member.send(rank, bundle::emit(items));
    }
    Ok(incoming.swap_remove(0))
}
