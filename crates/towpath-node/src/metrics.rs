//! What a node measures: rows of [`towpath_vm::metrics`], filled from those who counted.

use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use towpath_proto::association::{
    AssociationStats, ChannelStats, CodingStats, PathState, PathStatus,
};
use towpath_proto::endpoint::EndpointStats;
use towpath_vm::members::Member;
use towpath_vm::metrics::{self, Row, Series};
use towpath_wire::{HostId, TaskId};

use crate::lanes::Purpose;
use crate::node::Node;

const ENDPOINT: u8 = metrics::Endpoint::GROUP.number;
const NODE: u8 = metrics::Node::GROUP.number;
const ASSOCIATION: u8 = metrics::Association::GROUP.number;
const TASK: u8 = metrics::Task::GROUP.number;
const CHANNEL: u8 = metrics::Channel::GROUP.number;
const TRIP: u8 = metrics::table::TRIP.number;
const LANE: u8 = metrics::HostChannel::GROUP.number;
const LANE_DELAY: u8 = metrics::table::HOST_CHANNEL_DELAY.number;
const PATH: u8 = metrics::Path::GROUP.number;
const CODING: u8 = metrics::Coding::GROUP.number;
const CHANNEL_DELAY: u8 = metrics::table::CHANNEL_DELAY.number;
/// In the order of [`metrics::PURPOSES`].
const PURPOSES: u32 = Purpose::ALL.len() as u32;
const _: () = assert!(Purpose::ALL.len() == metrics::PURPOSES.len());

impl Node {
    /// The first series of this node behind `last`, or of all, as it stands: endpoint, node,
    /// associations, tasks, channels, then round trips, the channels that every two hosts have and
    /// what messages take on these and those, paths, and what is coded across them.
    pub fn metrics_after(&self, last: Option<Series>) -> Option<Row> {
        let at = last.map_or(0, |last| last.group);
        // The last one of a group; none: it is the group's turn from its beginning.
        let of = |group: u8| last.filter(|last| last.group == group);
        let groups = [
            ENDPOINT,
            NODE,
            ASSOCIATION,
            TASK,
            CHANNEL,
            TRIP,
            LANE,
            LANE_DELAY,
            CHANNEL_DELAY,
            PATH,
            CODING,
        ];
        groups.into_iter().filter(|group| *group >= at).find_map(|group| match group {
            ENDPOINT => of(group).is_none().then(|| self.endpoint_row()),
            NODE => of(group).is_none().then(|| self.node_row()),
            ASSOCIATION => self.next_peer(of(group)),
            TASK => self.next_task(of(group)),
            CHANNEL => self.next_channel(of(group)),
            TRIP => self.next_trip(of(group)),
            LANE => self.next_lane(of(group), Self::lane_row),
            LANE_DELAY => self.next_lane(of(group), Self::lane_delay_row),
            CHANNEL_DELAY => self.next_channel_delay(of(group)),
            PATH => self.next_path(of(group)),
            _ => self.next_coding(of(group)),
        })
    }

