//! The faults: what is planted, which command must find it, and what it must say.

use super::copy::Edit::{self, Append, Remove, Replace, Write};

pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) command: &'static [&'static str],
    pub(super) plant: Vec<Edit>,
    /// A part of the message that names this fault and nothing else.
    pub(super) expect: String,
}

const TIDY: &[&str] = &["tidy"];
const PURITY: &[&str] = &["purity", "--crate", "towpath-wire"];

const MANIFEST: &str = "crates/towpath-wire/Cargo.toml";
const SRC: &str = "crates/towpath-wire/src";
const LIB: &str = "crates/towpath-wire/src/lib.rs";
const PLANTED: &str = "crates/towpath-wire/src/planted.rs";
const PLANTED_CONTENTS: &str = "crates/towpath-wire/src/planted/mod.rs";
const PLANTED_IO: &str = "crates/towpath-io/src/planted.rs";
const RATCHET: &str = "xtask/ratchet.toml";

fn tidy(name: &'static str, plant: Vec<Edit>, expect: impl Into<String>) -> Fault {
    Fault { name, command: TIDY, plant, expect: expect.into() }
}

/// A file for one fault alone, so that many can be planted at once.
fn file_of(name: &str) -> String {
    format!("{SRC}/{}/planted.rs", name.replace(' ', "_"))
}

/// A fault of a file; `expect` begins behind the folder's name.
fn planted(name: &'static str, text: impl Into<String>, expect: &str) -> Fault {
    in_file(name, text, None, expect)
}

fn in_file(name: &'static str, text: impl Into<String>, also: Option<Edit>, expect: &str) -> Fault {
    let file = file_of(name);
    let folder = file.strip_suffix("planted.rs").unwrap_or_default();
    let expect = format!("{folder}{expect}");
    let write = Write(file, text.into());
    tidy(name, [write].into_iter().chain(also).collect(), expect)
}

/// Every fault that `tidy` must find.
pub(super) fn for_tidy() -> Vec<Fault> {
    let mut faults = edges();
    faults.extend(contents());
    faults.extend(sizes());
    faults.extend(tests_and_leftovers());
    faults
}

fn edges() -> Vec<Fault> {
    let edge = "[target.'cfg(all())'.dependencies.towpath-io]\npath = \"../towpath-io\"\n";
    let stray = "[package]\nname = \"towpath-stray\"\n";
    let sim = "[package]\nname = \"towpath-sim\"\n[dev-dependencies]\ntowpath-io = \"0.1.0\"\n";
    vec![
        tidy(
            "a forbidden dependency",
            vec![Append(MANIFEST, edge.into())],
            "towpath-wire may not use towpath-io (it may use no crate of ours)",
        ),
        tidy(
            "io under sim's tests",
            vec![Write("crates/towpath-sim/Cargo.toml".into(), sim.into())],
            "towpath-sim may not use towpath-io in its tests",
        ),
        tidy(
            "a crate without a row",
            vec![Write("crates/towpath-stray/Cargo.toml".into(), stray.into())],
            "crate `towpath-stray` is not in the table",
        ),
        tidy(
            "a stray test binary",
            vec![Write("crates/towpath-wire/tests/planted.rs".into(), "fn f() {}\n".into())],
            "towpath-wire/tests/planted.rs:1: a test binary of its own",
        ),
        tidy(
            "a parser without its fuzz target",
            vec![Remove("fuzz/fuzz_targets/packet.rs")],
            "fuzz/fuzz_targets/packet.rs:1: missing: the fuzz target of towpath-wire's `packet`",
        ),
    ]
}

