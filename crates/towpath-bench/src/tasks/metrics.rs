//! What rows say together, as Hsieh 1997 measured it: t0, `r_max` and n1/2 of a way of messages
//! (section 2.3.5.3), and what a multicast gains over as many sends (section 2.3.5.4).

use serde::Serialize;
use serde_json::json;
use towpath_report::plot::{Column, Table};

use super::counts::{self, Counts};
use super::pipe::SHORT;
use super::report::Row;
use super::sample::Sample;

/// What follows from the rows of a bench.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Metrics {
    Nothing,
    /// Of each way of messages.
    Lengths(Vec<Lengths>),
    /// Of multicasts to so many tasks.
    Gains(u16, Vec<Gain>),
    /// Of exchanges.
    Counts(Vec<Counts>),
}

impl Metrics {
    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Nothing => serde_json::Value::Null,
            Self::Lengths(lengths) => json!({ "lengths": lengths }),
            Self::Gains(tasks, gains) => {
                json!({ "gains": gains, "gain_of_1997": gain_of_1997(*tasks) })
            }
            Self::Counts(counts) => json!({ "counts": counts }),
        }
    }

    /// A heading and the table below it.
    pub(super) fn table(&self) -> Option<(String, Table)> {
        match self {
            Self::Lengths(all) if !all.is_empty() => Some((
                "Over all lengths of message, beside what a virtual machine of 1997 had:".into(),
                table(all),
            )),
            Self::Gains(tasks, gains) if !gains.is_empty() => Some((
                format!(
                    "How many times sooner than sends; ATM's own multicast of 64 KB to {tasks} \
                     in 1997: {:.2}.",
                    gain_of_1997(*tasks)
                ),
                gains_table(gains),
            )),
            Self::Counts(counts) if !counts.is_empty() => Some((
                "What all tasks together send in one exchange, beside the peer's own count:".into(),
                counts::table(counts),
            )),
            _ => None,
        }
    }
}

/// How fast one way of messages is, whatever their length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Lengths {
    pub(super) name: String,
    /// Start-up latency: the round trip of 16 bytes, in microseconds; absent where not measured.
    pub(super) t0_us: Option<f64>,
    /// The most payload per second of a round trip, both ways counted: `2M / RTT`.
    pub(super) r_max_bytes_per_s: f64,
    /// Half-performance length: the least message that moves `r_max / 2`, between two measured
    /// lengths by a straight line; absent where the shortest one does already.
    pub(super) n_half_bytes: Option<f64>,
}

/// Of rows that differ in the length of message only; fewer than three lengths say nothing.
pub(super) fn lengths(rows: &[(Row, Vec<Sample>)]) -> Vec<Lengths> {
    let mut ways: Vec<(&str, Vec<(usize, Sample)>)> = Vec::new();
    for (row, samples) in rows.iter().filter(|(_, samples)| !samples.is_empty()) {
        let Some((name, _)) = row.name.rsplit_once(", ") else { continue };
        let point = (row.bytes, Sample::median(samples));
        match ways.iter_mut().find(|(way, _)| *way == name) {
            Some((_, points)) => points.push(point),
            None => ways.push((name, vec![point])),
        }
    }
    ways.into_iter().filter_map(|(name, points)| of_points(name, points)).collect()
}

fn of_points(name: &str, mut points: Vec<(usize, Sample)>) -> Option<Lengths> {
    points.sort_by_key(|(len, _)| *len);
    points.dedup_by_key(|(len, _)| *len);
    let t0_us = points.iter().find(|(len, _)| *len == SHORT).and_then(|(_, s)| s.us_p50);
    let rates: Vec<(f64, f64)> =
        points.iter().filter_map(|(len, s)| Some((*len as f64, s.bytes_per_s?))).collect();
    if rates.len() < 3 {
        return None;
    }
    let r_max = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let half = r_max / 2.0;
    let over = rates.iter().position(|(_, rate)| *rate >= half)?;
    let n_half_bytes = over.checked_sub(1).map(|below| {
        let ((m, low), (n, high)) = (rates[below], rates[over]);
        m + (n - m) * (half - low) / (high - low)
    });
    Some(Lengths { name: name.to_string(), t0_us, r_max_bytes_per_s: r_max, n_half_bytes })
}

/// Rows of the source: what, t0 in microseconds, `r_max` in bytes per second, n1/2 in bytes.
///
/// Tables 2.2 and 2.3 (ATM, Mbit/s), 2.5 (Ethernet, Mbit/s) and 2.6 (HIPPI, MByte/s).
const SOURCE: [(&str, f64, f64, f64); 8] = [
    ("1997: by the daemons, TCP over Ethernet", 4053.5, 4.406e6 / 8.0, 1948.0),
    ("1997: by the daemons, ATM (AAL5)", 4986.5, 7.369e6 / 8.0, 4710.0),
    ("1997: by the daemons, Ethernet link level", 2004.0, 5.817e6 / 8.0, 541.0),
    ("1997: by the daemons, HIPPI link level", 1855.0, 3.39e6, 1989.0),
    ("1997: direct, TCP over Ethernet", 1541.0, 8.312e6 / 8.0, 1945.0),
    ("1997: direct, ATM (AAL5)", 1905.5, 27.202e6 / 8.0, 7867.0),
    ("1997: direct, Ethernet link level", 661.0, 8.879e6 / 8.0, 382.0),
    ("1997: direct, HIPPI link level, tuned", 540.0, 16.103e6, 7551.0),
];