    /// Counters of the whole host by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let rows = [self.endpoint_row(), self.node_row()];
        rows.iter().flat_map(Row::named).map(|(metric, value)| (metric.name, value)).collect()
    }

    fn endpoint_row(&self) -> Row {
        let EndpointStats {
            garbage,
            unknown,
            forged,
            cookies,
            turned_away,
            evicted,
            refused,
            queue_full,
            over,
        } = *self.endpoint.stats();
        let mut all = over;
        self.endpoint.associations().for_each(|(_, a)| all.add(a.stats()));
        metrics::Endpoint {
            datagrams_garbage: garbage,
            datagrams_unknown: unknown,
            handshakes_forged: forged,
            handshakes_cookie: cookies,
            handshakes_turned_away: turned_away,
            handshakes_evicted: evicted,
            handshakes_refused: refused,
            handshakes_unsent: queue_full,
            packets_sent: all.packets_sent,
            packets_received: all.packets_received,
            packets_marked: all.packets_marked,
            bytes_sent: all.bytes_sent,
            bytes_received: all.bytes_received,
            packets_duplicate: all.duplicates,
            packets_forged: all.forged,
            packets_refused: all.refused,
            packets_lost: all.packets_lost,
            packets_lost_spurious: all.spurious,
            packets_repaired: all.repaired,
            probes: all.probes,
        }
        .row(0, 0)
    }

    fn node_row(&self) -> Row {
        let data = &self.data;
        metrics::Node {
            tasks_enrolled: self.local.members.len() as u64,
            pieces_taken: data.taken,
            pieces_given: data.given,
            pieces_stray: data.stray,
            pieces_parted: data.parted,
            pieces_passed_on: data.relays.passed,
            pieces_sent_again: data.relays.repeated,
            task_bytes_inside: data.inside,
            task_bytes_inside_max: data.inside_max,
            task_bytes_outgoing: data.outgoing,
            task_bytes_outgoing_max: data.outgoing_max,
            proposals_refused: self.lead.proposals.refused,
            proposals_repeated: self.lead.proposals.repeated,
            messages_malformed: self.malformed(),
            messages_unserved: self.peers.unserved,
            messages_too_long: self.peers.too_long,
            messages_put_off: data.arriving.put_off,
            hosts_unreached: self.lead.broken.unreached().count() as u64,
            pairs_untold: self.lead.broken.untold,
        }
        .row(0, 0)
    }

    fn next_peer(&self, last: Option<Series>) -> Option<Row> {
        self.hosts_after(last, false).find_map(|host| self.peer_row(host))
    }

    fn next_coding(&self, last: Option<Series>) -> Option<Row> {
        self.hosts_after(last, false).find_map(|host| self.coding_row(host))
    }

    /// The peers behind that of `last`, or of all; from it on where `again`.
    fn hosts_after(&self, last: Option<Series>, again: bool) -> impl Iterator<Item = HostId> {
        let last = last.and_then(|last| HostId::try_from(last.key).ok());
        let bound = if again { Bound::Included } else { Bound::Excluded };
        let from = last.map_or(Bound::Unbounded, bound);
        self.peers.by_host.range((from, Bound::Unbounded)).map(|(host, _)| *host)
    }

    /// The next part of round trips.
    fn next_trip(&self, last: Option<Series>) -> Option<Row> {
        self.hosts_after(last, true).find_map(|host| {
            let association = self.endpoint.association(self.peers.up(host)?)?;
            let series = Series::new(TRIP, host.to_raw(), 0);
            let part = last.filter(|last| last.key == series.key).map(|last| last.part);
            metrics::part_of(series, association.trips(), part)
        })
    }

    /// The next of what there is of each channel that every two hosts have; `row` gives it behind a
    /// part, or from its beginning.
    fn next_lane(
        &self,
        last: Option<Series>,
        row: fn(&Self, HostId, Purpose, Option<u8>) -> Option<Row>,
    ) -> Option<Row> {
        self.hosts_after(last, true).find_map(|host| {
            let of = last.filter(|last| last.key == host.to_raw());
            (of.map_or(0, |of| of.sub)..PURPOSES).find_map(|sub| {
                let part = of.filter(|of| of.sub == sub).map(|of| of.part);
                row(self, host, Purpose::ALL[sub as usize], part)
            })
        })
    }

    fn lane_delay_row(&self, host: HostId, purpose: Purpose, part: Option<u8>) -> Option<Row> {
        let series = Series::new(LANE_DELAY, host.to_raw(), purpose as u32);
        let lanes = self.peers.lanes(self.peers.up(host)?)?;
        metrics::part_of(series, lanes.delays(purpose).seen()?, part)
    }

    fn lane_row(&self, host: HostId, purpose: Purpose, part: Option<u8>) -> Option<Row> {
        let id = self.peers.up(host).filter(|_| part.is_none())?;
        let lanes = self.peers.lanes(id)?;
        let counted = self.endpoint.association(id)?.channel_stats(lanes.channel(purpose)?)?;
        let ChannelStats { messages_sent, bytes_sent, repaired, .. } = counted;
        let ChannelStats { messages_received, bytes_received, .. } = counted;
        let waiting = lanes.delays(purpose).waiting() as u64;
        let row = metrics::HostChannel {
            messages_sent,
            bytes_sent,
            repaired,
            messages_received,
            bytes_received,
            waiting,
        };
        Some(row.row(host.to_raw(), purpose as u32))
    }

    /// The next part of what messages on tasks' channels take.
    fn next_channel_delay(&self, last: Option<Series>) -> Option<Row> {
        let id = |last: Series| Some((TaskId::try_from(last.key).ok()?, last.sub));
        let mut at = last.and_then(id);
        let mut part = last.map(|last| last.part);
        loop {
            if let Some((task, number)) = at
                && let Some(delays) = self.local.channels.delays((task, number))
                && let Some(seen) = delays.seen()
            {
                let series = Series::new(CHANNEL_DELAY, task.to_raw(), number);
                if let Some(row) = metrics::part_of(series, seen, part) {
                    return Some(row);
                }
            }
            (at, part) = (Some(self.local.channels.after(at)?), None);
        }
    }

    /// None where there is no connection.
    fn peer_row(&self, host: HostId) -> Option<Row> {
        let association = self.endpoint.association(self.peers.up(host)?)?;
        let AssociationStats {
            packets_sent,
            bytes_sent,
            packets_received,
            bytes_received,
            packets_marked,
            duplicates,
            forged,
            refused,
            packets_lost,
            spurious,
            repaired,
            probes,
            misretired,
            paths_silent,
            // Paths have metrics of their own, and so has coding.
            paths: _,
            messages_received,
            messages_sent,
            keys_sent,
            keys_received,
            late_max,
        } = *association.stats();
        let row = metrics::Association {
            packets_sent,
            bytes_sent,
            packets_received,
            bytes_received,
            packets_marked,
            packets_duplicate: duplicates,
            packets_forged: forged,
            packets_refused: refused,
            packets_lost,
            packets_lost_spurious: spurious,
            packets_repaired: repaired,
            probes,
            paths_misretired: misretired,
            paths_silent,
            messages_sent,
            messages_received,
            keys_sent,
            keys_received,
            late_max_us: micros(late_max),
            rtt_us: micros(association.rtt()),
            window_bytes: association.window(),
            in_flight_bytes: association.in_flight(),
            datagram_bytes: association.datagram().into(),
        };
        Some(row.row(host.to_raw(), 0))
    }

    /// None where nothing was coded, either way.
    fn coding_row(&self, host: HostId) -> Option<Row> {
        let association = self.endpoint.association(self.peers.up(host)?)?;
        let coding = association.stats().paths.coding;
        let row = metrics::Coding {
            parities: coding.encoder.sent,
            rebuilt_there: coding.delivered,
            rebuilt: coding.decoder.rebuilt,
            unrebuilt: coding.decoder.unrebuilt,
            forgotten: coding.decoder.forgotten,
            garbage: coding.decoder.garbage + coding.malformed,
        };
        (coding != CodingStats::default()).then(|| row.row(host.to_raw(), 0))
    }

    fn next_path(&self, last: Option<Series>) -> Option<Row> {
        let (host, sub) = match last {
            Some(last) => (HostId::try_from(last.key).ok(), Some(last.sub)),
            None => (None, None),
        };
        // The rest of the host's whose turn it was, then of those behind it.
        let after = |host: HostId, sub: Option<u32>| {
            let association = self.endpoint.association(self.peers.up(host)?)?;
            let mut paths = association.paths();
            let next = paths.find(|p| sub.is_none_or(|sub| u32::from(p.id.0) > sub))?;
            Some(path_row(host, &next))
        };
        if let Some(row) = host.and_then(|host| after(host, sub)) {
            return Some(row);
        }
        let from = host.map_or(Bound::Unbounded, Bound::Excluded);
        let mut peers = self.peers.by_host.range((from, Bound::Unbounded));
        peers.find_map(|(host, _)| after(*host, None))
    }

    fn next_task(&self, last: Option<Series>) -> Option<Row> {
        let last = last.and_then(|last| TaskId::try_from(last.key).ok());
        let (task, member) = self.local.members.after(last)?;
        let Member { pairs, direct, watches, questions, .. } = member;
        let row = metrics::Task {
            peers: pairs.len() as u64,
            direct: direct.len() as u64,
            channels: self.local.channels.count(task) as u64,
            watches: watches.len() as u64,
            questions: questions.len() as u64,
        };
        Some(row.row(task.to_raw(), 0))
    }

    fn next_channel(&self, last: Option<Series>) -> Option<Row> {
        let last = last.and_then(|last| Some((TaskId::try_from(last.key).ok()?, last.sub)));
        let (task, number) = self.local.channels.after(last)?;
        let status = self.status_of(task, number)?;
        let row = metrics::Channel {
            messages_sent: status.sent,
            bytes_sent: status.bytes_sent,
            abandoned: status.abandoned,
            late: status.late,
            repaired: status.repaired,
            messages_received: status.received,
            bytes_received: status.bytes_received,
            waiting_bytes: status.waiting,
            rtt_us: status.rtt.map_or(0, micros),
            reserved: status.reserved.into(),
        };
        Some(row.row(task.to_raw(), number))
    }
}

fn path_row(host: HostId, path: &PathStatus) -> Row {
    let counted = path.counted;
    let row = metrics::Path {
        carries: u64::from(path.state == PathState::Carries),
        packets_sent: counted.packets_sent,
        bytes_sent: counted.bytes_sent,
        packets_received: counted.packets_received,
        packets_lost: counted.packets_lost,
        left: counted.left,
        returned: counted.returned,
        rate_bytes: path.rate,
        rtt_us: micros(path.rtt.unwrap_or_default()),
        rtt_min_us: micros(path.rtt_min),
        window_bytes: path.window,
        in_flight_bytes: path.in_flight,
        link: path.link.0.into(),
    };
    row.row(host.to_raw(), path.id.0.into())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
