//! From a captured frame to the UDP datagram in it.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice, UdpHeader};
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

/// The UDP datagram in a frame; `None` where there is none, or only a fragment of one.
pub(crate) fn udp(link: Linktype, frame: &[u8]) -> Option<Udp<'_>> {
    let packet = match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(frame).ok()?,
        Linktype::LINUX_SLL => cooked(frame.get(14..)?, 2)?,
        Linktype::LINUX_SLL2 => cooked(frame, 20)?,
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => LaxSlicedPacket::from_ip(frame).ok()?,
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(frame.get(4..)?).ok()?,
        _ => return None,
    };
    let [from, to]: [IpAddr; 2] = match packet.net? {
        LaxNetSlice::Ipv4(ip) => {
            [ip.header().source_addr(), ip.header().destination_addr()].map(Into::into)
        }
        LaxNetSlice::Ipv6(ip) => {
            [ip.header().source_addr(), ip.header().destination_addr()].map(Into::into)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else { return None };
    let (from, to) = ((from, udp.source_port()).into(), (to, udp.destination_port()).into());
    let payload = udp.payload();
    // Length 0 is that of a jumbogram, and of trains that were captured whole.
    let len = match usize::from(udp.length()) {
        0 => payload.len(),
        len => len.checked_sub(UdpHeader::LEN)?,
    };
    Some(Udp { from, to, len, payload })
}

/// A frame of Linux's own: the type of what is in it first, the rest `at` bytes on.
fn cooked(frame: &[u8], at: usize) -> Option<LaxSlicedPacket<'_>> {
    let kind = EtherType(u16::from_be_bytes([*frame.first()?, *frame.get(1)?]));
    Some(LaxSlicedPacket::from_ether_type(kind, frame.get(at..)?))
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
        // Behind a header of options for each hop; a fragment of a datagram is none.
        let (head, udp_segment) = bytes.split_at(60);
        let with = |next: u8, header: [u8; 8]| {
            let mut longer = [head, &header, udp_segment].concat();
            (longer[25], longer[26]) = (18, next);
            udp(Linktype::LINUX_SLL2, &longer).map(|found| found.payload.to_vec())
        };
        assert_eq!(with(0, [17, 0, 1, 4, 0, 0, 0, 0]), Some(vec![8, 9]));
        assert_eq!(with(44, [17, 0, 0, 1, 0, 0, 0, 7]), None);
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
