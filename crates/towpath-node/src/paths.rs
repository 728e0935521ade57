//! Which paths two hosts have.
//!
//! Who was called offers all of its addresses as soon as the association stands; who called pairs
//! its own links with them and opens a path for each pair, which carries once both ends have shown
//! that they receive there ([`towpath_proto`] knows how). Pairs are made of what is nearest first:
//! of one network, then of addresses with most leading bits in common.
//!
//! **One path for each attachment** of either host, since two through one card, as by its IPv4 and
//! its IPv6 address, share what that carries, and would take two shares of it beside others. So
//! there are as many paths as the host with fewer attachments has. A socket at every address
//! belongs to none that is known, and takes no part.
//!
//! **Bounds**: 8 addresses offered, 15 offers heard, 16 paths, of each association.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use towpath_proto::AssociationId;
use towpath_proto::association::PathStatus;
use towpath_wire::LinkId;

use crate::links::Links;

/// Where a peer receives, and by which of its attachments.
pub(crate) type Offer = (LinkId, SocketAddr);

/// Where peers that we called receive, as often as the transport lets each say so.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    all: BTreeMap<AssociationId, Vec<Offer>>,
    /// Associations with offers that were not looked at.
    fresh: BTreeSet<AssociationId>,
}

impl Offers {
    pub(crate) fn note(&mut self, id: AssociationId, offer: Offer) {
        self.all.entry(id).or_default().push(offer);
        self.fresh.insert(id);
    }

    /// An association with offers since this was asked, and all of them.
    pub(crate) fn poll(&mut self) -> Option<(AssociationId, Vec<Offer>)> {
        let id = self.fresh.pop_first()?;
        Some((id, self.all.get(&id).cloned().unwrap_or_default()))
    }

    /// An association is over.
    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.all.remove(&id);
        self.fresh.remove(&id);
    }
}

/// Which paths to open beside those that there are: pairs of a link of ours and an address of the
/// peer's, of attachments of which neither has a path.
pub(crate) fn pairs(
    links: &Links,
    offers: &[Offer],
    present: &[PathStatus],
) -> Vec<(LinkId, SocketAddr)> {
    let mut here: Vec<LinkId> = present.iter().map(|p| links.device(p.link)).collect();
    let theirs = |p: &PathStatus| offers.iter().find(|(_, a)| *a == p.remote).map(|o| o.0);
    let mut there: Vec<LinkId> = present.iter().filter_map(theirs).collect();
    let mut all = Vec::new();
    for offer in offers {
        all.extend(links.nearnesses(offer.1).map(|(link, near)| (near, link, *offer)));
    }
    all.sort_by_key(|(near, ..)| core::cmp::Reverse(*near));
    let mut chosen = Vec::new();
    for (_, link, (device, remote)) in all {
        if !here.contains(&links.device(link)) && !there.contains(&device) {
            here.push(links.device(link));
            there.push(device);
            chosen.push((link, remote));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_proto::association::PathCounters;
    use towpath_proto::association::PathState;
    use towpath_wire::PathId;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn links(texts: &[&str]) -> Links {
        Links::new(texts.iter().map(|t| at(t)).collect())
    }

    fn offers(texts: &[&str]) -> Vec<Offer> {
        texts.iter().enumerate().map(|(n, t)| (LinkId(n as u16), at(t))).collect()
    }

    fn path(link: u16, remote: &str) -> PathStatus {
        PathStatus {
            id: PathId(0),
            link: LinkId(link),
            remote: at(remote),
            state: PathState::Carries,
            rtt: None,
            rtt_min: core::time::Duration::ZERO,
            rate: 0,
            window: 0,
            in_flight: 0,
            datagram: 1472,
            counted: PathCounters::default(),
        }
    }

    fn paired(links: &Links, offered: &[Offer], present: &PathStatus) -> Vec<(u16, SocketAddr)> {
        pairs(links, offered, &[*present]).into_iter().map(|(l, a)| (l.0, a)).collect()
    }

    #[test]
    fn links_of_one_network_are_paired_first_in_whatever_order_they_are_named() {
        let own = links(&["10.0.0.1:7", "10.1.0.1:7", "10.2.0.1:7"]);
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let all = ["10.0.0.2:7", "10.1.0.2:7", "10.2.0.2:7"];
            let offered = offers(&order.map(|n| all[n]));
            let mut found = paired(&own, &offered, &path(1, "10.1.0.2:7"));
            found.sort_unstable();
            assert_eq!(found, [(0, at(all[0])), (2, at(all[2]))]);
        }
    }

    #[test]
    fn there_are_as_many_paths_as_the_host_with_fewer_attachments_has() {
        let two = links(&["10.0.0.1:7", "10.1.0.1:7"]);
        let one = offers(&["10.0.0.2:7"]);
        assert_eq!(paired(&two, &one, &path(0, "10.0.0.2:7")), []);
        let three = offers(&["10.0.0.2:7", "10.1.0.2:7", "10.2.0.2:7"]);
        assert_eq!(paired(&two, &three, &path(0, "10.0.0.2:7")), [(1, at("10.1.0.2:7"))]);
        assert_eq!(paired(&links(&["10.0.0.1:7"]), &three, &path(0, "10.0.0.2:7")), []);
    }

    #[test]
    fn two_addresses_of_one_card_are_one_attachment_on_either_side() {
        let both = ["192.0.2.1:7", "[2001:db8::1]:7", "198.51.100.1:7"];
        let own = links(&both).on_devices([3, 3, 4].into());
        let theirs: Vec<Offer> =
            [(9, "192.0.2.2:7"), (9, "[2001:db8::2]:7"), (1, "198.51.100.2:7")]
                .map(|(device, text)| (LinkId(device), at(text)))
                .into();
        let first = path(1, "[2001:db8::2]:7");
        assert_eq!(paired(&own, &theirs, &first), [(2, at("198.51.100.2:7"))]);
    }

    #[test]
    fn families_do_not_mix_and_a_socket_at_every_address_takes_no_part() {
        let own = links(&["192.0.2.1:7", "[2001:db8::1]:7", "0.0.0.0:7", "127.0.0.1:7"]);
        let theirs = offers(&["192.0.2.2:7", "198.51.100.2:7"]);
        assert_eq!(paired(&own, &theirs, &path(0, "192.0.2.2:7")), []);
    }

    #[test]
    fn offers_are_looked_at_once_until_there_are_more_and_kept_until_the_end() {
        let mut heard = Offers::default();
        let (a, b) = (AssociationId(1), AssociationId(2));
        let two = offers(&["10.0.0.2:7", "10.1.0.2:7"]);
        heard.note(b, two[0]);
        heard.note(a, two[0]);
        assert_eq!(heard.poll(), Some((a, two[..1].to_vec())));
        assert_eq!(heard.poll(), Some((b, two[..1].to_vec())));
        assert_eq!(heard.poll(), None);
        heard.note(a, two[1]);
        heard.note(b, two[1]);
        heard.forget(b);
        assert_eq!((heard.poll(), heard.poll()), (Some((a, two.clone())), None));
        heard.note(b, two[1]);
        assert_eq!(heard.poll(), Some((b, two[1..].to_vec())));
    }
}
