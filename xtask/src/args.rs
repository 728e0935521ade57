//! The command line: commands and options, each defined once here; the help is derived from them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::report::WithHint;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Mutants,
    Tidy,
    Purity,
    Selfcheck,
    Deny,
    Test,
    Targets,
}

/// A command with its name, what it is for, and the options it takes.
struct Definition {
    command: Command,
    name: &'static str,
    about: &'static str,
    takes: &'static [&'static str],
}

const COMMANDS: &[Definition] = &[
    Definition {
        command: Command::Mutants,
        name: "mutants",
        about: "change a seeded sample of lines; each crate's own tests must notice most (hours)",
        takes: &["--root", "--crate"],
    },
    Definition {
        command: Command::Tidy,
        name: "tidy",
        about: "check dependency edges, sans-IO rules, unsafe, sizes, sleeping, leftovers, fuzzing",
        takes: &["--root"],
    },
    Definition {
        command: Command::Purity,
        name: "purity",
        about: "link each sans-IO crate alone, with memory functions and an allocator only",
        takes: &["--root", "--crate"],
    },
    Definition {
        command: Command::Selfcheck,
        name: "selfcheck",
        about: "plant one fault per check in a copy of the tree; each check must find its fault",
        takes: &["--root"],
    },
    Definition {
        command: Command::Deny,
        name: "deny",
        about: "check bans, licences and sources with cargo-deny (offline)",
        takes: &["--root", "--advisories"],
    },
    Definition {
        command: Command::Test,
        name: "test",
        about: "run `cargo test` with what follows `--`, then list what was skipped, and count",
        takes: &["--root", "--allow", "--"],
    },
    Definition {
        command: Command::Targets,
        name: "targets",
        about: "print the fuzz targets of what changed since a commit",
        takes: &["--root", "--since"],
    },
];

/// An option with the placeholder of its value (empty where it takes none) and its meaning.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("--root", "DIR", "the repository to check (default: the one around the current folder)"),
    ("--crate", "NAME", "only this crate; may be repeated"),
    ("--allow", "FILE", "fail on a skip that this file does not list; may be repeated"),
    ("--since", "COMMIT", "what changed since the working tree left this commit (default: all)"),
    ("--", "ARGS", "all that follows goes to `cargo test`"),
    ("--advisories", "", "also check security advisories (fetches their database)"),
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    root: Option<PathBuf>,
    pub(crate) crates: Vec<String>,
    pub(crate) advisories: bool,
    pub(crate) allow: Vec<PathBuf>,
    pub(crate) since: Option<String>,
    pub(crate) rest: Vec<String>,
}

pub(crate) enum Parsed {
    Help(String),
    Run(Command, Options),
}

impl Options {
    /// The repository root: the option, or the nearest folder upwards that holds `xtask/`.
    pub(crate) fn root(&self) -> Result<PathBuf> {
        if let Some(root) = &self.root {
            return std::path::absolute(root).hint(
                || format!("cannot resolve {}", root.display()),
                "give an existing folder to --root",
            );
        }
        let here = std::env::current_dir()
            .hint(|| "cannot read the current folder".into(), "run inside the repository")?;
        let is_root =
            |dir: &&Path| dir.join("Cargo.toml").exists() && dir.join("xtask/Cargo.toml").exists();
        match here.ancestors().find(is_root) {
            Some(root) => Ok(root.to_path_buf()),
            None => bail!(
                "no folder above {} holds Cargo.toml and xtask/\nhint: run inside the repository, \
                 or give --root",
                here.display()
            ),
        }
    }
}

pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Parsed> {
    let mut arguments = arguments;
    let Some(name) = arguments.next() else {
        bail!("no command given\nhint: commands are {}", names());
    };
    if name == "--help" || name == "-h" || name == "help" {
        return Ok(Parsed::Help(help()));
    }
    let Some(definition) = COMMANDS.iter().find(|definition| definition.name == name) else {
        bail!("unknown command `{name}`\nhint: commands are {}", names());
    };
    let mut options = Options::default();
    while let Some(flag) = arguments.next() {
        if flag == "--help" || flag == "-h" {
            return Ok(Parsed::Help(help_for(definition)));
        }
        if !definition.takes.contains(&flag.as_str()) {
            let takes = definition.takes.join(", ");
            bail!("`{name}` takes no `{flag}`\nhint: its options are {takes}, --help");
        }
        take(&mut options, &flag, &mut arguments)?;
    }
    Ok(Parsed::Run(definition.command, options))
}

fn take(
    options: &mut Options,
    flag: &str,
    arguments: &mut impl Iterator<Item = String>,
) -> Result<()> {
    if flag == "--advisories" {
        options.advisories = true;
        return Ok(());
    }
    if flag == "--" {
        options.rest.extend(arguments);
        return Ok(());
    }
    let Some(value) = arguments.next() else {
        bail!("`{flag}` needs a value\nhint: write `{flag} VALUE`; --help says which");
    };
    match flag {
        "--root" => options.root = Some(PathBuf::from(value)),
        "--allow" => options.allow.push(PathBuf::from(value)),
        "--since" => options.since = Some(value),
        _ => options.crates.push(value),
    }
    Ok(())
}

fn names() -> String {
    COMMANDS.iter().map(|definition| definition.name).collect::<Vec<_>>().join(", ")
}

fn help() -> String {
    let row = |definition: &Definition| format!("  {:<10} {}", definition.name, definition.about);
    let commands = COMMANDS.iter().map(row).collect::<Vec<_>>().join("\n");
    format!(
        "usage: cargo xtask <command> [options]\n\ncommands:\n{commands}\n\n\
         hint: `cargo xtask <command> --help` lists its options"
    )
}

fn help_for(definition: &Definition) -> String {
    let Definition { name, about, .. } = definition;
    let options: Vec<String> = OPTIONS
        .iter()
        .filter(|(flag, _, _)| definition.takes.contains(flag))
        .map(|(flag, value, meaning)| format!("  {:<14} {meaning}", format!("{flag} {value}")))
        .collect();
    let options = options.join("\n");
    format!("{about}\n\nusage: cargo xtask {name} [options]\n\noptions:\n{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Parsed> {
        parse(words.iter().map(ToString::to_string))
    }

    #[test]
    fn options_are_taken_only_by_their_command() {
        let Ok(Parsed::Run(command, options)) =
            parse_words(&["purity", "--crate", "towpath-wire", "--crate", "towpath-vm"])
        else {
            panic!("purity takes --crate");
        };
        assert_eq!(command, Command::Purity);
        assert_eq!(options.crates, ["towpath-wire", "towpath-vm"]);
        assert!(parse_words(&["tidy", "--crate", "towpath-wire"]).is_err());
        assert!(parse_words(&["tidy", "--root"]).is_err());
    }

    #[test]
    fn what_follows_two_dashes_is_cargo_s() {
        let words = ["test", "--allow", "a", "--allow", "b", "--", "--workspace", "--allow"];
        let Ok(Parsed::Run(Command::Test, options)) = parse_words(&words) else {
            panic!("test takes --allow and --");
        };
        assert_eq!(options.allow, ["a", "b"].map(PathBuf::from));
        assert_eq!(options.rest, ["--workspace", "--allow"]);
        assert!(parse_words(&["tidy", "--", "x"]).is_err());
    }

    #[test]
    fn every_error_ends_with_a_hint() {
        for words in [&["nothing"][..], &[], &["tidy", "--x"], &["purity", "--crate"]] {
            let Err(error) = parse_words(words) else { panic!("{words:?} is wrong") };
            let last = error.to_string().lines().last().unwrap_or_default().to_owned();
            assert!(last.starts_with("hint: "), "{words:?}: {last}");
        }
    }

    #[test]
    fn help_names_every_option_of_the_command() {
        let Ok(Parsed::Help(text)) = parse_words(&["deny", "--help"]) else { panic!("help") };
        assert!(text.contains("--advisories") && !text.contains("--crate"));
    }
}
