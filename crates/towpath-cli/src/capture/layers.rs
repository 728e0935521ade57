//! From a captured frame to the UDP datagram in it.

use std::net::{IpAddr, SocketAddr};

use pcap_parser::Linktype;

/// A UDP datagram. `payload` may be shorter than `len` where the capture kept less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Udp<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Bytes that were sent.
    pub(crate) len: usize,
    pub(crate) payload: &'a [u8],
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q and 802.1ad.
const ETHERTYPE_VLAN: [u16; 2] = [0x8100, 0x88a8];
const PROTOCOL_UDP: u8 = 17;

/// The UDP datagram in a frame; `None` where there is none, or only a fragment of one. IPv6
/// packets with extension headers are not looked into.
pub(crate) fn udp(link: Linktype, frame: &[u8]) -> Option<Udp<'_>> {
    match link {
        Linktype::ETHERNET => ethernet(frame.get(12..)?),
        Linktype::LINUX_SLL => network(word(frame, 14)?, frame.get(16..)?),
        Linktype::LINUX_SLL2 => network(word(frame, 0)?, frame.get(20..)?),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => ip(frame),
        Linktype::NULL | Linktype::LOOP => ip(frame.get(4..)?),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// From the type field on; up to two VLAN tags.
fn ethernet(mut frame: &[u8]) -> Option<Udp<'_>> {
    for _ in 0..2 {
        if ETHERTYPE_VLAN.contains(&word(frame, 0)?) {
            frame = frame.get(4..)?;
        }
    }
    network(word(frame, 0)?, frame.get(2..)?)
}

fn network(ethertype: u16, packet: &[u8]) -> Option<Udp<'_>> {
    matches!(ethertype, ETHERTYPE_IPV4 | ETHERTYPE_IPV6).then(|| ip(packet)).flatten()
}

fn ip(packet: &[u8]) -> Option<Udp<'_>> {
    match packet.first()? >> 4 {
        4 => ipv4(packet),
        6 => ipv6(packet),
        _ => None,
    }
}

/// RFC 791 §3.1.
fn ipv4(packet: &[u8]) -> Option<Udp<'_>> {
    let header = usize::from(packet[0] & 0xf) * 4;
    // More fragments, or not the first one.
    let fragment = word(packet, 6)? & 0x3fff != 0;
    if header < 20 || fragment || *packet.get(9)? != PROTOCOL_UDP {
        return None;
    }
    let address =
        |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    transport([address(12)?, address(16)?], packet.get(header..)?)
}

/// RFC 8200 §3.
fn ipv6(packet: &[u8]) -> Option<Udp<'_>> {
    if *packet.get(6)? != PROTOCOL_UDP {
        return None;
    }
    let address =
        |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
    transport([address(8)?, address(24)?], packet.get(40..)?)
}

/// RFC 768. Length 0 is that of a jumbogram, and of trains that were captured whole.
fn transport([from, to]: [IpAddr; 2], segment: &[u8]) -> Option<Udp<'_>> {
    let (from, to) = ((from, word(segment, 0)?).into(), (to, word(segment, 2)?).into());
    let rest = segment.get(8..)?;
    let len = match usize::from(word(segment, 4)?) {
        0 => rest.len(),
        len => len.checked_sub(8)?,
    };
    Some(Udp { from, to, len, payload: rest.get(..len).unwrap_or(rest) })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An Ethernet frame with one VLAN tag, IPv4 without options, UDP.
    pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 12];
        out.extend([0x81, 0, 0, 5, 8, 0]);
        let total = (28 + payload.len()) as u16;
        out.extend([0x45, 0]);
        out.extend(total.to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        for value in [7077, 7078, 8 + payload.len() as u16, 0] {
            out.extend(value.to_be_bytes());
        }
        out.extend(payload);
        out
    }

    #[test]
    fn a_datagram_is_found_below_vlan_and_ip() {
        let bytes = frame(&[1, 2, 3]);
        let found = udp(Linktype::ETHERNET, &bytes).unwrap();
        assert_eq!(found.from.to_string(), "10.0.0.1:7077");
        assert_eq!(found.to.to_string(), "10.0.0.2:7078");
        assert_eq!((found.len, found.payload), (3, &[1, 2, 3][..]));
        // Ethernet pads short frames; captures cut long ones.
        assert_eq!(udp(Linktype::ETHERNET, &[&bytes[..], &[0; 9]].concat()).unwrap().len, 3);
        let cut = udp(Linktype::ETHERNET, &bytes[..bytes.len() - 2]).unwrap();
        assert_eq!((cut.len, cut.payload), (3, &[1][..]));
        assert_eq!(udp(Linktype::RAW, &bytes[18..]).unwrap().payload, [1, 2, 3]);
        let mut tcp = bytes.clone();
        tcp[18 + 9] = 6;
        assert_eq!(udp(Linktype::ETHERNET, &tcp), None);
        let mut fragment = bytes;
        fragment[18 + 6] = 0x20;
        assert_eq!(udp(Linktype::ETHERNET, &fragment), None);
    }

    #[test]
    fn the_same_over_ipv6_in_a_cooked_frame() {
        let mut bytes = vec![0x86, 0xdd];
        bytes.extend([0; 18]);
        bytes.extend([0x60, 0, 0, 0, 0, 10, 17, 64]);
        bytes.extend([[0; 15], [0; 15]].map(|zeros| [&zeros[..], &[1]].concat()).concat());
        bytes.extend([0, 1, 0, 2, 0, 10, 0, 0, 8, 9]);
        let found = udp(Linktype::LINUX_SLL2, &bytes).unwrap();
        assert_eq!((found.from.to_string(), found.payload), ("[::1]:1".into(), &[8, 9][..]));
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_nothing_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            link in prop_oneof![Just(0), Just(1), Just(101), Just(108), Just(113), Just(276)],
        ) {
            let _ = udp(Linktype(link), &bytes);
            let mut framed = frame(&bytes);
            framed.truncate(bytes.len());
            let _ = udp(Linktype(link), &framed);
        }
    }
}
