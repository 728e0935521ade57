//! A topology from a file, with what to do when it is none.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use towpath_qos::file::FileError;
use towpath_qos::topology::{FILE_BYTES_MAX, Fault, Topology};

/// Reads a text file of at most `bytes_max` that people write; `-` is standard input.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> anyhow::Result<String> {
    let shown = crate::files::shown(path);
    let mut text = String::new();
    if path.is_dir() {
        bail!("{shown} is a directory\nhint: give a file");
    }
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(fs::File::open(path).with_context(|| format!("cannot open {shown}"))?)
    };
    source
        .take(bytes_max as u64 + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() > bytes_max {
        bail!("{shown} is longer than {bytes_max} bytes, the limit");
    }
    Ok(text)
}

/// Reads and checks a topology.
pub(crate) fn load(path: &Path) -> anyhow::Result<Topology> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    let topology = Topology::parse(&text).map_err(|e| {
        let fault = e.fault.to_string();
        anyhow!("{}", at_line(path, &text, e.line, &fault, hint(&e.fault)))
    })?;
    if topology.nodes().is_empty() {
        bail!(
            "{} has no hosts\nhint: `towpath topology show --help` has an example",
            crate::files::shown(path)
        );
    }
    Ok(topology)
}

/// What is wrong with a file, with the line it is in.
pub(crate) fn in_file(path: &Path, text: &str, e: &FileError, hint: &str) -> anyhow::Error {
    anyhow!("{}", at_line(path, text, e.line, &e.message, hint))
}

/// A fault with the line it is in.
pub(crate) fn at_line(path: &Path, text: &str, line: usize, fault: &str, hint: &str) -> String {
    let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let shown: String = shown.trim_end().chars().filter(|c| !c.is_control()).take(100).collect();
    let mut out = format!("{}, line {line}: {fault}", crate::files::shown(path));
    if !shown.is_empty() {
        // Writing to a string cannot fail, here and below.
        let _ = write!(out, "\n  {line:>4} | {shown}");
    }
    if !hint.is_empty() {
        let _ = write!(out, "\nhint: {hint}");
    }
    out
}

fn hint(fault: &Fault) -> &'static str {
    match fault {
        Fault::Syntax(_) => "`towpath topology show --help` has an example",
        Fault::Range { .. } => "rates are in bit/s, times in ns, sizes in bytes",
        Fault::Duplicate(_) => "hosts and switches share their names; ports need one each per node",
        Fault::Name(_) => "a colon parts node and port, as in \"s1:uplink\"",
        Fault::UnknownNode(_) => "add a [[host]] or [[switch]] of this name",
        Fault::UnknownInterface(_) => "add it to the host's interfaces, or leave them all out",
        Fault::SelfLink(_) | Fault::Ends(_) => "a link joins two nodes",
        Fault::Interface { .. } => "each interface or port is the end of one link",
        Fault::Budgets(_) => "fcfs has one budget, priority and rcsp 1 to 16 that rise",
        Fault::Unreachable { .. } => "only switches forward: join the parts by links of switches",
        Fault::Sessions => "leave sessions_max out, or make the scheduler drr or scfq",
    }
}
