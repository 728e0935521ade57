//! `status`: how the virtual machine stands, and what may fail next.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use towpath::VmDir;
use towpath::protocol::{Info, Reply, Request, VoterSeen};
use towpath_report::text::visible;
use towpath_vm::{Host, HostState};
use towpath_wire::HostId;

use crate::clocks::ahead_us;
use crate::control::{self, ANSWER, connect, host_table};

/// Clocks that are further apart stand out, in microseconds.
const APART_US: u64 = 2_000_000;
/// Pairs of hosts that cannot reach each other are named up to so many.
const APART_TOLD: usize = 8;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath status
  towpath status --json

Says who leads and who may, how far each of those that keep the log has it, and how far its clock
is from the leader's, which hosts are silent, lost or drained, which cannot reach each other, and
which losses the virtual machine would bear now. How far the others are only the host that leads can
tell: ask on its machine.

Exit status: 0 nothing stands out, 1 something does, 255 could not ask.")]
pub(crate) struct StatusArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What is known of the virtual machine.
struct Health {
    info: Info,
    hosts: Vec<Host>,
    /// Term and entries, where the host that leads was asked.
    log: Option<(u64, u64)>,
    voters: Vec<VoterSeen>,
    /// Pairs of hosts that cannot reach each other.
    apart: Vec<(HostId, HostId)>,
    /// By how many microseconds their clocks are ahead of that of whoever leads.
    ahead_us: BTreeMap<HostId, i64>,
    trouble: Vec<String>,
}

pub(crate) fn status(vm: &VmDir, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let health = ask(vm)?;
    let (bears, notes) = health.outlook();
    if args.json {
        putln!("{}", health.json(bears, &notes))?;
    } else {
        health.print()?;
        for note in &notes {
            putln!("  {note}")?;
        }
    }
    for line in &health.trouble {
        eprintln!("{line}");
    }
    Ok(ExitCode::from(u8::from(health.stands_out())))
}

fn ask(vm: &VmDir) -> anyhow::Result<Health> {
    let mut client = match control::leader(vm) {
        Ok(client) => client,
        Err(_) => connect(vm)?,
    };
    let info = client.info()?;
    let hosts = host_table(&mut client)?;
    let Reply::Voters(seen) = client.ask(&Request::Voters, ANSWER)? else {
        bail!("the daemon answers something else than was asked");
    };
    let mut trouble = control::stopped(vm)?;
    for line in control::infos(vm)?.into_iter().flat_map(|info| info.trouble) {
        if !trouble.contains(&line) {
            trouble.push(line);
        }
    }
    let log = (!seen.voters.is_empty()).then_some((seen.term, seen.entries));
    let voters = if log.is_some() { seen.voters } else { guessed(&info) };
    // Of one that is silent nobody waits for an answer.
    let heard = voters.iter().filter(|v| v.heard).map(|v| v.host);
    let (first, rest): (Vec<HostId>, Vec<HostId>) = heard.partition(|h| Some(*h) == info.leader);
    let ahead_us =
        if info.frozen { BTreeMap::new() } else { ahead_us(vm, &[first, rest].concat()) };
    Ok(Health { info, hosts, log, voters, apart: seen.apart, ahead_us, trouble })
}

/// Those that may lead, as another host knows them.
fn guessed(info: &Info) -> Vec<VoterSeen> {
    let own = [info.leader].into_iter().flatten().filter(|_| info.voters.is_empty());
    let seen = |host| VoterSeen {
        host,
        votes: true,
        heard: !(info.silent.contains(&host) || info.frozen && info.leader == Some(host)),
        behind: 0,
    };
    info.voters.iter().copied().chain(own).map(seen).collect()
}

impl Health {
    fn called(&self, id: HostId) -> String {
        let name = self.hosts.iter().find(|h| h.id == id).map_or("?", |h| &h.name);
        format!("{id} ({})", visible(name))
    }

