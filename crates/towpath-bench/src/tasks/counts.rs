//! How many messages an exchange takes, and how many bytes, whatever time it takes.

use serde::{Deserialize, Serialize};
use towpath_report::plot::{Column, Table};

/// What was sent; payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) messages: f64,
    pub(super) bytes: f64,
}

impl Sent {
    pub(super) fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }

    /// Of one of so many.
    pub(super) fn per(self, count: u32) -> Self {
        let count = f64::from(count.max(1));
        Self { messages: self.messages / count, bytes: self.bytes / count }
    }
}

/// What all members of one exchange send, and the peer's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Counts {
    pub(super) name: String,
    pub(super) ours: Sent,
    pub(super) peer: Option<Sent>,
}

pub(super) fn table(counts: &[Counts]) -> Table {
    let mut table = Table::new(&[
        Column::words("", "name"),
        Column::figures("messages", "messages"),
        Column::figures("peer", "peer_messages"),
        Column::figures("B", "size_bytes"),
        Column::figures("peer", "peer_bytes"),
        Column::figures("of the peer's", "bytes_of_peer"),
    ]);
    for Counts { name, ours, peer } in counts {
        // Whole numbers, but where programs hand out to whoever asks.
        let text = |value: Option<f64>, decimals: usize| {
            let text = value.map_or(String::new(), |v| format!("{v:.decimals$}"));
            (text.clone(), text)
        };
        table.push(vec![
            (name.clone(), name.clone()),
            text(Some(ours.messages), 0),
            text(peer.map(|peer| peer.messages), 0),
            text(Some(ours.bytes), 0),
            text(peer.map(|peer| peer.bytes), 0),
            text(peer.map(|peer| ours.bytes / peer.bytes), 3),
        ]);
    }
    table
}
