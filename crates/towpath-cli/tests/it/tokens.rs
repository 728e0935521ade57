//! Tokens: for how many hosts, until when, listed, revoked, kept, and what addresses they name.

use std::net::{SocketAddr, UdpSocket};
use std::process::Output;

use crate::support::{Vm, text};

fn token(vm: &Vm, args: &[&str]) -> (String, String) {
    let out = vm.towpath(&[&["token", "--json"], args].concat());
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    (told["token"].as_str().unwrap().into(), told["id"].as_str().unwrap().into())
}

fn join(vm: &Vm, token: &str) -> Output {
    vm.with_input(&["join", "-"], token.as_bytes())
}

#[track_caller]
fn ok(out: &Output) {
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[track_caller]
fn refused(out: &Output, words: &str) {
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(255), "{said}");
    assert!(said.contains(words) && said.contains("hint: "), "{said}");
}

fn list(vm: &Vm) -> Vec<serde_json::Value> {
    let out = vm.towpath(&["token", "--list", "--all", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    told["tokens"].as_array().unwrap().clone()
}

#[test]
fn a_token_admits_as_many_hosts_as_it_was_made_for() {
    let (vm, newcomer) = (Vm::up(1), Vm::new());
    let (two, id) = token(&vm, &["--uses", "2"]);
    ok(&join(&newcomer, &two));
    ok(&join(&newcomer, &two));
    refused(&join(&newcomer, &two), "has admitted as many hosts as it was good for");
    let listed = list(&vm);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["id"], &listed[0]["uses"]), (&id.as_str().into(), &2.into()));
    // It is good for nobody any more.
    let shown = vm.towpath(&["token", "--list"]);
    assert_eq!(text(&shown.stdout), "", "{}", text(&shown.stderr));
    let (fresh, fresh_id) = token(&vm, &["--uses", "2"]);
    ok(&join(&newcomer, &fresh));
    let shown = text(&vm.towpath(&["token", "--list"]).stdout);
    assert!(shown.contains(&fresh_id) && !shown.contains(&id), "{shown}");
    let shown = text(&vm.towpath(&["token", "--list", "--all"]).stdout);
    assert!(shown.contains(&fresh_id) && shown.contains(&id), "{shown}");
    // A host that was admitted needs no token to come back.
    ok(&newcomer.towpath(&["down"]));
    let again = join(&newcomer, &two);
    assert_eq!(again.status.code(), Some(255), "it has left, and is a newcomer again");
    // The hosts of `up` itself come with a token for them alone.
    let three = Vm::up(3);
    let listed = list(&three);
    assert_eq!((&listed[0]["uses"], &listed[0]["uses_max"]), (&2.into(), &2.into()));
}

#[test]
fn a_revoked_token_admits_nobody_and_the_others_still_do() {
    let (vm, newcomer) = (Vm::up(1), Vm::new());
    let ((bad, bad_id), (good, _)) = (token(&vm, &[]), token(&vm, &[]));
    ok(&join(&newcomer, &bad));
    ok(&vm.towpath(&["token", "--revoke", &bad_id]));
    refused(&join(&newcomer, &bad), "the token has been revoked");
    ok(&join(&newcomer, &good));
    assert_eq!(text(&vm.towpath(&["hosts"]).stdout).matches(" up").count(), 3, "who came stays");
    refused(&vm.towpath(&["token", "--revoke", &bad_id]), &format!("no token `{bad_id}`"));
    refused(&newcomer.towpath(&["token", "--list"]), "only the daemon that leads");
}

#[test]
fn tokens_live_between_a_second_and_thirty_days_counted_ones_a_year() {
    let vm = Vm::up(1);
    for ttl in ["0", "315360000"] {
        let out = vm.towpath(&["token", "--ttl", ttl]);
        assert_eq!(out.status.code(), Some(255));
        assert!(text(&out.stderr).contains("is not between 1s and 8784h"), "{}", text(&out.stderr));
    }
    refused(&vm.towpath(&["token", "--ttl", "2592001"]), "limits 1 s and 2592000 s");
    ok(&vm.towpath(&["token", "--ttl", "2592000"]));
    let hours = vm.towpath(&["token", "--ttl", "2h", "--json"]);
    assert!(text(&hours.stdout).contains("\"ttl_s\":7200"), "{}", text(&hours.stdout));
    ok(&vm.towpath(&["token", "--ttl", "31622400", "--uses", "9"]));
    // Whoever asks the daemon itself.
    for (ttl_s, uses) in [(0, None), (2_592_001, None), (60, Some(0))] {
        let invite = towpath::protocol::Request::Invite { ttl_s, uses };
        let said = vm.client(1).ask(&invite, crate::support::PROMPT).unwrap_err().to_string();
        assert!(said.starts_with("a token for "), "{said}");
    }
}

