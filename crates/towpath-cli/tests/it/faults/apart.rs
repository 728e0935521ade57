//! Three machines at one switch, of which two drop what the other sends: both stay.

use std::time::Duration;

use super::machine::{Machine, PROMPT};
use super::namespaces::{Net, number, pass};
use super::work::{Checked, until};

/// Longer than it took before one of two that lost each other was declared lost.
const LONG: Duration = Duration::from_secs(12);

/// Pairs that cannot reach each other, as whoever leads says.
fn apart(leader: &Machine) -> Checked<String> {
    let told = leader.run(&["status", "--json"])?.out.join("\n");
    let told: serde_json::Value =
        serde_json::from_str(&told).map_err(|e| format!("{e}: {told}"))?;
    Ok(told["apart"].to_string())
}

fn all(net: &Net) -> Checked<()> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let machines = ["a", "b", "c"].map(|name| Machine::new(net, name, folder.path(), false));
    let [a, b, c] = machines;
    let (a, b, c) = (a?, b?, c?);
    a.ok(&["up", "--listen", "10.213.80.1:7077", "--lost-after-ms", "1500", "--voters", "1"])?;
    for machine in [&b, &c] {
        machine.join(&a.token(&[])?)?;
    }
    let before = a.ok(&["hosts", "--json"])?.out;
    b.ok(&["run", "--host", "h3", "--", "true"])?;
    for (at, from) in [(&b, &c), (&c, &b)] {
        let what = format!("ip saddr 10.213.80.{}", number(from.name));
        net.drop_incoming(at.name, &what)?;
    }
    let failed = b.run(&["run", "--host", "h3", "--", "true"])?;
    if failed.code == Some(0) || !failed.said.contains("h3") {
        return Err(format!("what cannot be reached: {:?}: {}", failed.code, failed.said));
    }
    let pair = r#"[["h2.2","h3.3"]]"#;
    until(PROMPT, || apart(&a).and_then(|now| (now == pair).then_some(()).ok_or(now)))?;
    pass(LONG);
    for (from, to) in [(&a, "h2"), (&a, "h3"), (&b, "h1"), (&c, "h1")] {
        from.ok(&["run", "--host", to, "--", "true"])?;
    }
    // Whoever asks for any host is given one that can be reached.
    b.ok(&["run", "-n", "4", "--", "true"])?;
    let after = a.ok(&["hosts", "--json"])?.out;
    let ids = |lines: &[String]| -> Vec<String> {
        let told = lines.join("\n");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
        let hosts = told.as_array().or_else(|| told["hosts"].as_array()).cloned();
        let one = |h: &serde_json::Value| format!("{} {}", h["id"], h["state"]);
        hosts.unwrap_or_default().iter().map(one).collect()
    };
    if ids(&after) != ids(&before) || ids(&before).len() != 3 {
        return Err(format!("{before:?} became {after:?}"));
    }
    for machine in [&b, &c] {
        net.drop_nothing(machine.name)?;
    }
    until(PROMPT, || apart(&a).and_then(|now| (now == "[]").then_some(()).ok_or(now)))?;
    b.ok(&["run", "--host", "h3", "--", "true"])?;
    a.ok(&["down"]).map(|_| ())
}

#[test]
fn two_machines_that_drop_what_the_other_sends_both_stay() {
    if !(super::there("nft") && super::there("ip")) {
        return;
    }
    let Some(net) = Net::new(900, &["a", "b", "c"]) else {
        towpath_skip::skip("no network namespaces can be made here");
        return;
    };
    crate::support::roles();
    all(&net).expect("all as it must be");
}
