//! The crystal router: many small messages for anyone, in ⌈log₂ n⌉ rounds of one message each way.
//!
//! G. Fox et al., Solving Problems on Concurrent Processors, 1988, chapter 22: where n is a power
//! of two, round b exchanges with rank xor 2^b what must change in bit b. For other n this is the
//! recursive bisection: ranks `lo..hi` are halved, each gives what the other half should have to
//! its counterpart there; where halves differ by one, the last of the longer half sends to the last
//! of the shorter, and receives nothing.

use super::{Exchange, ExchangeError, Result};

const ROUND: i32 = 1 << 20;
const HEADER: usize = 12;

/// Some bytes, and who gets or sent them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parcel {
    /// Its destination on the way out, its sender on arrival.
    pub(crate) rank: usize,
    pub(crate) bytes: Vec<u8>,
}

/// A parcel under way.
struct Carried {
    to: usize,
    from: usize,
    bytes: Vec<u8>,
}

/// Brings every parcel to its rank: what came here, by sender, in the order of sending. A part of
/// `exchange.size()` rounds; all ranks call it together.
pub(crate) fn route(exchange: &mut dyn Exchange, parcels: Vec<Parcel>) -> Result<Vec<Parcel>> {
    let own = exchange.rank();
    let carry = |parcel: Parcel| Carried { to: parcel.rank, from: own, bytes: parcel.bytes };
    let mut held: Vec<Carried> = parcels.into_iter().map(carry).collect();
    if let Some(lost) = held.iter().find(|parcel| parcel.to >= exchange.size()) {
        return Err(ExchangeError::Ended { rank: lost.to });
    }
    let (mut lo, mut hi) = (0, exchange.size());
    let mut round = 0;
    while hi - lo > 1 {
        // The lower half is the longer one.
        let middle = lo + (hi - lo).div_ceil(2);
        let is_low = own < middle;
        let stays = |parcel: &Carried| (parcel.to < middle) == is_low;
        let (kept, gone): (Vec<_>, Vec<_>) = held.into_iter().partition(stays);
        held = kept;
        let longer = hi - middle != middle - lo;
        let partner = match is_low {
            true => (own + middle - lo).min(hi - 1),
            false => own - (middle - lo),
        };
        exchange.send(partner, ROUND + round, &packed(&gone))?;
        // Counterparts, and for the last of the shorter half also the one without.
        let has_sender = !(is_low && longer && own == middle - 1);
        if has_sender {
            unpack(&exchange.recv(Some(partner), ROUND + round)?.1, &mut held)?;
        }
        if !is_low && longer && own == hi - 1 {
            unpack(&exchange.recv(Some(middle - 1), ROUND + round)?.1, &mut held)?;
        }
        (lo, hi) = if is_low { (lo, middle) } else { (middle, hi) };
        round += 1;
    }
    // Parcels of one sender take one way, so they are in order among themselves.
    held.sort_by_key(|parcel| parcel.from);
    Ok(held.into_iter().map(|p| Parcel { rank: p.from, bytes: p.bytes }).collect())
}

fn packed(parcels: &[Carried]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parcels.iter().map(|p| HEADER + p.bytes.len()).sum());
    for parcel in parcels {
        for word in [parcel.to, parcel.from, parcel.bytes.len()] {
            out.extend_from_slice(&(word as u32).to_le_bytes());
        }
        out.extend_from_slice(&parcel.bytes);
    }
    out
}

fn unpack(mut bytes: &[u8], held: &mut Vec<Carried>) -> Result<()> {
    let malformed = ExchangeError::Malformed { len: bytes.len(), what: "a list of parcels" };
    while !bytes.is_empty() {
        let Some((header, rest)) = bytes.split_at_checked(HEADER) else { return Err(malformed) };
        let word = |at: usize| {
            let word = header[4 * at..4 * at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(word) as usize
        };
        let Some((own, rest)) = rest.split_at_checked(word(2)) else { return Err(malformed) };
        held.push(Carried { to: word(0), from: word(1), bytes: own.to_vec() });
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Messages;
    use super::super::local::run;
    use super::*;

    /// Counts the rounds of a rank: messages that it sends.
    struct Counted<'a> {
        inner: &'a mut dyn Exchange,
        sent: usize,
    }

    impl Messages for Counted<'_> {}

    impl Exchange for Counted<'_> {
        fn rank(&self) -> usize {
            self.inner.rank()
        }
        fn size(&self) -> usize {
            self.inner.size()
        }
        fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
            self.sent += 1;
            self.inner.send(to, tag, bytes)
        }
        fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)> {
            self.inner.recv(from, tag)
        }
        fn try_recv(&mut self, from: Option<usize>, tag: i32) -> Result<Option<(usize, Vec<u8>)>> {
            self.inner.try_recv(from, tag)
        }
    }

    /// `plan[rank]`: destinations; every parcel says who sends it and its number there.
    fn routed(plan: &[Vec<usize>]) -> Vec<(Vec<Parcel>, usize)> {
        let size = plan.len();
        let all = run(size, |exchange| {
            let own = exchange.rank();
            let parcel = |(n, to): (usize, &usize)| Parcel {
                rank: to % size,
                bytes: [own as u8, n as u8].repeat(1 + n % 3),
            };
            let parcels = plan[own].iter().enumerate().map(parcel).collect();
            let mut counted = Counted { inner: exchange, sent: 0 };
            let got = route(&mut counted, parcels)?;
            Ok((got, counted.sent))
        });
        all.into_iter().map(anyhow::Result::unwrap).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn every_parcel_arrives_once_in_order_within_the_rounds(
            plan in prop::collection::vec(prop::collection::vec(0_usize..64, 0..20), 1..18),
        ) {
            check(&plan)?;
        }

        #[test]
        fn so_it_does_where_all_send_to_one(size in 1_usize..14, to in 0_usize..14) {
            check(&vec![vec![to; 9]; size])?;
        }
    }

    fn check(plan: &[Vec<usize>]) -> std::result::Result<(), TestCaseError> {
        let size = plan.len();
        let rounds = size.next_power_of_two().trailing_zeros() as usize;
        for (rank, (got, sent)) in routed(plan).into_iter().enumerate() {
            prop_assert!(sent <= rounds, "{sent} messages of {size} ranks");
            let mut right = Vec::new();
            for (from, list) in plan.iter().enumerate() {
                for n in (0..list.len()).filter(|n| list[*n] % size == rank) {
                    let bytes = [from as u8, n as u8].repeat(1 + n % 3);
                    right.push(Parcel { rank: from, bytes });
                }
            }
            prop_assert_eq!(got, right);
        }
        Ok(())
    }

    #[test]
    fn nothing_is_brought_to_nobody() {
        for (got, _) in routed(&vec![Vec::new(); 6]) {
            assert!(got.is_empty());
        }
        let all = run(2, |e| Ok(route(e, vec![Parcel { rank: 2, bytes: Vec::new() }])?));
        assert!(all.iter().all(anyhow::Result::is_err));
        assert!(unpack(&[1, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 1], &mut Vec::new()).is_err());
    }
}
