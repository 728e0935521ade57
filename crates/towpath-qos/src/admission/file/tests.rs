//! Requests as people write them, and what is said of those that are none.

use core::time::Duration;
use std::format;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use towpath_wire::ByteSize;

use crate::spec::wire::{Demand, Framing};
use crate::spec::{TSpec, TSpecForm};
use crate::topology::Topology;

const NET: &str = "\
    [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate_bps = 1000000\n";

fn of(text: &str) -> Result<Vec<Asked>, RequestsError> {
    let mut measure = |of: &Measured, framing: Option<&Framing>| match of.file.as_str() {
        "film.csv" => {
            assert!(framing.is_some(), "messages unless it is said otherwise");
            let form = TSpecForm::SigmaRho { sigma_bytes: 1000, rho_bps: 8000 };
            let spec = TSpec::try_from(form).map_err(|e| e.to_string())?;
            let (min, max) = (ByteSize::from_bytes(200), ByteSize::from_bytes(300));
            let demand = Demand::of_wire(spec.buckets(), min, max);
            Ok((spec, demand))
        }
        other => Err(format!("cannot open {other}")),
    };
    parse(text, &Topology::parse(NET).expect("valid"), &mut measure)
}

/// A request from a to b with these lines, from line 5 on.
fn one(lines: &str) -> Result<Asked, RequestsError> {
    let text = format!("[[request]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n{lines}\n");
    Ok(of(&text)?.remove(0))
}

const SIGMA: &str = "tspec = { kind = \"sigma_rho\", sigma_bytes = 1000, rho_bps = 8000 }";

#[test]
fn the_service_follows_from_what_is_asked() {
    let ms = Duration::from_millis;
    let want = |lines: &str| one(&format!("{SIGMA}\n{lines}")).expect("a request").want;
    let bounded = Want::Bounded { delay: ms(5), jitter: None };
    assert_eq!(want("delay_ns = 5000000"), bounded);
    assert_eq!(want("delay_ns = 5000000\nclass = \"atm_cbr\""), bounded);
    assert_eq!(want("delay_ns = 5000000\nclass = \"8021p_5\""), bounded);
    let late = Want::Statistical { delay: ms(5), late_ppm: 10 };
    assert_eq!(want("delay_ns = 5000000\nlate_ppm = 10"), late);
    assert_eq!(want("class = \"8021p_6\""), Want::Share { priority: 1 });
    assert_eq!(want("class = \"atm_ubr\""), Want::BestEffort);
    assert_eq!(want("service = \"share\"\npriority = 3"), Want::Share { priority: 3 });
}

