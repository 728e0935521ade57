//! Tokens, and what becomes of them when another host leads.

use alloc::boxed::Box;
use alloc::vec::Vec;

use towpath_proto::Rng;
use towpath_vm::HostState;
use towpath_wire::HostId;

use super::net::{Net, VM_KEY, addr, config};
use super::standin::StandIn;
use super::voting::{leader, leaders, net, sharing};
use crate::config::{Invitation, refusal, token_psk};
use crate::invitations::{InviteError, Issued, Secret};
use crate::joining::Referral;
use crate::{JoinFailure, JoinTarget, Node, NodeEvent};

/// Nonces of these tests: below are those by which a network's hosts have joined.
const OWN: u8 = 100;

/// A token of the host that leads, once that is decided; it names all that may lead.
fn token(net: &mut Net, host: usize, nonce: u8, uses_max: Option<u32>) -> JoinTarget {
    let now = net.now;
    let node = net.node(host);
    let key = node.endpoint().public_key();
    let others = node.others_that_may_lead().into_iter().map(|(key, addrs)| (addrs[0], key));
    let others: Vec<_> = others.collect();
    let invitation = node.invite_for(now, 3600, [nonce; 16], uses_max).expect("it leads");
    net.run(50);
    assert_eq!(decided(net, host), [(nonce, Ok(()))]);
    assert!(nonce >= OWN);
    JoinTarget { addr: addr(host), key, others, invitation }
}

/// What became of tokens that a host was to issue or revoke.
fn decided(net: &mut Net, host: usize) -> Vec<(u8, Result<(), InviteError>)> {
    let events = net.events(host).into_iter();
    let tokens = events.filter_map(|e| match e {
        NodeEvent::TokenDecided { nonce, outcome } => Some((nonce[0], outcome)),
        _ => None,
    });
    tokens.collect()
}

/// A newcomer, so many milliseconds after it came with a token: who it is, or why it is nobody.
fn newcomer(net: &mut Net, target: JoinTarget, ms: u64) -> Result<HostId, JoinFailure> {
    let host = net.seats.len();
    net.add_by(sharing(host), target);
    net.run(ms);
    let failed = net.events(host).into_iter().find_map(|e| match e {
        NodeEvent::JoinFailed(why) => Some(why),
        _ => None,
    });
    failed.map_or_else(|| Ok(net.node(host).me().expect("it joined")), Err)
}

fn code(outcome: Result<HostId, JoinFailure>) -> u16 {
    let Err(JoinFailure::Refused(refusal)) = outcome else { panic!("{outcome:?}") };
    refusal.code
}

fn uses(net: &mut Net, host: usize) -> Vec<(u8, u32)> {
    let now = net.now;
    let all = net.node(host).invitations(now).into_iter().map(|i| (i.nonce[0], i.uses));
    all.filter(|(nonce, _)| *nonce >= OWN).collect()
}

#[test]
fn a_token_admits_newcomers_after_the_host_that_issued_it_is_gone() {
    for pause in [0, 1000, 20_000] {
        let mut net = net(4);
        let token = token(&mut net, 0, 107, Some(2));
        assert_eq!(token.others.len(), 2, "those that may lead, and nobody else");
        net.crash(0);
        net.run(pause);
        let new = newcomer(&mut net, token.clone(), 12_000).expect("another one leads");
        let leader = leader(&mut net);
        assert!(leader > 0, "after {pause} ms");
        let entry = net.node(leader).hosts().find(|h| h.id == new).map(|h| h.state);
        assert_eq!(entry, Some(HostState::Up));
        assert_eq!(uses(&mut net, leader), [(107, 1)]);
        // It has found it there, whatever the token says of the first one.
        assert_eq!(net.node(4).join_addr(), Some(addr(leader)));
        assert!(newcomer(&mut net, token.clone(), 12_000).is_ok());
        assert_eq!(code(newcomer(&mut net, token, 12_000)), refusal::USED);
    }
}

#[test]
fn what_was_used_up_or_revoked_at_one_leader_is_so_at_the_next() {
    let mut net = net(4);
    let (once, ended) = (token(&mut net, 0, 101, Some(1)), token(&mut net, 0, 102, None));
    assert!(newcomer(&mut net, once.clone(), 500).is_ok());
    let now = net.now;
    net.events(0);
    assert!(net.node(0).revoke(now, &[102; 16]));
    net.run(50);
    assert_eq!(decided(&mut net, 0), [(102, Ok(()))]);
    assert!(!net.node(0).revoke(now, &[102; 16]), "it is over");
    net.crash(0);
    net.run(6000);
    let next = leader(&mut net);
    assert_eq!(uses(&mut net, next), [(101, 1)]);
    assert_eq!(code(newcomer(&mut net, once, 12_000)), refusal::USED);
    assert_eq!(code(newcomer(&mut net, ended, 12_000)), refusal::REVOKED);
}

