//! Pay multiplexing only once: one left-over curve for a whole path of blind servers.
//!
//! Each cross flow's burst is counted once per stretch it shares with the path, however many
//! servers the stretch has. Source: Schmitt, Zdarsky and Martinovic (2008), theorem for
//! rate-latency servers and token-bucket cross traffic:
//! - R′ = min over servers of (R − Σr of the cross flows there),
//! - T′ = ΣT + (Σb over stretches + Σ over servers of T · Σr of the cross flows there) / R′.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::envelope::RateLatency;
use super::grouped::Groups;
use super::rational::Rational;

/// What `path` leaves over for `group`, which travels all of it. `None` if nothing. `except` is a
/// flow that is no cross traffic here, `inside` one that is none where the cross traffic is bound.
pub(super) fn left_over(
    groups: &mut Groups<'_>,
    path: &[usize],
    group: &[usize],
    except: Option<usize>,
    inside: Option<usize>,
) -> Option<RateLatency> {
    let mut bursts = Rational::ZERO;
    let mut rates = alloc::vec![Rational::ZERO; path.len()];
    for ((first, last), flows) in stretches(groups, path, group, except) {
        let cross = groups.arrival(path[first], &flows, inside)?;
        bursts += &cross.sustained().burst;
        for rate in &mut rates[first..=last] {
            *rate += &cross.sustained().rate;
        }
    }
    let mut rate: Option<Rational> = None;
    let (mut latency, mut due) = (Rational::ZERO, bursts);
    for (&server, cross) in path.iter().zip(&rates) {
        let service = &groups.network.servers()[server].service;
        let rest = &service.rate - cross;
        if !rest.is_positive() {
            return None;
        }
        latency += &service.latency;
        due += &(&service.latency * cross);
        rate = Some(rate.map_or(rest.clone(), |least| least.min(rest)));
    }
    let rate = rate?;
    let latency = &latency + &(&due / &rate);
    Some(RateLatency { rate, latency })
}

/// Cross flows by the stretch (first and last position on `path`) they share without a gap.
fn stretches(
    groups: &Groups<'_>,
    path: &[usize],
    group: &[usize],
    except: Option<usize>,
) -> BTreeMap<(usize, usize), Vec<usize>> {
    let network = groups.network;
    let mut found: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (first, &server) in path.iter().enumerate() {
        for flow in groups.others(server, group, except) {
            let comes_along = first > 0 && network.before(flow, server) == Some(path[first - 1]);
            if comes_along {
                continue;
            }
            let hops = &network.flows()[flow].path[network.hop(flow, server)..];
            let shared = hops.iter().zip(&path[first..]).take_while(|(a, b)| a == b).count();
            found.entry((first, first + shared - 1)).or_default().push(flow);
        }
    }
    found
}
