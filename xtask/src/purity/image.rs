//! Links the executable and looks into it: undefined symbols and forbidden instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::probe::Probe;
use crate::process;
use crate::report::WithHint;

/// What the compiler calls for copies, fills and comparisons.
const MEMORY: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// What the compiler calls for arithmetic that the processor has no instruction for; its own
/// library has it. The link decides what is there, this list what may be asked for.
const ARITHMETIC: &[&str] = &[
    "__udivti3",
    "__umodti3",
    "__udivmodti4",
    "__divti3",
    "__modti3",
    "__divmodti4",
    "__multi3",
    "__muloti4",
    "__mulodi4",
    "__ashlti3",
    "__ashrti3",
    "__lshrti3",
    "__floattidf",
    "__floatuntidf",
    "__floattisf",
    "__floatuntisf",
    "__fixdfti",
    "__fixunsdfti",
    "__fixsfti",
    "__fixunssfti",
    "fmod",
    "fmodf",
    "fmin",
    "fminf",
    "fmax",
    "fmaxf",
];

/// Instructions that enter the kernel, or read a clock or an entropy source (x86-64, then arm64).
const INSTRUCTIONS: &[&str] = &[
    "syscall", "sysenter", "int", "rdtsc", "rdtscp", "rdrand", "rdseed", "in", "out", "svc", "hvc",
    "smc",
];

/// Parts of the library that come with the compiler.
const SYSROOT: &[&str] = &["core", "alloc", "compiler_builtins"];

/// The Rust objects in the library, without the compiler's and the probe's.
pub(super) struct Objects {
    /// The crate's own: each is linked whole.
    own: Vec<PathBuf>,
    /// Of its dependencies: linked as far as the crate needs them.
    dependencies: Vec<PathBuf>,
}

pub(super) fn extract_objects(probe: &Probe) -> Result<Objects> {
    let library = probe.library();
    let members = process::stdout_of(Command::new("ar").arg("t").arg(&library))?;
    let probe_ident = format!("purity_{}", probe.crate_ident());
    let is_ours = |member: &str| {
        let ident = crate_of(member);
        ident.is_some_and(|ident| !SYSROOT.contains(&ident) && ident != probe_ident)
    };
    let members: Vec<&str> = members.lines().filter(|member| is_ours(member)).collect();
    let folder = probe.folder.join("objects");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)
        .hint(|| format!("cannot create {}", folder.display()), "check the disk")?;
    let (own, dependencies): (Vec<&str>, Vec<&str>) =
        members.iter().partition(|member| crate_of(member) == Some(&probe.crate_ident()));
    if own.is_empty() {
        bail!(
            "{} has no object code, so linking it proves nothing\nhint: give the crate a function \
             that is not generic",
            probe.crate_name
        );
    }
    process::stdout_of(
        Command::new("ar").arg("x").arg(&library).args(&members).current_dir(&folder),
    )?;
    let in_folder = |members: Vec<&str>| members.iter().map(|name| folder.join(name)).collect();
    Ok(Objects { own: in_folder(own), dependencies: in_folder(dependencies) })
}

/// The crate that `name-hash.name.unit.rcgu.o` comes from; none for an object not from Rust.
fn crate_of(member: &str) -> Option<&str> {
    member.strip_suffix(".rcgu.o")?.split_once('-').map(|(ident, _)| ident)
}

/// Links the crate's objects with the library alone. Undefined symbols come back with their users.
pub(super) fn link(probe: &Probe, objects: &Objects) -> Result<Vec<String>> {
    let mut command = Command::new("cc");
    command.args(["-nostdlib", "-nostartfiles", "-static", "-no-pie"]);
    command.args(["-Wl,--no-undefined", "-Wl,-u,_start"]).env("LC_ALL", "C");
    command.arg("-o").arg(image(probe)).args(&objects.own).arg(probe.library());
    let outcome = process::capture(&mut command)?;
    let undefined = undefined_symbols(&outcome.stderr);
    if !outcome.success && undefined.is_empty() {
        bail!(
            "{} does not link:\n{}\nhint: this is about the probe in xtask/templates, not about IO",
            probe.crate_name,
            outcome.stderr.trim_end()
        );
    }
    Ok(undefined)
}

fn image(probe: &Probe) -> PathBuf {
    probe.folder.join("image")
}

/// Reads what GNU ld (`undefined reference to`) or lld (`undefined symbol:`) says.
fn undefined_symbols(said: &str) -> Vec<String> {
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut function = String::new();
    for line in said.lines() {
        if let Some((_, name)) = line.split_once("in function ") {
            name.trim_end_matches(':').trim_matches(['`', '\'']).clone_into(&mut function);
        }
        let name = ["undefined reference to ", "undefined symbol: "]
            .iter()
            .find_map(|words| line.split_once(words))
            .map(|(_, name)| name.trim().trim_matches(['`', '\'']).to_owned());
        if let Some(name) = name {
            users.entry(name).or_default().extend((!function.is_empty()).then(|| function.clone()));
        }
    }
    let describe = |(name, users): (String, BTreeSet<String>)| {
        let by: Vec<_> = users.into_iter().take(3).collect();
        let by = if by.is_empty() { String::new() } else { format!(", used by {}", by.join(", ")) };
        format!("undefined symbol `{name}`{by}")
    };
    users.into_iter().map(describe).collect()
}