#[test]
fn of_those_that_come_at_once_a_token_for_one_admits_one() {
    let mut net = net(3);
    let once = token(&mut net, 0, 101, Some(1));
    for host in 3..6 {
        net.add_by(sharing(host), once.clone());
    }
    net.run(5000);
    let joined: Vec<usize> = (3..6).filter(|h| net.node(*h).me().is_some()).collect();
    assert_eq!(joined.len(), 1, "{joined:?}");
    assert_eq!(uses(&mut net, 0), [(101, 1)]);
    let used = |e: &NodeEvent| match e {
        NodeEvent::JoinFailed(JoinFailure::Refused(r)) => r.code == refusal::USED,
        _ => false,
    };
    for host in (3..6).filter(|h| !joined.contains(h)) {
        assert!(net.events(host).iter().any(used), "host {host} is told why");
    }
}

/// One that kept the log knows what tokens there were, and the VM key.
#[test]
fn a_host_that_kept_the_log_and_was_deleted_comes_in_by_no_token_that_it_knows_of() {
    for (index, keeps) in [(1, true), (3, false)] {
        let mut net = net(4);
        let before = token(&mut net, 0, 107, None);
        let id = net.id(index);
        let (voters, _) = net.node(0).voters();
        assert_eq!(voters.contains(&id), keeps);
        net.call(0, |node, now, memory| node.delete_host(now, 1, id, memory)).expect("it is there");
        net.run(4000);
        let revoked = net.events(0).into_iter().find_map(|e| match e {
            NodeEvent::TokensRevoked { host, tokens } => Some((host, tokens)),
            _ => None,
        });
        // Those by which the other three came in are counted, too.
        assert_eq!(revoked, keeps.then_some((id, 4)));
        let comes = newcomer(&mut net, before, 12_000);
        if !keeps {
            assert!(comes.is_ok(), "nobody was let go who knew it: {comes:?}");
            continue;
        }
        assert_eq!(code(comes), refusal::REVOKED);
        // A later one: what the network shows of it is not enough, also with the VM key.
        let mut after = token(&mut net, 0, 108, None);
        let good = after.clone();
        let Invitation { expiry_unix_s, nonce, .. } = after.invitation;
        let crypto = net.node(0).endpoint().crypto();
        after.invitation.psk = token_psk(crypto, &VM_KEY, expiry_unix_s, &nonce);
        after.others.clear();
        assert_eq!(newcomer(&mut net, after, 12_000), Err(JoinFailure::WrongKey));
        assert!(newcomer(&mut net, good, 12_000).is_ok());
    }
}

#[test]
fn only_those_that_keep_the_log_know_of_tokens() {
    let mut net = net(4);
    token(&mut net, 0, 107, None);
    let (voters, _) = net.node(0).voters();
    for host in 0..4 {
        let keeps = voters.contains(&net.id(host));
        assert_eq!(uses(&mut net, host).len(), usize::from(keeps), "host {host}");
        assert_eq!(net.node(host).invitations_changed(), keeps, "host {host}");
        assert!(!net.node(host).invitations_changed(), "once");
        assert_eq!(net.node(host).issues_tokens(), host == 0);
        let told = net.node(host).log.as_ref().expect("a log").invitations().iter().count();
        assert_eq!(told > 0, host == 0, "entries tell nobody of tokens");
    }
}

#[test]
fn a_token_is_good_once_it_is_decided_and_not_where_it_is_not() {
    let mut net = net(4);
    for other in 1..4 {
        net.cut(0, other);
    }
    let now = net.now;
    assert!(net.node(0).invite_for(now, 60, [109; 16], None).is_ok());
    net.run(100);
    assert_eq!(decided(&mut net, 0), [], "nobody has heard of it");
    net.run(4000);
    assert_eq!(decided(&mut net, 0), [(109, Err(InviteError::Undecided))]);
    let now = net.now;
    let refused = net.node(0).invite_for(now, 60, [109; 16], None);
    assert_eq!(refused, Err(InviteError::NothingDecided));
    let [leader] = leaders(&net)[..] else { panic!("one leads") };
    assert_eq!(uses(&mut net, leader), []);
}

