//! What a run is made of.

use crate::link::LinkSpec;

/// A virtual machine and what happens in it. Every field has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmScenario {
    /// Hosts.
    pub hosts: usize,
    /// Tasks, spawned and enrolled by themselves together.
    pub tasks: usize,
    /// What a task does before it ends: so many acts.
    pub acts: u32,
    /// Mean time between two acts of a task, in microseconds.
    pub pace_us: u64,
    /// Longest message, in bytes.
    pub message_bytes_max: u32,
    /// Longest mailbox entry, in bytes, of tasks that use mailboxes much; 0: some thousand, seldom.
    pub mail_bytes_max: u32,
    /// Other hosts that a host's tasks talk to.
    pub partners: usize,
    /// Hosts that fail: crash, stop, are cut off.
    pub faults: usize,
    /// Times that hosts crash and start again, with what is on their disks or with wiped ones.
    pub restarts: usize,
    /// Times that all that keep the log crash at once and start again.
    pub power_cuts: usize,
    /// Times that hosts are told to end, and start again with what is on their disks.
    pub endings: usize,
    /// Times that two hosts do not reach each other, or one of them not the other, while all others
    /// reach both.
    pub aparts: usize,
    /// Half of the spawned tasks are unique: none of these may run where its host is lost.
    pub unique: bool,
    /// Every host's links, to and from the middle.
    pub link: LinkSpec,
    /// So many links has a host, each to a network of its own.
    pub links: u8,
    /// Hosts that keep the log of changes, and may come to lead, at most. Of more than one, the
    /// founder fails like any other host.
    pub voters: u8,
    /// After how long a host that answers nothing is lost, in milliseconds: two seconds, or more
    /// than any fault but a crash lasts, so that no other fault costs a host.
    pub lost_after_ms: u32,
    /// In one run of so many hosts are paced and tasks reserve; 0: in none.
    pub paced_in: u64,
    /// Simulated seconds after which everything must have come to its end.
    pub seconds_max: u64,
}

impl VmScenario {
    /// Hosts have disks, since they may need them.
    pub(super) const fn starts_again(&self) -> bool {
        self.restarts + self.power_cuts + self.endings > 0
    }

    /// Those that keep the log lose nothing that is only in memory: one of them dies at most.
    pub(super) const fn keeps_mail(&self) -> bool {
        self.voters > 1 && self.faults <= 1 && !self.starts_again()
    }

    /// Many hosts: fewer acts, short messages.
    pub fn large() -> Self {
        Self {
            hosts: 1000,
            tasks: 20_000,
            acts: 6,
            pace_us: 500_000,
            message_bytes_max: 20_000,
            partners: 3,
            faults: 20,
            seconds_max: 600,
            paced_in: 0,
            ..Self::default()
        }
    }
}

impl Default for VmScenario {
    fn default() -> Self {
        Self {
            hosts: 6,
            tasks: 60,
            acts: 12,
            pace_us: 20_000,
            message_bytes_max: 200_000,
            mail_bytes_max: 0,
            partners: 6,
            faults: 2,
            restarts: 0,
            power_cuts: 0,
            endings: 0,
            aparts: 0,
            unique: false,
            link: LinkSpec {
                rate_bps: 1_000_000_000,
                delay_us: 100,
                queue_bytes: 512 * 1024,
                datagram_bytes_max: 1472,
                loss_ppm: 2000,
                reorder_ppm: 10_000,
                reorder_us: 200,
                duplicate_ppm: 2000,
                ..LinkSpec::default()
            },
            links: 1,
            voters: 1,
            lost_after_ms: 2000,
            paced_in: 3,
            seconds_max: 120,
        }
    }
}