fn contents() -> Vec<Fault> {
    vec![
        tidy(
            "a sans-IO crate with std",
            vec![Replace(LIB, "#![no_std]", String::new())],
            "towpath-wire/src/lib.rs:1: a sans-IO crate starts with `#![no_std]`",
        ),
        tidy(
            "a sans-IO crate that lets unsafe in",
            vec![Replace(LIB, "#![forbid(unsafe_code)]", String::new())],
            "towpath-wire/src/lib.rs:1: a sans-IO crate starts with `#![forbid(unsafe_code)]`",
        ),
        tidy(
            "code in mod.rs",
            vec![Write(PLANTED_CONTENTS.into(), "fn stray() {}\n".into())],
            "planted/mod.rs:1: a function does not belong here",
        ),
        planted(
            "a clock in a sans-IO crate",
            "use std::{fmt, time::Instant};\n",
            "planted.rs:1: `std::time` in a sans-IO crate",
        ),
        planted(
            "a system clock in a macro",
            "fn f() {\n    assert!(SystemTime::now() > x);\n}\n",
            "planted.rs:2: `SystemTime` in a sans-IO crate",
        ),
        planted(
            "a random source",
            "fn f() -> u8 {\n    rand::random()\n}\n",
            "planted.rs:2: `rand` in a sans-IO crate",
        ),
        planted(
            "unsafe outside its crates",
            "fn f() {\n    unsafe { g() }\n}\n",
            "planted.rs:2: `unsafe` outside io, pvm3, capi and py",
        ),
        tidy(
            "unsafe without a reason",
            vec![Write(PLANTED_IO.into(), "fn f() {\n    unsafe { g() }\n}\n".into())],
            "towpath-io/src/planted.rs:2: no `SAFETY:` comment above",
        ),
        planted("a file that is not Rust", "fn {}\n", "planted.rs:1: cannot be read as Rust"),
    ]
}

fn function_of(lines: usize) -> String {
    format!("fn planted() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
}

fn exception(name: &str, value: usize) -> Edit {
    let file = file_of(name);
    let text = format!(
        "[[exception]]\npath = \"{file}\"\nrule = \"function-lines\"\nitem = \"planted\"\n\
         value = {value}\nwhy = \"planted\"\n"
    );
    Append(RATCHET, text)
}

const GROWN: &str = "a function that grew past its exception";
const HIGHER: &str = "an exception higher than needed";
const RAISED: &str = "an exception raised with its function";

fn sizes() -> Vec<Fault> {
    let parameters = "a: u8, ".repeat(8);
    let fields = "    a: u8,\n".repeat(21);
    vec![
        planted(
            "a function of 71 lines",
            function_of(71),
            "planted.rs:1: too many lines of function `planted` (limit 70, value 71)",
        ),
        planted(
            "a dispatch mark on another function",
            format!("// tidy: dispatch\n{}", function_of(72)),
            "planted.rs:2: too many lines of function `planted` (limit 70, value 72)",
        ),
        planted(
            "a function of 8 parameters",
            format!("fn planted({parameters}) {{}}\n"),
            "planted.rs:1: too many parameters of `planted` (limit 7, value 8)",
        ),
        planted(
            "a struct of 21 fields",
            format!("struct Planted {{\n{fields}}}\n"),
            "planted.rs:1: too many fields of struct `Planted` (limit 20, value 21)",
        ),
        planted(
            "a file of 501 lines",
            "use a::b;\n".repeat(501),
            "planted.rs:1: too many code lines without tests (limit 500, value 501)",
        ),
        planted(
            "a file of 1001 lines with its tests",
            format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "use a::b;\n".repeat(998)),
            "planted.rs:1: too many code lines in all (limit 1000, value 1001)",
        ),
        planted(
            "a line of 101 columns",
            format!("// {}\n", "x".repeat(98)),
            "planted.rs:1: too many columns (limit 100, value 101)",
        ),
        in_file(
            GROWN,
            function_of(81),
            Some(exception(GROWN, 80)),
            "planted.rs:1: more lines of function `planted` than its exception",
        ),
        in_file(
            HIGHER,
            function_of(80),
            Some(exception(HIGHER, 81)),
            "planted.rs is 80; lower 81 to 80",
        ),
    ]
}

/// An exception raised together with its function: before, in the commit, and after.
pub(super) fn raised_exception() -> (Vec<Edit>, Fault) {
    let before = vec![Write(file_of(RAISED), function_of(80)), exception(RAISED, 80)];
    let raise = vec![
        Write(file_of(RAISED), function_of(81)),
        Replace(RATCHET, "value = 80", "value = 81".into()),
    ];
    let expect = "raised exception: function-lines of planted in";
    (before, tidy(RAISED, raise, expect))
}

