//! The paths of associations beyond the first, where hosts stand on several networks.

use std::collections::BTreeSet;

use towpath_proto::AssociationId;

use crate::world::{World, address_on, place_of};

/// Which ends of associations have been given all their paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    given: BTreeSet<(usize, AssociationId)>,
}

impl Paths {
    /// Gives every association that stands a path on each network, as owners would that have
    /// agreed on it. Ends get theirs when they stand: for a while one has paths that the other does
    /// not know.
    pub(super) fn tick(&mut self, world: &mut World) {
        if world.fabrics() == 1 {
            return;
        }
        for host in 0..world.hosts.len() {
            let Some(node) = &world.hosts[host].node else { continue };
            let standing = node.endpoint().associations().filter(|(_, a)| a.is_open());
            let fresh = standing.filter(|(id, _)| !self.given.contains(&(host, *id)));
            let fresh: Vec<_> = fresh.map(|(id, a)| (id, a.remote())).collect();
            for (id, remote) in fresh {
                self.given.insert((host, id));
                let Some((first, peer)) = place_of(remote) else { continue };
                for fabric in (0..world.fabrics() as u8).filter(|f| *f != first) {
                    let link = world.link_to(host, fabric);
                    let remote = address_on(fabric, peer);
                    world.with(host, |node, _, _| node.add_path(id, link, remote));
                }
            }
        }
    }
}