#[test]
fn every_model_becomes_wire_bits() {
    let bits = |lines: &str| {
        let asked = one(&format!("{lines}\ndelay_ns = 9")).expect("a request");
        let first = asked.demand.buckets.as_slice()[0];
        (first.burst_bits, asked.demand.buckets.sustained_bps())
    };
    // 1000 B messages of 1146 wire bytes, one each millisecond.
    let rsvp = "rsvp = { rate_bytes_per_s = 1000000, burst_bytes = 1000, \
                peak_bytes_per_s = 1000000, min_bytes = 1000, max_bytes = 1000 }";
    assert_eq!(bits(rsvp), (9168, 9_168_000));
    let spaced = "tspec = { kind = \"spaced\", xmin_ns = 1000000, smax_bytes = 1000 }";
    assert_eq!(bits(spaced), (9168, 9_168_000));
    // 53 B cells of 199 wire bytes.
    assert_eq!(bits("atm = { peak_cells_per_s = 1000 }"), (1592, 1_592_000));
    let tenet = "tenet = { xmin_ns = 1000000, xave_ns = 1000000, interval_ns = 1000000, \
                 smax_bytes = 1000, dmax_ns = 5 }";
    let tenet = one(tenet).expect("a request").demand.buckets;
    assert_eq!((tenet.as_slice()[0].burst_bits, tenet.sustained_bps()), (9168, 9_168_000));
    let measured = one("measured = { file = \"film.csv\" }\ndelay_ns = 9").expect("measured");
    assert_eq!(measured.spec.sustained().as_bps(), 8000);
    // What was measured on the wire stands as it is.
    assert_eq!(measured.demand.buckets.sustained_bps(), 8000);
    assert_eq!((measured.demand.packet_bits, measured.demand.counted_bits), (2400, 1600));
    for (fps, text) in [("25", "25"), ("29.97", "29.97"), ("\"30000/1001\"", "30000/1001")] {
        let lines = format!("measured = {{ file = \"x\", fps = {fps} }}");
        let mut seen = None;
        let mut measure = |of: &Measured, _: Option<&Framing>| {
            seen.clone_from(&of.fps);
            Err("enough".to_string())
        };
        let request = "[[request]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n";
        let net = Topology::parse(NET).expect("valid");
        let refused = parse(&format!("{request}{lines}\n"), &net, &mut measure);
        assert!(refused.is_err_and(|e| e.to_string().contains("enough")));
        assert_eq!(seen.as_deref(), Some(text));
    }
    let text = format!(
        "[framing]\ncounts = \"wire\"\n[[request]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n\
         {spaced}\ndelay_ns = 9\ncount = 3"
    );
    let wire = of(&text).expect("three");
    assert_eq!(wire[2].demand.buckets.slowest().rate_bps, 8_000_000);
    assert_eq!(wire.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["x.1", "x.2", "x.3"]);
}

fn tenet(more: &str) -> Result<Asked, RequestsError> {
    let (wishes, lines) = more.split_once('\n').unwrap_or((more, ""));
    one(&format!(
        "tenet = {{ xmin_ns = 1000, xave_ns = 2000, interval_ns = 9000, smax_bytes = 9, \
         dmax_ns = 77{wishes} }}\n{lines}"
    ))
}

#[test]
fn a_tenet_request_is_statistical_where_it_may_be_late() {
    let delay = Duration::from_nanos(77);
    assert_eq!(tenet("").expect("valid").want, Want::Bounded { delay, jitter: None });
    let late = tenet(", zmin_ppm = 999000, wmin_ppm = 999900").expect("valid");
    assert_eq!(late.want, Want::Statistical { delay, late_ppm: 1100 });
    assert_eq!(late.class.expect("it follows").0, "tenet_statistical");
    let all = tenet(", zmin_ppm = 0, wmin_ppm = 0").expect("valid").want;
    assert_eq!(all, Want::Statistical { delay, late_ppm: 1_000_000 });
    let said = |more: &str| tenet(more).expect_err("contradicts itself").fault.to_string();
    assert_eq!(
        said(", zmin_ppm = 999000\nclass = \"tenet_deterministic\""),
        "its class is tenet_deterministic, but zmin_ppm is 999000 and wmin_ppm 1000000"
    );
    assert_eq!(
        said("\nclass = \"tenet_statistical\""),
        "its class is tenet_statistical, but zmin_ppm is 1000000 and wmin_ppm 1000000"
    );
    assert_eq!(said("\ndelay_ns = 5"), "delay_ns beside tenet, which says it as dmax_ns");
    assert_eq!(
        said(", zmin_ppm = 9, jmax_ns = 5"),
        "jmax_ns has no meaning with statistical service"
    );
    assert_eq!(said(", zmin_ppm = 1000001"), "zmin_ppm is 1000001, must be 0 to 1000000");
}

