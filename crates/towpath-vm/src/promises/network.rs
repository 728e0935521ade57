//! Networks that promises can be made in.

use ::core::time::Duration;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use towpath_qos::topology::{Discipline, NodeKind, Port, PortId, Topology};

use crate::host::Host;

/// Longest text of a topology, in bytes: it is one command.
pub const TOPOLOGY_MAX: usize = 60_000;
/// Most hosts and switches of one.
pub const NODES_MAX: usize = 512;
/// The part of a host's own link that can be promised, in percent.
pub const OWN_PERCENT: u64 = 85;
/// What goes before a promised datagram there takes no longer than this, with what a machine that
/// wakes late makes good for.
pub const OWN_BEFORE: Duration = Duration::from_micros(350);
/// A host's egress is told to be so much sooner than was promised of its port: it may wake late.
pub const OWN_LATE: Duration = Duration::from_micros(300);

/// A host's own port as its egress serves it (`towpath_node::egress`): so much of the link can be
/// promised, and so much goes before a promised datagram: two trains of what is not reserved, with
/// their frames, what acknowledgements have saved up, and a driver that wakes late.
pub fn own_port(port: &mut Port) {
    let bits = |time: Duration| {
        let bits = u128::from(port.rate_bps) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits).unwrap_or(u64::MAX)
    };
    let train = (bits(Duration::from_micros(200)) / 8).clamp(1500, 64 << 10);
    let trains = 2 * 8 * (train + (train / 1200 + 1) * 86);
    port.packet_bits = port.packet_bits.max(trains.saturating_add(bits(OWN_BEFORE)));
    port.rate_bps = (port.rate_bps / 100 * OWN_PERCENT).max(1);
}

/// A topology that can be promised in, with the rates of hosts' own ports as the text has them.
pub(super) fn topology(text: &str) -> Result<(Topology, BTreeMap<u32, u64>), String> {
    if text.len() > TOPOLOGY_MAX {
        return Err(format!("a topology of {} bytes, limit {TOPOLOGY_MAX}", text.len()));
    }
    let topology = Topology::parse(text).map_err(|e| e.to_string())?;
    let nodes = topology.nodes().len();
    if nodes > NODES_MAX {
        return Err(format!("a topology of {nodes} hosts and switches, limit {NODES_MAX}"));
    }
    let mut own = BTreeMap::new();
    for (id, port) in topology.ports().iter().enumerate() {
        let id = PortId(id as u32);
        let of_host =
            topology.node(port.node).is_some_and(|node| matches!(node.kind, NodeKind::Host { .. }));
        let (can, wants) = if of_host {
            own.insert(id.0, port.rate_bps);
            (port.discipline == Discipline::Edf { hold: false }, "edf: its egress is that")
        } else {
            let one = |budgets: &Vec<u64>| budgets.len() == 1;
            let priority = matches!(&port.discipline, Discipline::StaticPriority(b) if one(b));
            (priority, "priority with one of budgets_ns: what is promised has one mark")
        };
        if !can {
            return Err(format!(
                "port {} has scheduler {}, and nothing can be promised there\n\
                 hint: it has to be {wants}; see docs/reservation.md",
                topology.port_name(id),
                port.scheduler
            ));
        }
    }
    Ok((topology.with_host_ports(own_port), own))
}

/// A topology that can be promised in.
///
/// # Errors
/// Its fault, with its line; or the port that nothing can be promised at, and what it is to be.
pub fn usable(text: &str) -> Result<Topology, String> {
    topology(text).map(|(topology, _)| topology)
}

/// What a host is called in a topology: by its name, or else by its number (`h2`).
pub fn name_in(topology: &Topology, host: &Host) -> String {
    let number = format!("h{}", host.id.slot());
    match topology.host_named(&host.name) {
        None if topology.host_named(&number).is_some() => number,
        _ => host.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hosts_own_port_a_part_can_be_promised_behind_what_goes_before() {
        let of = |rate_bps: u64, packet_bits| {
            let text = alloc::format!(
                "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
                 [[link]]\nends = [\"a\", \"b\"]\nrate_bps = {rate_bps}\n"
            );
            let topology = Topology::parse(&text).expect("a topology");
            let mut port = topology.ports()[0].clone();
            port.packet_bits = packet_bits;
            own_port(&mut port);
            (port.rate_bps, port.packet_bits)
        };
        // A train of 200 us, in datagrams of 1200 with 86 for each, twice; and what a driver that
        // is 350 us late lets gather.
        let bits = |train: u64, late: u64| 16 * (train + (train / 1200 + 1) * 86) + late;
        assert_eq!(of(100_000_000, 0), (1_000_000 * OWN_PERCENT, bits(2500, 35_000)));
        assert_eq!(of(1_000_000_000, 0), (10_000_000 * OWN_PERCENT, bits(25_000, 350_000)));
        assert_eq!(of(1_000_000, 0).1, bits(1500, 350), "no train is shorter");
        assert_eq!(of(100_000_000_000, 0).1, bits(64 << 10, 35_000_000), "nor longer");
        assert_eq!(of(1_000_000, 1 << 40).1, 1 << 40, "its longest packet is longer");
    }

    #[test]
    fn a_topologys_text_may_be_so_long() {
        let text = |len: usize| topology(&"#".repeat(len)).map(drop);
        let beyond = Err("a topology of 60001 bytes, limit 60000".into());
        assert_eq!([TOPOLOGY_MAX, TOPOLOGY_MAX + 1].map(text), [Ok(()), beyond]);
    }
}
