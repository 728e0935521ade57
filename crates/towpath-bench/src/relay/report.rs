//! The measured shares as a table or as JSON.

use std::fmt::Write;

use serde_json::json;
use towpath_report::plot::{Column, Table};
use towpath_report::units::time_text;
use towpath_sim::link::LinkSpec;

use super::super::machine::description;
use super::super::ours::Sent;
use super::super::row::Flow;
use super::cases::{Case, Share, Times};
use super::path::{ETHERNET, MTU, Reading};

/// A transfer of checked messages.
pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) sent: Sent,
    /// What the path did for it.
    pub(super) path: Reading,
}

impl Transfer {
    /// The least time: the payload at the path's rate, less what is lost.
    fn least(&self, spec: &LinkSpec) -> f64 {
        let kept = 1.0 - f64::from(spec.loss_ppm) / 1e6;
        self.bytes as f64 * 8.0 / (spec.rate_bps as f64 * kept)
    }
}

/// Everything that was measured.
pub(super) struct Report {
    pub(super) spec: LinkSpec,
    pub(super) times: Times,
    pub(super) ceiling: Flow,
    pub(super) shares: Vec<(Case, Share)>,
    pub(super) transfer: Option<Transfer>,
}

impl Report {
    fn ceiling(&self) -> (f64, f64) {
        let packets = self.ceiling.datagrams.unwrap_or_default() as f64 / self.ceiling.seconds;
        (packets, packets * (MTU as u64 + ETHERNET) as f64 * 8.0)
    }

    /// What each user's share is held to: all of the path, or half of it.
    fn fair(&self, case: &Case) -> f64 {
        let users = if matches!(case, Case::Both(..)) { 2.0 } else { 1.0 };
        self.spec.rate_bps as f64 / users
    }

    fn path(&self) -> String {
        let s = &self.spec;
        let percent = |ppm: u32| format!("{}%", f64::from(ppm) / 1e4);
        format!(
            "{} Mbit/s, {} ms each way, buffer {} kB, loss {}, reordering {} by up to {} ms",
            s.rate_bps as f64 / 1e6,
            s.delay_us as f64 / 1e3,
            s.queue_bytes as f64 / 1e3,
            percent(s.loss_ppm),
            percent(s.reorder_ppm),
            s.reorder_us as f64 / 1e3,
        )
    }

    /// The worst case's lateness.
    fn late(&self) -> String {
        let all = self.shares.iter().map(|(_, share)| share.relay_late);
        let all = all.chain(self.transfer.iter().map(|t| t.path.late));
        let worst = all.max_by_key(|late| late.p99_ns);
        worst.map_or(String::new(), |late| {
            let [p50, p99, max] = [late.p50_ns, late.p99_ns, late.max_ns].map(|ns| ns as f64 / 1e9);
            let [p50, p99, max] = [p50, p99, max].map(time_text);
            format!("It gave packets on {p50} late in the median, {p99} at p99, {max} at most.\n")
        })
    }

    fn table(&self) -> Table {
        let figure = |heading| Column::figures(heading, "");
        let mut table = Table::new(&[
            Column::words("", ""),
            figure("ours Mbit/s"),
            figure("of fair"),
            figure("payload"),
            figure("TCP Mbit/s"),
            figure("of fair"),
            figure("buffer full"),
        ]);
        for (case, share) in &self.shares {
            let fair = self.fair(case);
            let cell = |value: Option<f64>, decimals: usize| {
                (value.map_or(String::new(), |v| format!("{v:.decimals$}")), String::new())
            };
            table.push(vec![
                (case.name(), String::new()),
                cell(share.ours_bps.map(|b| b / 1e6), 1),
                cell(share.ours_bps.map(|b| b / fair), 2),
                cell(share.payload_bps.map(|b| b / 1e6), 1),
                cell(share.tcp_bps.map(|b| b / 1e6), 1),
                cell(share.tcp_bps.map(|b| b / fair), 2),
                (share.overflowed.to_string(), String::new()),
            ]);
        }
        table
    }

    pub(super) fn text(&self) -> String {
        let (packets, bps) = self.ceiling();
        let mut text = format!(
            "{}\n{}\nThe tap's own ceiling: {packets:.0} packets/s, {:.0} Mbit/s of full \
             packets.\n{}",
            description(),
            self.path(),
            bps / 1e6,
            self.late()
        );
        if !self.shares.is_empty() {
            let (settle, measured) = (self.times.settle, self.times.measured);
            let _ = write!(
                text,
                "Measured for {measured:?} after {settle:?}; the second begins 2 s after the \
                 first.\n\n{}",
                self.table().text()
            );
        }
        if let Some(t) = &self.transfer {
            let least = t.least(&self.spec);
            let _ = write!(
                text,
                "\n{} bytes in {} messages, byte-identical: {:.2} s, {:.3} x the {least:.2} s of \
                 bytes / (rate x (1 - loss));\n{:.3} bytes on the wire for one of payload, {} \
                 packets lost, {} repaired, {} late; sender's message memory at most {} bytes.\n",
                t.bytes,
                t.sent.messages,
                t.sent.seconds,
                t.sent.seconds / least,
                t.path.udp_bytes as f64 / t.bytes as f64,
                t.sent.stats.packets_lost,
                t.sent.stats.repaired,
                t.sent.stats.spurious,
                t.sent.memory_max,
            );
        }
        let failed = self.shares.iter().map(|(_, s)| s.relay_failed).sum::<u64>()
            + self.transfer.as_ref().map_or(0, |t| t.path.failed);
        if failed > 0 {
            let _ = write!(
                text,
                "\nwarning: the tap itself failed {failed} packets: the figures are its own; \
                 try a lower --rate\n"
            );
        }
        text
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let (packets, bps) = self.ceiling();
        let shares = self.shares.iter().map(|(case, share)| {
            let fair = self.fair(case);
            json!({
                "case": case.name(), "share": share, "fair_bps": fair,
                "ours_of_fair": share.ours_bps.map(|b| b / fair),
                "tcp_of_fair": share.tcp_bps.map(|b| b / fair),
            })
        });
        let transfer = self.transfer.as_ref().map(|t| {
            let least = t.least(&self.spec);
            json!({
                "bytes": t.bytes, "messages": t.sent.messages, "seconds": t.sent.seconds,
                "least_seconds": least, "ratio": t.sent.seconds / least,
                "wire_bytes": t.path.udp_bytes, "packets_lost": t.sent.stats.packets_lost,
                "repaired": t.sent.stats.repaired, "spurious": t.sent.stats.spurious,
                "memory_max_bytes": t.sent.memory_max, "relay_failed": t.path.failed,
                "relay_late": t.path.late,
            })
        });
        json!({
            "machine": description(), "path": self.spec,
            "ceiling_packets_per_s": packets, "ceiling_bps": bps,
            "settle_s": self.times.settle.as_secs_f64(),
            "measured_s": self.times.measured.as_secs_f64(),
            "cases": shares.collect::<Vec<_>>(), "transfer": transfer,
        })
    }
}
