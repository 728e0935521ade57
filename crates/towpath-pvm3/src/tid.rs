//! Task identifiers as PVM programs see them: 32 bits.
//!
//! ```text
//!  31      30      29           18 17            0
//! +-------+-------+---------------+---------------+
//! |daemon | group |  host, 1..4095| task, 1..2¹⁸−1|
//! +-------+-------+---------------+---------------+
//! ```

/// Bits of the host.
pub(crate) const HOST: i32 = 0x3ffc_0000;
/// Bits of the task within its host.
pub(crate) const LOCAL: i32 = 0x0003_ffff;
/// Flag of a daemon. By itself: the local daemon, which is where notices come from.
pub(crate) const DAEMON: i32 = i32::MIN;

/// Names a task (whether or not it exists). PVM takes host 0 too; nothing runs there.
pub(crate) const fn is_task(tid: i32) -> bool {
    tid & !(HOST | LOCAL) == 0 && tid & LOCAL != 0
}

/// The host of a task or daemon, as PVM names hosts.
pub(crate) const fn host_of(tid: i32) -> i32 {
    tid & HOST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PVM 3.4.6 (Debian) takes in `pvm_send`, tried.
    #[test]
    fn tasks_are_told_from_daemons_hosts_and_groups() {
        for tid in [1, 0x3_ffff, 0x3ffc_0001, 0x6_0001] {
            assert!(is_task(tid), "{tid:#x}");
        }
        for tid in [0, -1, 0x4_0000, 0x4000_0000, DAEMON, DAEMON | 0x4_0000, 0x3ffc_0000, i32::MAX]
        {
            assert!(!is_task(tid), "{tid:#x}");
        }
    }
}
