//! Every metric there is. This table is their one source: names in JSON, in Prometheus' text and
//! in deltas come from it.
//!
//! **To change it:** new metrics go behind the others of their group, new groups behind the
//! others, since deltas have numbers only. Whoever does not know them yet passes over them.

use towpath_wire::histogram::{BUCKETS, Histogram};

/// Metrics that a group has at most: a row of all of them fits into one parameter.
pub const METRICS_MAX: usize = 23;

/// Values of one series, in the order of its group's metrics, and zeros.
pub type Values = [u64; METRICS_MAX];

/// Parts of a series at most: more than one where its group is a distribution, whose sum and
/// buckets do not fit into one.
pub const PARTS_MAX: usize = (1 + BUCKETS).div_ceil(METRICS_MAX);
const _: () = assert!(PARTS_MAX <= 16, "a part's number has four bits");

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows, and begins at zero when its thing does.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often which values came, since its thing began.
    Distribution,
}

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds. The metric's name ends in `_us`.
    Micros,
}

/// One metric of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name within the group.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// What it says, in a sentence.
    pub help: &'static str,
}

/// What names a series of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Another host, by [`towpath_wire::HostId`].
    Peer,
    /// A task of this host, by [`towpath_wire::TaskId`].
    Task,
    /// A link, by [`towpath_wire::LinkId`].
    Link,
    /// A channel of a task, by its number there.
    Channel,
    /// A path to another host, by its number there.
    Path,
    /// What a channel that every two hosts have is for, by its place in [`PURPOSES`].
    Purpose,
}

/// Names of [`Label::Purpose`].
pub const PURPOSES: [&str; 5] = ["log", "control", "output", "small", "bulk"];

/// Metrics that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number in deltas, 1 ..= 127.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// What the series' key is, and its sub; none: the host has one series.
    pub labels: &'static [Label],
    /// At most [`METRICS_MAX`]. One alone, and its buckets are the series: a distribution.
    pub metrics: &'static [Metric],
}

impl Group {
    /// What its series are a distribution of.
    pub fn distribution(&self) -> Option<&'static Metric> {
        self.metrics.first().filter(|m| m.kind == Kind::Distribution)
    }
}

/// One thing that a group is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// The group's number.
    pub group: u8,
    /// Its first label, raw; zero where it has none.
    pub key: u64,
    /// Its second one.
    pub sub: u32,
    /// Which part of it; zero where it has one.
    pub part: u8,
}

impl Series {
    /// The first part of what a group counts of `key` and `sub`.
    pub const fn new(group: u8, key: u64, sub: u32) -> Self {
        Self { group, key, sub, part: 0 }
    }

    /// The same without its part: what it is about.
    #[must_use]
    pub const fn whole(self) -> Self {
        Self { part: 0, ..self }
    }
}

/// A series as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub series: Series,
    /// How it stands.
    pub values: Values,
}

impl Row {
    /// Its metrics and their values; none of a distribution, nor of a group that there is not.
    pub fn named(&self) -> impl Iterator<Item = (&'static Metric, u64)> {
        let of = group(self.series.group).filter(|g| g.distribution().is_none());
        let metrics = of.map_or(&[][..], |g| g.metrics);
        metrics.iter().zip(self.values)
    }
}

/// The first part of a distribution behind `last`, or of all, in which something is: part 0 has the
/// sum and the first buckets, which further parts continue.
pub fn part_of(series: Series, of: &Histogram, last: Option<u8>) -> Option<Row> {
    let cell = |i: usize| match i.checked_sub(1) {
        None => of.sum(),
        Some(bucket) => of.buckets().get(bucket).copied().unwrap_or(0),
    };
    let parts = last.map_or(0, |last| last + 1)..PARTS_MAX as u8;
    parts.into_iter().find_map(|part| {
        let values: Values = core::array::from_fn(|i| cell(usize::from(part) * METRICS_MAX + i));
        let filled = values != Values::default();
        filled.then_some(Row { series: Series { part, ..series }, values })
    })
}

