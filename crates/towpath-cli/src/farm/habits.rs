//! Options of GNU parallel that people type out of habit, and that `farm` does not have.

/// What GNU parallel has, and what to do instead.
const OTHERWISE: [(&str, &str); 26] = [
    ("--load", "hosts do not tell their load; give them fewer at once with --jobs"),
    ("--pipe-part", "--pipe with the file as standard input"),
    ("--pipepart", "--pipe with the file as standard input"),
    ("--recstart", "--pipe cuts between lines"),
    ("--recend", "--pipe cuts between lines"),
    ("-S", "hosts are those of the virtual machine, or named with --host"),
    ("--sshlogin", "hosts are those of the virtual machine, or named with --host"),
    ("--sshloginfile", "hosts are those of the virtual machine (`towpath up --hostfile`)"),
    ("-X", "-N says how many items go into one command"),
    ("-m", "-N says how many items go into one command"),
    ("--xargs", "-N says how many items go into one command"),
    ("-I", "the placeholder is {}"),
    ("--link", "`:::+` in the place of the second `:::`"),
    ("--xapply", "`:::+` in the place of the second `:::`"),
    ("--header", "columns have numbers only: {1}, {2}"),
    ("--rpl", "see the placeholders in `towpath farm --help`"),
    ("--shuf", "order the list with shuf(1) before"),
    ("--trim", "items are taken as they are"),
    ("-q", "no shell is involved, so that nothing has to be quoted; leave it out"),
    ("--quote", "no shell is involved, so that nothing has to be quoted; leave it out"),
    ("-u", "an item's output is written as a whole, when it ends"),
    ("--lb", "an item's output is written as a whole, when it ends"),
    ("--line-buffer", "an item's output is written as a whole, when it ends"),
    ("--resume-failed", "--resume runs failed items, too"),
    ("-P", "--jobs"),
    ("-v", "--dry-run prints the commands; --joblog keeps them"),
];

/// What to do in the place of an option that `farm` does not know.
pub(crate) fn hint(option: &str) -> &'static str {
    let name = option.split('=').next().unwrap_or(option);
    let otherwise = OTHERWISE.iter().find(|(theirs, _)| *theirs == name);
    otherwise.map_or("options of the command itself go behind it", |(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_otherwise_has_a_hint() {
        assert!(hint("--load=80%").contains("--jobs"));
        assert!(hint("--link").contains(":::+"));
        assert!(hint("--bogus").contains("behind it"));
    }
}
