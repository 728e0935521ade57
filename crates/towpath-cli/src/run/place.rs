//! Which task runs where.

use anyhow::{Context, bail};
use towpath::start::{hostfile, hostlist, machines};
use towpath_vm::{Host, HostState};

use crate::control::{find_host, known_host};

/// A host with the number of tasks that it takes before others have their turn.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) host: Host,
    pub(super) slots: u16,
}

/// The hosts to choose from: those named, those of the file, else all that are up.
pub(super) fn rooms(
    hosts: &[Host],
    named: &[String],
    file: Option<&[hostfile::Machine]>,
) -> anyhow::Result<Vec<Room>> {
    let mut rooms: Vec<Room> = Vec::new();
    let mut add = |host: Host, slots: Option<u16>| {
        let slots = slots.unwrap_or(host.slots).max(1);
        match rooms.iter_mut().find(|r| r.host.id == host.id) {
            Some(room) => room.slots = room.slots.saturating_add(slots),
            None => rooms.push(Room { host, slots }),
        }
    };
    for part in named.iter().flat_map(|n| machines::split_outside_brackets(n)) {
        let (name, slots) = name_and_slots(hosts, part)?;
        if name.contains('[') {
            let names = hostlist::expand(name).with_context(|| format!("--host {part}"))?;
            for name in names {
                add(wanted(hosts, &name)?, slots);
            }
        } else {
            add(wanted(hosts, name)?, slots);
        }
    }
    for hostfile::Machine { name, options } in file.into_iter().flatten() {
        add(wanted(hosts, name)?, options.slots);
    }
    if named.is_empty() && file.is_none() {
        for host in hosts.iter().filter(|h| h.state == HostState::Up && !h.drains()) {
            add(host.clone(), None);
        }
    }
    if rooms.is_empty() {
        bail!("no host is up that may be given work\nhint: `towpath hosts` shows them");
    }
    Ok(rooms)
}

/// A host that was named, if it may be given something.
fn wanted(hosts: &[Host], name: &str) -> anyhow::Result<Host> {
    let host = find_host(hosts, name)?;
    if host.drains() {
        bail!(
            "host {} ({}) is drained: it is given nothing new\n\
             hint: `towpath host drain {} --undo` ends that",
            host.id,
            host.name,
            host.id
        );
    }
    Ok(host)
}

/// `h2:4` is four tasks on `h2`, unless a host has just that name.
fn name_and_slots<'a>(hosts: &[Host], part: &'a str) -> anyhow::Result<(&'a str, Option<u16>)> {
    match part.rsplit_once(':') {
        Some((name, slots)) if known_host(hosts, part).is_err() => {
            let slots = slots.parse().ok().filter(|n| (1..=1024).contains(n));
            Ok((
                name,
                Some(
                    slots.with_context(|| {
                        format!("--host {part}: slots are 1 to 1024, as in h2:4")
                    })?,
                ),
            ))
        }
        _ => Ok((part, None)),
    }
}

/// The room of each of `count` tasks: the first room's slots are filled first, or, to `spread`,
/// each room gets one in turn while it has slots. When all slots are used the rooms are gone
/// through again in the same way.
pub(super) fn place(count: usize, rooms: &[Room], spread: bool) -> Vec<usize> {
    let most = rooms.iter().map(|r| r.slots).max().unwrap_or(0);
    let by_slot = || {
        let rooms = rooms.iter().enumerate();
        rooms.flat_map(|(at, r)| std::iter::repeat_n(at, r.slots.into()))
    };
    let in_turn = || {
        (0..most).flat_map(|turn| {
            let rooms = rooms.iter().enumerate();
            rooms.filter(move |(_, r)| turn < r.slots).map(|(at, _)| at)
        })
    };
    let round: Vec<usize> = if spread { in_turn().collect() } else { by_slot().collect() };
    round.into_iter().cycle().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use towpath_wire::HostId;

    fn host(slot: u16, name: &str, slots: u16) -> Host {
        Host {
            id: HostId::new(slot, 1).unwrap(),
            name: name.into(),
            addr: ([127, 0, 0, 1], 7).into(),
            key: [slot as u8; 32],
            cpus: 2,
            slots,
            arch: String::new(),
            speed: 1000,
            state: HostState::Up,
            fields: towpath_vm::Fields::default(),
        }
    }

    fn hosts() -> Vec<Host> {
        vec![host(1, "a", 2), host(2, "b1", 1), host(3, "b2", 3), host(4, "odd:2", 1)]
    }

    fn slots(named: &[&str]) -> Vec<(u16, u16)> {
        let named: Vec<String> = named.iter().map(|n| (*n).into()).collect();
        let rooms = rooms(&hosts(), &named, None).unwrap();
        rooms.iter().map(|r| (r.host.id.slot(), r.slots)).collect()
    }

    #[test]
    fn rooms_are_what_was_named_else_everything() {
        assert_eq!(slots(&[]), [(1, 2), (2, 1), (3, 3), (4, 1)]);
        assert_eq!(slots(&["h3,a:5"]), [(3, 3), (1, 5)]);
        assert_eq!(slots(&["b[1-2]:4", "a"]), [(2, 4), (3, 4), (1, 2)]);
        assert_eq!(slots(&["odd:2"]), [(4, 1)], "a name goes before slots");
        assert_eq!(slots(&["odd:2:3,a,a"]), [(4, 3), (1, 4)]);
        for wrong in ["nobody", "a:0", "b[1", "a:x"] {
            assert!(rooms(&hosts(), &[wrong.into()], None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slots_are_filled_one_host_after_the_other_or_in_turn() {
        let rooms = rooms(&hosts(), &[], None).unwrap();
        assert_eq!(place(9, &rooms, false), [0, 0, 1, 2, 2, 2, 3, 0, 0]);
        assert_eq!(place(9, &rooms, true), [0, 1, 2, 3, 0, 2, 2, 0, 1]);
        assert_eq!(place(0, &rooms, true), [0; 0]);
    }

    proptest! {
        #[test]
        fn no_host_is_ahead_of_its_share_by_more_than_a_round(
            sizes in proptest::collection::vec(1..5u16, 1..6),
            count in 1..60usize,
            spread: bool,
        ) {
            let rooms: Vec<Room> = (1..).zip(&sizes)
                .map(|(slot, s)| Room { host: host(slot, "x", *s), slots: *s })
                .collect();
            let placed = place(count, &rooms, spread);
            prop_assert_eq!(placed.len(), count);
            let all: usize = sizes.iter().map(|s| usize::from(*s)).sum();
            for (at, slots) in sizes.iter().enumerate() {
                let tasks = placed.iter().filter(|p| **p == at).count();
                let slots = usize::from(*slots);
                prop_assert!(tasks >= count / all * slots);
                prop_assert!(tasks <= count.div_ceil(all) * slots);
            }
        }
    }
}