    fn counts(&self) -> [(&'static str, Vec<HostId>); 4] {
        let is_silent = |h: &&Host| self.info.silent.contains(&h.id);
        let up = || self.hosts.iter().filter(|h| h.state == HostState::Up);
        let lost = self.hosts.iter().filter(|h| h.state == HostState::Lost);
        let ids = |hosts: &mut dyn Iterator<Item = &Host>| hosts.map(|h| h.id).collect();
        [
            ("up", ids(&mut up().filter(|h| !is_silent(h)))),
            ("silent", ids(&mut up().filter(is_silent))),
            ("lost", ids(&mut { lost })),
            ("drained", ids(&mut up().filter(|h| h.drains()))),
        ]
    }

    fn stands_out(&self) -> bool {
        let [_, (_, silent), (_, lost), _] = self.counts();
        let unheard = self.voters.iter().any(|v| !v.heard);
        self.info.frozen
            || unheard
            || self.apart_us() > APART_US
            || !self.trouble.is_empty()
            || !silent.is_empty()
            || !self.apart.is_empty()
            || !lost.is_empty()
    }

    fn print(&self) -> anyhow::Result<()> {
        let leader = self.info.leader.map_or("nobody leads".into(), |leader| {
            let leads = if self.info.frozen { "led, and is lost" } else { "leads" };
            format!("{} {leads}", self.called(leader))
        });
        let log = self
            .log
            .map_or(String::new(), |(term, entries)| format!(", term {term}, entry {entries}"));
        putln!("virtual machine {}: {leader}{log}", self.info.vm)?;
        let counts =
            self.counts().into_iter().filter(|(name, ids)| *name == "up" || !ids.is_empty());
        let told = counts.map(|(name, ids)| {
            let which: Vec<String> = ids.iter().take(12).map(ToString::to_string).collect();
            let which =
                if name == "up" { String::new() } else { format!(" ({})", which.join(", ")) };
            format!("{} {name}{which}", ids.len())
        });
        putln!("hosts: {}", told.collect::<Vec<_>>().join(", "))?;
        putln!("keep the log:")?;
        for voter in &self.voters {
            let what = match voter {
                v if Some(v.host) == self.info.leader && !self.info.frozen => "leads".into(),
                VoterSeen { heard: false, .. } => "not heard".into(),
                VoterSeen { behind: 0, .. } if self.log.is_some() => "heard, has all".into(),
                VoterSeen { behind, .. } if self.log.is_some() => {
                    format!("heard, lacks {behind} of the log")
                }
                _ => "may lead".to_string(),
            };
            let vote = if voter.votes { "" } else { ", does not vote" };
            let clock = self.clock(voter.host);
            putln!("  {:<28} {what}{vote}{clock}", self.called(voter.host))?;
        }
        putln!("what may fail next:")?;
        Ok(())
    }

    /// How far a host's clock is from that of whoever leads, where people would see it.
    fn clock(&self, host: HostId) -> String {
        let us = self.ahead_us.get(&host).copied().unwrap_or(0);
        let (s, tenths) = (us.unsigned_abs() / 1_000_000, us.unsigned_abs() / 100_000 % 10);
        match us {
            _ if s + tenths == 0 => String::new(),
            1.. => format!(", its clock is {s}.{tenths} s ahead"),
            _ => format!(", its clock is {s}.{tenths} s behind"),
        }
    }

    /// How far the clocks of those that keep the log are apart.
    fn apart_us(&self) -> u64 {
        let all = || self.ahead_us.values().copied();
        all().max().zip(all().min()).map_or(0, |(most, least)| most.abs_diff(least))
    }

    /// How many of those that vote may be lost now, and what follows, in words.
    fn outlook(&self) -> (usize, Vec<String>) {
        let votes: Vec<&VoterSeen> = self.voters.iter().filter(|v| v.votes).collect();
        let heard: Vec<&VoterSeen> = votes.iter().filter(|v| v.heard).copied().collect();
        let most = votes.len() / 2 + 1;
        let bears = heard.len().saturating_sub(most);
        let called = |voters: &[&VoterSeen]| -> Vec<String> {
            voters.iter().map(|v| v.host.to_string()).collect()
        };
        let mut notes = Vec::new();
        if self.info.frozen {
            notes.push(
                "nobody leads: hosts can neither join nor leave, and groups and mailboxes wait; \
                 what runs goes on"
                    .into(),
            );
        } else if votes.len() <= 1 {
            let alone = called(&votes).join("");
            notes.push(format!(
                "{alone} alone keeps the log: without it hosts can neither join nor leave, and \
                 groups and mailboxes wait, until it is started again (three or more hosts keep it \
                 together, unless the first was started with `up --voters 1`)"
            ));
        } else if bears == 0 {
            notes.push(format!(
                "of {} none may be lost now: nothing could be decided until all that vote were \
                 started again, or one told to `towpath up --recover`",
                called(&heard).join(", ")
            ));
        } else {
            notes.push(format!(
                "any {bears} of {} may be lost: another one leads within 2 s",
                called(&heard).join(", ")
            ));
        }
        if self.apart_us() > APART_US {
            notes.push(format!(
                "clocks are {} s apart: tokens end by that of whoever leads (set them by NTP; no \
                 daemon has to be started again)",
                self.apart_us() / 1_000_000
            ));
        }
        for (addr, hosts) in self.shared_machines(&votes) {
            if hosts.len() > votes.len() - most {
                notes.push(format!(
                    "{} are on one machine ({addr}): without it too few are left that vote",
                    hosts.join(", ")
                ));
            }
        }
        notes.extend(self.apart_words());
        (bears, notes)
    }

    /// Which hosts cannot reach each other.
    fn apart_words(&self) -> Option<String> {
        let (first, more) = self.apart.split_at(self.apart.len().min(APART_TOLD));
        let pairs: Vec<String> = first.iter().map(|(a, b)| format!("{a} and {b}")).collect();
        let more = if more.is_empty() { String::new() } else { format!(", {} more", more.len()) };
        (!pairs.is_empty()).then(|| {
            format!(
                "{}{more} cannot reach each other, though both are here: what one asks of the \
                 other fails (look at routes and packet filters between them)",
                pairs.join("; ")
            )
        })
    }

    /// Addresses that several of these have.
    fn shared_machines(&self, votes: &[&VoterSeen]) -> BTreeMap<IpAddr, Vec<String>> {
        let mut by_addr: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
        for voter in votes {
            if let Some(host) = self.hosts.iter().find(|h| h.id == voter.host) {
                by_addr.entry(host.addr.ip()).or_default().push(voter.host.to_string());
            }
        }
        by_addr.retain(|_, hosts| hosts.len() > 1);
        by_addr
    }

    fn json(&self, bears: usize, notes: &[String]) -> serde_json::Value {
        let voters: Vec<_> = self
            .voters
            .iter()
            .map(|v| {
                json!({
                    "host": v.host.to_string(), "votes": v.votes, "heard": v.heard,
                    "behind": self.log.map(|_| v.behind),
                    "clock_ahead_s": self.ahead_us.get(&v.host).map(|us| *us as f64 / 1e6),
                })
            })
            .collect();
        let hosts: BTreeMap<&str, Vec<String>> = self
            .counts()
            .into_iter()
            .map(|(name, ids)| (name, ids.iter().map(ToString::to_string).collect()))
            .collect();
        let apart: Vec<[String; 2]> =
            self.apart.iter().map(|(a, b)| [a.to_string(), b.to_string()]).collect();
        json!({
            "vm": self.info.vm,
            "leader": self.info.leader.map(|id| id.to_string()),
            "frozen": self.info.frozen,
            "term": self.log.map(|(term, _)| term),
            "entries": self.log.map(|(_, entries)| entries),
            "voters": voters, "hosts": hosts, "apart": apart, "may_be_lost": bears, "notes": notes,
            "trouble": self.trouble,
        })
    }
}

#[cfg(test)]
mod tests {
    use towpath_vm::Fields;

