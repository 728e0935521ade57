//! Addresses of streams.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// `udp://HOST:PORT` or `rtp://HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamUrl {
    pub(super) at: SocketAddr,
    pub(super) rtp: bool,
}

impl FromStr for StreamUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("udp://HOST:PORT or rtp://HOST:PORT")?;
        let rtp = match scheme {
            "udp" => false,
            "rtp" => true,
            other => return Err(format!("{other} is not known; udp and rtp are")),
        };
        // Players write udp://@:PORT for where they listen.
        let rest = rest.strip_prefix('@').unwrap_or(rest).trim_end_matches('/');
        let whole = if rest.starts_with(':') { format!("0.0.0.0{rest}") } else { rest.to_string() };
        let found = whole.to_socket_addrs().map_err(|e| format!("{whole}: {e}"))?;
        // IPv4 first, as players do.
        let mut found: Vec<SocketAddr> = found.collect();
        found.sort_by_key(|at| !at.is_ipv4());
        let at = *found.first().ok_or_else(|| format!("{whole} has no address"))?;
        if at.port() == 0 || rtp && at.port() == u16::MAX {
            return Err(format!("port {} cannot be used", at.port()));
        }
        Ok(Self { at, rtp })
    }
}

impl StreamUrl {
    /// Whether it is a group.
    pub(super) const fn is_group(&self) -> bool {
        match self.at.ip() {
            IpAddr::V4(ip) => ip.is_multicast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_players_write_is_understood() {
        let url = |text: &str| text.parse::<StreamUrl>().map(|u| (u.at.to_string(), u.rtp));
        assert_eq!(url("udp://127.0.0.1:5000"), Ok(("127.0.0.1:5000".into(), false)));
        assert_eq!(url("rtp://@239.1.1.1:5004/"), Ok(("239.1.1.1:5004".into(), true)));
        assert_eq!(url("udp://@:1234"), Ok(("0.0.0.0:1234".into(), false)));
        assert_eq!(url("udp://[::1]:9"), Ok(("[::1]:9".into(), false)));
        for bad in [
            "",
            "127.0.0.1:5",
            "srt://h:5",
            "udp://h",
            "udp://127.0.0.1:0",
            "rtp://127.0.0.1:65535",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert!("udp://239.0.0.1:5".parse::<StreamUrl>().expect("url").is_group());
    }
}
