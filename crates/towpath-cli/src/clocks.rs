//! How far the clocks of hosts are apart, as this machine's daemon is told by theirs.

use std::collections::BTreeMap;
use std::time::Instant;

use towpath::{Task, VmDir};
use towpath_wire::HostId;

/// Questions of each host: the one that is answered first counts.
const ASKED: usize = 3;

/// By how many microseconds the clock of each of these hosts is ahead of the first one's; without
/// those that cannot be asked. What is known to less than the way there and back is none.
pub(crate) fn ahead_us(vm: &VmDir, hosts: &[HostId]) -> BTreeMap<HostId, i64> {
    let Some(mut task) = enrolled(vm) else { return BTreeMap::new() };
    let begin = Instant::now();
    // Each as of one instant, and how wrong that may be.
    let mut told = hosts.iter().filter_map(|host| Some((*host, told(&mut task, *host, begin)?)));
    let Some((first, (of_first, width))) = told.next() else { return BTreeMap::new() };
    let others = told.map(|(host, (us, its))| (host, apart(us, of_first, width + its)));
    others.chain([(first, 0)]).collect()
}

const fn apart(us: i64, of: i64, width_us: i64) -> i64 {
    let apart = us - of;
    if apart.abs() <= width_us { 0 } else { apart }
}

fn enrolled(vm: &VmDir) -> Option<Task> {
    let numbers = vm.local_hosts().ok()?;
    let sockets = numbers.into_iter().map(|n| vm.host(n).join("task.sock"));
    sockets.filter(|path| path.exists()).find_map(|path| Task::enrol_at(&path, None).ok())
}

/// A host's clock as it was at `begin`, and the time that the question took.
fn told(task: &mut Task, host: HostId, begin: Instant) -> Option<(i64, i64)> {
    let us = |time: Instant| i64::try_from((time - begin).as_micros()).unwrap_or(i64::MAX);
    let ask = || {
        let asked = us(Instant::now());
        let told = i64::try_from(task.clock(host).ok()?).ok()?;
        let took = us(Instant::now()) - asked;
        Some((told - asked - took / 2, took))
    };
    std::iter::repeat_with(ask).take(ASKED).map_while(|told| told).min_by_key(|(_, took)| *took)
}

#[test]
fn clocks_are_apart_where_that_is_more_than_the_question_took() {
    assert_eq!(apart(5_000, 1_000, 300), 4_000);
    assert_eq!(apart(1_000, 5_000, 300), -4_000);
    assert_eq!((apart(1_200, 1_000, 300), apart(1_000, 1_200, 300)), (0, 0));
}
