//! The rows of the table, and what is measured for each.

use serde::Serialize;

use super::figures::{bytes, median, us_at};
use super::talk::Done;

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// One datagram per call.
    UdpSingles,
    /// Trains of datagrams of so many bytes, several per call.
    UdpTrains {
        datagram: u16,
    },
    UdpEcho {
        poll: bool,
    },
    TcpStream,
    TcpEcho {
        poll: bool,
    },
    Iperf,
    /// Messages of `len` bytes through an association.
    Bulk {
        trusted: bool,
        len: u32,
    },
    /// Messages of 16 bytes there and back through an association that does nothing else.
    Trips {
        trusted: bool,
        poll: bool,
    },
    /// The same while bulk messages of `len` bytes fill the association.
    Loaded {
        trusted: bool,
        len: u32,
    },
}

impl What {
    pub(super) fn name(self) -> String {
        let waiting = |poll| if poll { "both ends polling" } else { "blocking" };
        let packets = |trusted| if trusted { "trusted" } else { "encrypted" };
        match self {
            Self::UdpSingles => "kernel: UDP, a datagram per call".into(),
            Self::UdpTrains { datagram } => format!("kernel: UDP, trains of {datagram} B"),
            Self::UdpEcho { poll } => format!("kernel: UDP echo, {}", waiting(poll)),
            Self::TcpStream => "kernel: TCP".into(),
            Self::TcpEcho { poll } => format!("kernel: TCP echo, {}", waiting(poll)),
            Self::Iperf => "iperf3: TCP".into(),
            Self::Bulk { trusted, len } => {
                format!("{}, messages of {}", packets(trusted), bytes(len as usize))
            }
            Self::Trips { trusted, poll } => {
                format!("{}, 16 B and back, {}", packets(trusted), waiting(poll))
            }
            Self::Loaded { trusted, len } => {
                format!("{}, 16 B and back beside {}", packets(trusted), bytes(len as usize))
            }
        }
    }

    /// The row to which this one is held where it sends datagrams of so many bytes.
    pub(super) fn floor(self, datagram: Option<u16>) -> Option<Self> {
        match self {
            Self::Bulk { .. } => Some(Self::UdpTrains { datagram: datagram? }),
            Self::Trips { poll, .. } => Some(Self::UdpEcho { poll }),
            _ => None,
        }
    }
}

/// One measurement; what does not belong to the row is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Payload bytes per second.
    pub(super) bytes_per_s: Option<f64>,
    /// Datagrams per second.
    pub(super) datagrams_per_s: Option<f64>,
    /// Bytes of a datagram.
    pub(super) datagram_bytes: Option<u16>,
    /// Round trip, median.
    pub(super) rtt_us_p50: Option<f64>,
    /// Round trip that one in a hundred exceeds.
    pub(super) rtt_us_p99: Option<f64>,
    /// Processor time of the measuring end per round trip, in microseconds.
    pub(super) trip_cpu_us: Option<f64>,
    /// Processor time of both ends, in seconds per 10⁹ bytes of payload.
    pub(super) cpu_s_per_gb: Option<f64>,
    /// The sending end's part of it.
    pub(super) sender_s_per_gb: Option<f64>,
    /// System calls of both ends per 10⁶ bytes of payload.
    pub(super) calls_per_mb: Option<f64>,
}

/// What our own end of a flow did: `bytes` and `datagrams` within `seconds`, the rest from
/// beginning to end, as the peer counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) bytes: u64,
    pub(super) datagrams: Option<u64>,
    pub(super) datagram: Option<u16>,
    pub(super) seconds: f64,
    pub(super) calls: u64,
    pub(super) cpu_s: f64,
}

impl Sample {
    /// Both ends of a flow.
    pub(super) fn flow(near: &Flow, far: &Done) -> Self {
        let all = far.bytes.max(1) as f64;
        Self {
            bytes_per_s: Some(near.bytes as f64 / near.seconds),
            datagrams_per_s: near.datagrams.map(|d| d as f64 / near.seconds),
            datagram_bytes: near.datagram,
            cpu_s_per_gb: Some((near.cpu_s + far.cpu_s) / (all / 1e9)),
            sender_s_per_gb: Some(near.cpu_s / (all / 1e9)),
            calls_per_mb: Some((near.calls + far.calls) as f64 / (all / 1e6)),
            ..Self::default()
        }
    }

    /// Round trips in nanoseconds, and processor time of all of them in seconds.
    pub(super) fn trips(mut ns: Vec<u64>, cpu_s: f64) -> anyhow::Result<Self> {
        ns.sort_unstable();
        if ns.is_empty() {
            anyhow::bail!("no round trip within the time; give it more --seconds");
        }
        let us = |share| us_at(&ns, share);
        let trip_cpu_us = Some(cpu_s * 1e6 / ns.len() as f64);
        Ok(Self { rtt_us_p50: us(0.5), rtt_us_p99: us(0.99), trip_cpu_us, ..Self::default() })
    }

    /// Each figure's median over samples that have it.
    pub(super) fn median(samples: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> Option<f64>| median(samples.iter().filter_map(figure));
        Self {
            bytes_per_s: of(|s| s.bytes_per_s),
            datagrams_per_s: of(|s| s.datagrams_per_s),
            datagram_bytes: samples.iter().filter_map(|s| s.datagram_bytes).max(),
            rtt_us_p50: of(|s| s.rtt_us_p50),
            rtt_us_p99: of(|s| s.rtt_us_p99),
            trip_cpu_us: of(|s| s.trip_cpu_us),
            cpu_s_per_gb: of(|s| s.cpu_s_per_gb),
            sender_s_per_gb: of(|s| s.sender_s_per_gb),
            calls_per_mb: of(|s| s.calls_per_mb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_both_ends_together() {
        let (datagrams, datagram) = (Some(30), Some(1472));
        let near =
            Flow { bytes: 3_000_000, datagrams, datagram, seconds: 1.5, calls: 8, cpu_s: 0.5 };
        let s = Sample::flow(&near, &Done { calls: 12, cpu_s: 1.5, bytes: 4_000_000, checked: 0 });
        assert_eq!((s.bytes_per_s, s.datagrams_per_s), (Some(2e6), Some(20.0)));
        assert_eq!((s.calls_per_mb, s.cpu_s_per_gb), (Some(5.0), Some(500.0)));
    }

    #[test]
    fn medians_are_of_what_is_there() {
        let some = |x| Sample { rtt_us_p50: Some(x), ..Sample::default() };
        assert_eq!(Sample::median(&[some(9.0), some(1.0), some(2.0)]).rtt_us_p50, Some(2.0));
        assert_eq!(Sample::median(&[some(1.0), some(2.0)]).rtt_us_p50, Some(1.5));
        assert_eq!(Sample::median(&[some(1.0)]).calls_per_mb, None);
        let trips = Sample::trips((1..=1000).rev().map(|n| n * 1000).collect(), 0.002).unwrap();
        assert_eq!((trips.rtt_us_p50, trips.rtt_us_p99), (Some(501.0), Some(991.0)));
        assert_eq!(trips.trip_cpu_us, Some(2.0));
        assert!(Sample::trips(Vec::new(), 0.0).is_err());
    }
}
