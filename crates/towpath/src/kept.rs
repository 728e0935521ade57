//! Which daemon of this machine begins its virtual machine again, by what they kept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use towpath_io::RealCrypto;
use towpath_node::Saved;
use towpath_node::config::is_marked;
use towpath_proto::{Crypto, HostKey};

use crate::config::{ConfigError, HOST_KEY, VM_KEY, VmDir, key_file};
use crate::ledger::{self, LookError};
use crate::lock::is_locked;
use crate::table::{self, TableError};
use crate::token::Token;

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
    /// Where the others knew it.
    pub addr: Option<SocketAddr>,
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

/// The one that is to begin again: where none runs, or with `recover`, the one that kept the most;
/// else the first, where it kept a table. With `recover`, copies that cannot be used are passed
/// over where there is one that can: the last of them comes with it. `None` where nothing was kept,
/// or daemons run that are to be asked first.
///
/// # Errors
/// What was kept cannot be used.
pub fn returning(
    vm: &VmDir,
    recover: bool,
) -> Result<(Option<Returning>, Option<KeptError>), KeptError> {
    let all = vm.local_hosts()?;
    let runs = all.iter().any(|n| is_locked(&vm.host(*n)));
    let is_down = |n| !is_locked(&vm.host(n));
    let (mut kept, mut keys) = (Vec::new(), Vec::new());
    let mut unread: Option<KeptError> = None;
    for n in all {
        let dir = vm.host(n);
        keys.extend(host_key(&dir)?);
        let number = u16::try_from(n).ok().filter(|_| is_down(n));
        match number.map(|number| (number, table::read(&dir))) {
            Some((number, Ok(Some(saved)))) => kept.push(Kept { number, saved }),
            Some((_, Err(why))) => unread = Some(why.into()),
            _ => {}
        }
    }
    if recover || kept.iter().any(|kept| kept.saved.is_shared()) {
        kept.retain_mut(|kept| {
            let looked = ledger::look_at(&vm.host(kept.number.into()), &mut kept.saved);
            looked.map_err(|why| unread = Some(why.into())).is_ok()
        });
    }
    if let Some(why) = unread.take_if(|_| !recover || kept.is_empty()) {
        return Err(why);
    }
    // Of equals the first.
    let further = |a, b| if Kept::is_beyond(b, a) { b } else { a };
    let Some(furthest) = kept.iter().reduce(further) else { return Ok((None, None)) };
    let is_all = !runs && furthest.saved.is_shared() && furthest.saved.are_all(&keys);
    let first = kept.iter().find(|kept| kept.number == 1);
    let chosen = if recover || !runs { Some(furthest) } else { first };
    let own = chosen.map(|kept| host_key(&vm.host(kept.number.into()))).transpose()?.flatten();
    let returning = chosen.map(|kept| Returning {
        number: kept.number,
        is_shared: kept.saved.is_shared(),
        is_all,
        was_let_in: vm.host(kept.number.into()).join(VM_KEY).exists(),
        addr: own.and_then(|key| kept.saved.addr(&key)),
    });
    Ok((returning, unread))
}

/// The table of a daemon here that does not run, where it is of another virtual machine than the
/// token.
pub fn is_of_another(vm: &VmDir, token: &Token) -> Option<PathBuf> {
    let all = vm.local_hosts().ok()?.into_iter().map(|n| vm.host(n));
    let is_other = |dir: &PathBuf| {
        let saved = if is_locked(dir) { None } else { table::read(dir).ok().flatten() };
        saved.is_some_and(|saved| !is_of_one(dir, &saved, token))
    };
    all.into_iter().find(is_other).map(|dir| table::path(&dir))
}

/// Whether what a daemon in `dir` kept is of the virtual machine of the token: it knows one of the
/// hosts that the token names, or holds the key that the token is marked with.
pub(crate) fn is_of_one(dir: &Path, saved: &Saved, token: &Token) -> bool {
    let path = dir.join(VM_KEY);
    let made_it = path.exists()
        && key_file(&path).is_ok_and(|key| {
            let crypto = RealCrypto::new(key.clone());
            is_marked(&crypto, &key, &token.invitation.nonce)
        });
    made_it || token.leaders.iter().any(|leader| saved.knows(&leader.key))
}
