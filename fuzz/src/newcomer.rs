//! A newcomer that says anything of itself to the host that leads.

use std::net::SocketAddr;
use std::time::Duration;

use towpath_node::{Links, Node, NodeConfig};
use towpath_proto::association::Opening;
use towpath_proto::endpoint::HELLO_MAX;
use towpath_proto::{
    AssociationEvent, Config, Connect, Endpoint, EndpointEvent, Grant, HeapMemory, Machine, Memory,
    Rng, RxMeta, TxBatch,
};
use towpath_sim::crypto::StandIn;
use towpath_vm::fields::FIELDS_BYTES_MAX;
use towpath_vm::host::NAME_MAX;
use towpath_vm::message::{LABEL_LOG, LABEL_TASK};
use towpath_vm::{Host, Message};
use towpath_wire::frame::Direction;
use towpath_wire::greeting::{Greeting, PROTOCOL};
use towpath_wire::{Admission, ByteSize, Instant, LinkId};

/// The leader's name: a newcomer of the same name gets a longer one.
pub const LEADER: &str = "a-host-whose-name-is-as-long-as-the-name-of-a-host-may-ever-be-6";
const LINK: LinkId = LinkId(0);
const NOW: Instant = Instant::ZERO;
/// Datagrams of each side that are enough for a handshake and what follows it at once.
const TURNS: usize = 24;

const _: () = assert!(LEADER.len() == NAME_MAX);

fn address(host: u8) -> SocketAddr {
    ([10, 0, 0, host], 7077).into()
}

fn leader() -> Node {
    let config = NodeConfig {
        name: LEADER.into(),
        build: "test".into(),
        links: Links::one(address(1)),
        arch: "any".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        unix_us_at_zero: 1_000_000,
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: Config::default(),
    };
    Node::found(config, Box::new(StandIn::new(Rng::new(1, 1))), Rng::new(1, 2), [7; 32])
}

/// Carries a datagram from one side to the other, if there is one.
fn carry<A: Machine, B: Machine>(
    (from, address): (&mut A, SocketAddr),
    memory: &HeapMemory,
    (to, theirs): (&mut B, &mut HeapMemory),
) -> bool {
    let mut buf = vec![0; 2048];
    let mut batch = TxBatch::new(&mut buf, memory, 1);
    let Some(sent) = from.poll_transmit(NOW, Grant::free(LINK), &mut batch) else { return false };
    let rx = RxMeta { link: LINK, remote: address, ecn: 0, late: Duration::ZERO };
    to.handle_datagram(NOW, rx, &mut buf[..sent.len], theirs);
    true
}

/// A newcomer with a token that says `hello`, as far as that is no longer than it may be.
pub fn join(hello: &[u8]) {
    // Behind the greeting of its own build: what comes with another one is not looked at.
    let (greeting, len) = Greeting { protocol: PROTOCOL, build: "test" }.emit();
    let hello = [&greeting[..len], hello].concat();
    let hello = &hello[..hello.len().min(HELLO_MAX)];
    let (mut leader, mut memory) = (leader(), HeapMemory::new(ByteSize::from_mib(4)));
    let invitation = leader.invite(NOW, 3600, [9; 16]).expect("it leads");
    let crypto = Box::new(StandIn::new(Rng::new(2, 1)));
    let mut newcomer = Endpoint::new(Config::default(), crypto, Rng::new(2, 2));
    let mut its_memory = HeapMemory::new(ByteSize::from_mib(4));
    let connect = Connect {
        link: LINK,
        remote: address(1),
        key: leader.endpoint().public_key(),
        admission: Admission::Token {
            expiry_unix_s: invitation.expiry_unix_s,
            nonce: invitation.nonce,
        },
        psk: invitation.psk,
        hello,
    };
    newcomer.connect(NOW, &connect).expect("an empty table");
    let (mut admitted, mut refused) = (false, false);
    for _ in 0..TURNS {
        carry((&mut newcomer, address(2)), &its_memory, (&mut leader, &mut memory));
        carry((&mut leader, address(1)), &memory, (&mut newcomer, &mut its_memory));
        while let Some(event) = newcomer.poll_event() {
            match event {
                EndpointEvent::Connected { id, .. } => {
                    admitted = true;
                    for label in [LABEL_LOG, LABEL_TASK] {
                        newcomer.open(id, Opening::new(Direction::Both, label));
                    }
                }
                EndpointEvent::ConnectFailed { .. } => refused = true,
                EndpointEvent::Association {
                    event: AssociationEvent::Message { block, .. },
                    ..
                } => {
                    told(its_memory.bytes(block));
                    its_memory.release(block);
                }
                _ => {}
            }
        }
    }
    assert!(admitted != refused, "it is let in, or told why not");
    let hosts: Vec<Host> = leader.hosts().cloned().collect();
    assert!(hosts.len() <= 1 + usize::from(admitted), "{hosts:?}");
    for host in &hosts {
        for text in [&host.name, &host.arch] {
            assert!(text.len() <= NAME_MAX && !text.contains(char::is_control), "{host:?}");
        }
    }
    assert!(hosts.len() < 2 || hosts[0].name != hosts[1].name, "{hosts:?}");
}

/// What the leader tells of the newcomer can be read, and used.
fn told(bytes: &[u8]) {
    let message = Message::decode(bytes).expect("the leader's word");
    assert_eq!(message.encode(), bytes, "and passed on as it came");
    let Message::Welcome(welcome) = message else { return };
    for host in welcome.snapshot.table.iter() {
        assert!(host.fields.len() <= FIELDS_BYTES_MAX, "{host:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_vm::Fields;

    #[test]
    fn a_newcomer_of_the_leaders_name_gets_another_that_is_no_longer_than_a_name() {
        let addrs = [address(2), ([0, 0, 0, 0], 1).into(), ([224, 0, 0, 1], 1).into()];
        let fields = Fields::of_addresses(&addrs.repeat(4));
        let said = (0u8, LEADER, "any", 1000u32, 2u16, 2u16, fields);
        join(&postcard::to_allocvec(&said).expect("a vector takes any body"));
    }
}
