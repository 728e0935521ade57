//! Routers that mark instead of dropping: senders slow down at marks, before anything is lost.

use towpath_sim::transfer::{TransferReport, TransferScenario, run};

/// 100 Mbit/s, 20 ms, a queue of two round trips that marks from a quarter of one on, if at all.
fn flow(congestion: &str, marks: bool) -> TransferReport {
    let marking = if marks { "ecn_mark_bytes = 62500\n" } else { "" };
    let text = format!(
        "kind = 'transfer'\nseed = 1\nseconds_max = 10\n\
         [link.there]\nrate_bps = 100000000\ndelay_us = 10000\nqueue_bytes = 500000\n{marking}\
         [link.back]\nrate_bps = 100000000\ndelay_us = 10000\n\
         [[flow]]\nname = 'a'\nforward = ['there']\nbackward = ['back']\n\
         congestion = '{congestion}'\nwindow_bytes = 33554432\n"
    );
    run(&TransferScenario::parse(&text).unwrap(), None).unwrap()
}

#[test]
fn marks_are_answered_before_anything_is_lost() {
    for congestion in ["tolerant", "cubic", "aimd"] {
        let [marked, unmarked] = [true, false].map(|marks| flow(congestion, marks));
        let (with, without) = (&marked.flows[0], &unmarked.flows[0]);
        assert_eq!(marked.broken, [""; 0], "{congestion}");
        assert!(without.packets_lost > 0, "{congestion} fills the queue otherwise");
        assert_eq!(with.packets_lost, 0, "{congestion}: {with:?}");
        assert!(with.later_half_bps > 0.8 * 94e6, "{congestion} uses the link: {with:?}");
    }
}
