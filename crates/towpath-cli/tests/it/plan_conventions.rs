//! `towpath plan --thesis` and `--aggregate`: the source's conventions, several streams on one
//! link.

use super::plan::{Place, bump, scheme, text};

#[test]
fn thesis_mode_keeps_the_conventions_of_the_source() {
    let place = Place::new();
    // Early, so that a constant rate sends the last byte long before it is due.
    let early: Vec<u64> = (1..=100).map(|n| if n == 20 { 9000 } else { 1000 }).collect();
    place.trace("t.csv", &early);
    let plan = place.json(&["t.csv", "--thesis", "--startup", "2 slots"]);
    assert_eq!(plan["frame_rate"]["num"], 30);
    // 66.67 ms, and B = R P F for PCBR.
    assert_eq!(plan["asked"]["delay"]["slots"], 2.0);
    let pcbr = scheme(&plan, "pcbr");
    let (bps, buffer) = (pcbr["peak"]["bps"].as_f64(), pcbr["buffer_bytes"].as_f64());
    assert!((buffer.unwrap() - bps.unwrap() / 8.0 / 15.0).abs() <= 1.0, "{pcbr}");
    // Equation 4.2 as printed adds after the end: more than all bytes that are left.
    let printed = scheme(&plan, "cbr")["buffer_bytes"].as_u64().unwrap();
    let capped = place.json(&["t.csv", "--fps", "30", "--startup", "2 slots"]);
    assert!(printed > scheme(&capped, "cbr")["buffer_bytes"].as_u64().unwrap());
}

#[test]
fn streams_on_one_link_need_less_than_the_sum_of_their_peaks() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let args = ["t.csv", "--fps", "25", "--buffer", "10kB", "--aggregate", "4"];
    let out = place.plan(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("4 streams"), "{}", text(&out.stdout));
    let json = place.plan(&[&args[..], &["--json"]].concat());
    let last = text(&json.stdout).lines().last().unwrap().to_string();
    let sum: serde_json::Value = serde_json::from_str(&last).unwrap();
    let (peak, peaks) =
        (sum["peak_bps"].as_f64().unwrap(), sum["sum_of_peaks_bps"].as_f64().unwrap());
    assert!(peak <= peaks && peak > 0.0, "{sum}");
}