fn tests_and_leftovers() -> Vec<Fault> {
    let test = "#[cfg(test)]\nmod tests {\n    use std::thread::sleep;\n}\n";
    let mark = concat!("FIX", "ME");
    let path = concat!("see /", "work/planted\n");
    let host = concat!("see https://static.crates", ".io/planted\n");
    vec![
        tidy(
            "a sleep in a unit test",
            vec![Write(PLANTED_IO.into(), test.into())],
            "planted.rs:3: a test sleeps: `std::thread::sleep`",
        ),
        tidy(
            "a sleep in an integration test",
            vec![Write(
                "tests/planted.rs".into(),
                "fn f() {\n    tokio::time::sleep(d);\n}\n".into(),
            )],
            "tests/planted.rs:2: a test sleeps: `tokio::time::sleep`",
        ),
        tidy(
            "a sleep in a Python test",
            vec![Write(
                "python/towpath/tests/planted.py".into(),
                "import time\ntime.sleep(1)\n".into(),
            )],
            "tests/planted.py:2: a test sleeps",
        ),
        planted("unfinished code", "fn f() {\n    todo!()\n}\n", "planted.rs:2: `todo!` left in"),
        planted("debug output", "fn f() {\n    dbg!(1);\n}\n", "planted.rs:2: `dbg!` left in"),
        planted("a reminder", format!("// {mark}\n"), "planted.rs:1: FIX"),
        tidy(
            "a path of one machine",
            vec![Write("docs/planted.md".into(), path.into())],
            "docs/planted.md:1: a path of one machine",
        ),
        tidy(
            "a registry host",
            vec![Write("docs/planted.md".into(), host.into())],
            "docs/planted.md:1: the host of a package registry",
        ),
    ]
}

/// Lets a sans-IO crate hold the planted module, with what would stop it taken away.
fn into_wire(name: &'static str, text: &str, expect: &'static str) -> Fault {
    let plant = vec![
        Replace(LIB, "#![forbid(unsafe_code)]", "#![allow(unsafe_code)]".into()),
        Append(LIB, "#[doc(hidden)]\npub mod planted;\n".into()),
        Write(PLANTED.into(), format!("//! Planted.\n{text}")),
    ];
    Fault { name, command: PURITY, plant, expect: expect.into() }
}

/// Every fault that `purity` must find.
pub(super) fn for_purity() -> Vec<Fault> {
    vec![
        into_wire(
            "a C function",
            "unsafe extern \"C\" {\n    safe fn getpid() -> i32;\n}\n\n/// Planted.\n\
             pub fn planted() -> i32 {\n    getpid()\n}\n",
            "undefined symbol `getpid`",
        ),
        into_wire(
            "a C function, unused and private",
            "unsafe extern \"C\" {\n    safe fn clock() -> i64;\n}\n\n\
             #[inline]\n#[allow(dead_code)]\nfn planted() -> i64 {\n    clock()\n}\n",
            "foreign symbol `clock`",
        ),
        into_wire(
            "a function that only core may call",
            "unsafe extern \"C\" {\n    safe fn strlen(s: *const core::ffi::c_char) -> usize;\n\
             }\n\n/// Planted.\npub fn planted() -> usize {\n    strlen(core::ptr::null())\n}\n",
            "foreign symbol `strlen` in the objects of towpath_wire",
        ),
        into_wire(
            "the standard library",
            "extern crate std;\n\n/// Planted.\npub fn planted() -> std::time::Instant {\n    \
             std::time::Instant::now()\n}\n",
            "does not build without the standard library",
        ),
        #[cfg(target_arch = "x86_64")]
        into_wire(
            "a system call in assembly",
            "/// Planted.\npub fn planted() {\n    unsafe { core::arch::asm!(\"syscall\") }\n}\n",
            "instruction `syscall` in",
        ),
    ]
}

fn bad_package(name: &str, license: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         license = \"{license}\"\npublish = false\n"
    )
}

fn depends_on(name: &str) -> Edit {
    Append(
        MANIFEST,
        format!("[target.'cfg(all())'.dependencies.{name}]\npath = \"../../planted\"\n"),
    )
}

/// Every fault that `deny` must find, where cargo-deny is installed.
pub(super) fn for_deny() -> Vec<Fault> {
    let deny = |name, package, license, expect: &str| Fault {
        name,
        command: &["deny"],
        plant: vec![
            depends_on(package),
            Write("planted/Cargo.toml".into(), bad_package(package, license)),
            Write("planted/src/lib.rs".into(), "//! Planted.\n".into()),
        ],
        expect: expect.into(),
    };
    vec![
        deny("a banned crate", "plotters", "MIT", "crate 'plotters = 0.1.0' is explicitly banned"),
        deny("a banned licence", "planted", "AGPL-3.0-only", "AGPL-3.0-only - GNU"),
    ]
}
