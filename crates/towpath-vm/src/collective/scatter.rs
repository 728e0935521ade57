//! Scatter: the way of gather, backwards. One message for each host; a long part goes directly.

use alloc::vec::Vec;

use super::bundle::{self, Item, Part};
use super::error::CollectiveError;
use super::machine::Member;
use super::operation::Output;
use super::payload::Payload;

pub(super) async fn run(
    member: Member,
    root: u32,
    parts: Option<Vec<Payload>>,
) -> Result<Output, CollectiveError> {
    let team = &member.team;
    let own = team.rank();
    let leader = team.leader(team.host(), root);
    if let Some(parts) = parts {
        from_root(&member, &parts);
        return Ok(Output::One(parts[own as usize].clone()));
    }
    let from = if own == leader { root } else { leader };
    let message = member.receive(from).await?;
    let expected = if own == leader { team.host_members() } else { core::slice::from_ref(&own) };
    let limit = team.settings.bytes_max;
    let items = bundle::parse(&message, from, expected.iter().copied(), limit)?;
    let mut result = None;
    for item in items {
        if item.rank == own {
            result = Some(item.part);
        } else {
            member.send(item.rank, bundle::emit(&[item]));
        }
    }
    match result {
        Some(Part::Here(data)) => Ok(Output::One(data)),
        Some(Part::Direct(bytes)) => {
            let data = member.receive(root).await?;
            let malformed = CollectiveError::Malformed { rank: root };
            if data.len() as u64 == bytes { Ok(Output::One(data)) } else { Err(malformed) }
        }
        None => unreachable!("the ranks of a bundle are those expected"),
    }
}

fn from_root(member: &Member, parts: &[Payload]) {
    let team = &member.team;
    let part = |rank: u32| &parts[rank as usize];
    let hosts = (0..team.host_count()).filter(|&host| host != team.host());
    for members in hosts.clone().map(|host| team.members_of(host)) {
        let item = |&rank: &u32| Item::new(rank, part(rank), team.settings.direct_from);
        member.send(members[0], bundle::emit(&members.iter().map(item).collect::<Vec<_>>()));
    }
    for &rank in team.host_members().iter().filter(|&&rank| rank != team.rank()) {
        member.send(rank, bundle::emit(&[Item::new(rank, part(rank), u64::MAX)]));
    }
    for rank in hosts.flat_map(|host| team.members_of(host)).copied() {
        if part(rank).len() as u64 >= team.settings.direct_from {
            member.send(rank, alloc::vec![part(rank).clone()]);
        }
    }
}
