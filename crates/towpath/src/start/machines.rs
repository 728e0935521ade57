//! Where the list of machines comes from when nobody names them.
//!
//! | variable | holds |
//! |---|---|
//! | `TOWPATH_HOSTS` | names as in [`hostlist`], each with `user@` and `:SLOTS` if wanted |
//! | `SLURM_JOB_NODELIST` | the nodes of a Slurm job, in the same form |
//! | `SLURM_TASKS_PER_NODE`, `SLURM_JOB_CPUS_PER_NODE` | slots of each node: `4(x2),1` |

use std::collections::BTreeSet;

use super::hostfile::{Machine, Options};
use super::hostlist::{self, HostlistError, NAMES_MAX};

/// Where a list came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A host file.
    Hostfile,
    /// Names on the command line.
    Names,
    /// `TOWPATH_HOSTS`.
    Environment,
    /// A Slurm job.
    Slurm,
}

/// Why a list cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MachinesError {
    /// A variable's names.
    #[error("{variable}: {why}")]
    Names {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: HostlistError,
    },
    /// A number of slots.
    #[error("`{0}`: slots are 1 to 1024, as in name:4")]
    Slots(String),
    /// A host is named twice.
    #[error("host `{0}` is named twice")]
    Twice(String),
    /// A user's name that cannot be one.
    #[error("`{0}` is no user name")]
    User(String),
}

/// The machines of `TOWPATH_HOSTS` or, without it, of a Slurm job. `variable` reads the
/// environment.
pub fn from_environment(
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(Source, Vec<Machine>)>, MachinesError> {
    let set = |name| variable(name).filter(|v| !v.trim().is_empty());
    if let Some(list) = set("TOWPATH_HOSTS") {
        let machines = named(&list, "TOWPATH_HOSTS")?;
        return Ok(Some((Source::Environment, machines)));
    }
    Ok(from_slurm(variable)?.map(|machines| (Source::Slurm, machines)))
}

/// The nodes of a Slurm job; `None` outside of one.
pub fn from_slurm(
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Vec<Machine>>, MachinesError> {
    let list = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"));
    let Some(list) = list.filter(|l| !l.trim().is_empty()) else { return Ok(None) };
    let names = hostlist::expand(&list)
        .map_err(|why| MachinesError::Names { variable: "SLURM_JOB_NODELIST", why })?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(MachinesError::Twice(twice.clone()));
    }
    let counts = variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
    let slots = counts.map_or_else(Vec::new, |c| repeated(&c));
    let machine = |(at, name)| {
        let slots = slots.get(at).copied();
        Machine { name, options: Options { slots, ..Options::default() } }
    };
    Ok(Some(names.into_iter().enumerate().map(machine).collect()))
}

/// Numbers as Slurm counts by node: `2(x3),1` is 2, 2, 2, 1. What cannot be read ends the list.
fn repeated(text: &str) -> Vec<u16> {
    let mut counts = Vec::new();
    for part in text.trim().split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.trim_end_matches(')').parse().ok()),
            None => (part, Some(1)),
        };
        let (Ok(number), Some(times)) = (number.trim().parse::<u16>(), times) else { break };
        let times = NAMES_MAX.saturating_sub(counts.len()).min(times);
        counts.extend(std::iter::repeat_n(number.clamp(1, 1024), times));
    }
    counts
}

/// Machines of a list such as `a,bob@n[1-3]:4`; `variable` names where it stands.
pub fn named(list: &str, variable: &'static str) -> Result<Vec<Machine>, MachinesError> {
    let mut machines: Vec<Machine> = Vec::new();
    for part in split_outside_brackets(list) {
        let (rest, slots) = slots_of(part)?;
        let (user, names) = match rest.rsplit_once('@') {
            Some((user, names)) if hostlist::is_name(user) => (Some(user.to_string()), names),
            Some((user, _)) => return Err(MachinesError::User(user.into())),
            None => (None, rest),
        };
        let options = Options { user, slots, ..Options::default() };
        let names =
            hostlist::expand(names).map_err(|why| MachinesError::Names { variable, why })?;
        for name in names {
            if machines.iter().any(|m| m.name == name) {
                return Err(MachinesError::Twice(name));
            }
            if machines.len() == NAMES_MAX {
                return Err(MachinesError::Names { variable, why: HostlistError::TooMany });
            }
            machines.push(Machine { name, options: options.clone() });
        }
    }
    Ok(machines)
}

/// `name:4` is `name` with four slots; an IPv6 address has no slots here.
fn slots_of(part: &str) -> Result<(&str, Option<u16>), MachinesError> {
    match part.rsplit_once(':') {
        Some((name, slots)) if !name.contains(':') => {
            let slots = slots.parse().ok().filter(|n| (1..=1024).contains(n));
            let slots = slots.ok_or_else(|| MachinesError::Slots(part.into()))?;
            Ok((name, Some(slots)))
        }
        _ => Ok((part, None)),
    }
}

/// The parts between the commas that stand in no bracket.
pub fn split_outside_brackets(list: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let cut = list.split(move |c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    });
    cut.map(str::trim).filter(|p| !p.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let set: Vec<(String, String)> =
            set.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        move |name| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone())
    }

    fn slots(machines: &[Machine]) -> Vec<(&str, Option<u16>)> {
        machines.iter().map(|m| (m.name.as_str(), m.options.slots)).collect()
    }

    #[test]
    fn a_slurm_job_gives_its_nodes_and_their_slots() {
        let job = environment(&[
            ("SLURM_JOB_NODELIST", "n[01-03],m"),
            ("SLURM_TASKS_PER_NODE", "4(x2),1"),
        ]);
        let (source, machines) = from_environment(&job).unwrap().unwrap();
        assert_eq!(source, Source::Slurm);
        let wanted = [("n01", Some(4)), ("n02", Some(4)), ("n03", Some(1)), ("m", None)];
        assert_eq!(slots(&machines), wanted);
        assert_eq!(from_environment(&environment(&[])), Ok(None));
        let twice = environment(&[("SLURM_JOB_NODELIST", "n1,n[1-2]")]);
        assert_eq!(from_environment(&twice), Err(MachinesError::Twice("n1".into())));
    }

    #[test]
    fn our_own_variable_goes_first() {
        let both =
            environment(&[("TOWPATH_HOSTS", "a, eve@b[1-2]:3"), ("SLURM_JOB_NODELIST", "n")]);
        let (source, machines) = from_environment(&both).unwrap().unwrap();
        assert_eq!(source, Source::Environment);
        assert_eq!(slots(&machines), [("a", None), ("b1", Some(3)), ("b2", Some(3))]);
        assert_eq!(machines[1].options.user.as_deref(), Some("eve"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(named("a,a", ""), Err(MachinesError::Twice("a".into())));
        assert_eq!(named("a:0", ""), Err(MachinesError::Slots("a:0".into())));
        assert_eq!(named("-o@a", ""), Err(MachinesError::User("-o".into())));
        assert!(matches!(named("a[1", "--host"), Err(MachinesError::Names { .. })));
    }

    #[test]
    fn counts_that_cannot_be_read_or_are_endless_do_no_harm() {
        assert_eq!(repeated("2(x3),1,x,5"), [2, 2, 2, 1]);
        assert_eq!(repeated("1(x99999999)").len(), NAMES_MAX);
        assert_eq!(repeated(""), [0; 0]);
    }
}