#[test]
fn a_newcomer_asks_each_of_those_that_its_token_names() {
    let mut net = net(4);
    let token = token(&mut net, 0, 107, None);
    // None of them is there.
    let nobody = |host| (addr(host), token.key);
    let others = [nobody(101), nobody(102)].into();
    let all = JoinTarget { addr: addr(100), others, ..token.clone() };
    let Err(JoinFailure::NoneOf { hosts: 3, failure }) = newcomer(&mut net, all, 16_000) else {
        panic!("nobody is there")
    };
    assert!(matches!(*failure, JoinFailure::NoAnswer(_)), "{failure:?}");
    // The third one leads; of the others one is not there, and one keeps nothing.
    let none = net.node(3).endpoint().public_key();
    let others = [(addr(3), none), (token.addr, token.key)].into();
    let last = JoinTarget { addr: addr(100), others, ..token.clone() };
    assert!(newcomer(&mut net, last, 8000).is_ok());
    // Two of three that vote are gone: nobody will lead.
    net.crash(0);
    net.crash(1);
    let failed = newcomer(&mut net, token, 30_000).expect_err("nobody leads");
    let JoinFailure::NoneOf { hosts: 3, failure } = &failed else { panic!("{failed}") };
    assert_eq!(code(Err((**failure).clone())), refusal::NOT_LEADER);
    let said = "none of the 3 hosts that the token names takes this one in; it refuses: only the";
    assert!(alloc::format!("{failed}").starts_with(said), "{failed}");
}

#[test]
fn a_newcomer_is_sent_to_a_leader_that_its_token_does_not_name() {
    let mut net = net(4);
    let token = token(&mut net, 0, 107, Some(1));
    // As if those that it names, but for one, had been replaced since.
    let key = net.node(1).endpoint().public_key();
    let old = JoinTarget { addr: addr(1), key, others: Vec::new(), ..token.clone() };
    assert!(newcomer(&mut net, old.clone(), 500).is_ok());
    assert_eq!(code(newcomer(&mut net, old.clone(), 500)), refusal::USED, "so the leader says");
    // One that keeps nothing cannot say who leads, since it does not know the token's secret.
    let key = net.node(3).endpoint().public_key();
    let other = JoinTarget { addr: addr(3), key, ..old };
    assert_eq!(newcomer(&mut net, other, 500), Err(JoinFailure::WrongKey));
}

#[test]
fn a_referral_comes_back() {
    let key = towpath_proto::HostKey(core::array::from_fn(|i| i as u8 * 7));
    let referral = Referral { addr: addr(3), key, name: "a name of three".into() };
    assert_eq!(Referral::parse(&referral.emit()), Some(referral.clone()));
    for text in ["", "10.0.0.1:7 00 name", "10.0.0.1:7", &referral.emit()[..70]] {
        assert_eq!(Referral::parse(text), None, "{text}");
    }
    let ipv6 = core::net::SocketAddr::from(([0xfe80, 1, 2, 3, 4, 5, 6, 7], 65_535));
    let name = "n".repeat(towpath_vm::host::NAME_MAX);
    let longest = Referral { addr: ipv6, key, name };
    assert!(longest.emit().len() <= towpath_proto::endpoint::REFUSAL_TEXT_MAX);
}

/// What a founder keeps of its tokens counts where it leads alone, and as it begins.
#[test]
fn a_founder_that_leads_alone_has_its_tokens_again() {
    let issued = |nonce: u8, uses| Issued {
        nonce: [nonce; 16],
        secret: Secret([nonce; 32]),
        expiry_unix_s: u64::MAX,
        uses_max: Some(2),
        uses,
        revoked: false,
    };
    for (hosts, voters) in [(1, 1), (2, 1), (1, 3)] {
        let mut net = Net::founded(crate::NodeConfig { voters, ..config(0, "h0") });
        for host in 1..hosts {
            net.add(config(host, "h"));
            net.run(100);
        }
        let saved = net.node(0).saved().expect("it leads");
        let (crypto, rng) = (Box::new(StandIn::new(1)), Rng::new(77, 1));
        let now = net.now;
        let node = Node::found_again(now, sharing(0), crypto, rng, VM_KEY, saved);
        net.seats[0].node = Some(node.expect("it is its own"));
        net.node(0).restore_invitations(now, [issued(101, 1), issued(102, 2)]);
        net.run(6000);
        assert_eq!(uses(&mut net, 0), [(101, 1), (102, 2)], "{hosts} hosts");
        net.events(0);
        let kept = token(&mut net, 0, 103, None);
        assert!(newcomer(&mut net, kept, 500).is_ok());
        let counted: Vec<_> = uses(&mut net, 0);
        assert_eq!(counted, [(101, 1), (102, 2), (103, 1)]);
    }
}