#[test]
fn tokens_and_their_end_outlive_the_founders_daemon() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (vm, newcomer) = (Vm::new(), Vm::new());
    let up = || vm.towpath(&["up", "--listen", &port.to_string()]);
    ok(&up());
    let (good, _) = token(&vm, &["--uses", "1"]);
    let (bad, bad_id) = token(&vm, &[]);
    ok(&vm.towpath(&["token", "--revoke", &bad_id]));
    ok(&vm.towpath(&["down"]));
    ok(&up());
    refused(&join(&newcomer, &bad), "the token has been revoked");
    ok(&join(&newcomer, &good));
    refused(&join(&newcomer, &good), "has admitted as many");
}

#[test]
fn a_revocation_that_could_not_be_written_is_tried_again_and_shown_until_then() {
    let vm = Vm::up(1);
    let (_, id) = token(&vm, &[]);
    let dir = vm.vm_dir().host(1);
    let trouble = || vm.client(1).info().unwrap().trouble.join("\n");
    // As on a full disk: nothing new can be made there.
    let blocked = dir.join("tokens.new");
    std::fs::create_dir(&blocked).unwrap();
    let out = vm.towpath(&["token", "--revoke", &id]);
    assert_eq!(out.status.code(), Some(255), "{}", text(&out.stderr));
    let said = text(&out.stderr);
    assert!(said.contains("is revoked, but that could not be written down"), "{said}");
    assert!(list(&vm).is_empty());
    assert!(trouble().contains("the list of tokens cannot be written"), "{}", trouble());
    let kept = || std::fs::read_to_string(dir.join("tokens")).unwrap();
    assert!(kept().ends_with(" good\n"), "the token is good for who starts from that");
    std::fs::remove_dir(&blocked).unwrap();
    // Nothing else is said to it.
    let begin = std::time::Instant::now();
    while !trouble().is_empty() {
        assert!(begin.elapsed() < crate::support::PROMPT, "{}", trouble());
        std::thread::yield_now();
    }
    assert!(kept().ends_with(" revoked\n"), "it is revoked for good");
}

#[test]
fn a_founder_that_receives_at_every_address_names_those_of_its_machine() {
    let (vm, newcomer) = (Vm::new(), Vm::new());
    ok(&vm.towpath(&["up", "--listen", "0.0.0.0:0"]));
    let (text_of_it, _) = token(&vm, &[]);
    let parsed: towpath::Token = text_of_it.parse().unwrap();
    assert!(parsed.addrs().iter().all(|a| !a.ip().is_unspecified()), "{:?}", parsed.addrs());
    ok(&join(&newcomer, &text_of_it));
    let hosts = newcomer.towpath(&["hosts", "--json"]);
    let hosts: serde_json::Value = serde_json::from_slice(&hosts.stdout).unwrap();
    for host in hosts["hosts"].as_array().unwrap() {
        let addr: SocketAddr = host["addr"].as_str().unwrap().parse().unwrap();
        assert!(!addr.ip().is_unspecified(), "{host}");
    }
    let out = newcomer.towpath(&["run", "--host", "h1", "--", "echo", "there"]);
    assert_eq!(text(&out.stdout), "there\n", "{}", text(&out.stderr));
}

/// Who keeps the log knows the tokens' secrets; one that never did knows the one that it came with.
#[test]
fn with_a_host_that_kept_the_log_go_the_tokens_that_it_may_know() {
    let (vm, newcomer) = (Vm::up(4), Vm::new());
    let votes: Vec<String> = vm.three_vote().iter().map(ToString::to_string).collect();
    let listed = vm.towpath(&["hosts", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap();
    let hosts = listed["hosts"].as_array().unwrap().iter().map(|host| host["id"].as_str().unwrap());
    let (voters, others): (Vec<&str>, Vec<&str>) =
        hosts.partition(|host| votes.iter().any(|voter| voter == host));
    let (member, voter) = (others[0], voters[2]);
    let (first, _) = token(&vm, &["--uses", "3"]);
    let gone = vm.towpath(&["host", "delete", "--json", member]);
    ok(&gone);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&gone.stdout).unwrap()["tokens_revoked"],
        0
    );
    ok(&join(&newcomer, &first));
    let gone = vm.towpath(&["host", "delete", voter]);
    ok(&gone);
    let said = text(&gone.stderr);
    assert!(said.contains("1 token is revoked, which a deleted host may know\nhint: "), "{said}");
    assert_eq!(list(&vm), Vec::<serde_json::Value>::new());
    refused(&join(&Vm::new(), &first), "the token has been revoked");
    let (next, _) = token(&vm, &[]);
    ok(&join(&Vm::new(), &next));
}
