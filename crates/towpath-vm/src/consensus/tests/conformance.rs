//! Scripts of a known Raft (the repository etcd-io/raft, commit cdfbeed3149e, Apache-2.0; not
//! carried here): the same elections, logs, terms, votes and commits where the rules are the same.
//! `TOWPATH_RAFT` names the folder that has its `testdata` and `quorum/testdata`.
//!
//! Its other scripts differ by design:
//!
//! - `prevote`, `checkquorum`: both are always on: nobody asks for votes, or gives any, while
//!   a leader is heard.
//! - `confchange_v2_*`, `joint_*`: members change by one at a time; no majority is a joint one.
//! - `confchange_v1_*`, `campaign_learner_must_vote`: a change holds from its entry on, not from
//!   its commit.
//! - `forget_leader*`: there is no such order, and no lease reads.
//! - `async_storage_writes*`: every write is asynchronous; an acknowledgement names its write.
//! - `snapshot_*`, `slow_follower_*`: snapshots go in pieces; the log is cut at what was applied.
//! - `replicate_pause`, `lagging_commit`, `heartbeat_*`: other messages, the same outcome, which is
//!   tested beside this.

use alloc::collections::BTreeSet;
use alloc::string::String;
use std::format;

use super::*;
use crate::consensus::quorum::{Tally, held_by_most, tally};

/// A file of that folder, if there is one.
fn script(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("TOWPATH_RAFT").map(std::path::PathBuf::from) else {
        towpath_skip::skip("TOWPATH_RAFT names no folder of a known Raft's scripts");
        return None;
    };
    let file = folder.join(name);
    Some(std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
}

/// One order and what it prints.
struct Order<'a> {
    words: Vec<&'a str>,
    output: Vec<&'a str>,
}

/// Orders: lines without comments, a line of dashes, then what is printed, up to an empty line.
fn orders(script: &str) -> Vec<Order<'_>> {
    let mut all = Vec::new();
    let mut lines = script.lines().filter(|l| !l.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        let words = line.split_whitespace().collect();
        assert_eq!(lines.next(), Some("----"), "{line}");
        let mut output = Vec::new();
        while let Some(line) = lines.next_if(|l| !l.trim().is_empty()) {
            output.push(line);
        }
        all.push(Order { words, output });
    }
    all
}

/// What is named `name=value`, and the numbers in it.
fn numbers(words: &[&str], name: &str) -> Option<Vec<u64>> {
    let value = words.iter().find_map(|w| w.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect())
}

fn begin(words: &[&str]) -> Net {
    let voters = numbers(words, "voters").expect("there are some");
    let index = numbers(words, "index").expect("it begins somewhere")[0];
    let members = Members::of(voters.iter().copied().map(ReplicaId));
    let mut net = Net::of(0);
    for id in voters {
        let state = Vec::new();
        let snapshot = Snapshot { index, term: 1, members: members.clone(), state };
        let stored = Stored { term: 0, vote: None, snapshot, entries: Vec::new() };
        net.replicas.insert(id, Replica::new(config(), identity(id), stored));
    }
    net
}

fn deliver(net: &mut Net, to: &BTreeSet<u64>, drop: &BTreeSet<u64>) -> bool {
    let mut any = false;
    for message in core::mem::take(&mut net.under_way) {
        let id = message.to.0;
        if to.contains(&id) {
            any = true;
            net.at(id).step(message);
        } else if !drop.contains(&id) {
            net.under_way.push(message);
        }
    }
    any
}

fn stabilize(net: &mut Net, ids: &BTreeSet<u64>) {
    loop {
        for id in ids {
            net.take(*id);
        }
        if !deliver(net, ids, &BTreeSet::new()) {
            return;
        }
    }
}

fn carry_out(net: &mut Net, words: &[&str], asks_first: bool) {
    let ids: BTreeSet<u64> = words[1..].iter().filter_map(|w| w.parse().ok()).collect();
    let id = ids.first().copied().unwrap_or(0);
    match words[0] {
        "campaign" if asks_first => net.at(id).campaign(),
        // Neither pre-vote nor a leader that is heard: as where the lead is handed over.
        "campaign" => net.at(id).stand(true),
        "propose" => drop(net.propose(id, words[2])),
        "stabilize" if ids.is_empty() => {
            let all = net.replicas.keys().copied().collect();
            stabilize(net, &all);
        }
        "stabilize" => stabilize(net, &ids),
        "process-ready" => net.take(id),
        "deliver-msgs" => {
            let drop = numbers(words, "drop").unwrap_or_default().into_iter().collect();
            deliver(net, &ids, &drop);
        }
        "tick-election" => (0..config().election_ticks).for_each(|_| net.at(id).tick(0)),
        "set-randomized-election-timeout" => {
            net.at(id).timeout = Some(numbers(words, "timeout").expect("one")[0] as u32);
        }
        "log-level" | "raft-log" | "status" => {}
        other => panic!("{other} is not known"),
    }
}

fn entry(e: &Entry) -> String {
    let text = match &e.body {
        Body::Command(c) => String::from_utf8_lossy(&c.bytes).into_owned(),
        _ => String::new(),
    };
    format!("{}/{} EntryNormal {text:?}", e.term, e.index)
}

