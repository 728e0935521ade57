//! A file of requests of any bytes over a small network: an error with its line, or channels that
//! admission answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_qos::admission::file::{CHANNELS_MAX, Want, parse};
use towpath_qos::admission::{Admission, Request, Wish};
use towpath_qos::spec::wire::Demand;
use towpath_qos::spec::{SigmaRho, TSpec};
use towpath_qos::topology::Topology;
use towpath_wire::{ByteSize, Instant, Rate};

const NET: &str = include_str!("../../scenarios/topology/two-switches.toml");

/// Channels that are put to admission: `count` may ask for many alike.
const ASKED_MAX: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let topology = Topology::parse(NET).expect("a topology");
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    // What would be measured is as small as the file's name is long.
    let asked = parse(text, &topology, &mut |of, framing| {
        let size = ByteSize::from_bytes(of.file.len() as u64);
        let spec = SigmaRho::new(size, Rate::from_mbps(1)).map(TSpec::SigmaRho);
        let spec = spec.map_err(|e| e.to_string())?;
        let demand = match framing {
            Some(framing) => framing.demand(&spec, size),
            None => Demand::of_wire(spec.buckets(), size, size),
        };
        Ok((spec, demand))
    });
    let asked = match asked {
        Ok(asked) => asked,
        Err(e) => {
            assert!((1..=lines).contains(&e.line), "{e}");
            assert!(!e.to_string().is_empty());
            return;
        }
    };
    assert!(!asked.is_empty() && asked.len() <= CHANNELS_MAX);
    let mut admission = Admission::new(topology);
    for of in asked.into_iter().take(ASKED_MAX) {
        let wish = match of.want {
            Want::Bounded { delay, jitter } => Wish::Bounded { delay, jitter },
            Want::Statistical { delay, late_ppm } => Wish::Statistical { delay, late_ppm },
            Want::Share { priority } => Wish::Share { priority },
            Want::BestEffort => continue,
        };
        let (owner, from, to, demand) = (of.owner, of.from, of.to, of.demand);
        let request = Request { owner, from, to, demand, wish, lease: Instant::NEVER };
        let _ = admission.admit(&request);
    }
    admission.recompute().expect("what was promised holds");
});
