//! What a node has counted.

use towpath_proto::association::AssociationStats;

use crate::node::Node;

impl Node {
    /// Counters by name: what the endpoint turned away, and sums over all associations that there
    /// were.
    pub fn counters(&self) -> [(&'static str, u64); 31] {
        let e = self.endpoint.stats();
        let sum = |f: fn(&AssociationStats) -> u64| -> u64 {
            let standing: u64 = self.endpoint.associations().map(|(_, a)| f(a.stats())).sum();
            standing + f(&e.over)
        };
        [
            ("datagrams_garbage", e.garbage),
            ("datagrams_unknown", e.unknown),
            ("handshakes_forged", e.forged),
            ("handshakes_cookie", e.cookies),
            ("handshakes_turned_away", e.turned_away),
            ("handshakes_evicted", e.evicted),
            ("handshakes_refused", e.refused),
            ("packets_sent", sum(|s| s.packets_sent)),
            ("packets_received", sum(|s| s.packets_received)),
            ("packets_marked", sum(|s| s.packets_marked)),
            ("bytes_sent", sum(|s| s.bytes_sent)),
            ("bytes_received", sum(|s| s.bytes_received)),
            ("packets_duplicate", sum(|s| s.duplicates)),
            ("packets_forged", sum(|s| s.forged)),
            ("packets_lost", sum(|s| s.packets_lost)),
            ("packets_lost_spurious", sum(|s| s.spurious)),
            ("packets_repaired", sum(|s| s.repaired)),
            ("probes", sum(|s| s.probes)),
            ("tasks_enrolled", self.local.members.len() as u64),
            ("pieces_taken", self.data.taken),
            ("pieces_given", self.data.given),
            ("pieces_stray", self.data.stray),
            ("pieces_parted", self.data.parted),
            ("pieces_passed_on", self.data.relays.passed),
            ("pieces_sent_again", self.data.relays.repeated),
            ("task_bytes_inside", self.data.inside),
            ("task_bytes_inside_max", self.data.inside_max),
            ("task_bytes_outgoing", self.data.outgoing),
            ("task_bytes_outgoing_max", self.data.outgoing_max),
            ("proposals_refused", self.lead.proposals.refused),
            ("proposals_repeated", self.lead.proposals.repeated),
        ]
    }
}
