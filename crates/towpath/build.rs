//! Names this build after the sources of everything that takes part in what clients, daemons and
//! hosts tell each other: two builds that could read each other's words differently have different
//! names, wherever and whenever they were made.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Crates whose types and rules those words are made of.
const CRATES: [&str; 5] =
    ["towpath", "towpath-node", "towpath-proto", "towpath-vm", "towpath-wire"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = own.parent().unwrap_or(Path::new("..")).to_path_buf();
    let mut found = Vec::new();
    for name in CRATES {
        let dir = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", dir.display());
        sources(&dir, &mut found)?;
    }
    found.sort();
    // FNV-1a: it need only tell builds apart.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for path in found {
        add(path.strip_prefix(&crates).unwrap_or(&path).as_os_str().as_encoded_bytes());
        add(&fs::read(&path)?);
    }
    println!("cargo::rustc-env=TOWPATH_BUILD={:012x}", hash >> 16);
    Ok(())
}
