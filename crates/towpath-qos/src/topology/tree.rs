//! Generated trees, for measurements and examples.

use alloc::string::String;
use core::fmt::Write;

use super::discipline::DisciplineName;

/// A tree of two levels of switches as a topology file: `hosts` hosts, `fan` to a leaf switch,
/// one root. Hosts have `rate_bps`, leaves ten times that to the root; queues are large enough
/// not to be what limits.
///
/// ```
/// use towpath_qos::topology::{DisciplineName, Topology, tree};
/// let text = tree::two_level(100, 10, 1_000_000_000, DisciplineName::Edf);
/// let topology = Topology::parse(&text).expect("valid");
/// let (a, b) = (topology.host_named("h0"), topology.host_named("h99"));
/// assert_eq!(topology.route(a.expect("host"), b.expect("host")).count(), 4);
/// ```
pub fn two_level(hosts: u32, fan: u32, rate_bps: u64, scheduler: DisciplineName) -> String {
    let mut text = String::new();
    let fan = fan.max(1);
    let mut line = |args: core::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = text.write_fmt(args);
    };
    for h in 0..hosts {
        line(format_args!(
            "[[host]]\nname = \"h{h}\"\nscheduler = \"{scheduler}\"\n\
             cpu = {{ packet_ns = 500, byte_ps = 50 }}\n\
             interface = [{{ name = \"nic\", queue_bytes = 1_000_000_000 }}]\n"
        ));
    }
    let leaves = hosts.div_ceil(fan);
    for s in 0..leaves {
        line(format_args!("[[switch]]\nname = \"s{s}\"\nscheduler = \"{scheduler}\"\nport = ["));
        for h in (s * fan)..hosts.min((s + 1) * fan) {
            line(format_args!("{{ name = \"h{h}\", queue_bytes = 1_000_000_000 }}, "));
        }
        line(format_args!("{{ name = \"up\", queue_bytes = 1_000_000_000 }}]\n"));
    }
    line(format_args!("[[switch]]\nname = \"root\"\nscheduler = \"{scheduler}\"\nport = ["));
    for s in 0..leaves {
        line(format_args!("{{ name = \"s{s}\", queue_bytes = 1_000_000_000 }}, "));
    }
    line(format_args!("]\n"));
    for h in 0..hosts {
        let s = h / fan;
        line(format_args!(
            "[[link]]\nends = [\"h{h}:nic\", \"s{s}:h{h}\"]\nrate_bps = {rate_bps}\n\
             delay_ns = 500\n"
        ));
    }
    for s in 0..leaves {
        line(format_args!(
            "[[link]]\nends = [\"s{s}:up\", \"root:s{s}\"]\nrate_bps = {}\ndelay_ns = 500\n",
            rate_bps.saturating_mul(10)
        ));
    }
    text
}
