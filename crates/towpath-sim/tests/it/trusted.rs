//! Trusted links: packets go unsealed only where both sides said so.

use std::time::Duration;

use crate::network::{BOTH, CLEAN, Fate, Host, Network};
use proptest::prelude::*;
use towpath_proto::Config;
use towpath_wire::packet::{DATA_HEADER, TAG};

/// Two hosts that trust the link or not, connected.
fn connected([first, second]: [bool; 2]) -> Network {
    let host = |n, trusted| Host::new(n, Config { trusted, ..Config::default() });
    let mut net = Network::new(vec![host(1, first), host(2, second)], CLEAN);
    net.connect(0, 1);
    let both = |n: &Network| n.hosts.iter().all(|h| h.connected.len() == 1);
    assert!(net.run_until(both, Duration::from_secs(20)), "they connect");
    net
}

fn sealed(net: &Network) -> [bool; 2] {
    [0, 1].map(|n| {
        let host = &net.hosts[n];
        host.endpoint.association(host.id()).expect("it is open").is_sealed()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// A changed byte of content is noticed exactly where packets are sealed.
    #[test]
    fn one_side_s_trust_alone_changes_nothing(
        first: bool,
        second: bool,
        from in 0..2usize,
        len in 1200u32..20_000,
    ) {
        let mut net = connected([first, second]);
        let trusted = first && second;
        prop_assert_eq!(sealed(&net), [!trusted; 2]);
        let mut left = 1;
        net.tap = Box::new(move |_, sender, bytes| {
            // A full packet's middle is message bytes.
            if sender == from && bytes.len() > 1000 && left > 0 {
                left -= 1;
                bytes[(DATA_HEADER + 1000 - TAG) / 2] ^= 1;
            }
            Fate::Pass
        });
        let channel = net.hosts[from].open(BOTH).expect("a channel");
        net.hosts[from].send(channel, 0, len).expect("room");
        let to = 1 - from;
        let came = |n: &Network| !n.hosts[to].arrived.is_empty();
        prop_assert!(net.run_until(came, Duration::from_secs(20)));
        prop_assert_eq!(net.hosts[to].has_all(channel, 1, len), !trusted);
        let forged = net.hosts[to].stats().forged;
        prop_assert_eq!(forged, u64::from(!trusted));
    }
}

#[test]
fn a_stray_datagram_does_not_pass_on_a_trusted_link() {
    let mut net = connected([true, true]);
    let mut copies = 0;
    net.tap = Box::new(move |_, sender, bytes| {
        // Another packet number, another association's tag: whatever is in the header.
        if sender == 0 && bytes.len() > 1000 && copies < 16 {
            bytes[copies] ^= 1;
            copies += 1;
        }
        Fate::Pass
    });
    let channel = net.hosts[0].open(BOTH).expect("a channel");
    net.hosts[0].send(channel, 0, 100_000).expect("room");
    let came = |n: &Network| !n.hosts[1].arrived.is_empty();
    assert!(net.run_until(came, Duration::from_secs(20)));
    assert!(net.hosts[1].has_all(channel, 1, 100_000), "what was changed came again");
}
