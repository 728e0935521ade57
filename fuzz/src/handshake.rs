//! Handshake messages with any payload behind the seal.

use std::net::SocketAddr;

use std::time::Duration;

use towpath_proto::endpoint::Answer;
use towpath_proto::{
    Config, Connect, Crypto, Endpoint, EndpointEvent, Grant, HeapMemory, Machine, Psk, Rng, RxMeta,
    TxBatch,
};
use towpath_sim::crypto::StandIn;
use towpath_wire::packet::{INITIATION_HEADER, Initiation, Packet, RESPONSE_HEADER, Response, TAG};
use towpath_wire::{Admission, ByteSize, Instant, LinkId, WIRE_VERSIONS};

const LINK: LinkId = LinkId(0);

fn stand_in(n: u64) -> StandIn {
    StandIn::new(Rng::new(n, 1))
}

fn endpoint(n: u64) -> Endpoint {
    Endpoint::new(Config::default(), Box::new(stand_in(n)), Rng::new(n, 2))
}

fn rx() -> RxMeta {
    RxMeta { link: LINK, remote: remote(), ecn: 0, late: Duration::ZERO }
}

fn remote() -> SocketAddr {
    ([10, 0, 0, 9], 7000).into()
}

fn append_mac1(crypto: &StandIn, of: &StandIn, packet: &mut Vec<u8>) {
    let key = crypto.derive(&of.public_key().0, b"towpath mac1");
    let mac1 = crypto.mac(&key, packet);
    packet.extend_from_slice(&mac1);
}

/// What an endpoint sends next.
fn pull(endpoint: &mut Endpoint, memory: &HeapMemory) -> Option<Vec<u8>> {
    let mut buf = vec![0; 2048];
    let mut batch = TxBatch::new(&mut buf, memory, 1);
    let t = endpoint.poll_transmit(Instant::ZERO, Grant::free(LINK), &mut batch)?;
    buf.truncate(t.len);
    Some(buf)
}

/// An Initiation that authenticates, with `payload` in it, to an endpoint that accepts.
pub fn initiation(payload: &[u8]) {
    let (mut peer, mut memory) = (stand_in(1), HeapMemory::new(ByteSize::from_mib(1)));
    let (us, mut endpoint) = (stand_in(2), endpoint(2));
    let mut packet = vec![0; INITIATION_HEADER + payload.len() + 256];
    Initiation::emit_header(&mut packet, WIRE_VERSIONS, &Admission::Member, 77);
    let prologue = packet[..INITIATION_HEADER].to_vec();
    let mut shake = peer.initiate(&us.public_key(), &Psk::MEMBER, &prologue);
    let n = shake.write(payload, &mut packet[INITIATION_HEADER..]).expect("room enough");
    packet.truncate(INITIATION_HEADER + n);
    append_mac1(&peer, &us, &mut packet);
    packet.extend_from_slice(&[0; TAG]);
    endpoint.handle_datagram(Instant::ZERO, rx(), &mut packet, &mut memory);
    let stats = *endpoint.stats();
    assert_eq!(stats.forged, 0, "it authenticates");
    match endpoint.poll_event() {
        Some(EndpointEvent::Incoming { id, hello, .. }) => {
            assert!(hello.len() <= payload.len());
            let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"well" };
            endpoint.answer(Instant::ZERO, id, &answer);
            let answer = pull(&mut endpoint, &memory).expect("an answer");
            assert!(matches!(Packet::parse(&answer), Ok(Packet::Response(_))));
        }
        other => assert!(other.is_none() && stats.garbage == 1, "{other:?}, {stats:?}"),
    }
}

/// A Response that authenticates, with `payload` in it, to an endpoint that asked.
pub fn response(payload: &[u8]) {
    let (mut peer, mut memory) = (stand_in(1), HeapMemory::new(ByteSize::from_mib(1)));
    let (us, mut endpoint) = (stand_in(2), endpoint(2));
    let connect = Connect {
        link: LINK,
        remote: remote(),
        key: peer.public_key(),
        admission: Admission::Member,
        psk: Psk::MEMBER,
        hello: b"",
    };
    let id = endpoint.connect(Instant::ZERO, &connect).expect("an empty table");
    let asked = pull(&mut endpoint, &memory).expect("an initiation");
    let Ok(Packet::Initiation(i)) = Packet::parse(&asked) else { panic!("not an initiation") };
    let mut shake = peer.respond(&i.before_mac1[..INITIATION_HEADER]);
    shake.read(i.noise, &mut vec![0; i.noise.len()]).expect("it is meant for us");
    let mut packet = vec![0; RESPONSE_HEADER + payload.len() + 256];
    Response::emit_header(&mut packet, 1, id.0, 99);
    let n = shake.write(payload, &mut packet[RESPONSE_HEADER..]).expect("room enough");
    packet.truncate(RESPONSE_HEADER + n);
    append_mac1(&peer, &us, &mut packet);
    endpoint.handle_datagram(Instant::ZERO, rx(), &mut packet, &mut memory);
    assert_eq!(endpoint.stats().forged, 0, "it authenticates");
    match endpoint.poll_event() {
        Some(EndpointEvent::Connected { hello, .. }) => {
            assert!(hello.len() <= payload.len());
            assert!(pull(&mut endpoint, &memory).is_some(), "it shows that it holds the keys");
        }
        Some(EndpointEvent::ConnectFailed { .. }) => {
            assert_eq!(endpoint.associations().count(), 0);
        }
        other => {
            panic!("an authentic response ends the handshake, one way or the other: {other:?}")
        }
    }
}
