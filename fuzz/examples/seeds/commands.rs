//! Commands of the replicated log, and a state of which they make something.

use towpath_vm::control::{Command, ControlState, Drain, Invite, Join};
use towpath_vm::invitations::{Issued, Secret, Shown};
use towpath_vm::{Fields, HostTable, Snapshot};
use towpath_wire::HostId;

pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut state = ControlState::from_snapshot(nobody());
    state.apply(1, Command::Invite(invite()));
    state.apply(2, Command::Join(join()));
    vec![
        ("invite", Command::Invite(invite()).encode()),
        ("drain", Command::Drain(Drain { host: leader(), on: true }).encode()),
        ("revoke", Command::Revoke([7; 16]).encode()),
        ("join_by_token", Command::Join(join()).encode()),
        ("state_with_token", state.encode()),
    ]
}

fn invite() -> Invite {
    let issued = Issued {
        nonce: [7; 16],
        secret: Secret([8; 32]),
        expiry_unix_s: 3600,
        uses_max: Some(2),
        uses: 0,
        revoked: false,
    };
    Invite { issued, at_unix_s: 60 }
}

/// A newcomer with that token.
fn join() -> Join {
    let (name, addr) = ("node".into(), ([10, 0, 0, 2], 7077).into());
    let (key, arch, speed, cpus, slots) = ([2; 32], "any".into(), 1000, 2, 2);
    let (fields, token) = (Fields::default(), Some(Shown { nonce: [7; 16], at_unix_s: 61 }));
    Join { key, name, addr, arch, speed, cpus, slots, fields, token }
}

fn leader() -> HostId {
    HostId::new(1, 1).expect("in range")
}

/// The hosts of a virtual machine of which nothing is known.
fn nobody() -> Snapshot {
    let leader = leader();
    let (voters, table) = (vec![leader], HostTable::default());
    Snapshot { term: 1, index: 1, leader, lost_after_ms: 1500, voters, table }
}
