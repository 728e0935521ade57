//! The `Transport` header: by which way a stream goes (RFC 2326 §12.39).

use core::net::IpAddr;

use thiserror::Error;

/// A way that we go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// To two UDP ports of the connection's other end.
    Udp {
        /// Of RTP and RTCP.
        ports: (u16, u16),
    },
    /// Within the connection.
    Interleaved {
        /// Of RTP; RTCP has the next one.
        channel: u8,
    },
}

/// Nothing of what was offered can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TransportError {
    /// None is known.
    #[error("no transport that is known")]
    Unknown,
    /// The stream would go to somebody who did not ask for it.
    #[error("a destination that is not who asks")]
    ThirdParty,
}

/// The first of the ways that are offered that can be gone.
pub fn transport(text: &str, peer: IpAddr) -> Result<Transport, TransportError> {
    let mut refused = TransportError::Unknown;
    for offer in text.split(',') {
        match one(offer, peer) {
            Ok(transport) => return Ok(transport),
            Err(TransportError::ThirdParty) => refused = TransportError::ThirdParty,
            Err(TransportError::Unknown) => {}
        }
    }
    Err(refused)
}

fn one(offer: &str, peer: IpAddr) -> Result<Transport, TransportError> {
    let mut fields = offer.split(';').map(str::trim);
    let profile = fields.next().unwrap_or_default();
    let interleaved = profile.eq_ignore_ascii_case("RTP/AVP/TCP");
    let udp = ["RTP/AVP", "RTP/AVP/UDP"].iter().any(|p| profile.eq_ignore_ascii_case(p));
    let (mut channel, mut ports) = (0, None);
    for field in fields {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        match name {
            "multicast" => return Err(TransportError::Unknown),
            "destination" if value.parse() != Ok(peer) => return Err(TransportError::ThirdParty),
            "interleaved" => {
                let first = value.split('-').next().unwrap_or_default();
                channel =
                    first.parse().ok().filter(|c| *c < u8::MAX).ok_or(TransportError::Unknown)?;
            }
            "client_port" => ports = pair(value),
            _ => {}
        }
    }
    match ports {
        _ if interleaved => Ok(Transport::Interleaved { channel }),
        Some(ports) if udp => Ok(Transport::Udp { ports }),
        _ => Err(TransportError::Unknown),
    }
}

/// Two ports; one names the next, too.
fn pair(text: &str) -> Option<(u16, u16)> {
    let (first, second) = text.split_once('-').unwrap_or((text, ""));
    let first: u16 = first.parse().ok().filter(|port| *port != 0)?;
    let second = if second.is_empty() { first.checked_add(1)? } else { second.parse().ok()? };
    Some((first, second)).filter(|(_, second)| *second != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_way_that_can_be_gone_is_taken() {
        let peer = IpAddr::from([10, 0, 0, 1]);
        let udp = Ok(Transport::Udp { ports: (5000, 5001) });
        assert_eq!(transport("RTP/AVP/UDP;unicast;client_port=5000-5001", peer), udp);
        assert_eq!(
            transport("RTP/AVP;multicast;client_port=7000,RTP/AVP;unicast;client_port=5000", peer),
            udp
        );
        assert_eq!(transport("RTP/AVP;destination=10.0.0.1;client_port=5000-5001", peer), udp);
        let within = Ok(Transport::Interleaved { channel: 4 });
        assert_eq!(transport("RTP/AVP/TCP;unicast;interleaved=4-5", peer), within);
        let third = transport("RTP/AVP;unicast;destination=10.0.0.2;client_port=5000-5001", peer);
        assert_eq!(third, Err(TransportError::ThirdParty));
        for bad in [
            "",
            "RTP/AVP",
            "RTP/AVP;client_port=0-1",
            "RTP/AVP;client_port=65535",
            "RTP/AVP/TCP;interleaved=255-256",
            "RAW/RAW/UDP;client_port=1-2",
        ] {
            assert_eq!(transport(bad, peer), Err(TransportError::Unknown), "{bad}");
        }
    }
}
