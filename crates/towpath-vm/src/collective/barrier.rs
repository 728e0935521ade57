//! Barrier: the members of a host meet, then the hosts, then each host's members are let go.
//!
//! Between hosts by dissemination (Hensgen, Finkel, Manber 1988): in round k host v tells host
//! v + 2ᵏ and hears from v − 2ᵏ. Within a host up and down a tree, or by [`HostStage`] without
//! messages. With one task for each host it is plain dissemination, with one host a plain tree:
//! where tasks share processors, the 2 (n − 1) messages of a tree beat the n ⌈log₂ n⌉ of
//! dissemination, each of which may wake a task.
//!
//! [`HostStage`]: super::HostStage

use alloc::vec::Vec;

use super::error::CollectiveError;
use super::machine::Member;
use super::operation::Output;
use super::team::{Way, doublings};

pub(super) async fn run(member: Member) -> Result<Output, CollectiveError> {
    let root = member.team.members_of(0)[0];
    let place = member.team.host_place(root, Way::Up);
    let down = member.team.host_place(root, Way::Down);
    let by_memory = member.team.settings.host_stage && member.team.host_members().len() > 1;
    if by_memory {
        member.meet_on_host().await?;
    } else {
        for child in place.children() {
            member.receive(child).await?;
        }
    }
    if let Some(parent) = place.parent.filter(|_| !by_memory) {
        member.send(parent, Vec::new());
    } else if place.parent.is_none() {
        between_hosts(&member).await?;
    }
    if !by_memory {
        if let Some(parent) = down.parent {
            member.receive(parent).await?;
        }
        member.multicast(&down.local, Vec::new());
    } else if member.team.host_count() > 1 {
        // On one host everyone has seen everyone.
        if place.parent.is_none() {
            member.release_host();
        } else {
            member.wait_for_release().await?;
        }
    }
    Ok(Output::None)
}

/// The first member of the host that is `distance` after the own one, and round.
fn leader(member: &Member, distance: u32) -> u32 {
    let team = &member.team;
    team.members_of((team.host() + distance) % team.host_count())[0]
}

async fn between_hosts(member: &Member) -> Result<(), CollectiveError> {
    let count = member.team.host_count();
    for distance in doublings(count) {
        member.send(leader(member, distance), Vec::new());
        member.receive(leader(member, count - distance)).await?;
    }
    Ok(())
}
