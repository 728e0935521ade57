//! How many processors this process may use: those it may run on, and no more than its control
//! groups grant it time for (`cpu.max` of cgroup v2).

use std::fs;
use std::path::{Path, PathBuf};

/// Most processors that a host tells of.
pub const PROCESSORS_MAX: usize = 1024;

/// Processors that this process may use, at least 1.
pub fn available() -> u16 {
    let may_run_on = std::thread::available_parallelism().map_or(1, usize::from);
    let granted = super::cgroup::own().and_then(|(root, group)| granted(&root, &group));
    granted.unwrap_or(usize::MAX).min(may_run_on).clamp(1, PROCESSORS_MAX) as u16
}

/// Whole processors that the time granted to `group` and the groups around it amounts to; `None`
/// without a limit. Less than one counts as one.
fn granted(root: &Path, group: &Path) -> Option<usize> {
    let inside = group.strip_prefix("/").unwrap_or(group);
    let dirs = inside.ancestors().map(|part| root.join(part));
    dirs.filter_map(|dir: PathBuf| quota(&fs::read_to_string(dir.join("cpu.max")).ok()?)).min()
}

/// `cpu.max` holds time and period in microseconds, or `max` for no limit.
fn quota(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace();
    let time_us: usize = words.next()?.parse().ok()?;
    let period_us: usize = words.next().map_or(Some(100_000), |p| p.parse().ok())?;
    Some(time_us.checked_div(period_us)?.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_around_us_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("a/b/c");
        fs::create_dir_all(&group).unwrap();
        let set = |dir: &str, text| fs::write(root.path().join(dir).join("cpu.max"), text).unwrap();
        let at = |group: &str| granted(root.path(), Path::new(group));
        assert_eq!(at("/a/b/c"), None);
        set("a/b/c", "max 100000\n");
        assert_eq!(at("/a/b/c"), None);
        set("a/b/c", "800000 100000\n");
        assert_eq!(at("/a/b/c"), Some(8));
        set("a", "350000 100000\n");
        assert_eq!(at("/a/b/c"), Some(3));
        set("a/b", "5000 100000\n");
        assert_eq!(at("/a/b/c"), Some(1), "less than one is one");
        assert_eq!(at("/a"), Some(3));
    }

    #[test]
    fn what_cannot_be_read_is_no_limit() {
        for text in ["", "max", "x 100000", "100000 0", "100000 x"] {
            assert_eq!(quota(text), None, "{text}");
        }
        assert_eq!(quota("200000"), Some(2));
    }

    #[test]
    fn there_is_at_least_one() {
        assert!(available() >= 1);
    }
}