/// A distribution from its parts: those that are not there have nothing in them.
pub fn whole_of<'a>(parts: impl IntoIterator<Item = &'a Row>) -> Histogram {
    let mut cells = [0; PARTS_MAX * METRICS_MAX];
    for Row { series, values } in parts {
        let at = usize::from(series.part) * METRICS_MAX;
        if let Some(place) = cells.get_mut(at..at + METRICS_MAX) {
            place.copy_from_slice(values);
        }
    }
    Histogram::of(cells[0], cells[1..].iter().copied())
}

/// The group with a number.
pub fn group(number: u8) -> Option<&'static Group> {
    GROUPS.iter().find(|g| g.number == number)
}

macro_rules! group {
    ($(#[$doc:meta])* $owner:ident = $number:literal $title:literal [$($label:ident),*] {
        $($metric:ident: $kind:ident of $unit:ident, $help:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $owner {
            $(#[doc = $help] pub $metric: u64,)*
        }

        impl $owner {
            /// Its metrics.
            pub const GROUP: Group = Group {
                number: $number,
                name: $title,
                labels: &[$(Label::$label),*],
                metrics: &[$(Metric {
                    name: stringify!($metric),
                    kind: Kind::$kind,
                    unit: Unit::$unit,
                    help: $help,
                }),*],
            };

            /// The series of its group that `key` and `sub` name.
            pub fn row(&self, key: u64, sub: u32) -> Row {
                let Self { $($metric),* } = *self;
                let mut values = [0; METRICS_MAX];
                for (place, value) in values.iter_mut().zip([$($metric),*]) {
                    *place = value;
                }
                Row { series: Series::new($number, key, sub), values }
            }
        }
    };
}

group! {
    /// The endpoint: what came to no association, and the sums over all that there were.
    Endpoint = 1 "endpoint" [] {
        datagrams_garbage: Counter of Count, "Datagrams that are not of this protocol";
        datagrams_unknown: Counter of Count, "Datagrams for an association that is not there";
        handshakes_forged: Counter of Count, "Handshake datagrams that did not authenticate";
        handshakes_cookie: Counter of Count, "Handshakes answered with a cookie";
        handshakes_turned_away: Counter of Count, "Handshakes dropped because a table was full";
        handshakes_evicted: Counter of Count, "Half-open associations dropped for others";
        handshakes_refused: Counter of Count, "Handshakes refused by the host";
        handshakes_unsent: Counter of Count, "Handshake datagrams that the link did not take";
        packets_sent: Counter of Count, "Datagrams sent";
        packets_received: Counter of Count, "Datagrams received and authenticated";
        packets_marked: Counter of Count, "Received packets that met congestion";
        bytes_sent: Counter of Bytes, "Bytes of datagrams sent";
        bytes_received: Counter of Bytes, "Bytes of datagrams received";
        packets_duplicate: Counter of Count, "Datagrams dropped because they came before";
        packets_forged: Counter of Count, "Datagrams dropped because they did not authenticate";
        packets_refused: Counter of Count, "Datagrams not acknowledged for want of memory";
        packets_lost: Counter of Count, "Datagrams sent that counted as lost";
        packets_lost_spurious: Counter of Count, "Of these, those that had arrived after all";
        packets_repaired: Counter of Count, "Data packets with something sent before";
        probes: Counter of Count, "Times that nothing was acknowledged in time";
    }
}

group! {
    /// The virtual machine's part of a host.
    Node = 2 "node" [] {
        tasks_enrolled: Gauge of Count, "Tasks that take part, or did and are not forgotten";
        pieces_taken: Counter of Count, "Pieces of messages taken from tasks";
        pieces_given: Counter of Count, "Pieces of messages given to tasks";
        pieces_stray: Counter of Count, "Pieces for tasks that are gone";
        pieces_parted: Counter of Count, "Pieces from tasks that count as gone";
        pieces_passed_on: Counter of Count, "Pieces passed on to other hosts";
        pieces_sent_again: Counter of Count, "Pieces passed on that had to be sent again";
        task_bytes_inside: Gauge of Bytes, "Bytes that wait for tasks of this host";
        task_bytes_inside_max: Gauge of Bytes, "The most of these so far";
        task_bytes_outgoing: Gauge of Bytes, "Bytes of tasks that wait for other hosts";
        task_bytes_outgoing_max: Gauge of Bytes, "The most of these so far";
        proposals_refused: Counter of Count, "Questions to the leader refused, too many being open";
        proposals_repeated: Counter of Count, "Facts that were proposed already";
        messages_malformed: Counter of Count, "Messages of other hosts that break the rules";
        messages_unserved: Counter of Count, "Messages and channels that nobody here asked for";
        messages_too_long: Counter of Count, "Messages dropped, longer than their peer takes";
        messages_put_off: Counter of Count, "Messages for tasks refused to keep room for control";
        hosts_unreached: Gauge of Count, "Hosts that are up, and are called in vain";
        pairs_untold: Counter of Count, "Times that a pair apart was one too many to be known of";
    }
}

group! {
    /// The daemon's process.
    Daemon = 3 "daemon" [] {
        paced_channels: Gauge of Count, "Channels with a reservation";
        paced_reserved_bytes: Counter of Bytes, "Wire bytes of reserved channels, where paced";
        paced_control_bytes: Counter of Bytes, "Wire bytes of control alone, where paced";
        paced_other_bytes: Counter of Bytes, "Wire bytes of everything else, where paced";
        paced_held: Counter of Count, "Messages of reserved channels held until they conformed";
        paced_unused: Counter of Count, "Turns of a paced link of which nothing came";
        message_memory_bytes: Gauge of Bytes, "Memory for messages in use";
        message_memory_bytes_max: Gauge of Bytes, "The most of it so far";
        send_errors: Counter of Count, "Trains of datagrams that the kernel refused";
        clients: Gauge of Count, "Commands connected to the daemon";
        streams_held: Gauge of Count, "Sockets held for tasks";
        kept_for_tasks: Gauge of Count, "Kinds of things kept for tasks; 0 once none is left";
        tasks_connected: Gauge of Count, "Tasks connected to the daemon";
        tasks_cut_off: Counter of Count, "Tasks cut off because they broke the rules";
        turns_cut: Counter of Count, "Turns that were over before everything was done";
    }
}

group! {
    /// A link.
    Link = 4 "link" [Link] {
        datagrams_sent: Counter of Count, "Datagrams handed to the kernel";
        bytes_sent: Counter of Bytes, "Bytes of these";
        datagrams_received: Counter of Count, "Datagrams that arrived";
        bytes_received: Counter of Bytes, "Bytes of these";
        send_calls: Counter of Count, "System calls that sent, or tried to";
        receive_calls: Counter of Count, "System calls that received, or found nothing";
        blocked: Counter of Count, "Times that the kernel had no room for more";
        too_long: Counter of Count, "Trains dropped because the way does not take their datagrams";
        send_errors: Counter of Count, "Trains dropped for another reason";
        cut: Counter of Count, "Trains that arrived longer than a buffer, and lost their end";
        paced_reserved_bytes: Counter of Bytes, "Wire bytes of reserved channels, where paced";
        paced_control_bytes: Counter of Bytes, "Wire bytes of control alone, where paced";
        paced_other_bytes: Counter of Bytes, "Wire bytes of everything else, where paced";
        paced_held: Counter of Count, "Messages of reserved channels held until they conformed";
        paced_unused: Counter of Count, "Turns of a paced link of which nothing came";
        paced_channels: Gauge of Count, "Channels with a reservation";
    }
}

group! {
    /// The association with another host.
    Association = 5 "association" [Peer] {
        packets_sent: Counter of Count, "Datagrams sent";
        bytes_sent: Counter of Bytes, "Bytes of these";
        packets_received: Counter of Count, "Datagrams received and authenticated";
        bytes_received: Counter of Bytes, "Bytes of these";
        packets_marked: Counter of Count, "Received packets that met congestion";
        packets_duplicate: Counter of Count, "Datagrams dropped because they came before";
        packets_forged: Counter of Count, "Datagrams dropped because they did not authenticate";
        packets_refused: Counter of Count, "Datagrams not acknowledged for want of memory";
        packets_lost: Counter of Count, "Datagrams sent that counted as lost";
        packets_lost_spurious: Counter of Count, "Of these, those that had arrived after all";
        packets_repaired: Counter of Count, "Data packets with something sent before";
        probes: Counter of Count, "Times that nothing was acknowledged in time";
        paths_misretired: Counter of Count, "Times that the peer gave up a path that there is not";
        paths_silent: Counter of Count, "Times that a path was left: silent, or no carrier";
        messages_sent: Counter of Count, "Messages acknowledged whole";
        messages_received: Counter of Count, "Messages delivered";
        keys_sent: Counter of Count, "Times that this host went on to its next key";
        keys_received: Counter of Count, "Times that the peer did";
        late_max_us: Gauge of Micros, "The longest time by which a timer was late";
        rtt_us: Gauge of Micros, "Smoothed round-trip time";
        window_bytes: Gauge of Bytes, "Bytes that may be under way at once";
        in_flight_bytes: Gauge of Bytes, "Bytes that are under way";
        datagram_bytes: Gauge of Bytes, "Bytes of a datagram on its first path";
    }
}

group! {
    /// A task of this host.
    Task = 6 "task" [Task] {
        peers: Gauge of Count, "Tasks with which it exchanges messages";
        direct: Gauge of Count, "Of these, by a direct route";
        channels: Gauge of Count, "Channels of its own";
        watches: Gauge of Count, "Tasks and hosts that it watches";
        questions: Gauge of Count, "Questions that wait for an answer";
    }
}

group! {
    /// A channel of a task of this host.
    Channel = 7 "channel" [Task, Channel] {
        messages_sent: Counter of Count, "Messages sent that arrived";
        bytes_sent: Counter of Bytes, "Bytes of these";
        abandoned: Counter of Count, "Messages given up";
        late: Counter of Count, "Messages that arrived after their deadline, by our estimate";
        repaired: Counter of Count, "Pieces sent again";
        messages_received: Counter of Count, "Messages handed to the task";
        bytes_received: Counter of Bytes, "Bytes of these";
        waiting_bytes: Gauge of Bytes, "Bytes sent that are not settled";
        rtt_us: Gauge of Micros, "Smoothed round-trip time; 0 within a host";
        reserved: Gauge of Count, "1 where it is reserved, else 0";
    }
}

macro_rules! distribution {
    ($(#[$doc:meta])* $owner:ident = $number:literal $title:literal [$($label:ident),*]
        $metric:literal of $unit:ident, $help:literal) => {
        $(#[$doc])*
        pub const $owner: Group = Group {
            number: $number,
            name: $title,
            labels: &[$(Label::$label),*],
            metrics: &[Metric {
                name: $metric,
                kind: Kind::Distribution,
                unit: Unit::$unit,
                help: $help,
            }],
        };
    };
}

distribution! {
    /// What turns of the daemon's loop took.
    TURN_TIME = 8 "turn_time" [] "turn_us" of Micros,
    "What a turn of the daemon's loop took, without waiting"
}

distribution! {
    /// What they moved.
    TURN_WORK = 9 "turn_work" [] "turn_bytes" of Bytes,
    "Bytes that a turn moved: of links, tasks and commands"
}

distribution! {
    /// Round trips.
    TRIP = 10 "trip" [Peer] "us" of Micros,
    "Round-trip times of packets, without what the peer says that it waited"
}

group! {
    /// A channel that every two hosts have.
    HostChannel = 11 "host_channel" [Peer, Purpose] {
        messages_sent: Counter of Count, "Messages sent that arrived";
        bytes_sent: Counter of Bytes, "Bytes of these";
        repaired: Counter of Count, "Pieces sent again";
        messages_received: Counter of Count, "Messages that came";
        bytes_received: Counter of Bytes, "Bytes of these";
        waiting: Gauge of Count, "Messages sent that are not settled";
    }
}

distribution! {
    /// How long messages took on one.
    HOST_CHANNEL_DELAY = 12 "host_channel_delay" [Peer, Purpose] "us" of Micros,
    "How long a message took from its sending to its arrival, by our estimate"
}

distribution! {
    /// How long messages took on a channel of a task.
    CHANNEL_DELAY = 13 "channel_delay" [Task, Channel] "us" of Micros,
    "How long a message took from its sending to its arrival, by our estimate"
}

group! {
    /// A path to another host: a pair of links.
    Path = 14 "path" [Peer, Path] {
        carries: Gauge of Count, "1 where it carries, else 0";
        packets_sent: Counter of Count, "Datagrams sent";
        bytes_sent: Counter of Bytes, "Bytes of these";
        packets_received: Counter of Count, "Datagrams received and authenticated";
        packets_lost: Counter of Count, "Datagrams sent that counted as lost";
        left: Counter of Count, "Times that it was silent while others got on, or lost its carrier";
        returned: Counter of Count, "Times that it carried again after that";
        rate_bytes: Gauge of Bytes, "Bytes per second that it delivered of late, at its best";
        rtt_us: Gauge of Micros, "Smoothed round-trip time; 0 before one is known";
        rtt_min_us: Gauge of Micros, "The least round-trip time of late";
        window_bytes: Gauge of Bytes, "Bytes that may be under way at once";
        in_flight_bytes: Gauge of Bytes, "Bytes under way";
        link: Gauge of Count, "The link of this host that it goes by, by its number";
    }
}

group! {
    /// Coding across the paths to another host, either way: where there was any.
    Coding = 15 "coding" [Peer] {
        parities: Counter of Count, "Packets of parity sent across paths";
        rebuilt_there: Counter of Count, "Datagrams lost on the way that the peer rebuilt";
        rebuilt: Counter of Count, "Datagrams of the peer's that were rebuilt";
        unrebuilt: Counter of Count, "Groups that had lost more than parity makes good";
        forgotten: Counter of Count, "Groups forgotten for want of memory";
        garbage: Counter of Count, "Parity that contradicts itself";
    }
}

/// All groups, by number.
pub static GROUPS: [Group; 15] = [
    Endpoint::GROUP,
    Node::GROUP,
    Daemon::GROUP,
    Link::GROUP,
    Association::GROUP,
    Task::GROUP,
    Channel::GROUP,
    TURN_TIME,
    TURN_WORK,
    TRIP,
    HostChannel::GROUP,
    HOST_CHANNEL_DELAY,
    CHANNEL_DELAY,
    Path::GROUP,
    Coding::GROUP,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn groups_have_their_numbers_and_names_of_their_own() {
        for (i, g) in GROUPS.iter().enumerate() {
            assert_eq!(usize::from(g.number), i + 1, "{}", g.name);
            assert_eq!(group(g.number), Some(g));
            assert!(g.metrics.len() <= METRICS_MAX && g.labels.len() <= 2, "{}", g.name);
            let in_us = |m: &Metric| m.name == "us" || m.name.ends_with("_us");
            assert!(g.metrics.iter().all(|m| (m.unit == Unit::Micros) == in_us(m)));
            let distributions = g.metrics.iter().filter(|m| m.kind == Kind::Distribution).count();
            assert!(distributions == 0 || g.metrics.len() == 1, "{}", g.name);
        }
        assert_eq!((group(0), group(16)), (None, None));
        let names: Vec<_> = GROUPS
            .iter()
            .flat_map(|g| g.metrics.iter().map(|m| std::format!("{}_{}", g.name, m.name)))
            .collect();
        let different: BTreeSet<_> = names.iter().map(ToString::to_string).collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn a_row_has_its_values_in_the_order_of_the_metrics() {
        let row = Task { peers: 1, direct: 2, channels: 3, watches: 4, questions: 5 }.row(9, 0);
        assert_eq!(row.series, Series::new(6, 9, 0));
        assert_eq!(row.values[..6], [1, 2, 3, 4, 5, 0]);
        let named: Vec<_> = row.named().map(|(m, value)| (m.name, value)).collect();
        let all = [("peers", 1), ("direct", 2), ("channels", 3), ("watches", 4), ("questions", 5)];
        assert_eq!(named, all);
    }

    #[test]
    fn a_distribution_goes_in_parts_and_comes_together_again() {
        let series = Series::new(TRIP.number, 5, 0);
        let mut of = Histogram::new();
        assert_eq!(part_of(series, &of, None), None, "nothing is in it");
        for v in [1, 1, 90, 5000, u64::MAX >> 20] {
            of.record(v);
        }
        let mut rows = Vec::new();
        while let Some(row) = part_of(series, &of, rows.last().map(|r: &Row| r.series.part)) {
            assert_eq!(row.series.whole(), series);
            rows.push(row);
        }
        let parts: Vec<_> = rows.iter().map(|r| r.series.part).collect();
        assert_eq!(parts, [0, 1, 4], "a part in which nothing is is left out");
        assert_eq!(whole_of(&rows), of);
        assert!(rows[0].named().next().is_none(), "buckets have no names");
    }

    use std::vec::Vec;
}
