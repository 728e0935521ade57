//! Machines at one switch: network namespaces with virtual Ethernet.

use std::process::Command;
use std::time::Duration;

/// Machines `a`, `b`, … and `switch`, gone when dropped.
pub(super) struct Net {
    prefix: String,
    machines: &'static [&'static str],
}

const MAKE: &str = "ip netns add PREFIX-switch &&
    ip -n PREFIX-switch link add dev br0 type bridge && ip -n PREFIX-switch link set dev br0 up";
const PLUG_IN: &str = "ip netns add PREFIX-HOST &&
    ip link add dev eth0 netns PREFIX-HOST type veth peer name HOST netns PREFIX-switch &&
    ip -n PREFIX-HOST addr add 10.213.80.NUMBER/24 dev eth0 &&
    ip -n PREFIX-switch link set dev HOST master br0 up &&
    ip -n PREFIX-HOST link set dev lo up && ip -n PREFIX-HOST link set dev eth0 up";

/// One that has the address of another. It does not rely on who announces it last: the others are
/// told in their tables of neighbours.
const DOUBLE: &str = "ip netns add PREFIX-double &&
    ip link add dev eth0 netns PREFIX-double type veth peer name double netns PREFIX-switch &&
    ip -n PREFIX-double addr add 10.213.80.NUMBER/24 dev eth0 &&
    ip -n PREFIX-switch link set dev double master br0 up &&
    ip -n PREFIX-double link set dev eth0 up";
const LED_ASTRAY: &str = "mac=$(ip netns exec PREFIX-double cat /sys/class/net/eth0/address) &&
    ip -n PREFIX-HOST neigh replace 10.213.80.NUMBER lladdr $mac dev eth0 nud permanent";
const LED_BACK: &str = "ip -n PREFIX-HOST neigh del 10.213.80.NUMBER dev eth0";

/// A machine's number in its address.
pub(super) fn number(host: &str) -> u8 {
    host.bytes().next().map_or(0, |letter| letter - b'a' + 1)
}

impl Net {
    /// `None`: there can be no namespaces here (it takes root).
    pub(super) fn new(cell: usize, machines: &'static [&'static str]) -> Option<Self> {
        let net = Self { prefix: format!("tp{}-{cell}", std::process::id()), machines };
        let mut lines = vec![MAKE.to_owned()];
        for host in machines {
            lines.push(PLUG_IN.replace("HOST", host).replace("NUMBER", &number(host).to_string()));
        }
        net.sh(&lines.join(" && ")).ok().map(|()| net)
    }

    /// What a machine's namespace is called.
    pub(super) fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    fn sh(&self, lines: &str) -> Result<(), String> {
        let out = Command::new("sh").args(["-c", &lines.replace("PREFIX", &self.prefix)]).output();
        let out = out.map_err(|e| format!("sh: {e}"))?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        out.status.success().then_some(()).ok_or(said)
    }

    /// A machine's cable is pulled out of the switch, or plugged in again.
    pub(super) fn plug(&self, host: &str, up: bool) -> Result<(), String> {
        let state = if up { "up" } else { "down" };
        self.sh(&format!("ip -n PREFIX-switch link set dev {host} {state}"))
    }

    /// What matches a rule of nftables is dropped where it comes in.
    pub(super) fn drop_incoming(&self, host: &str, what: &str) -> Result<(), String> {
        self.sh(&format!(
            "ip netns exec PREFIX-{host} nft 'add table ip cell; \
             add chain ip cell in {{ type filter hook input priority 0; }}; \
             add rule ip cell in iifname eth0 {what} drop'"
        ))
    }

    /// All that comes in gets through again.
    pub(super) fn drop_nothing(&self, host: &str) -> Result<(), String> {
        self.sh(&format!(
            "ip netns exec PREFIX-{host} nft 'add table ip cell; delete table ip cell'"
        ))
    }

    /// A machine sends nothing longer than a frame to its link: a rule about lengths would judge
    /// trains of datagrams. Its kernel looks for a shorter length of TCP's packets, or not.
    pub(super) fn no_trains(&self, host: &str, probing: bool) -> Result<(), String> {
        let probing = u8::from(probing);
        self.sh(&format!(
            "ip -n PREFIX-{host} link set dev eth0 gso_max_segs 1 && ip netns exec PREFIX-{host} \
             sh -c 'echo {probing} >/proc/sys/net/ipv4/tcp_mtu_probing'"
        ))
    }

    /// Another machine has the address of this one, and the others send there what is for it; or
    /// it is gone again.
    pub(super) fn double(&self, host: &str, there: bool) -> Result<(), String> {
        let filled = |lines: &str| lines.replace("NUMBER", &number(host).to_string());
        // Gone before anybody asks who has the address.
        self.sh(&if there { filled(DOUBLE) } else { "ip netns del PREFIX-double".into() })?;
        for other in self.machines.iter().filter(|other| **other != host) {
            let lines = if there { LED_ASTRAY } else { LED_BACK };
            self.sh(&filled(lines).replace("HOST", other))?;
        }
        Ok(())
    }

    /// Processes that run on a machine.
    pub(super) fn processes(&self, host: &str) -> Vec<u32> {
        let out = Command::new("ip").args(["netns", "pids", &self.name(host)]).output();
        let out = out.map(|out| out.stdout).unwrap_or_default();
        String::from_utf8_lossy(&out).lines().filter_map(|line| line.trim().parse().ok()).collect()
    }
}

/// Kernels and daemons of the namespaces go on for so long: a fault lasts.
pub(super) fn pass(time: Duration) {
    std::thread::sleep(time);
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in self.machines.iter().chain(&["double", "switch"]) {
            // One that could not be made is not there.
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).output();
        }
    }
}
