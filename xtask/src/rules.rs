//! The rules as data: who may use whom, the limits, and which parser has which fuzz target.
//! This file is their source of truth; change it in the commit that changes the architecture.

/// A crate under `crates/` with what it may depend on inside the workspace.
pub(crate) struct CrateRule {
    pub(crate) name: &'static str,
    /// `#![no_std]`, no `unsafe`, no clock, no IO; proven by `cargo xtask purity`.
    pub(crate) sans_io: bool,
    /// May hold `unsafe`, each use with its `SAFETY:` comment.
    pub(crate) may_be_unsafe: bool,
    /// Normal and build dependencies.
    pub(crate) uses: &'static [&'static str],
}

const fn sans_io(name: &'static str, uses: &'static [&'static str]) -> CrateRule {
    CrateRule { name, sans_io: true, may_be_unsafe: false, uses }
}

const fn safe(name: &'static str, uses: &'static [&'static str]) -> CrateRule {
    CrateRule { name, sans_io: false, may_be_unsafe: false, uses }
}

const fn unsafe_allowed(name: &'static str, uses: &'static [&'static str]) -> CrateRule {
    CrateRule { name, sans_io: false, may_be_unsafe: true, uses }
}

pub(crate) const WIRE: &str = "towpath-wire";
pub(crate) const PROTO: &str = "towpath-proto";
pub(crate) const QOS: &str = "towpath-qos";
pub(crate) const BOUND: &str = "towpath-bound";
pub(crate) const VM: &str = "towpath-vm";
pub(crate) const MEDIA: &str = "towpath-media";
pub(crate) const NODE: &str = "towpath-node";
pub(crate) const SIM: &str = "towpath-sim";
pub(crate) const IO: &str = "towpath-io";
pub(crate) const TASK: &str = "towpath-task";
pub(crate) const PVM: &str = "towpath-pvm";
pub(crate) const FACADE: &str = "towpath";
pub(crate) const REPORT: &str = "towpath-report";
pub(crate) const APPS: &str = "towpath-apps";
pub(crate) const BENCH: &str = "towpath-bench";
pub(crate) const SKIP: &str = "towpath-skip";

/// Every crate that may exist under `crates/`.
pub(crate) const CRATES: &[CrateRule] = &[
    sans_io(WIRE, &[]),
    sans_io(PROTO, &[WIRE]),
    sans_io(QOS, &[WIRE]),
    sans_io(BOUND, &[WIRE]),
    sans_io(VM, &[QOS, WIRE]),
    sans_io(MEDIA, &[WIRE]),
    sans_io(NODE, &[VM, MEDIA, QOS, PROTO, WIRE]),
    safe(SIM, &[NODE, VM, MEDIA, QOS, PROTO, WIRE]),
    unsafe_allowed(IO, &[PROTO, WIRE]),
    safe(TASK, &[IO, VM, WIRE]),
    safe(PVM, &[]),
    safe(FACADE, &[NODE, TASK, PVM, MEDIA, IO, VM, PROTO, WIRE]),
    unsafe_allowed("towpath-pvm3", &[TASK, PVM]),
    unsafe_allowed("towpath-capi", &[TASK]),
    unsafe_allowed("towpath-py", &[TASK]),
    safe(APPS, &[FACADE, REPORT, SIM]),
    safe("towpath-console", &[FACADE]),
    safe(SKIP, &[]),
    safe(REPORT, &[MEDIA, WIRE]),
    unsafe_allowed(BENCH, &[FACADE, REPORT, SIM, IO, PROTO, WIRE]),
    safe("towpath-cli", &[FACADE, BENCH, REPORT, SIM, PVM, IO, VM, MEDIA, BOUND, QOS, PROTO, WIRE]),
];

/// Dev-dependencies any crate may have besides its normal ones.
pub(crate) const DEV_USES: &[&str] = &[SIM, SKIP, BOUND];

/// Further dev-dependencies of one crate. The tests of PVM's interface play a daemon, which speaks
/// in the words of these.
pub(crate) const DEV_PAIRS: &[(&str, &str)] = &[("towpath-pvm3", VM), ("towpath-pvm3", WIRE)];

/// The crate of tests across crates, in `tests/`: what it may use, as any kind of dependency.
pub(crate) const TESTS_MANIFEST: &str = "tests/Cargo.toml";
pub(crate) const TESTS_USES: &[&str] = &[FACADE, IO, SIM];

/// A test that is a binary of its own beside its crate's `tests/it/`.
pub(crate) struct OwnProcess {
    pub(crate) of: &'static str,
    /// `tests/<test>.rs`.
    pub(crate) test: &'static str,
    /// What of the process it changes, or counts.
    #[allow(dead_code, reason = "for who reads the table")]
    pub(crate) why: &'static str,
}

const fn own(of: &'static str, test: &'static str, why: &'static str) -> OwnProcess {
    OwnProcess { of, test, why }
}

/// Every test that is not part of its crate's one test binary.
pub(crate) const OWN_PROCESS: &[OwnProcess] = &[
    own(SIM, "memory", "counts what its global allocator gives"),
    own(SIM, "allocations", "counts what its global allocator gives"),
    own(SIM, "plants", "is compiled with `--cfg plant`, alone"),
    own(IO, "shared_killed", "leaves its descriptors open to the processes it starts"),
    own(FACADE, "descriptors", "lowers the limit of descriptors"),
    own(FACADE, "streams_broken", "breaks every TCP connection of its process"),
    own(FACADE, "kills", "counts its process's descriptors"),
    own("towpath-cli", "memory", "fills the memory of a control group and /dev/shm"),
];

/// Pairs that must not meet, not even as dev-dependency: simulated results must not depend on IO.
pub(crate) const NEVER: &[(&str, &str)] = &[(SIM, IO)];

/// Folders outside `crates/` that run sources of a crate which may hold `unsafe`.
pub(crate) const MAY_BE_UNSAFE_TOO: &[&str] = &["loom/"];

pub(crate) fn rule(name: &str) -> Option<&'static CrateRule> {
    CRATES.iter().find(|rule| rule.name == name)
}

/// The rule of the crate that a path (`crates/<name>/...`) belongs to.
pub(crate) fn rule_of_path(path: &str) -> Option<&'static CrateRule> {
    rule(path.strip_prefix("crates/")?.split('/').next()?)
}

/// Code lines of a file without its test modules.
pub(crate) const FILE_LINES: usize = 500;
/// Code lines of a file with everything; no exception raises it. Test files have only this one.
pub(crate) const FILE_LINES_HARD: usize = 1000;
/// Code lines of a function, from its signature to its closing brace.
pub(crate) const FUNCTION_LINES: usize = 70;
pub(crate) const PARAMETERS: usize = 7;
pub(crate) const STRUCT_FIELDS: usize = 20;
pub(crate) const COLUMNS: usize = 100;
/// Packages of others in Cargo.lock, on all platforms. Each is built by everybody, reviewed by
/// nobody: raise this in the commit that adds one, with what it saves.
pub(crate) const PACKAGES_MAX: usize = 214;

/// A parser of foreign bytes with the fuzz target that drives it.
pub(crate) struct FuzzRule {
    /// Crate and module (`packet` is `src/packet.rs` or `src/packet/mod.rs`). None: a target over
    /// sequences of operations, which belongs to no one module.
    pub(crate) module: Option<(&'static str, &'static str)>,
    pub(crate) target: &'static str,
}

/// A row whose crate does not exist yet waits for it.
pub(crate) const FUZZED: &[FuzzRule] = &[
    FuzzRule { module: Some((WIRE, "packet")), target: "packet" },
    FuzzRule { module: Some((WIRE, "frame")), target: "frame" },
    FuzzRule { module: Some((WIRE, "coding")), target: "coding" },
    FuzzRule { module: Some((PROTO, "coding")), target: "coding" },
    FuzzRule { module: Some((VM, "message")), target: "message" },
    FuzzRule { module: Some((VM, "talk")), target: "talk" },
    FuzzRule { module: Some((VM, "data")), target: "talk" },
    FuzzRule { module: Some((VM, "panel")), target: "talk" },
    FuzzRule { module: Some((WIRE, "talk")), target: "talk" },
    FuzzRule { module: None, target: "tasks" },
    FuzzRule { module: Some((PROTO, "endpoint/hello")), target: "hello" },
    FuzzRule { module: Some((NODE, "hello")), target: "node_hello" },
    FuzzRule { module: Some((FACADE, "protocol")), target: "client" },
    FuzzRule { module: Some((FACADE, "start/hostlist")), target: "start_hosts" },
    FuzzRule { module: Some((FACADE, "start/hostfile")), target: "start_hosts" },
    FuzzRule { module: Some((FACADE, "pvm/hostfile")), target: "pvm_hosts" },
    FuzzRule { module: Some((PVM, "linkage")), target: "pvm_linkage" },
    FuzzRule { module: Some((VM, "metrics")), target: "metrics" },
    FuzzRule { module: Some((VM, "collective")), target: "collective" },
    FuzzRule { module: Some((VM, "consensus/message")), target: "consensus" },
    FuzzRule { module: Some((VM, "consensus/journal")), target: "journal" },
    FuzzRule { module: Some((MEDIA, "read")), target: "media_read" },
    FuzzRule { module: Some((MEDIA, "read/ts")), target: "media_ts" },
    FuzzRule { module: Some((MEDIA, "read/ps")), target: "media_ps" },
    FuzzRule { module: Some((MEDIA, "read/avi")), target: "media_avi" },
    FuzzRule { module: Some((MEDIA, "read/es")), target: "media_es" },
    FuzzRule { module: Some((QOS, "spec")), target: "qos_spec" },
    FuzzRule { module: Some((QOS, "topology")), target: "qos_topology" },
    FuzzRule { module: Some((QOS, "admission")), target: "qos_admission" },
    FuzzRule { module: Some((QOS, "admission/file")), target: "qos_requests" },
    FuzzRule { module: Some((MEDIA, "trace/parse")), target: "media_trace" },
    FuzzRule { module: Some((MEDIA, "schedule/file")), target: "media_schedule" },
    FuzzRule { module: Some((MEDIA, "rtp")), target: "media_rtp" },
    FuzzRule { module: Some((MEDIA, "rtsp")), target: "media_rtsp" },
    FuzzRule { module: Some((MEDIA, "send")), target: "media_send" },
    FuzzRule { module: Some((MEDIA, "receive")), target: "media_receive" },
    FuzzRule { module: Some((QOS, "scheduler")), target: "qos_schedulers" },
    FuzzRule { module: Some((SIM, "tap/script")), target: "tap_script" },
    FuzzRule { module: Some((SIM, "job/format")), target: "job_record" },
    FuzzRule { module: Some((IO, "direct")), target: "direct_records" },
    FuzzRule { module: Some((IO, "shared")), target: "shared_ring" },
    FuzzRule { module: None, target: "operations" },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything reachable over normal edges.
    fn closure(name: &'static str) -> Vec<&'static str> {
        let mut reached = rule(name).expect("row").uses.to_vec();
        let mut next = 0;
        while next < reached.len() {
            for used in rule(reached[next]).expect("every used crate has a row").uses {
                if !reached.contains(used) {
                    reached.push(used);
                }
            }
            next += 1;
        }
        reached
    }

    #[test]
    fn the_simulator_never_reaches_io() {
        assert!(!closure(SIM).contains(&IO));
    }

    #[test]
    fn sans_io_crates_reach_only_sans_io_crates() {
        for crate_rule in CRATES.iter().filter(|crate_rule| crate_rule.sans_io) {
            for used in closure(crate_rule.name) {
                assert!(rule(used).expect("row").sans_io, "{} uses {used}", crate_rule.name);
            }
        }
    }

    #[test]
    fn no_crate_reaches_itself() {
        for crate_rule in CRATES {
            assert!(!closure(crate_rule.name).contains(&crate_rule.name), "{}", crate_rule.name);
        }
    }
}
