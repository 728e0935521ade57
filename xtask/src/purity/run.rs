//! Runs the proof for each crate and prints one line for each.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use super::image::{self, Foreign};
use super::probe::{self, Probe};
use crate::rules;

pub(crate) fn run(root: &Path, asked: &[String]) -> Result<()> {
    let crates = chosen(root, asked)?;
    let triple = probe::host_triple()?;
    let start = Instant::now();
    let mut failed = Vec::new();
    for name in &crates {
        let crate_start = Instant::now();
        let probe = Probe::new(root, name, &triple);
        match prove(root, &probe) {
            Ok(foreign) if foreign.faults.is_empty() => {
                let seconds = crate_start.elapsed().as_secs_f64();
                let (size, asks) = (image::size(&probe), Vec::from_iter(foreign.allowed).join(" "));
                println!("ok   {name}: {size} bytes, {seconds:.1} s, needs only: {asks}");
            }
            Ok(foreign) => {
                println!("FAIL {name}");
                for fault in foreign.faults {
                    println!("  crates/{name}: {fault}");
                }
                failed.push(name.as_str());
            }
            Err(error) => {
                println!("FAIL {name}\n{error}");
                failed.push(name.as_str());
            }
        }
    }
    println!("purity: {} crates in {:.1} s", crates.len(), start.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!(
            "purity: {} reach outside\nhint: pass in what they need; what is listed above is what \
             they asked for",
            failed.join(", ")
        );
    }
    Ok(())
}

/// The sans-IO crates that exist, or those asked for.
fn chosen(root: &Path, asked: &[String]) -> Result<Vec<String>> {
    let sans_io: Vec<&str> =
        rules::CRATES.iter().filter(|rule| rule.sans_io).map(|rule| rule.name).collect();
    if let Some(other) = asked.iter().find(|name| !sans_io.contains(&name.as_str())) {
        bail!("`{other}` is no sans-IO crate\nhint: they are {}", sans_io.join(", "));
    }
    let is_asked = |name: &&&str| asked.is_empty() || asked.iter().any(|asked| asked == **name);
    let exists = |name: &&&str| root.join("crates").join(name).join("Cargo.toml").exists();
    let chosen: Vec<String> =
        sans_io.iter().filter(is_asked).filter(exists).map(ToString::to_string).collect();
    if chosen.is_empty() {
        bail!("none of the sans-IO crates is there\nhint: they are {}", sans_io.join(", "));
    }
    Ok(chosen)
}

/// What the crate asks for; no faults is the proof.
fn prove(root: &Path, probe: &Probe) -> Result<Foreign> {
    probe.generate(root)?;
    probe.build()?;
    let objects = image::extract_objects(probe)?;
    let mut faults = image::link(probe, &objects)?;
    if faults.is_empty() {
        faults = image::forbidden_instructions(probe)?;
    }
    let mut foreign = image::foreign_symbols(&objects)?;
    foreign.faults.extend(faults);
    Ok(foreign)
}
