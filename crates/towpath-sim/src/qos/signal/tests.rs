use super::*;

const S: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

fn net(capacities_mbps: &[u64]) -> SignalNetwork {
    let link = |(i, mbps): (usize, &u64)| SignalLink {
        name: i.to_string(),
        capacity_bps: mbps * MBIT,
        rsvp: true,
    };
    SignalNetwork { links: capacities_mbps.iter().enumerate().map(link).collect() }
}

fn request(at_us: u64, route: &[u32], mbps: u64) -> Request {
    let route = route.to_vec();
    Request { at_us, route, rate_bps: mbps * MBIT, leave_us: None, die_us: None }
}

fn rsvp(net: &SignalNetwork, requests: &[Request], until_us: u64) -> SignalReport {
    rsvp::run(net, &Costs::default(), requests, until_us, 1).expect("valid")
}

fn master(net: &SignalNetwork, requests: &[Request], until_us: u64) -> SignalReport {
    master::run(net, &Costs::default(), requests, until_us, 1).expect("valid")
}

fn admitted(report: &SignalReport) -> Vec<bool> {
    let is = |o: &Outcome| matches!(o.verdict, Verdict::Admitted { .. });
    report.outcomes.iter().map(is).collect()
}

#[test]
fn rsvp_takes_a_message_per_link_each_way_and_then_refreshes_for_ever() {
    let net = net(&[100, 100, 100]);
    let report = rsvp(&net, &[request(0, &[0, 1, 2], 10)], 3000 * S);
    // Six messages, each 10 µs on the link and 50 µs in the node that sends it.
    assert_eq!(report.outcomes[0].verdict, Verdict::Admitted { setup_us: 360 });
    assert_eq!(report.setup_messages, 6);
    // Two kinds of refresh over three links, on average every 30 s.
    assert!(report.refresh_messages.abs_diff(600) < 40, "{}", report.refresh_messages);
    // Path and reservation in each of four nodes.
    assert_eq!(report.state_entries_max, 8);
    assert_eq!(report.reserved_bps, [10 * MBIT; 3]);
    let ours = master(&net, &[request(0, &[0, 1, 2], 10)], 3000 * S);
    assert_eq!((ours.refresh_messages, ours.state_entries_max), (0, 1));
    // There and back for both ends and the destination told: five ways of two links.
    assert_eq!(ours.setup_messages, 10);
}

#[test]
fn state_that_nobody_refreshes_goes_away_and_state_given_back_goes_at_once() {
    let net = net(&[100, 100]);
    let mut dies = request(0, &[0, 1], 60);
    dies.die_us = Some(100 * S);
    // K = 3, R = 30 s: state lives 157.5 s after its last refresh.
    let before = rsvp(&net, &[dies.clone()], 200 * S);
    assert_eq!(before.reserved_bps, [60 * MBIT; 2]);
    let after = rsvp(&net, &[dies], 500 * S);
    assert!(after.outcomes[0].timed_out);
    assert_eq!(after.reserved_bps, [0; 2]);
    let mut leaves = request(0, &[0, 1], 60);
    leaves.leave_us = Some(100 * S);
    let report = rsvp(&net, &[leaves, request(101 * S, &[0, 1], 60)], 110 * S);
    assert_eq!(admitted(&report), [true, true]);
    assert_eq!(report.reserved_bps, [60 * MBIT; 2]);
    assert!(!report.outcomes[0].timed_out);
}

#[test]
fn refreshes_outlive_lost_messages() {
    let net = net(&[100, 100, 100]);
    let costs = Costs { loss_ppm: 100_000, ..Costs::default() };
    let requests: Vec<Request> = (0..50).map(|i| request(i * 1000, &[0, 1, 2], 1)).collect();
    let report = rsvp::run(&net, &costs, &requests, 2000 * S, 1).expect("valid");
    // One of ten messages is lost; three refreshes in a row must be lost to drop a state.
    assert!(report.admitted >= 49, "{}", report.admitted);
    // Some set-ups had to wait for a refresh.
    assert!(report.setup.max_ns > 10_000_000_000, "{:?}", report.setup);
}

