//! All-to-all: everyone sends each other member its part, the next rank first and round, so that
//! no member is everybody's first.

use alloc::vec::Vec;

use super::bundle::{Item, Part};
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
    let limit = team.settings.bytes_max;
    member.serves(team.others());
    let expected = (lengths == Lengths::Equal).then(|| parts[own as usize].len() as u64);
    for to in team.others() {
        member.send(to, alloc::vec![parts[to as usize].clone()]);
    }
    // Those that sent to this member first are those before it.
    for from in team.others().collect::<Vec<_>>().into_iter().rev() {
        let data = member.receive(from).await?;
        let bytes = data.len() as u64;
        if bytes > limit {
            return Err(CollectiveError::TooLarge { rank: from, bytes, limit });
        }
        gather::check(&[Item { rank: from, part: Part::Direct(bytes) }], expected)?;
        parts[from as usize] = data;
    }
    Ok(Output::Many(parts))
}
