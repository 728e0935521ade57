//! Associations over shared and faulty links: every message intact, whatever the link does.

use towpath_proto::Rng;
use towpath_sim::Scenario;
use towpath_sim::link::LinkSpec;
use towpath_sim::transfer::{
    ClockStep, FlowSpec, Side, Stop, TransferReport, TransferScenario, run,
};

fn report(link: &str, rest: &str) -> TransferReport {
    let text = format!(
        "kind = 'transfer'\n{rest}\n[link.back]\n[link.there]\nrate_bps = 100000000\n\
         delay_us = 2000\n{link}\n"
    );
    run(&TransferScenario::parse(&text).unwrap(), None).unwrap()
}

const FLOW: &str = "real_bytes = true\n[[flow]]\nforward = ['there']\nbackward = ['back']\n\
                    bytes = 3000001\nmessage_bytes = 60000\n";

fn kept(report: &TransferReport) {
    assert_eq!(report.broken, [""; 0]);
    assert!(report.flows.iter().all(|f| f.bytes == 3_000_001), "{:?}", report.flows[0].bytes);
}

#[test]
fn to_overflow_a_queue_without_end_breaks_the_promise_that_nothing_repeats_in_vain() {
    // 16 times what the link holds under way, whatever is lost: nine of ten packets overflow.
    let text = "kind = 'transfer'\nseconds_max = 5\n[link.back]\n[link.there]\n\
                rate_bps = 100000000\ndelay_us = 10000\nqueue_bytes = 12500\n\
                [[flow]]\nforward = ['there']\nbackward = ['back']\n\
                congestion = 'fixed:4000000'\nwindow_bytes = 4194304\n";
    let report = run(&TransferScenario::parse(text).unwrap(), None).unwrap();
    assert!(report.broken.iter().any(|b| b.contains("packets, bound")), "{:?}", report.broken);
}

#[test]
fn the_curves_end_where_the_stream_does_and_never_cross() {
    let report = report("", FLOW);
    kept(&report);
    let curve = &report.flows[0].curve;
    assert_eq!(curve.acknowledged.last().unwrap().bytes, 3_000_001);
    assert_eq!(curve.sent.last().unwrap().bytes, 3_000_001);
    for p in &curve.acknowledged {
        let sent = curve.sent.iter().take_while(|s| s.at_ns <= p.at_ns).last().unwrap();
        assert!(p.bytes <= sent.bytes, "acknowledged before it was sent");
    }
    assert!(curve.credit.windows(2).all(|w| w[0].bytes <= w[1].bytes));
}

#[test]
fn bursts_of_loss_are_repaired() {
    let report = report("burst_enter_ppm = 20000\nburst_leave_ppm = 200000", FLOW);
    kept(&report);
    assert!(report.links.iter().any(|l| l.stats.lost > 60), "{:?}", report.links);
    assert!(!report.flows[0].curve.repaired.is_empty());
}

#[test]
fn changes_of_the_link_and_a_stopped_receiver_lose_nothing() {
    let rest = format!(
        "{FLOW}[[change]]\nat_ms = 100\nlink = 'there'\nrate_bps = 20000000\ndelay_us = 10000\n\
         [[stop]]\nat_ms = 200\nfor_ms = 1000\nside = 'receiver'\n"
    );
    let report = report("", &rest);
    kept(&report);
    assert!(report.seconds > 1.2, "{}", report.seconds);
}

#[test]
fn a_link_that_is_cut_for_good_is_told() {
    let rest =
        format!("seconds_max = 10\n{FLOW}[[change]]\nat_ms = 100\nlink = 'there'\nup = false\n");
    let report = report("", &rest);
    assert!(report.broken.iter().any(|b| b.contains("the association ended")), "{report:?}");
    assert!(report.broken.iter().any(|b| b.contains("of 3000001 bytes")), "{:?}", report.broken);
}

#[test]
fn two_flows_over_one_link_and_echoes_arrive_whole_and_the_same_each_time() {
    let rest = format!(
        "{FLOW}[[flow]]\nname = 'two'\nforward = ['there']\nbackward = ['back']\n\
         bytes = 3000001\nmessage_bytes = 60000\necho = true\n"
    );
    let (a, b) = (report("", &rest), report("", &rest));
    kept(&a);
    assert_eq!(a, b);
    let other = report("", &format!("seed = 2\n{rest}"));
    assert_ne!(a.trace_hash, other.trace_hash);
}

