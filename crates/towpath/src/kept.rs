//! Which daemon of this machine begins its virtual machine again, by what they kept.

use std::path::{Path, PathBuf};

use towpath_io::RealCrypto;
use towpath_node::Saved;
use towpath_proto::{Crypto, HostKey};

use crate::config::{ConfigError, HOST_KEY, VM_KEY, VmDir, key_file};
use crate::ledger::{self, LookError};
use crate::lock::is_locked;
use crate::table::{self, TableError};

/// Why that cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Files cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A table cannot be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// What was decided cannot be used.
    #[error(transparent)]
    Look(#[from] LookError),
}

/// A daemon of this machine that can begin its virtual machine again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// Its number.
    pub number: u16,
    /// Others may lead by now.
    pub is_shared: bool,
    /// All hosts are daemons of this machine, and none runs: nobody can lead elsewhere.
    pub is_all: bool,
    /// It was let in by another machine, and holds that one's key.
    pub was_let_in: bool,
}

/// What one of them kept.
struct Kept {
    number: u16,
    saved: Saved,
}

impl Kept {
    fn is_beyond(&self, other: &Self) -> bool {
        self.saved.kept_to().is_beyond(&other.saved.kept_to())
    }
}

fn host_key(dir: &Path) -> Result<Option<HostKey>, ConfigError> {
    let path = dir.join(HOST_KEY);
    let key = path.exists().then(|| key_file(&path)).transpose()?;
    Ok(key.map(|key| RealCrypto::new(key).public_key()))
}

/// The one that is to begin again: the first, where it kept a table; else, where none runs, the
/// one that kept the most. With `recover`, or where all hosts are daemons of this machine and none
/// runs, always that one. `None` where nothing was kept, or daemons run that are to be asked first.
///
/// # Errors
/// What was kept cannot be used.
pub fn returning(vm: &VmDir, recover: bool) -> Result<Option<Returning>, KeptError> {
    let all = vm.local_hosts()?;
    let runs = all.iter().any(|n| is_locked(&vm.host(*n)));
    let is_down = |n| !is_locked(&vm.host(n));
    let (mut kept, mut keys) = (Vec::new(), Vec::new());
    for n in all {
        let dir = vm.host(n);
        keys.extend(host_key(&dir)?);
        let saved = if is_down(n) { table::read(&dir)? } else { None };
        kept.extend(saved.zip(u16::try_from(n).ok()).map(|(saved, number)| Kept { number, saved }));
    }
    if recover || kept.iter().any(|kept| kept.saved.is_shared()) {
        for kept in &mut kept {
            ledger::look_at(&vm.host(kept.number.into()), &mut kept.saved)?;
        }
    }
    // Of equals the first.
    let further = |a, b| if Kept::is_beyond(b, a) { b } else { a };
    let Some(furthest) = kept.iter().reduce(further) else { return Ok(None) };
    let is_all = !runs && furthest.saved.is_shared() && furthest.saved.are_all(&keys);
    let first = kept.iter().find(|kept| kept.number == 1);
    let chosen = if recover || is_all { Some(furthest) } else { first };
    let chosen = chosen.or((!runs).then_some(furthest));
    Ok(chosen.map(|kept| Returning {
        number: kept.number,
        is_shared: kept.saved.is_shared(),
        is_all,
        was_let_in: vm.host(kept.number.into()).join(VM_KEY).exists(),
    }))
}

/// The table of a daemon here that does not run, where it is of another virtual machine than that
/// of hosts with these keys.
pub fn is_of_another(vm: &VmDir, keys: &[HostKey]) -> Option<PathBuf> {
    let all = vm.local_hosts().ok()?.into_iter().map(|n| vm.host(n));
    let is_other = |dir: &PathBuf| {
        let saved = if is_locked(dir) { None } else { table::read(dir).ok().flatten() };
        saved.is_some_and(|saved| !keys.iter().any(|key| saved.knows(key)))
    };
    all.into_iter().find(is_other).map(|dir| table::path(&dir))
}
