//! When a farm ends before its items do, as GNU parallel's `--halt` says it.

use std::fmt;
use std::str::FromStr;

/// `now,fail=1`, `soon,done=10%` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt {
    /// What runs is ended, too; else it is waited for.
    pub now: bool,
    /// What is counted.
    pub of: Results,
    /// How many are enough.
    pub limit: HaltLimit,
}

/// Which results are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// Those of items that failed.
    Failed,
    /// Those of items that succeeded.
    Succeeded,
    /// All.
    Any,
}

/// How many results are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltLimit {
    /// So many, at least 1.
    Count(u64),
    /// So many of a hundred items, 1 to 100.
    Percent(u64),
}

/// What is no such rule.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "a rule is `now` or `soon`, what is counted (fail, success or done) and how many, such as \
     now,fail=1 or soon,done=10%"
)]
pub struct HaltError;

impl FromStr for Halt {
    type Err = HaltError;

    fn from_str(text: &str) -> Result<Self, HaltError> {
        let (when, rest) = text.split_once(',').ok_or(HaltError)?;
        let (of, limit) = rest.split_once('=').ok_or(HaltError)?;
        let now = match when {
            "now" => true,
            "soon" => false,
            _ => return Err(HaltError),
        };
        let of = match of {
            "fail" => Results::Failed,
            "success" => Results::Succeeded,
            "done" => Results::Any,
            _ => return Err(HaltError),
        };
        let number = |text: &str| text.parse().ok().filter(|n| *n >= 1).ok_or(HaltError);
        let limit = match limit.strip_suffix('%') {
            Some(percent) => {
                HaltLimit::Percent(number(percent).ok().filter(|n| *n <= 100).ok_or(HaltError)?)
            }
            None => HaltLimit::Count(number(limit)?),
        };
        Ok(Self { now, of, limit })
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            Results::Failed => "fail",
            Results::Succeeded => "success",
            Results::Any => "done",
        };
        let when = if self.now { "now" } else { "soon" };
        match self.limit {
            HaltLimit::Count(count) => write!(f, "{when},{of}={count}"),
            HaltLimit::Percent(percent) => write!(f, "{when},{of}={percent}%"),
        }
    }
}

impl Halt {
    /// Whether these results of `items` items are enough.
    pub fn is_reached(&self, succeeded: u64, failed: u64, items: u64) -> bool {
        let counted = match self.of {
            Results::Failed => failed,
            Results::Succeeded => succeeded,
            Results::Any => succeeded + failed,
        };
        match self.limit {
            HaltLimit::Count(count) => counted >= count,
            HaltLimit::Percent(percent) => counted > 0 && counted * 100 >= items * percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_gnu_parallel() {
        for rule in ["now,fail=1", "soon,fail=3", "now,success=2", "soon,done=10%"] {
            assert_eq!(rule.parse::<Halt>().unwrap().to_string(), rule);
        }
        let wrong = ["", "never", "now", "now,fail", "now,fail=0", "later,fail=1", "now,fall=1"];
        for wrong in wrong.iter().chain(&["soon,done=101%", "now,fail=x", "now,fail=-1"]) {
            assert_eq!(wrong.parse::<Halt>(), Err(HaltError), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_of_all_items() {
        let reached = |rule: &str, succeeded, failed| {
            rule.parse::<Halt>().unwrap().is_reached(succeeded, failed, 30)
        };
        assert!(reached("now,fail=2", 9, 2) && !reached("now,fail=2", 9, 1));
        assert!(reached("now,success=2", 2, 0) && !reached("now,success=2", 1, 9));
        assert!(reached("soon,done=10%", 2, 1) && !reached("soon,done=10%", 1, 1));
        assert!(!"now,fail=1%".parse::<Halt>().unwrap().is_reached(0, 0, 0));
    }
}