    use super::*;

    fn host(slot: u16, machine: u8, state: HostState) -> Host {
        Host {
            id: HostId::new(slot, slot.into()).unwrap(),
            name: format!("n{slot}"),
            addr: ([10, 0, 0, machine], 7000).into(),
            key: [slot as u8; 32],
            arch: "any".into(),
            speed: 1000,
            cpus: 1,
            slots: 1,
            state,
            fields: Fields::default(),
        }
    }

    /// A machine of five hosts, of which these vote, and these of them are not heard.
    fn health(votes: &[u16], unheard: &[u16]) -> Health {
        let hosts: Vec<Host> =
            (1..=5).map(|slot| host(slot, slot as u8 / 2, HostState::Up)).collect();
        let seen = |slot: &u16| VoterSeen {
            host: hosts[usize::from(*slot) - 1].id,
            votes: true,
            heard: !unheard.contains(slot),
            behind: 0,
        };
        let voters: Vec<VoterSeen> = votes.iter().map(seen).collect();
        let info = Info {
            version: "1".into(),
            vm: "default".into(),
            me: Some(hosts[0].id),
            leader: Some(hosts[0].id),
            voters: Vec::new(),
            frozen: false,
            silent: Vec::new(),
            pid: 1,
            trouble: Vec::new(),
            counters: Vec::new(),
        };
        let (ahead_us, trouble) = (BTreeMap::new(), Vec::new());
        let apart = Vec::new();
        Health { info, hosts, log: Some((1, 9)), voters, apart, ahead_us, trouble }
    }

