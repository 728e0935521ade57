//! Hosts: who comes and goes, tokens, which tasks run where.

use std::thread;

use towpath_vm::HostState;
use towpath_wire::HostId;

use super::{Watcher, ask, first, host, next, nowhere, refusal, script, until};
use crate::client::Client;
use crate::protocol::{HostEvent, Info, Reply, Request, TokenInfo};
use crate::support::Vm;
use crate::token::{TTL_COUNTED_MAX_S, TTL_MAX_S, Token};

fn info(client: &mut Client) -> Info {
    client.info().unwrap()
}

fn states(client: &mut Client) -> Vec<(HostId, String, HostState)> {
    let Reply::Hosts(hosts) = ask(client, &Request::Hosts) else { panic!("no hosts") };
    hosts.into_iter().map(|h| (h.id, h.name, h.state)).collect()
}

#[test]
fn who_watches_hears_of_hosts_that_come_leave_and_are_deleted() {
    let mut vm = Vm::up(1);
    let mut watching = vm.client(1);
    watching.sender.send(&Request::Watch).unwrap();
    let told = info(&mut vm.client(1));
    assert_eq!((told.vm.as_str(), told.me, told.leader), ("default", Some(first()), Some(first())));
    assert_eq!((told.pid, told.frozen, told.trouble.len()), (std::process::id(), false, 0));
    assert_eq!(told.version, crate::VERSION);
    // The second is asked to leave, the third is deleted.
    for name in ["h2", "h3"] {
        vm.add();
        let Reply::HostEvent(HostEvent::Added(came)) = next(&mut watching) else { panic!("none") };
        assert_eq!((came.name.as_str(), came.state), (name, HostState::Up));
        assert!(came.addr.ip().is_loopback() && came.addr.port() > 0);
        assert_eq!((came.cpus, came.slots, came.speed), (2, 2, 1000));
    }
    let mut third = vm.client(3);
    let me = info(&mut third).me.unwrap();
    assert_eq!(info(&mut third).leader, Some(first()));
    let names = |client: &mut Client| -> Vec<String> {
        states(client).into_iter().map(|(_, name, _)| name).collect()
    };
    assert_eq!(names(&mut third), ["h1", "h2", "h3"]);
    let why = refusal(&mut vm.client(1), &Request::Delete { host: nowhere() });
    assert!(!why.is_empty());
    assert_eq!(ask(&mut vm.client(1), &Request::Delete { host: me }), Reply::Done);
    assert_eq!(next(&mut watching), Reply::HostEvent(HostEvent::Left(me)));
    let second = info(&mut vm.client(2)).me.unwrap();
    assert_eq!(ask(&mut vm.client(2), &Request::Shutdown), Reply::Done);
    assert_eq!(next(&mut watching), Reply::HostEvent(HostEvent::Left(second)));
    assert_eq!(names(&mut vm.client(1)), ["h1"]);
}

#[test]
fn tokens_are_issued_listed_and_revoked_by_the_founder_alone() {
    let mut vm = Vm::up(1);
    let mut client = vm.client(1);
    let list = |client: &mut Client| -> Vec<TokenInfo> {
        let Reply::Tokens(tokens) = ask(client, &Request::Tokens) else { panic!("no tokens") };
        tokens
    };
    assert_eq!(list(&mut client), []);
    let issue = |client: &mut Client, ttl_s, uses| -> Token {
        let issued = ask(client, &Request::Invite { ttl_s, uses });
        let Reply::Token(text) = issued else { panic!("{issued:?}") };
        text.parse().unwrap()
    };
    for (ttl_s, uses, said) in [
        (0, None, "limits 1 s and"),
        (TTL_MAX_S + 1, None, "limits 1 s and"),
        (TTL_COUNTED_MAX_S + 1, Some(1), "limits 1 s and"),
        (60, Some(0), "a token for no host"),
    ] {
        let why = refusal(&mut client, &Request::Invite { ttl_s, uses });
        assert!(why.contains(said), "{why}");
    }
    let longest = issue(&mut client, TTL_COUNTED_MAX_S, Some(3));
    issue(&mut client, TTL_MAX_S, None);
    let all = list(&mut client);
    let counted = all.iter().find(|t| t.id == longest.id()).expect("it is listed");
    assert_eq!((all.len(), counted.uses, counted.uses_max), (2, 0, Some(3)));
    assert_eq!(counted.expiry_unix_s, longest.invitation.expiry_unix_s);
    assert!(longest.addrs().iter().all(|addr| addr.ip().is_loopback()));
    assert_eq!(ask(&mut client, &Request::Revoke { id: longest.id() }), Reply::Done);
    let why = refusal(&mut client, &Request::Revoke { id: longest.id() });
    assert!(why.starts_with(&format!("no token `{}`", longest.id())), "{why}");
    assert_eq!(list(&mut client).len(), 1);
    // Whom it admitted is counted.
    vm.add();
    let used: u32 = list(&mut client).iter().map(|t| t.uses).sum();
    assert_eq!(used, 1);
    let mut second = vm.client(2);
    for request in [
        Request::Invite { ttl_s: 60, uses: None },
        Request::Tokens,
        Request::Revoke { id: longest.id() },
    ] {
        let why = refusal(&mut second, &request);
        assert!(why.starts_with("only the daemon that leads"), "{why}");
    }
}

