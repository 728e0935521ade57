//! A record of a job of any bytes: an error with its line and what to do, or a record that comes
//! back from its text and whose replay ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_sim::job::{Collectives, JobNetwork, RANKS_MAX, Record, STEPS_MAX, Step, replay};

/// Bytes of messages that are replayed: with more each input would take seconds.
const BYTES_MAX: u64 = 1 << 22;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let record = match Record::parse(text) {
        Ok(record) => record,
        Err(e) => {
            assert!((1..=lines).contains(&e.line), "{e}");
            assert!(!e.message.is_empty() && !e.hint.is_empty(), "{e}");
            return;
        }
    };
    assert!((1..=RANKS_MAX).contains(&record.ranks.len()));
    assert!(record.ranks.iter().all(|steps| steps.len() <= STEPS_MAX));
    assert_eq!(Record::parse(&record.text()).as_ref(), Ok(&record));
    if cost(&record) > BYTES_MAX {
        return;
    }
    for kind in ["shared", "switched"] {
        for collectives in [Collectives::Linear, Collectives::Tree] {
            let text = format!("kind = '{kind}'\n[processor]\nsend_message_ns = 1000");
            let network = JobNetwork::parse(&text).expect("a network");
            let network = JobNetwork { collectives, ..network };
            let Ok(outcome) = replay(&record, &network) else { continue };
            for rank in &outcome.ranks {
                let parts = rank.busy_ns + rank.overhead_ns + rank.waiting_ns;
                assert_eq!(rank.end_ns, parts);
            }
            let sum = |of: fn(&towpath_sim::job::RankOutcome) -> u64| {
                outcome.ranks.iter().map(of).sum::<u64>()
            };
            let received = sum(|rank| rank.messages_received) + outcome.unreceived;
            assert_eq!(sum(|rank| rank.messages_sent), received);
        }
    }
});

/// About how many bytes, and messages as if they were a frame each, a replay moves.
fn cost(record: &Record) -> u64 {
    let size = record.ranks.len() as u64;
    let of = |step: &Step| match step {
        Step::Work(_) | Step::Receive { .. } => 1,
        Step::Send { bytes, .. } => bytes + 1000,
        Step::Broadcast { bytes, .. } | Step::Gather { bytes, .. } | Step::AllGather(bytes) => {
            size.saturating_mul(bytes + 1000)
        }
        Step::AllToAll(parts) => parts.iter().map(|bytes| bytes + 1000).sum(),
    };
    record.ranks.iter().flatten().map(of).fold(0, u64::saturating_add)
}
