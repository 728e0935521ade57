//! Scan and exclusive scan, by recursive doubling (Hillis and Steele 1986): in round k a member
//! sends what it has combined of the 2ᵏ ranks up to itself to the rank 2ᵏ after it. The order is
//! that of the ranks, whatever their placement.

use super::error::CollectiveError;
use super::machine::Member;
use super::operation::Output;
use super::operator::Operator;
use super::payload::Payload;
use super::team::doublings;

pub(super) async fn inclusive(
    member: Member,
    data: Payload,
    operator: Operator,
) -> Result<Output, CollectiveError> {
    let (own, _) = prefixes(&member, data, operator).await?;
    Ok(Output::One(own))
}

pub(super) async fn exclusive(
    member: Member,
    data: Payload,
    operator: Operator,
) -> Result<Output, CollectiveError> {
    let (_, before) = prefixes(&member, data, operator).await?;
    Ok(before.map_or(Output::None, Output::One))
}

/// The vectors of all ranks up to the own combined, and without the own.
async fn prefixes(
    member: &Member,
    data: Payload,
    mut operator: Operator,
) -> Result<(Payload, Option<Payload>), CollectiveError> {
    let (rank, size) = (member.team.rank(), member.team.size());
    member.all_have(data.len());
    let (mut own, mut before): (_, Option<Payload>) = (data, None);
    for distance in doublings(size) {
        if rank + distance < size {
            member.send(rank + distance, alloc::vec![own.clone()]);
        }
        let Some(from) = rank.checked_sub(distance) else { continue };
        let part = member.receive(from).await?;
        if part.len() != own.len() {
            return Err(CollectiveError::Malformed { rank: from });
        }
        let mut combined = own.into_vec();
        operator.prepend(&part, &mut combined);
        own = combined.into();
        before = Some(match before {
            None => part,
            Some(before) => {
                let mut combined = before.into_vec();
                operator.prepend(&part, &mut combined);
                combined.into()
            }
        });
    }
    Ok((own, before))
}