/// Each fault names the line of its own key, and what was written there.
#[test]
fn faults_name_request_line_and_value() {
    let fault = |lines: &str| {
        let e = one(lines).expect_err("faulty");
        format!("{}: {e}", e.line)
    };
    let sigma = |more: &str| format!("{SIGMA}\n{more}");
    for (lines, expected) in [
        (
            "delay_ns = 1\ntspec = { kind = \"sigma_rho\", sigma_bytes = 1000, rho_bps = 0 }",
            "6: request \"x\": its traffic: rho_bps is zero",
        ),
        (
            "delay_ns = 1\n\ntspec = { kind = \"token_bucket\", rate_bps = 9, burst_bytes = 9, \
             peak_bps = 8, min_bytes = 1, max_bytes = 1 }",
            "7: request \"x\": its traffic: peak_bps is 8, must be at least rate_bps = 9",
        ),
        ("delay_ns = 5", "1: request \"x\": 0 kinds of traffic, must be one"),
        (
            &*sigma("atm = { peak_cells_per_s = 1000 }"),
            "6: request \"x\": 2 kinds of traffic, must be one",
        ),
        (SIGMA, "1: request \"x\": neither service, class nor delay_ns"),
        (
            &*sigma("service = \"bounded\""),
            "1: request \"x\": no delay_ns, which bounded service needs",
        ),
        (&*sigma("class = \"atm_cbr\"\nservice = \"share\""), "7: request \"x\": service is share"),
        (&*sigma("delay_ns = 1\npriority = 1"), "7: request \"x\": priority has no meaning"),
        (&*sigma("delay_ns = 1\nlate_ppm = 0"), "7: request \"x\": late_ppm is 0, must be 1"),
        (&*sigma("delay_ns = 1\ncount = 0"), "7: request \"x\": count is 0"),
        (&*sigma("delay_ns = 1\ncount = 200001"), "7: request \"x\": count is 200001"),
        (&*sigma("delay_ns = -1"), "6: invalid value: integer `-1`"),
        (&*sigma("delay_ns = 99999999999999999999"), "6: "),
        (&*sigma("class = \"gold\"\ndelay_ns = 1"), "6: unknown class \"gold\""),
        (&*sigma("speed = 1"), "6: unknown field `speed`"),
        (
            "tspec = { kind = \"d_bind\", pairs = [[9, 9, 9]], max_bytes = 1 }",
            "5: invalid length 3, expected two",
        ),
        (
            "delay_ns = 1\nmeasured = { file = \"none\" }",
            "6: request \"x\": its traffic: cannot open none",
        ),
    ] {
        let said = fault(lines);
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    let request = |name: &str, to: &str| {
        format!(
            "[[request]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"{to}\"\n{SIGMA}\ndelay_ns = 1\n"
        )
    };
    let unknown = of(&request("x", "c")).expect_err("no host");
    assert_eq!((unknown.line, unknown.fault), (4, RequestFault::UnknownHost("c".into())));
    let twice = of(&(request("x", "b") + &request("x", "b"))).expect_err("two of one name");
    assert_eq!((twice.line, twice.fault), (8, RequestFault::Duplicate));
    let mtu = of(&format!("\n[framing]\nmtu_bytes = 5\n{}", request("x", "b")));
    let mtu = mtu.expect_err("no room");
    assert_eq!(
        (mtu.line, mtu.to_string().as_str()),
        (2, "framing: mtu_bytes is 5, must be at least 109")
    );
    assert_eq!(of("").expect_err("empty").fault, RequestFault::Empty);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}", number: u64) {
        // A line that there is, or a channel that is what was asked for.
        let sound = |text: &str, answer: Result<Asked, RequestsError>| match answer {
            Err(e) => (1..=text.lines().count() + 9).contains(&e.line),
            Ok(asked) => asked.demand.packet_bits > 0 && asked.demand.buckets.sustained_bps() > 0,
        };
        prop_assert!(of(&text).is_err_and(|e| e.line <= text.lines().count().max(1)), "{}", text);
        let more = one(&format!("{SIGMA}\n{text}"));
        prop_assert!(sound(&text, more));
        let size = one(&SIGMA.replace("1000", &number.to_string()).replace("8000", &text));
        prop_assert!(sound(&text, size));
        let odds = tenet(&format!(", zmin_ppm = {number}\njitter_ns = {number}"));
        prop_assert!(odds.is_err(), "two bounds on jitter, or odds above one: {:?}", odds);
    }
}
