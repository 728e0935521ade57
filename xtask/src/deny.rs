//! `cargo xtask deny`: bans, licences and sources of all dependencies, by cargo-deny.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process;
use crate::report::WithHint;

/// The version this was written with.
const VERSION: &str = "0.20.2";

/// Whether cargo-deny can say anything here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    NotInstalled,
    /// It works on every dependency of every platform, and some are not on this machine.
    NotDownloaded,
    Ready,
}

pub(crate) fn readiness(root: &Path) -> Result<Readiness> {
    if !process::capture(process::cargo(root).args(["deny", "--version"]))?.success {
        return Ok(Readiness::NotInstalled);
    }
    let mut metadata = process::cargo(root);
    metadata.args(["metadata", "--offline", "--all-features", "--format-version", "1"]);
    let outcome = process::capture(&mut metadata)?;
    let is_missing = !outcome.success && outcome.stderr.contains("--offline was specified");
    Ok(if is_missing { Readiness::NotDownloaded } else { Readiness::Ready })
}

pub(crate) fn run(root: &Path, advisories: bool) -> Result<()> {
    match readiness(root)? {
        Readiness::NotInstalled => {
            println!("SKIPPED deny: cargo-deny is not installed; NOTHING was checked");
            println!("hint: `cargo install cargo-deny --locked --version {VERSION}`");
            return Ok(());
        }
        Readiness::NotDownloaded => bail!(
            "deny: some dependencies (of other platforms) are not on this machine\n\
             hint: run `cargo fetch --locked` once"
        ),
        Readiness::Ready => check(root, true, &["bans", "licenses", "sources"])?,
    }
    if advisories {
        check(root, false, &["advisories"])?;
    }
    Ok(())
}

fn check(root: &Path, offline: bool, what: &[&str]) -> Result<()> {
    let mut command = process::cargo(root);
    command.arg("deny");
    if offline {
        command.arg("--offline");
    }
    command.arg("check").args(what);
    let status = command.status().hint(|| "cannot run cargo-deny".into(), "install it again")?;
    let what = what.join(", ");
    if !status.success() {
        bail!(
            "deny: {what} failed\nhint: replace the dependency; deny.toml changes only with a \
             decision record"
        );
    }
    println!("ok   deny: {what}");
    Ok(())
}