/// What the crate's objects and its dependencies' ask of others than Rust code.
pub(super) struct Foreign {
    /// Memory functions and arithmetic, which they may.
    pub(super) allowed: BTreeSet<String>,
    pub(super) faults: Vec<String>,
}

/// The probe has a few symbols more than these crates may use (`core` and `alloc` refer to them);
/// so what the objects ask for is looked at, too.
pub(super) fn foreign_symbols(objects: &Objects) -> Result<Foreign> {
    let mut command = Command::new("nm");
    command.args(["-P", "-A", "--undefined-only"]).args(&objects.own).args(&objects.dependencies);
    let said = process::stdout_of(&mut command)?;
    Ok(sort_out(said.lines().filter_map(crate_and_symbol)))
}

fn sort_out<'a>(symbols: impl Iterator<Item = (&'a str, &'a str)>) -> Foreign {
    let mut foreign = Foreign { allowed: BTreeSet::new(), faults: Vec::new() };
    for (ident, symbol) in symbols.collect::<BTreeSet<_>>() {
        let is_rust = symbol.starts_with("_R") || symbol.starts_with("_ZN");
        if is_rust || symbol == "_GLOBAL_OFFSET_TABLE_" {
            continue;
        }
        if MEMORY.contains(&symbol) || ARITHMETIC.contains(&symbol) {
            foreign.allowed.insert(symbol.to_owned());
        } else {
            foreign.faults.push(format!("foreign symbol `{symbol}` in the objects of {ident}"));
        }
    }
    foreign
}

/// The crate and the symbol of `path/name-hash.name.unit.rcgu.o: symbol U`.
fn crate_and_symbol(line: &str) -> Option<(&str, &str)> {
    let (path, rest) = line.split_once(": ")?;
    Some((crate_of(path.rsplit('/').next()?)?, rest.split_whitespace().next()?))
}

/// Instructions in the image that reach past the process, with the function they are in.
pub(super) fn forbidden_instructions(probe: &Probe) -> Result<Vec<String>> {
    let said = process::stdout_of(
        Command::new("objdump").args(["-d", "-C", "--no-show-raw-insn"]).arg(image(probe)),
    )?;
    Ok(instructions(&said))
}

fn instructions(disassembly: &str) -> Vec<String> {
    let mut function = "";
    let mut found = BTreeSet::new();
    for line in disassembly.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            function = name;
        }
        let Some((_, code)) = line.split_once('\t') else { continue };
        let mnemonic = code.split_whitespace().next().unwrap_or_default();
        // `int3` and `ud2` end the process and reach no one.
        if INSTRUCTIONS.contains(&mnemonic) {
            found.insert(format!("instruction `{mnemonic}` in {function}"));
        }
    }
    found.into_iter().collect()
}

/// Size of the linked image in bytes, for the report.
pub(super) fn size(probe: &Probe) -> u64 {
    fs::metadata(Path::new(&image(probe))).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_symbols_are_read_from_both_linkers() {
        let gnu = "ld: a.o: in function `planted':\na.rs:(.text+0x7): warning: undefined reference \
                   to `getpid'\nld: a.o:(.text+0x9): undefined reference to `getpid'\n";
        assert_eq!(undefined_symbols(gnu), ["undefined symbol `getpid`, used by planted"]);
        let lld = "ld.lld: error: undefined symbol: getpid\n>>> referenced by a.rs\n";
        assert_eq!(undefined_symbols(lld), ["undefined symbol `getpid`"]);
    }

    #[test]
    fn kernel_entries_are_found_and_traps_are_not() {
        let said = "0000000000401000 <a::b>:\n  401000:\tsyscall\n  401002:\tint3\n  \
                    401003:\tcall   401010 <int>\n";
        assert_eq!(instructions(said), ["instruction `syscall` in a::b"]);
    }

    #[test]
    fn only_memory_and_arithmetic_may_be_foreign() {
        let said = "x/a-1.a.0.rcgu.o: memcpy U\nx/a-1.a.0.rcgu.o: _ZN4core3fmt U\n\
                    x/b_c-2.b_c.0.rcgu.o: __udivti3 U 0 0\nx/b_c-2.b_c.0.rcgu.o: strlen U\n";
        let foreign = sort_out(said.lines().filter_map(crate_and_symbol));
        assert!(foreign.allowed.iter().eq(["__udivti3", "memcpy"]));
        assert_eq!(foreign.faults, ["foreign symbol `strlen` in the objects of b_c"]);
    }
}
