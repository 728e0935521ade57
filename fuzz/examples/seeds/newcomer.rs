//! What hosts say of themselves when they join: see `towpath_node`'s `hello` module.

use std::net::SocketAddr;

use towpath_fuzz::newcomer::LEADER;
use towpath_vm::Fields;
use towpath_vm::fields::ADDRESSES;

pub(crate) fn hellos() -> Vec<(&'static str, Vec<u8>)> {
    // Purpose (to join, to join again), name, architecture, speed, processors, slots, fields.
    let said = |purpose: u8, name: &str, fields: Fields| {
        let said = (purpose, name, "x86_64-linux", 1000u32, 2u16, 3u16, fields);
        postcard::to_allocvec(&said).expect("a vector takes any body")
    };
    let hello = |purpose: u8, name: &str, addrs: &[SocketAddr]| {
        said(purpose, name, Fields::of_addresses(addrs))
    };
    let of_kind = |kind: u8, value: &[u8]| {
        let mut fields = Fields::default();
        fields.set(kind, value).expect("there is room");
        said(0, "later", fields)
    };
    let v4: SocketAddr = ([192, 0, 2, 1], 7077).into();
    let v6: SocketAddr = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 7077).into();
    let mut old = hello(0, "old", &[]);
    old.pop();
    let mut cut = hello(0, "cut", &[v4, v6]);
    cut.truncate(cut.len() - 3);
    vec![
        ("joins", hello(0, "node1", &[])),
        ("two_addresses", hello(0, "node2", &[v4, v6])),
        ("many_addresses", hello(0, "node3", &[v4, v6].repeat(4))),
        ("useless_addresses", hello(0, "", &[([0, 0, 0, 0], 1).into(), ([1, 1, 1, 1], 0).into()])),
        ("leaders_name", hello(0, LEADER, &[v4])),
        ("joins_again", hello(1, "node4", &[v4])),
        ("older_version", old),
        ("addresses_cut", cut),
        ("address_cut", of_kind(ADDRESSES, &[4, 0, 1, 192])),
        ("skippable_kind", of_kind(200, b"later")),
        ("critical_kind", of_kind(5, b"later")),
    ]
}
