//! Options of `mpirun` that people type out of habit: those that mean the same here under another
//! name are taken, for others there is a hint.

use std::ffi::{OsStr, OsString};

/// Words of `mpirun` and ours. Its long options have one dash or two.
const SAME: [(&str, &str); 9] = [
    ("-np", "-n"),
    ("--np", "-n"),
    ("-host", "--host"),
    ("-hostfile", "--hostfile"),
    ("-machinefile", "--hostfile"),
    ("--machinefile", "--hostfile"),
    ("-wdir", "--workdir"),
    ("--wdir", "--workdir"),
    ("-wd", "--workdir"),
];

const SLOTS: &str = "give hosts their slots, `--host h1:2,h2:2`, or one task each with --spread";
const PINNED: &str = "tasks are not bound to processors; leave it out";

/// What `mpirun` has and `run` has not, and what to do instead.
const OTHERWISE: [(&str, &str); 19] = [
    ("--map-by", SLOTS),
    ("--rank-by", SLOTS),
    ("--npernode", SLOTS),
    ("-npernode", SLOTS),
    ("--ppn", SLOTS),
    ("-ppn", SLOTS),
    ("-N", SLOTS),
    ("--bind-to", PINNED),
    ("-bind-to", PINNED),
    ("--oversubscribe", "as many tasks are started as asked for, whatever the slots; leave it out"),
    ("--allow-run-as-root", "root may run tasks; leave it out"),
    ("--mca", "Towpath has no such parameters; `towpath explain` tells which way messages take"),
    ("-genv", "one variable with -x NAME=VALUE"),
    ("-env", "one variable with -x NAME=VALUE"),
    ("-f", "a file of hosts with --hostfile FILE"),
    ("--tag-output", "--tag"),
    ("--output-filename", "files for each task with --output-dir DIR"),
    ("-q", "leave it out"),
    ("-v", "leave it out"),
];

/// What to do in the place of an option that `run` does not know.
pub(crate) fn hint(option: &str) -> &'static str {
    hint_for(option).unwrap_or("options of the command itself go behind it")
}

/// The same where it is an option of `mpirun`.
pub(crate) fn hint_for(option: &str) -> Option<&'static str> {
    let name = option.split('=').next().unwrap_or(option);
    let otherwise = OTHERWISE.iter().find(|(theirs, _)| *theirs == name);
    otherwise.map(|(_, instead)| *instead)
}

/// The words of a whole command line with the habits taken for what they mean, as far as the
/// command that is to be run. `takes_value` says so of our options.
pub(crate) fn understood(
    words: impl Iterator<Item = OsString>,
    takes_value: impl Fn(&OsStr) -> bool,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += match word.as_encoded_bytes() {
            b"--vm" => 2,
            word if word.starts_with(b"--vm=") => 1,
            _ => break,
        };
    }
    if words.get(at).is_none_or(|word| word != "run") {
        return words;
    }
    at += 1;
    while let Some(word) = words.get_mut(at) {
        if word == "--" || !word.as_encoded_bytes().starts_with(b"-") {
            break;
        }
        if let Some((_, ours)) = SAME.iter().find(|(theirs, _)| word == theirs) {
            *word = (*ours).into();
        }
        at += if takes_value(word) { 2 } else { 1 };
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let takes = |word: &OsStr| ["-n", "--host", "--workdir"].iter().any(|ours| word == *ours);
        understood(words, takes).join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn habits_are_understood_up_to_the_command() {
        assert_eq!(taken("towpath run -np 4 x -np 4"), "towpath run -n 4 x -np 4");
        assert_eq!(
            taken("towpath --vm a run -host h1 -wdir /"),
            "towpath --vm a run --host h1 --workdir /"
        );
        assert_eq!(taken("towpath --vm=a run -np 4 x"), "towpath --vm=a run -n 4 x");
        assert_eq!(taken("towpath run --tag -np 2 -- -np"), "towpath run --tag -n 2 -- -np");
        // A value is no option, whatever it looks like.
        assert_eq!(taken("towpath run --workdir -np x"), "towpath run --workdir -np x");
        assert_eq!(taken("towpath farm -np x"), "towpath farm -np x");
    }

    #[test]
    fn what_is_otherwise_has_a_hint() {
        assert!(hint("--map-by").contains("--spread"));
        assert!(hint("--bind-to=core").contains("leave it out"));
        assert!(hint("--bogus").contains("behind it"));
    }
}