#[test]
fn tasks_of_every_host_are_listed_for_every_host() {
    let vm = Vm::up(2);
    let mut watcher = Watcher::of(&vm, 1);
    for (tag, on) in [(1, first()), (2, host(&vm, 2)), (3, host(&vm, 2))] {
        watcher.spawn(tag, on, script("echo up; sleep 600"));
        watcher.until(tag, |heard| heard.out() == "up\n");
    }
    for asked in [1, 2] {
        let mut client = vm.client(asked);
        for (on, tags) in [(first(), &[1][..]), (host(&vm, 2), &[2, 3])] {
            let told = ask(&mut client, &Request::Tasks { tag: 9, host: on });
            let Reply::Tasks { tag: 9, host: of, tasks: Ok(tasks) } = told else {
                panic!("{told:?}")
            };
            assert_eq!((of, tasks.len()), (on, tags.len()));
            for (task, tag) in tasks.iter().zip(tags) {
                let heard = &watcher.tasks[tag];
                assert_eq!((Some(task.id), task.pid), (heard.task, heard.pid));
                assert_eq!((task.requester, task.started, task.enrolled), (first(), true, false));
                assert_eq!(task.command, "sh -c echo up; sleep 600");
            }
        }
        let told = ask(&mut client, &Request::Tasks { tag: 4, host: nowhere() });
        assert!(matches!(told, Reply::Tasks { tag: 4, tasks: Err(_), .. }), "{told:?}");
    }
}

#[test]
fn when_the_founder_ends_the_others_are_frozen_and_say_so() {
    let vm = Vm::up(2);
    let mut second = vm.client(2);
    let mut watching = vm.client(2);
    watching.sender.send(&Request::Watch).unwrap();
    assert!(!info(&mut second).frozen);
    assert_eq!(ask(&mut vm.client(1), &Request::Shutdown), Reply::Done);
    let news = next(&mut watching);
    let lost = |news: &Reply| {
        matches!(news, Reply::HostEvent(
            HostEvent::LeaderLost(h) | HostEvent::Left(h) | HostEvent::Lost(h)) if *h == first())
    };
    assert!(lost(&news), "{news:?}");
    until(|| info(&mut second).frozen.then_some(()));
    let table = states(&mut second);
    let leader = table.iter().find(|(id, ..)| *id == first()).map(|(.., state)| *state);
    assert_eq!(leader, Some(HostState::Lost));
}

#[test]
fn a_second_daemon_in_the_same_directory_is_told_that_one_runs() {
    let vm = Vm::up(1);
    let dir = vm.host(1);
    let options = crate::DaemonOptions {
        vm: "default".into(),
        dir: dir.clone(),
        listen: vec![([127, 0, 0, 1], 0).into()],
        role: crate::Role::Found(zeroize::Zeroizing::new([7; 32])),
        name: "again".into(),
        speed: 1000,
        cpus: 1,
        slots: 1,
        lost_after_ms: None,
        voters: None,
        recover: false,
        link_rate: None,
        stripe: None,
        coding: None,
        standby: Vec::new(),
        engine: crate::daemon::EngineArgs::default(),
    };
    let ran = thread::spawn(move || crate::daemon::run(&options, &mut |_| {})).join().unwrap();
    let said = ran.unwrap_err().to_string();
    assert!(said.starts_with("a daemon runs there already"), "{said}");
    assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
    assert_eq!(info(&mut vm.client(1)).me, Some(first()), "the first goes on");
}
