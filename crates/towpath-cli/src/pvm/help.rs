//! What `help` says.

use std::fmt::Write;

/// Commands with their arguments and what they do.
const COMMANDS: [(&str, &str, &str); 32] = [
    ("add", "HOST…, or 'HOST OPTION=VALUE…' in quotes", "Start hosts"),
    ("alias", "[NAME COMMAND…]", "Give a command another name; list them"),
    ("conf", "", "List hosts"),
    ("delete", "HOST…", "End hosts and the tasks on them"),
    ("echo", "WORD…", "Print words"),
    ("export", "[NAME…]", "Variables that children get; list them"),
    ("getopt", "[OPTION]", "Show PVM's options of the console"),
    ("halt", "", "End the virtual machine"),
    ("help", "[COMMAND]", "This"),
    ("id", "", "Print the console's task id"),
    ("idump", "", "No effect"),
    ("insert", "NAME [INDEX]", "Put an entry into a mailbox that anybody may replace"),
    ("jobs", "[-l]", "List what was spawned with -> and runs"),
    ("kill", "[-c] TASK…", "End tasks, or with -c their children"),
    ("lookup", "NAME [INDEX]", "Show an entry of a mailbox"),
    ("mstat", "HOST…", "Show whether hosts are up"),
    ("names", "[PATTERN]", "List mailboxes"),
    (
        "ps",
        "[-alx] [-hDTID | -nHOST]",
        "List tasks of this host; -a all, -l long, -x this console too",
    ),
    ("pstat", "TASK…", "Show whether tasks run"),
    ("put", "NAME FLAGS [TEXT]", "Put a text into a mailbox: 1 persistent, 2 many, 4 overwritable"),
    ("quit", "", "Leave the console; the virtual machine goes on"),
    ("remove", "NAME [INDEX]", "Delete an entry of a mailbox"),
    ("reset", "[info [NAME [INDEX]]]", "End all tasks; delete entries that nobody owns"),
    ("setenv", "[NAME [VALUE]]", "Set or show variables"),
    ("setopt", "OPTION VALUE", "Set a PVM option of the console"),
    ("sig", "SIGNAL TASK…", "Send a signal"),
    ("spawn", "[-OPTION…] PROGRAM [ARGUMENT…]", "Start tasks (`help spawn`)"),
    ("tickle", "", "No effect"),
    (
        "trace",
        "[[+ | -] CALL… | *], xpvm, buf [BYTES], opt [full | time | count]",
        "Set or show which calls `spawn -@` traces",
    ),
    ("unalias", "NAME…", "Take an alias away"),
    ("unexport", "NAME…", "Variables that children do not get any more"),
    ("version", "", "Print the version of PVM's interface"),
];

const SPAWN: &str = "  -N           so many tasks
  -HOST        on a host, by name, number or address
  -ARCH        on hosts of an architecture, such as LINUX64
  -HOST:DIR    in a folder there; -:DIR in a folder of any host
  -?           under the debugger: PVM_DEBUGGER, or PVM_ROOT/lib/debugger
  ->           output to the console; ->FILE to a file, ->>FILE to its end
  -@           trace of calls to the console; -@FILE to a file
";

/// What `help` prints.
pub(super) fn text(args: &[&str]) -> String {
    let mut out = String::new();
    match args {
        [] => {
            for (name, _, what) in COMMANDS {
                let _ = writeln!(out, "  {name:<11} {what}");
            }
        }
        names => {
            for wanted in names {
                let Some((name, args, what)) = COMMANDS.iter().find(|(name, ..)| name == wanted)
                else {
                    let _ = writeln!(out, "{wanted}: not found");
                    continue;
                };
                let _ = writeln!(out, "{name:<11} {what}");
                let _ = writeln!(out, "Syntax:  {}", format!("{name} {args}").trim_end());
                if *name == "spawn" {
                    out += SPAWN;
                }
            }
        }
    }
    out
}

/// What is said instead of doing what makes no sense any more.
pub(super) fn without_meaning(name: &str) -> String {
    let why = match name {
        "idump" => "it showed libpvm's own memory",
        _ => "it asked the pvmd for its insides; `towpath logs` and `towpath hosts` show ours",
    };
    format!("{name}: no effect: {why}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_explained_in_order() {
        assert!(COMMANDS.is_sorted_by_key(|(name, ..)| *name));
        assert_eq!(text(&[]).lines().count(), COMMANDS.len());
        assert!(text(&["spawn"]).contains("->FILE"));
        assert_eq!(text(&["nothing"]), "nothing: not found\n");
    }
}
