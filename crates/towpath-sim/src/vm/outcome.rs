//! What came of a run.

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct VmOutcome {
    /// The seed.
    pub seed: u64,
    /// Same seed, same hash.
    pub trace_hash: u64,
    /// Hosts, and how often one was declared lost.
    pub hosts: usize,
    /// Times that a host was declared lost.
    pub hosts_lost: u64,
    /// The same, as each host sees it, where that one lived.
    pub lost_alive: u64,
    /// Tasks that there were.
    pub tasks: usize,
    /// Those that were spawned by tasks.
    pub spawned: usize,
    /// Messages received, and their bytes.
    pub messages: u64,
    /// Bytes of messages received.
    pub bytes: u64,
    /// Messages received on tasks' own channels.
    pub on_channels: u64,
    /// Ends that were told before all messages had arrived, because a host or connection broke.
    pub cut_short: u64,
    /// Mailbox entries read.
    pub mail: u64,
    /// Those that were there, and whose content was lost with the hosts that kept it.
    pub mail_lost: u64,
    /// Faults that struck.
    pub faults: usize,
    /// Datagrams delivered.
    pub datagrams: u64,
    /// What grows with the number of hosts.
    pub growth: Growth,
    /// Largest values of a host's counters and of its message memory.
    pub peaks: Vec<(String, u64)>,
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Promises that were broken.
    pub violations: Vec<String>,
}

/// What grows with the number of hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    /// Entries of the control log.
    pub log_entries: u64,
    /// Messages by which the leader told of them, to all hosts together.
    pub log_messages: u64,
    /// When all hosts had joined, in seconds, and the datagrams delivered until then.
    pub joined_s: f64,
    /// Datagrams delivered until then.
    pub join_datagrams: u64,
    /// Hosts that the leader's table had in the end.
    pub table: usize,
    /// Bytes of the last snapshot of the table that a newcomer would get.
    pub snapshot_bytes: usize,
    /// Datagrams per second, all hosts together, while no task was left.
    pub idle_datagrams_per_s: f64,
    /// Packets per second that the leader sent or received meanwhile.
    pub idle_leader_packets_per_s: f64,
}
