//! What a host's owner reads of it.

use towpath_proto::{Config, HostKey, Machine, PathChange};
use towpath_vm::HostState;
use towpath_wire::LinkId;

use super::net::{EPOCH_S, Net, VM_KEY};
use super::voting::net as sharing;
use super::{NOW, node};
use crate::restore::{Deleted, Saved, SavedError};

#[test]
fn one_that_leads_for_good_says_so() {
    let mut net = Net::new(2);
    for (host, founded) in [(0, true), (1, false)] {
        let node = net.node(host);
        assert_eq!((node.voting().as_str(), node.is_one_of_several()), ("none", false));
        assert_eq!((node.vm_key().is_some(), node.is_founder()), (founded, founded));
        assert_eq!((node.keeps_invitations(), node.issues_tokens()), (founded, founded));
        assert!(node.is_listed() && !node.is_too_long_to_write() && node.refused().is_none());
        let lost_after = Config::default().liveness.lost_after;
        assert_eq!(u128::from(node.lost_after_ms()), lost_after.as_millis());
        assert_eq!(node.last_words_as_of().0, node.log_index());
        assert_eq!((node.asleep(), node.decided()), ([].into(), None));
    }
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    net.run(100);
    let before = net.node(0).last_words_as_of();
    net.crash(1);
    net.run(60_000);
    let after = net.node(0).last_words_as_of();
    assert!(after.0 > before.0 && after.1 > before.1, "{before:?}, {after:?}");
}

#[test]
fn one_of_several_that_keep_the_log_says_how() {
    let mut net = sharing(4);
    let (voters, _) = net.node(0).voters();
    for host in 0..4 {
        let votes = voters.contains(&net.id(host));
        let node = net.node(host);
        assert_eq!(node.is_one_of_several(), votes, "host {host}");
        assert_eq!(node.vm_key(), votes.then_some(&VM_KEY));
        assert_eq!((node.keeps_invitations(), node.keeps_log()), (votes, votes));
        assert_eq!(node.issues_tokens(), host == 0);
        let words = node.voting();
        let role = if host == 0 { "Leader" } else { "Follower" };
        assert_eq!(words.contains(role), votes, "{words}");
        assert_eq!(words == "none", !votes, "{words}");
        assert!(node.is_listed());
    }
    let mut two = sharing(2);
    assert!(!two.node(0).is_one_of_several(), "the other is sent it only");
}

#[test]
fn tokens_expire_by_the_clock_of_the_machine() {
    let mut net = Net::new(1);
    let now = net.now;
    let invitation = net.node(0).invite(now, 60, [5; 16]).expect("it leads");
    net.run(10);
    assert_eq!(net.node(0).invitations(now).len(), 1);
    assert_eq!(invitation.expiry_unix_s, EPOCH_S + now.as_nanos() / 1_000_000_000 + 60);
    net.node(0).set_clock((EPOCH_S + 61) * 1_000_000);
    assert_eq!(net.node(0).invitations(now).len(), 0);
}

#[test]
fn what_a_founder_keeps_is_read_as_it_was_written() {
    let mut net = Net::new(2);
    let own = net.node(0).endpoint().public_key();
    let (id, key) = (net.id(1), net.node(1).endpoint().public_key());
    let saved = net.node(0).saved().expect("it leads");
    assert_eq!(saved.lost_after_ms(), net.node(0).lost_after_ms());
    assert_eq!((saved.voters(), saved.is_alone(), saved.names_deleted()), (1, false, false));
    assert_eq!((saved.is_shared(), saved.before()), (false, saved.snapshot.term));
    assert!(saved.knows(&own) && saved.knows(&key) && !saved.knows(&HostKey([0; 32])));
    assert_eq!(Saved::decode(&saved.encode()).expect("it is its own"), saved);
    let mut longer = saved.encode();
    longer.push(0);
    for wrong in [&longer[..], &longer[..5], &[]] {
        assert_eq!(Saved::decode(wrong), Err(SavedError::Malformed));
    }
    net.call(0, |node, now, memory| node.delete_host(now, 1, id, memory)).expect("it may");
    net.run(2000);
    let saved = net.node(0).saved().expect("it leads");
    assert_eq!((saved.is_alone(), saved.names_deleted()), (true, true));
    assert!(saved.knows(&key), "so that it is told when it comes back");
    let forgetful = Saved::new(saved.snapshot.clone(), Deleted::new(), 3);
    assert_eq!((forgetful.knows(&key), forgetful.voters()), (false, 3));
    let up = saved.snapshot.table.iter().filter(|h| h.state == HostState::Up);
    assert!(up.map(|h| h.key).eq([own.0]));
}

#[test]
fn links_without_connections_have_nothing_to_send_by() {
    let (mut node, ..) = node();
    node.handle_path(NOW, LinkId(0), PathChange::Down);
    assert!(node.poll_head(NOW, LinkId(0)).is_none());
}
