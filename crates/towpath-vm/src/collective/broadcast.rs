//! Broadcast: short ones down a tree, long ones in segments along a chain of hosts.
//!
//! The tree is binomial from host to host (Johnsson and Ho 1989), within each host by multicast
//! or a flat tree. A long message is only announced by the tree; then its segments go from host
//! to host in a chain, so that each link carries each byte once (a pipelined chain, as the linear
//! pipeline of Watts and van de Geijn 1995), and each host's first member passes them on within.
//! With s segments over h hosts that takes (s + h − 2) / s times one transfer: 8 h segments keep
//! it within 1/8 of the shortest possible.
//!
//! Between hosts every message of the tree ends with `total u64 | segment u64`: the length of the
//! whole, and that of a segment, 0 when the whole stands before it. On one host it is the whole
//! alone, so that whoever gives it can have it where the others read it.

use alloc::vec::Vec;

use super::error::CollectiveError;
use super::machine::Member;
use super::operation::Output;
use super::payload::Payload;
use super::team::{Place, Reach, Way};

const END: usize = 16;

/// Segments for each host.
const SEGMENTS: u64 = 8;

fn end(total: u64, segment: u64) -> Payload {
    let mut end = Vec::with_capacity(END);
    end.extend(total.to_le_bytes());
    end.extend(segment.to_le_bytes());
    end.into()
}

/// Sends `parts` down the tree, the largest subtrees first.
pub(super) fn down(member: &Member, place: &Place, parts: &[Payload]) {
    for &child in place.remote.iter().rev() {
        member.send(child, parts.to_vec());
    }
    member.multicast(&place.local, parts.to_vec());
}

pub(super) async fn run(
    member: Member,
    root: u32,
    data: Option<Payload>,
) -> Result<Output, CollectiveError> {
    let place = match member.team.settings.multicast {
        Reach::Everywhere => member.team.star(root),
        Reach::Nowhere | Reach::Host => member.team.place(root, Way::Down),
    };
    let chain = Chain::new(&member, root);
    let on_one_host = member.team.host_count() == 1;
    let Some(parent) = place.parent else {
        let data = data.unwrap_or(Payload::EMPTY);
        if on_one_host {
            down(&member, &place, core::slice::from_ref(&data));
            return Ok(Output::One(data));
        }
        match segment(&member, data.len() as u64) {
            0 => down(&member, &place, &[data.clone(), end(data.len() as u64, 0)]),
            segment => {
                down(&member, &place, &[end(data.len() as u64, segment)]);
                let mut at = 0;
                while at < data.len() {
                    let next = data.len().min(at + segment as usize);
                    chain.pass_on(&member, &data.slice(at..next));
                    at = next;
                }
            }
        }
        return Ok(Output::One(data));
    };
    let message = member.receive(parent).await?;
    let (limit, len) = (member.team.settings.bytes_max, message.len() as u64);
    if on_one_host {
        if len > limit {
            return Err(CollectiveError::TooLarge { rank: root, bytes: len, limit });
        }
        down(&member, &place, core::slice::from_ref(&message));
        return Ok(Output::One(message));
    }
    let malformed = CollectiveError::Malformed { rank: parent };
    let body = message.len().checked_sub(END).ok_or(malformed)?;
    let figures = message[body..].as_chunks::<8>().0;
    let (total, segment) = (u64::from_le_bytes(figures[0]), u64::from_le_bytes(figures[1]));
    if total > limit {
        return Err(CollectiveError::TooLarge { rank: root, bytes: total, limit });
    }
    if segment == 0 && total == body as u64 {
        down(&member, &place, core::slice::from_ref(&message));
        return Ok(Output::One(message.slice(0..body)));
    }
    let segments_max = SEGMENTS * u64::from(member.team.host_count());
    if segment == 0 || body != 0 || total.div_ceil(segment) > segments_max {
        return Err(malformed);
    }
    down(&member, &place, core::slice::from_ref(&message));
    let mut data = Vec::new();
    while (data.len() as u64) < total {
        let part = member.receive(chain.before).await?;
        if part.len() as u64 != segment.min(total - data.len() as u64) {
            return Err(CollectiveError::Malformed { rank: chain.before });
        }
        chain.pass_on(&member, &part);
        // Not before something of it has come: an announcement alone must not cost memory.
        data.reserve_exact(total as usize - data.len());
        data.extend_from_slice(&part);
    }
    Ok(Output::One(data.into()))
}

/// Length of a segment, or 0 for a message that goes down the tree whole.
fn segment(member: &Member, total: u64) -> u64 {
    let (team, settings) = (&member.team, &member.team.settings);
    let hosts = u64::from(team.host_count());
    if settings.multicast == Reach::Everywhere || total < settings.pipeline_from {
        return 0;
    }
    total.div_ceil(SEGMENTS * hosts).max(settings.segment_min).max(1)
}

/// Where segments come from and go to.
struct Chain {
    before: u32,
    next_host: Option<u32>,
    local: Vec<u32>,
}

impl Chain {
    fn new(member: &Member, root: u32) -> Self {
        let (team, place) = (&member.team, member.team.host_place(root, Way::Down));
        let (before, next_host) = if let Some(parent) = place.parent {
            (parent, None)
        } else {
            let leaders = team.leaders(root);
            let count = team.host_count();
            let at = ((team.host() + count - team.host_of(root)) % count) as usize;
            (leaders[at.saturating_sub(1)], leaders.get(at + 1).copied())
        };
        Self { before, next_host, local: place.local }
    }

    fn pass_on(&self, member: &Member, part: &Payload) {
        if let Some(next) = self.next_host {
            member.send(next, alloc::vec![part.clone()]);
        }
        member.multicast(&self.local, alloc::vec![part.clone()]);
    }
}
