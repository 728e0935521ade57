//! The measured shares as a table or as JSON.

use std::fmt::Write;

use serde_json::json;
use towpath_report::plot::{Column, Table};
use towpath_sim::link::LinkSpec;

use super::super::machine::description;
use super::super::ours::Sent;
use super::super::row::Flow;
use super::cases::{Case, Share, Times};
use super::wire::{ETHERNET, MTU};

/// A transfer of checked messages.
pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) sent: Sent,
    /// Bytes that came through the bottleneck for it, framing included.
    pub(super) on_wire: u64,
    /// Packets that the relay itself failed.
    pub(super) relay_failed: u64,
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
            "{}\n{}\nThe relay's own ceiling: {packets:.0} packets/s, {:.0} Mbit/s of full \
             packets.\n",
            description(),
            self.path(),
            bps / 1e6
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
                t.on_wire as f64 / t.bytes as f64,
                t.sent.stats.packets_lost,
                t.sent.stats.repaired,
                t.sent.stats.spurious,
                t.sent.memory_max,
            );
        }
        let failed = self.shares.iter().map(|(_, s)| s.relay_failed).sum::<u64>()
            + self.transfer.as_ref().map_or(0, |t| t.relay_failed);
        if failed > 0 {
            let _ = write!(
                text,
                "\nwarning: the relay itself failed {failed} packets: the figures are its own; \
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
                "wire_bytes": t.on_wire, "packets_lost": t.sent.stats.packets_lost,
                "repaired": t.sent.stats.repaired, "spurious": t.sent.stats.spurious,
                "memory_max_bytes": t.sent.memory_max, "relay_failed": t.relay_failed,
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