/// Ours, then the source's.
fn table(measured: &[Lengths]) -> Table {
    let mut table = Table::new(&[
        Column::words("", "name"),
        Column::figures("t0 us", "t0_us"),
        Column::figures("r_max MB/s", "r_max_bytes_per_s"),
        Column::figures("n1/2 B", "n_half_bytes"),
    ]);
    let source = SOURCE.map(|(name, t0, r_max, n_half)| Lengths {
        name: name.to_string(),
        t0_us: Some(t0),
        r_max_bytes_per_s: r_max,
        n_half_bytes: Some(n_half),
    });
    for l in measured.iter().chain(&source) {
        let text = |value: Option<f64>, decimals: usize| {
            value.map_or(String::new(), |v| format!("{v:.decimals$}"))
        };
        let r_max = format!("{:.2}", l.r_max_bytes_per_s / 1e6);
        table.push(vec![
            (l.name.clone(), l.name.clone()),
            (text(l.t0_us, 2), text(l.t0_us, 4)),
            (r_max, format!("{:.0}", l.r_max_bytes_per_s)),
            (text(l.n_half_bytes, 0), text(l.n_half_bytes, 0)),
        ]);
    }
    table
}

/// What a multicast gains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the source's word")]
pub(super) struct Gain {
    pub(super) route: &'static str,
    pub(super) size_bytes: usize,
    /// The time of a send to each over that of one multicast.
    pub(super) gain: f64,
}

/// Of rows named `sends, ROUTE, SIZE` and `multicast, ROUTE, SIZE`, where both were measured.
pub(super) fn gains(rows: &[(Row, Vec<Sample>)]) -> Vec<Gain> {
    let time = |(row, samples): &(Row, Vec<Sample>), way: &str| {
        let rest = row.name.strip_prefix(way)?.to_string();
        Some((rest, Sample::median(samples).us_p50?))
    };
    let sends: Vec<_> = rows.iter().filter_map(|row| time(row, "sends, ")).collect();
    let gain = |row: &(Row, Vec<Sample>)| {
        let (rest, once) = time(row, "multicast, ")?;
        let (_, each) = sends.iter().find(|(other, _)| *other == rest)?;
        Some(Gain { route: row.0.route, size_bytes: row.0.bytes, gain: each / once })
    };
    rows.iter().filter_map(gain).collect()
}

fn gains_table(gains: &[Gain]) -> Table {
    let mut table = Table::new(&[
        Column::words("route", "route"),
        Column::figures("B", "size_bytes"),
        Column::figures("gain", "gain"),
    ]);
    for g in gains {
        let (route, bytes) = (g.route.to_string(), g.size_bytes.to_string());
        let gain = (format!("{:.2}", g.gain), format!("{:.4}", g.gain));
        table.push(vec![(route.clone(), route), (bytes.clone(), bytes), gain]);
    }
    table
}

/// How many times sooner one multicast of 64 KB was there than as many sends, in 1997, by ATM's
/// multicast to `n` hosts: Hsieh 1997, equation 2.2.
fn gain_of_1997(n: u16) -> f64 {
    let n = f64::from(n);
    (70.0 + 37.0 * n) / (95.83 + 4.17 * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, bytes: usize, us: f64) -> (Row, Vec<Sample>) {
        let row =
            Row { name: format!("{name}, {bytes} B"), route: "", bytes, processes: 2, floor: None };
        let sample = Sample { us_p50: Some(us), ..Sample::default() }.moving(2 * bytes);
        (row, vec![sample])
    }

    /// A way of 10 us and 1 GB/s each way: half the most is reached where the two take as long.
    #[test]
    fn half_of_the_most_is_reached_between_two_lengths() {
        let trip = |m: usize| 10.0 + 2.0 * m as f64 / 1e3;
        let lens = [16, 1000, 4000, 6000, 1_000_000];
        let rows: Vec<_> = lens.iter().map(|m| row("direct", *m, trip(*m))).collect();
        let [l] = lengths(&rows).try_into().unwrap();
        assert_eq!((l.name.as_str(), l.t0_us), ("direct", Some(trip(16))));
        let most = 2e6 / trip(1_000_000) * 1e6;
        assert!((l.r_max_bytes_per_s - most).abs() < 1.0, "{l:?}");
        // 4950 in truth; a line between the points of 4000 and 6000 runs below the curve.
        let n = l.n_half_bytes.unwrap();
        assert!((4950.0..5100.0).contains(&n), "{n}");
    }

    #[test]
    fn what_was_not_measured_is_not_said() {
        let rows = [row("direct", 1000, 1.0), row("direct", 2000, 2.0), row("spin", 16, 1.0)];
        assert_eq!(lengths(&rows), []);
        // The shortest is as fast as any: no length is known that is half as fast.
        let rows = [100, 200, 300].map(|m| row("direct", m, m as f64));
        let [l] = lengths(&rows).try_into().unwrap();
        assert_eq!((l.t0_us, l.n_half_bytes), (None, None));
        let mut rows = rows;
        rows[2].1.clear();
        assert_eq!(lengths(&rows), [], "two lengths are a line, not a curve");
    }

    #[test]
    fn a_gain_is_of_one_route_and_size() {
        let rows = [
            row("sends, direct", 16, 30.0),
            row("sends, by the daemons", 16, 90.0),
            row("multicast, direct", 16, 20.0),
            row("multicast, direct", 64, 20.0),
        ];
        let gains: Vec<_> = gains(&rows).iter().map(|g| (g.size_bytes, g.gain)).collect();
        assert_eq!(gains, [(16, 1.5)]);
    }

    /// The source's own values, section 2.3.5.4: about two for four hosts, 3.2 for ten.
    #[test]
    fn the_gain_of_1997_is_the_sources() {
        assert!((gain_of_1997(4) - 1.94).abs() < 0.01, "{}", gain_of_1997(4));
        assert!((gain_of_1997(10) - 3.2).abs() < 0.1, "{}", gain_of_1997(10));
    }
}