#[test]
fn a_switch_without_rsvp_never_refuses() {
    let mut net = net(&[100, 100, 100, 100]);
    // Hosts send on links 0 to 2; all meet on link 3, whose switch is not asked.
    let requests: Vec<Request> = (0..3).map(|i| request(0, &[i, 3], 45)).collect();
    net.links[3].rsvp = false;
    let report = rsvp(&net, &requests, S);
    assert_eq!((report.admitted, report.oversubscribed_bps[3]), (3, 35 * MBIT));
    net.links[3].rsvp = true;
    let report = rsvp(&net, &requests, S);
    assert_eq!((report.admitted, report.refused, report.oversubscribed_bps[3]), (2, 1, 0));
    let refused = report.outcomes.iter().find_map(|o| match o.verdict {
        Verdict::Refused { link, short_bps, .. } => Some((link, short_bps)),
        _ => None,
    });
    assert_eq!(refused, Some((3, 35 * MBIT)));
    net.links[3].rsvp = false;
    assert_eq!(admitted(&master(&net, &requests, S)), [true, true, false]);
}

#[test]
fn simultaneous_reservations_can_refuse_each_other_hop_by_hop_but_not_at_the_master() {
    // A ring of three links; each flow crosses two and fits alone. Each holds its receiver's link
    // while it asks for the one before.
    let net = net(&[100, 100, 100]);
    let requests = [request(0, &[0, 1], 60), request(0, &[1, 2], 60), request(0, &[2, 0], 60)];
    let report = rsvp(&net, &requests, 10 * S);
    assert_eq!((report.admitted, report.refused), (0, 3));
    assert_eq!(report.reserved_bps, [0; 3], "the refused tear down what they held");
    let report = master(&net, &requests, 10 * S);
    assert_eq!(admitted(&report), [true, false, false]);
}

#[test]
fn a_request_that_will_be_refused_keeps_another_out_hop_by_hop() {
    // Link 0 is full. The second flow holds link 1 until its refusal is back; meanwhile the
    // third, which would fit, is refused there.
    let net = net(&[100, 100]);
    let requests = [request(0, &[0], 100), request(1000, &[0, 1], 60), request(1100, &[1], 60)];
    assert_eq!(admitted(&rsvp(&net, &requests, S)), [true, false, false]);
    assert_eq!(admitted(&master(&net, &requests, S)), [true, false, true]);
}

#[test]
fn what_is_not_a_request_is_refused_with_its_number() {
    let net = net(&[100]);
    let run = |r: &Request| {
        rsvp::run(&net, &Costs::default(), core::slice::from_ref(r), S, 1).expect_err("bad")
    };
    assert_eq!(run(&request(0, &[7], 1)).to_string(), "request 0: link 7 is not among the 1 links");
    assert_eq!(
        run(&request(0, &[], 1)).to_string(),
        "request 0: its route has 0 links, must be 1 to 32"
    );
    assert!(run(&request(u64::MAX, &[0], 1)).to_string().contains("at most"));
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Neither way ever reserves more than a link has, whatever comes at once, and what is
        /// reserved at the end is what the admitted hold.
        #[test]
        fn nothing_is_ever_oversubscribed(
            asked in proptest::collection::vec(
                (0..2000u64, proptest::sample::subsequence(vec![0, 1, 2, 3], 1..4), 1..80u64),
                1..12,
            ),
            loss_ppm in prop_oneof![Just(0u32), Just(50_000)],
        ) {
            let net = net(&[100, 80, 60, 100]);
            let requests: Vec<Request> =
                asked.iter().map(|(at, route, mbps)| request(*at, route, *mbps)).collect();
            let costs = Costs { loss_ppm, ..Costs::default() };
            for run in [rsvp::run, master::run] {
                let report = run(&net, &costs, &requests, 1000 * S, 3).expect("valid");
                prop_assert!(report.oversubscribed_bps.iter().all(|o| *o == 0));
                let admitted = requests.iter().zip(&report.outcomes);
                let mut held = vec![0; 4];
                for (r, _) in
                    admitted.filter(|(_, o)| matches!(o.verdict, Verdict::Admitted { .. }))
                {
                    r.route.iter().for_each(|l| held[*l as usize] += r.rate_bps);
                }
                if loss_ppm == 0 {
                    prop_assert_eq!(&report.reserved_bps, &held);
                }
            }
        }
    }
}