/// A flow over 100 Mbit/s and 20 ms, whose way back has another rate: its report, its goodput as a
/// share of the link, and datagrams on the way back per one there.
fn asymmetric(back_bps: u64, queue_bytes: u64) -> (TransferReport, f64, f64) {
    let text = format!(
        "kind = 'transfer'\n[link.there]\nrate_bps = 100000000\ndelay_us = 10000\n\
         queue_bytes = 250000\n[link.back]\nrate_bps = {back_bps}\ndelay_us = 10000\n\
         queue_bytes = {queue_bytes}\n[[flow]]\nforward = ['there']\nbackward = ['back']\n\
         bytes = 30000000\nwindow_bytes = 4194304\n"
    );
    let report = run(&TransferScenario::parse(&text).unwrap(), None).unwrap();
    assert_eq!(report.broken, [""; 0]);
    let share = report.flows[0].later_half_bps / 100e6;
    let offered = |name| report.links.iter().find(|l| l.name == name).unwrap().stats.offered;
    let back = offered("back") as f64 / offered("there") as f64;
    (report, share, back)
}

#[test]
fn few_acknowledgements_are_enough_and_do_not_fill_a_narrow_way_back() {
    let (_, share, back) = asymmetric(100_000_000, 250_000);
    assert!(share > 0.85 && back < 0.12, "{share} of the link, {back} datagrams back");
    // With one for every second packet: 38 of 100 Mbit/s, a round trip of 179 ms.
    let (report, share, _) = asymmetric(2_000_000, 30_000);
    assert!(share > 0.85, "{share}");
    assert!(report.flows[0].rtt_ms_mean < 45.0, "{}", report.flows[0].rtt_ms_mean);
    // A five-hundredth: the queue on the way back is what holds the flow. Before: 535 ms.
    let (report, share, _) = asymmetric(200_000, 10_000);
    assert!(share > 0.2, "{share}");
    assert!(report.flows[0].rtt_ms_mean < 200.0, "{}", report.flows[0].rtt_ms_mean);
}

/// Links, flows that share them, stops and steps of clocks, all drawn from the seed.
fn drawn(seed: u64) -> TransferScenario {
    let (swarm, mut rng) = (Scenario::default(), Rng::new(seed, 77));
    let mut s = TransferScenario {
        seed,
        real_bytes: seed.is_multiple_of(4),
        ..TransferScenario::default()
    };
    for name in ["a", "b", "c", "d"] {
        // A burst counts datagrams: where few are sent, twenty of them take longer than a host
        // waits for life.
        let link = LinkSpec { burst_leave_ppm: 300_000, ..swarm.draw_link(&mut rng) };
        s.link.insert(name.into(), link);
    }
    let congestion = [None, Some("aimd"), Some("cubic"), Some("fixed:300000")];
    for n in 0..=rng.below(3) {
        // All flows pass "a"; some a second link, too.
        let second = (rng.below(2) == 0).then(|| "b".to_string());
        s.flow.push(FlowSpec {
            name: n.to_string(),
            forward: ["a".to_string()].into_iter().chain(second).collect(),
            backward: vec![if rng.below(2) == 0 { "c" } else { "d" }.into()],
            congestion: congestion[rng.below(4) as usize].map(Into::into),
            bytes: Some(100_000 + rng.below(400_000)),
            message_bytes: 12 + rng.below(100_000) as u32,
            window_bytes: 1 << (17 + rng.below(5)),
            start_ms: rng.below(300),
            echo: rng.below(4) == 0,
            ..FlowSpec::default()
        });
    }
    let side = |n| if n == 0 { Side::Sender } else { Side::Receiver };
    // A host takes a peer for lost after two seconds of silence. Of a jump of its own clock it does
    // not see what lies before its next timer, up to half a second.
    if rng.below(2) == 0 {
        let (at_ms, flow) = (rng.below(1000), "0".to_string());
        s.stop.push(Stop { at_ms, for_ms: rng.below(1200), flow, side: side(rng.below(2)) });
        let (at_ms, flow) = (rng.below(1000), "0".to_string());
        s.step.push(ClockStep { at_ms, ahead_ms: rng.below(1500), flow, side: side(rng.below(2)) });
    }
    s
}

#[test]
fn whatever_is_drawn_keeps_its_promises() {
    for seed in 0..60 {
        let scenario = drawn(seed);
        let report = run(&scenario, None).unwrap();
        assert_eq!(report.broken, [""; 0], "seed {seed}: {scenario:#?}");
        for (flow, spec) in report.flows.iter().zip(&scenario.flow) {
            assert_eq!(Some(flow.bytes), spec.bytes, "seed {seed}");
        }
    }
}
