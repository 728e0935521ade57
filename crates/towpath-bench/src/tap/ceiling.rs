//! What a tap can do here at the most.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use towpath_sim::link::LinkSpec;
use towpath_sim::tap::{Script, WayState};

use super::device::Device;
use super::running::{Options, Tap};
use crate::netns;
use crate::tun::{Layer, TunDevice};

/// Bytes of the packets, and of UDP's payload in them.
const PACKET: u64 = 1500;
const PAYLOAD: usize = 1472;

/// What a tap passed in one direction when it had nothing else to do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ceiling {
    /// Packets of 1500 bytes.
    pub packets_per_s: f64,
    /// Their bits.
    pub bps: f64,
    /// How long it was measured.
    pub measured: Duration,
}

/// Floods a tap that delays and loses nothing, between two devices in a network namespace that is
/// gone afterwards, for so long. The sender takes its share of the processors, too: beside a
/// machine's own load this is what there was at the moment, not what a quiet one can do.
pub fn ceiling(time: Duration) -> anyhow::Result<Ceiling> {
    let measure = move || {
        // SAFETY: no pointers; it is this thread alone that gets another namespace.
        let rc = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        let refused = std::io::Error::last_os_error();
        if rc != 0 {
            return Err(refused).context("cannot make a network namespace\nhint: it takes root");
        }
        flood(time)
    };
    let measured = std::thread::scope(|scope| scope.spawn(measure).join());
    measured.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
}

fn flood(time: Duration) -> anyhow::Result<Ceiling> {
    let open = |name| TunDevice::open(name, Layer::Ip).context("cannot make a TUN device");
    let devices = [open("c0")?, open("c1")?].map(|tun| Device::Tun(tun, Layer::Ip));
    netns::run("ip addr add 10.215.0.1/24 dev c0")?;
    for name in ["c0", "c1"] {
        netns::run(&format!("ip link set {name} mtu 1500 txqueuelen 1000 up"))?;
    }
    let link =
        LinkSpec { rate_bps: 1_000_000_000_000, queue_bytes: 64 << 20, ..WayState::default().link };
    let script = Script::of(WayState { link, up: true });
    let tap = Tap::start(devices, PACKET as u32, &script, Options::default())?;
    let socket = UdpSocket::bind("10.215.0.1:0")?;
    socket.connect("10.215.0.2:9")?;
    let before = tap.read()?;
    let begun = Instant::now();
    while begun.elapsed() < time {
        for _ in 0..16 {
            // What finds the device's queue full is not for the tap to pass.
            let _ = socket.send(&[0; PAYLOAD]);
        }
    }
    let after = tap.read()?;
    tap.stop()?;
    let measured = after.elapsed.saturating_sub(before.elapsed);
    let packets = after.there.device.udp_frames - before.there.device.udp_frames;
    let packets_per_s = packets as f64 / measured.as_secs_f64();
    Ok(Ceiling { packets_per_s, bps: packets_per_s * PACKET as f64 * 8.0, measured })
}
