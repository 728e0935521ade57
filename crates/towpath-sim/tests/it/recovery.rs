//! What counts as lost, and what only seems to be.

use towpath_sim::transfer::{FlowReport, TransferScenario, run};

/// One flow of 20 MB over 100 Mbit/s and 20 ms, with these fields of both links, of the flow, and
/// these events.
fn flow(there: &str, back: &str, fields: &str, events: &str) -> FlowReport {
    let text = format!(
        "kind = 'transfer'\n\
         [link.there]\nrate_bps = 100000000\ndelay_us = 10000\n{there}\n\
         [link.back]\nrate_bps = 100000000\ndelay_us = 10000\n{back}\n\
         [[flow]]\nforward = ['there']\nbackward = ['back']\nwindow_bytes = 16777216\n\
         bytes = 20000000\n{fields}\n{events}\n"
    );
    let mut report = run(&TransferScenario::parse(&text).unwrap(), None).unwrap();
    assert_eq!(report.broken, [""; 0]);
    report.flows.remove(0)
}

/// A queue that never overflows.
const DEEP: &str = "queue_bytes = 50000000";

#[test]
fn of_three_acknowledgements_one_is_enough_with_eight_thousand_packets_under_way() {
    let got = flow(DEEP, "loss_ppm = 666666", "congestion = 'fixed:12000000'", "");
    assert_eq!((got.packets_lost, got.spurious), (0, 0), "{} probes", got.probes);
}

#[test]
fn a_path_that_reorders_is_given_time_after_the_first_mistakes() {
    // One in fifty late by up to 5 ms: 40 packets may overtake it.
    let there = format!("{DEEP}\nreorder_ppm = 20000\nreorder_us = 5000");
    let got = flow(&there, "", "congestion = 'tolerant'", "");
    assert_eq!(got.packets_lost, got.spurious, "nothing is lost in truth");
    // Some 14 000 packets, 280 of them late.
    assert!((1..60).contains(&got.spurious), "{}", got.spurious);
    assert!(got.goodput_bps > 80e6, "{}", got.goodput_bps);
}

#[test]
fn what_a_probe_repeats_is_not_lost() {
    let stop = "[[stop]]\nat_ms = 500\nfor_ms = 400\nside = 'receiver'";
    let got = flow("", "", "congestion = 'fixed:200000'", stop);
    assert!(got.probes > 0);
    assert_eq!((got.packets_lost, got.spurious), (0, 0), "{} probes", got.probes);
    assert!(got.repaired > 0 && got.repaired <= 2 * got.probes, "{}", got.repaired);
}

/// Packets with data that left within 15 ms of the first acknowledgement after `at_ms`: the
/// window then, since a round trip takes 20 ms.
fn window_after(flow: &FlowReport, at_ms: u64) -> usize {
    let from = at_ms * 1_000_000;
    let acked = flow.curve.acknowledged.iter().find(|p| p.at_ns > from).unwrap().at_ns;
    let within = |p: &&towpath_sim::transfer::Point| (acked..acked + 15_000_000).contains(&p.at_ns);
    flow.curve.sent.iter().chain(&flow.curve.repaired).filter(within).count()
}

#[test]
fn after_an_outage_the_window_is_small_and_after_a_pause_of_the_peer_it_is_not() {
    let link = |at: u64, up: bool| format!("[[change]]\nat_ms = {at}\nlink = 'there'\nup = {up}\n");
    let outage = flow("", "", "congestion = 'tolerant'", &(link(400, false) + &link(1400, true)));
    assert!(window_after(&outage, 1400) <= 10, "{}", window_after(&outage, 1400));
    // Few enough under way for the receiver's socket to hold them.
    let pause = "[[stop]]\nat_ms = 100\nfor_ms = 1000\nside = 'receiver'";
    let pause = flow(DEEP, "", "congestion = 'tolerant'", pause);
    assert_eq!(pause.packets_lost, 0);
    assert!(window_after(&pause, 1100) >= 50, "{}", window_after(&pause, 1100));
}
