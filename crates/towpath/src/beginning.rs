//! How a host's node begins: as a founder, as a newcomer, or again, from what an earlier life kept.

use towpath_io::RealCrypto;
use towpath_node::{JoinTarget, Links, Node, NodeConfig, Saved};
use towpath_proto::Rng;
use towpath_wire::Instant;

use crate::config::{ConfigError, VM_KEY, key_file};
use crate::daemon::{DaemonError, DaemonOptions, Role, system};
use crate::engine::tokens;
use crate::keeper::Keeper;
use crate::kept::is_of_one;
use crate::ledger::{self, Ledger};
use crate::table;
use crate::token::{Leader, Token};

/// What this host has kept of an earlier life, for this one, and what keeps it on.
pub(crate) fn kept(
    options: &DaemonOptions,
) -> Result<(Option<Saved>, Option<Keeper>), DaemonError> {
    let mut saved = table::read(&options.dir)?;
    let was_let_in = options.dir.join(VM_KEY).exists();
    if let Role::Join(token) = &options.role {
        match &saved {
            Some(saved) if !is_of_one(&options.dir, saved, token) => {
                return Err(DaemonError::Elsewhere { table: table::path(&options.dir) });
            }
            Some(_) if was_let_in => {}
            _ => return Ok((None, None)),
        }
    }
    // Where others may lead by now, it asks them, and what it had decided stays as it is.
    let follows = !options.recover && saved.as_ref().is_some_and(Saved::is_shared);
    let mut ledger = None;
    match &mut saved {
        Some(saved) if follows => ledger::look_at(&options.dir, saved)?,
        saved => ledger = Some(Ledger::open(&options.dir, saved.as_mut())?),
    }
    let saved = saved.map(|saved| if was_let_in { saved.let_in() } else { saved });
    let saved = saved.map(|saved| if options.recover { saved.alone() } else { saved });
    let saved = saved.map(|saved| table::begin(&options.dir, saved)).transpose()?;
    let keeper = Keeper::start(&options.dir, ledger).map_err(system("starting the keeper"))?;
    Ok((saved, Some(keeper)))
}

/// The node of a newcomer, or of the founder with the tokens that it has issued in earlier lives.
pub(crate) fn node(
    options: &DaemonOptions,
    config: NodeConfig,
    crypto: RealCrypto,
    now: Instant,
    saved: Option<Saved>,
) -> Result<Node, DaemonError> {
    let seed = RealCrypto::generate_secret();
    let rng = Rng::new(u64::from_le_bytes(first_eight(&seed)), 0);
    let crypto = Box::new(crypto);
    let issued = || tokens::load(&options.dir).map_err(ConfigError::from);
    let (vm_key, saved) = match (&options.role, saved) {
        (Role::Found(vm_key), None) => {
            let issued = issued()?;
            let mut node = Node::found(config, crypto, rng, vm_key.clone());
            node.restore_invitations(now, issued);
            return Ok(node);
        }
        (Role::Join(token), None) => {
            let target = target(token, &config.links);
            return Ok(Node::join(now, config, crypto, rng, target));
        }
        (Role::Found(vm_key), Some(saved)) => (vm_key.clone(), saved),
        (Role::Join(token), Some(saved)) => {
            let vm_key = key_file(&options.dir.join(VM_KEY))?;
            (vm_key, saved.or_by(target(token, &config.links)))
        }
    };
    let issued = issued()?;
    let mut node = Node::found_again(now, config, crypto, rng, vm_key, saved)
        .map_err(|why| DaemonError::Saved { dir: options.dir.clone(), why })?;
    node.restore_invitations(now, issued);
    Ok(node)
}

/// Where a token leads.
fn target(token: &Token, links: &Links) -> JoinTarget {
    let host =
        |leader: &Leader| (links.nearest(&leader.addrs).unwrap_or(leader.addrs[0]), leader.key);
    let mut hosts = token.leaders.iter().map(host);
    let (addr, key) = hosts.next().expect("a token names one host at least");
    JoinTarget { addr, key, others: hosts.collect(), invitation: token.invitation.clone() }
}

fn first_eight(bytes: &[u8; 32]) -> [u8; 8] {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[..8]);
    out
}
