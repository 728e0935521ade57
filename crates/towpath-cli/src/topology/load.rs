//! A topology from a file, with what to do when it is none.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use towpath_qos::topology::{Fault, Topology};

/// Bytes of one file of a person's making.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a text file that people write; `-` is standard input.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
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
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{shown} is longer than {FILE_BYTES_MAX} bytes, the limit");
    }
    Ok(text)
}

/// Reads and checks a topology.
pub(crate) fn load(path: &Path) -> anyhow::Result<Topology> {
    let text = read_text(path)?;
    let topology = Topology::parse(&text).map_err(|e| {
        let fault = fault_text(&e.fault);
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

/// The line, from 1, in which a byte of a text is.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
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

/// On one line.
fn fault_text(fault: &Fault) -> String {
    let text = fault.to_string();
    text.split('\n').map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}

fn hint(fault: &Fault) -> &'static str {
    match fault {
        Fault::Syntax(_) => "`towpath topology show --help` has an example",
        Fault::Range { .. } => "rates are in bit/s, times in ns, sizes in bytes",
        Fault::Duplicate(_) => "hosts and switches share their names; ports need one each per node",
        Fault::Name(_) => "a colon parts node and port, as in \"s1:uplink\"",
        Fault::UnknownNode(_) => "add a [[host]] or [[switch]] of this name",
        Fault::UnknownInterface(_) => "add it to the host's interfaces, or leave them all out",
        Fault::SelfLink(_) => "a link joins two nodes",
        Fault::Interface { .. } => "each interface or port is the end of one link",
        Fault::Budgets(_) => "fcfs has one budget, static_priority and rcsp 1 to 16 that rise",
        Fault::Unreachable { .. } => "only switches forward: join the parts by links of switches",
        Fault::Sessions => "leave sessions_max out, or make the scheduler drr or scfq",
    }
}