    #[test]
    fn what_may_be_lost_is_what_leaves_most_of_those_that_vote() {
        for (votes, unheard, bears, says) in [
            (&[1u16][..], &[][..], 0, "alone keeps the log"),
            (&[1, 3, 4], &[], 1, "any 1 of h1"),
            (&[1, 3, 4], &[4], 0, "none may be lost now"),
            (&[1, 2, 3, 4, 5], &[], 2, "any 2 of h1"),
            (&[1, 2, 3, 4, 5], &[3], 1, "any 1 of h1"),
        ] {
            let health = health(votes, unheard);
            let (may, notes) = health.outlook();
            assert_eq!(may, bears, "{votes:?} without {unheard:?}");
            assert!(notes[0].contains(says), "{notes:?}");
            assert_eq!(health.stands_out(), !unheard.is_empty());
        }
    }

    #[test]
    fn votes_that_go_with_one_machine_are_named() {
        // The second and the third share one.
        let (_, notes) = health(&[1, 2, 3], &[]).outlook();
        assert!(notes[1].starts_with("h2.2, h3.3 are on one machine (10.0.0.1)"), "{notes:?}");
        assert_eq!(health(&[1, 2, 4], &[]).outlook().1.len(), 1);
        assert_eq!(health(&[1, 2, 3, 4, 5], &[]).outlook().1.len(), 1, "three are left");
    }

    #[test]
    fn hosts_that_cannot_reach_each_other_stand_out_and_are_named() {
        let mut health = health(&[1, 2, 3], &[]);
        assert!(!health.stands_out() && health.apart_words().is_none());
        let id = |slot: u16| HostId::new(slot, slot.into()).unwrap();
        health.apart = (2..11).map(|slot| (id(1), id(slot))).collect();
        let words = health.outlook().1.pop().unwrap();
        assert!(words.starts_with("h1.1 and h2.2; h1.1 and h3.3;"), "{words}");
        assert!(words.contains("h1.1 and h9.9, 1 more cannot reach each other"), "{words}");
        assert!(health.stands_out());
        assert_eq!(health.json(1, &[])["apart"][0], json!(["h1.1", "h2.2"]));
    }

    #[test]
    fn a_clock_that_is_wrong_stands_out() {
        let mut health = health(&[1, 3, 4], &[]);
        let ids: Vec<HostId> = health.voters.iter().map(|v| v.host).collect();
        health.ahead_us = [(ids[0], 0), (ids[1], 49_000), (ids[2], -1_900_000)].into();
        let clocks = ids.iter().map(|id| health.clock(*id)).collect::<Vec<_>>();
        assert_eq!(clocks, ["", "", ", its clock is 1.9 s behind"]);
        assert!(!health.stands_out());
        health.ahead_us.insert(ids[1], 3_600_000_000);
        assert_eq!(health.clock(ids[1]), ", its clock is 3600.0 s ahead");
        assert!(health.stands_out());
        let notes = health.outlook().1;
        assert!(notes.iter().any(|n| n.starts_with("clocks are 3601 s apart")), "{notes:?}");
    }

    #[test]
    fn another_host_than_the_leader_says_what_it_knows() {
        let mut info = health(&[1], &[]).info;
        let ids: Vec<HostId> = (1..=3).map(|slot| host(slot, 1, HostState::Up).id).collect();
        info.voters.clone_from(&ids);
        info.silent = vec![ids[2]];
        let heard: Vec<bool> = guessed(&info).iter().map(|v| v.heard).collect();
        assert_eq!(heard, [true, true, false]);
        info.frozen = true;
        assert!(!guessed(&info)[0].heard);
        info.voters.clear();
        assert_eq!(guessed(&info).len(), 1);
    }
}