/// Compares what an order printed with what holds now.
fn compare(net: &Net, order: &Order<'_>, led: &BTreeSet<(u64, u64)>, checked: &mut usize) {
    let words = &order.words;
    let at = words.get(1).and_then(|w| w.parse().ok()).unwrap_or(0);
    if words[0] == "raft-log" {
        let log = &net.replicas[&at].log;
        let ours: Vec<_> = log.from(0).map(entry).collect();
        let theirs = order.output.iter().filter(|l| !l.starts_with("log is empty"));
        assert!(ours.iter().eq(theirs), "{words:?}: {ours:?}");
        *checked += 1;
    }
    let mut id: u64 = at;
    let mut states = BTreeMap::new();
    for line in &order.output {
        let parts: Vec<_> = line.split_whitespace().collect();
        match parts[..] {
            [">", n, ..] => id = n.parse().expect("a number"),
            ["INFO", n, "became", "leader", "at", "term", term] => {
                let elected = (n.parse().unwrap(), term.parse().unwrap());
                assert!(led.contains(&elected), "{words:?}: {line}");
                *checked += 1;
            }
            ["HardState", ..] => {
                let of = |name| parts.iter().find_map(|p| p.strip_prefix(name)?.parse().ok());
                let state: [u64; 3] = ["Term:", "Vote:", "Commit:"].map(|n| of(n).unwrap_or(0));
                states.insert(id, state);
            }
            _ => {}
        }
    }
    for (id, theirs) in states {
        let r = &net.replicas[&id];
        let ours = [r.term, r.vote.map_or(0, |v| v.0), r.commit];
        assert_eq!(ours, theirs, "{words:?}: term, vote and commit of {id}");
        *checked += 1;
    }
}

fn follows(script: &str, asks_first: bool) -> usize {
    let mut net = Net::of(0);
    let (mut led, mut checked) = (BTreeSet::new(), 0);
    for order in orders(script) {
        if order.words[0] == "add-nodes" {
            net = begin(&order.words);
            continue;
        }
        carry_out(&mut net, &order.words, asks_first);
        let leads = net.replicas.iter().filter(|(_, r)| r.role() == RoleName::Leader);
        led.extend(leads.map(|(id, r)| (*id, r.term)));
        compare(&net, &order, &led, &mut checked);
    }
    checked
}

#[test]
#[ignore = "nightly: compares with scripts that are not carried here"]
fn elections_with_pre_vote_while_a_leader_is_heard() {
    let Some(text) = script("testdata/prevote_checkquorum.txt") else { return };
    assert!(follows(&text, true) >= 8);
}

#[test]
#[ignore = "nightly: compares with scripts that are not carried here"]
fn a_leader_finds_where_each_log_parts_and_makes_all_its_own() {
    let Some(text) = script("testdata/probe_and_replicate.txt") else { return };
    assert!(follows(&text, false) >= 20);
}

#[test]
#[ignore = "nightly: compares with scripts that are not carried here"]
fn a_first_election_and_one_alone() {
    let Some(text) = script("testdata/campaign.txt") else { return };
    assert!(follows(&text, true) >= 3);
    let Some(text) = script("testdata/single_node.txt") else { return };
    assert!(follows(&text, true) >= 2);
}

/// What follows on `name=` up to the closing bracket, in parts.
fn listed<'a>(line: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let from = line.split_once(&format!("{name}=("))?.1;
    Some(from.split_once(')')?.0.split(',').map(str::trim).collect())
}

fn voters(line: &str) -> Option<Vec<u64>> {
    listed(line, "cfg")?.into_iter().map(|n| n.parse().ok()).collect()
}

/// Questions of a table, each with the last line of its answer.
fn questions(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = table.split("\n----\n").zip(table.split("\n----\n").skip(1));
    blocks.map(|(before, after)| {
        let question = before.lines().last().expect("a question");
        let answer = after.lines().take_while(|l| !l.trim().is_empty()).last();
        (question, answer.unwrap_or_default().trim())
    })
}

#[test]
#[ignore = "nightly: compares with scripts that are not carried here"]
fn majorities_of_what_is_held_and_of_votes() {
    let (mut asked, file) = (0, |name: &str| script(&format!("quorum/testdata/{name}.txt")));
    let (Some(commits), Some(votes)) = (file("majority_commit"), file("majority_vote")) else {
        return;
    };
    for (question, answer) in questions(&commits) {
        let (Some(ids), Some(held)) = (voters(question), listed(question, "idx")) else { continue };
        // The same voter twice is once.
        let held: BTreeMap<u64, u64> =
            ids.iter().zip(&held).map(|(id, n)| (*id, n.parse().unwrap_or(0))).collect();
        let set = ids.iter().copied().map(ReplicaId).collect();
        let ours = held_by_most(&set, |id| held.get(&id.0).copied().unwrap_or(0));
        assert_eq!(ours.map(|n| format!("{n}")).as_deref(), Some(answer), "{question}");
        asked += 1;
    }
    for (question, answer) in questions(&votes) {
        let (Some(ids), Some(votes)) = (voters(question), listed(question, "votes")) else {
            continue;
        };
        let set = ids.iter().copied().map(ReplicaId).collect();
        let votes = ids.iter().zip(votes).filter(|(_, v)| *v != "_");
        let votes = votes.map(|(id, vote)| (ReplicaId(*id), vote == "y")).collect();
        let theirs = match answer {
            "VoteWon" => Tally::Won,
            "VoteLost" => Tally::Lost,
            _ => Tally::Open,
        };
        assert_eq!(tally(&set, &votes), theirs, "{question}");
        asked += 1;
    }
    assert!(asked >= 36, "{asked}");
}
