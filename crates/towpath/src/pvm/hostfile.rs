//! PVM's host files (`pvmd3(1PVM)`).
//!
//! ```text
//! # one host a line; `*` sets what the lines below it do not set themselves
//! *        ep=$PVM_ROOT/bin/$PVM_ARCH:/opt/codes wd=/scratch
//! node1    lo=alice sp=2000
//! &node2   ep=/opt/codes       # known, but not started
//! ```
//! | option | meaning | here |
//! |---|---|---|
//! | `ep=DIR:…` | where programs are | `PVM_PATH` of the host's daemon |
//! | `wd=DIR` | working directory of tasks | `PVM_WD` of the host's daemon |
//! | `bx=PATH` | debugger | `PVM_DEBUGGER` of the host's daemon |
//! | `sp=N` | speed, 1 to 1 000 000 | the host's speed |
//! | `lo=USER` | who to be there | the user of ssh |
//! | `ip=ADDR` | another address | where the host's daemon receives |
//! | `so=`, `dx=`, `id=` | how and which `pvmd` is started | nothing: named in a note |
//!
//! `$NAME` stands for a variable of whoever reads the file, but in `ep=` it is left to the host.

use crate::start::hostfile::{HostFault, HostfileError, Seen, each_line, is_line, is_user};
use crate::start::hostlist::is_name;

/// Longest value of an option once its variables are put in, in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Most notes; what is above is not told.
pub const NOTES_MAX: usize = 64;

/// A host of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PvmHost {
    /// Its name.
    pub name: String,
    /// It is to be started; else it is only described for a later `add`.
    pub start: bool,
    /// Its options.
    pub options: PvmOptions,
}

/// Options of a host; `None`: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PvmOptions {
    /// `ep=`: folders with colons, variables not yet put in.
    pub programs: Option<String>,
    /// `wd=`: a folder.
    pub folder: Option<String>,
    /// `bx=`: a program.
    pub debugger: Option<String>,
    /// `sp=`: 1000 is usual.
    pub speed: Option<u32>,
    /// `lo=`: a user.
    pub user: Option<String>,
    /// `ip=`: a name or address.
    pub address: Option<String>,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PvmHosts {
    /// Its hosts, in order.
    pub hosts: Vec<PvmHost>,
    /// What is left unheeded and why, for people.
    pub notes: Vec<String>,
}

/// Why a file cannot be read.
pub type PvmHostsError = HostfileError<Fault>;

/// What is wrong with a line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    /// It names no host.
    #[error("`{0}` is no host name: letters, digits, `.`, `-`, `_` and `:`, not `-` first")]
    Name(String),
    /// A host that the file may not have as well.
    #[error(transparent)]
    Host(#[from] HostFault),
    /// An option that PVM does not have.
    #[error("unknown option `{0}`; PVM's are lo= so= dx= ep= wd= sp= bx= ip= id=")]
    Option(String),
    /// An option's value is wrong.
    #[error("{option}{value}: {wanted}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
}

/// Gives the values of variables.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a file's text.
pub fn parse(text: &str, variable: Variable<'_>) -> Result<PvmHosts, PvmHostsError> {
    let mut file = File { found: PvmHosts::default(), defaults: PvmOptions::default(), variable };
    let mut seen = Seen::default();
    each_line::<Fault>(text, |number, line| {
        let Some(host) = file.line(number, line)? else { return Ok(()) };
        seen.add(&host.name, number)?;
        file.found.hosts.push(host);
        Ok(())
    })?;
    Ok(file.found)
}

struct File<'a> {
    found: PvmHosts,
    defaults: PvmOptions,
    variable: Variable<'a>,
}

impl File<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<Option<PvmHost>, Fault> {
        let line = line.trim_start();
        // Only at the beginning of a line or behind a space: values may hold one.
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let Some(mut first) = words.next() else { return Ok(None) };
        let start = !first.starts_with('&');
        if !start {
            first = match &first[1..] {
                "" => words.next().unwrap_or_default(),
                name => name,
            };
        }
        let is_default = start && first == "*";
        let mut options = self.defaults.clone();
        for word in words {
            self.option(number, word, &mut options)?;
        }
        if is_default {
            self.defaults = options;
            return Ok(None);
        }
        let name = expand(first, self.variable).filter(|name| is_name(name));
        let name = name.ok_or_else(|| Fault::Name(first.into()))?;
        Ok(Some(PvmHost { name, start, options }))
    }

    fn option(&mut self, line: usize, word: &str, set: &mut PvmOptions) -> Result<(), Fault> {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Fault::Option(word.into()));
        };
        let wrong = |option, wanted| Fault::Value { option, value: value.into(), wanted };
        let checked = |option, text: Option<String>| match text {
            None => Err(wrong(option, "is too long: limit 4096")),
            Some(text) if !is_line(&text) => Err(wrong(option, "has a control character")),
            Some(text) => Ok(text),
        };
        let text = |option| checked(option, expand(value, self.variable));
        match name {
            "ep" => {
                let short = Some(value).filter(|value| value.len() <= VALUE_BYTES_MAX);
                set.programs = Some(checked("ep=", short.map(Into::into))?);
            }
            "wd" => set.folder = Some(text("wd=")?),
            "bx" => set.debugger = Some(text("bx=")?),
            "lo" => {
                let user = text("lo=")?;
                if !is_user(&user) {
                    return Err(wrong("lo=", "is no user's name"));
                }
                set.user = Some(user);
            }
            "ip" => {
                let address = Some(text("ip=")?).filter(|address| is_name(address));
                set.address = Some(address.ok_or_else(|| wrong("ip=", "is no address"))?);
            }
            "sp" => {
                let speed = text("sp=")?.parse().ok().filter(|n| (1..=1_000_000).contains(n));
                set.speed = Some(speed.ok_or_else(|| wrong("sp=", "1 to 1000000"))?);
            }
            "so" => self.note(line, word, unheeded_start(value)),
            "dx" => self.note(line, word, "hosts run Towpath's daemon, not a pvmd"),
            "id" => self.note(line, word, "`towpath --vm NAME` tells virtual machines apart"),
            _ => return Err(Fault::Option(word.into())),
        }
        Ok(())
    }

    fn note(&mut self, line: usize, word: &str, why: &str) {
        if self.found.notes.len() < NOTES_MAX {
            self.found.notes.push(format!("line {line}: {word} has no effect: {why}"));
        }
    }
}

fn unheeded_start(value: &str) -> &'static str {
    match value {
        "pw" => "ssh asks for nothing here; give it a key",
        "ms" => "to start a host by hand, run `towpath token` here and `towpath join` there",
        _ => "PVM knows so=pw and so=ms",
    }
}

/// Puts values in the place of `$NAME`; an unknown one is nothing. `None`: it gets too long.
fn expand(text: &str, variable: Variable<'_>) -> Option<String> {
    let mut out = String::new();
    let mut parts = text.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = part.find(|c| !fine(c)).unwrap_or(part.len());
        out.push_str(&variable(&part[..end]).unwrap_or_default());
        out.push_str(&part[end..]);
        if out.len() > VALUE_BYTES_MAX {
            return None;
        }
    }
    (out.len() <= VALUE_BYTES_MAX).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::hostfile::FILE_BYTES_MAX;
    use proptest::prelude::*;

    fn read(text: &str) -> PvmHosts {
        parse(text, &|name| (name == "WHERE").then(|| "/w".into())).unwrap()
    }

    #[test]
    fn a_file_with_everything() {
        let text = "# ours\n\
             a lo=bob so=pw\n\
             * ep=$PVM_ROOT/bin/$PVM_ARCH:/x wd=$WHERE/run # from here on\n\
             \n\
             b sp=500 bx=/dbg ip=192.0.2.7\n\
             & c wd=/c\n\
             &d dx=/pvmd id=7\n";
        let PvmHosts { hosts, notes } = read(text);
        let names: Vec<(&str, bool)> = hosts.iter().map(|h| (h.name.as_str(), h.start)).collect();
        assert_eq!(names, [("a", true), ("b", true), ("c", false), ("d", false)]);
        let user = Some("bob".into());
        assert_eq!(hosts[0].options, PvmOptions { user, ..PvmOptions::default() });
        let defaults = PvmOptions {
            programs: Some("$PVM_ROOT/bin/$PVM_ARCH:/x".into()),
            folder: Some("/w/run".into()),
            ..PvmOptions::default()
        };
        let b = PvmOptions {
            speed: Some(500),
            debugger: Some("/dbg".into()),
            address: Some("192.0.2.7".into()),
            ..defaults.clone()
        };
        assert_eq!(hosts[1].options, b);
        assert_eq!(hosts[2].options, PvmOptions { folder: Some("/c".into()), ..defaults.clone() });
        assert_eq!(hosts[3].options, defaults);
        assert_eq!(notes.len(), 3);
        assert!(notes[0].starts_with("line 2: so=pw has no effect"), "{notes:?}");
        assert!(notes[2].starts_with("line 7: id=7 has no effect"), "{notes:?}");
    }

    #[test]
    fn a_fault_names_its_line() {
        let fault = |text: &str| match parse(text, &|_| Some("x".repeat(4000))) {
            Err(PvmHostsError::Line { line: 2, fault }) => fault,
            other => panic!("{other:?}"),
        };
        let twice = HostFault::Twice { name: "a".into(), first: 1 };
        assert_eq!(fault("a\na"), Fault::Host(twice));
        assert_eq!(fault("a\nb zz=1"), Fault::Option("zz=1".into()));
        assert_eq!(fault("a\nb ep"), Fault::Option("ep".into()));
        assert_eq!(fault("a\n-o"), Fault::Name("-o".into()));
        assert_eq!(fault("a\n&"), Fault::Name(String::new()));
        assert!(matches!(fault("a\nb sp=0"), Fault::Value { option: "sp=", .. }));
        assert!(matches!(fault("a\nb lo=-x"), Fault::Value { option: "lo=", .. }));
        assert!(matches!(fault("a\nb wd=$A$A"), Fault::Value { option: "wd=", .. }));
        for option in ["wd=", "bx=", "ep="] {
            let (value, wanted) = ("/a\u{7}".to_string(), "has a control character");
            let said = fault(&format!("a\nb {option}{value}"));
            assert_eq!(said, Fault::Value { option, value, wanted });
        }
        let long = "x".repeat(FILE_BYTES_MAX + 1);
        let len = long.len();
        assert_eq!(parse(&long, &|_| None), Err(PvmHostsError::TooLong { len }));
    }

    proptest! {
        #[test]
        fn any_text_gives_hosts_or_an_error(
            text in "[a-c*&=$#\\- \n]{0,12}([elswpod]{2}=[a$1/]{0,4}[ \n]){0,6}",
        ) {
            if let Ok(found) = parse(&text, &|name| Some(name.to_lowercase())) {
                prop_assert!(found.hosts.iter().all(|host| is_name(&host.name)));
                prop_assert!(found.hosts.len() <= text.lines().count());
            }
        }

        /// What was written comes back.
        #[test]
        fn options_come_back(
            speed in 1..=1_000_000u32,
            folder in "/[a-z]{0,9}",
            user in "[a-z]{1,9}",
            start: bool,
        ) {
            let sign = if start { "" } else { "&" };
            let hosts = read(&format!("{sign}host1 sp={speed} wd={folder} lo={user}")).hosts;
            let options = PvmOptions {
                speed: Some(speed),
                folder: Some(folder),
                user: Some(user),
                ..PvmOptions::default()
            };
            prop_assert_eq!(hosts, [PvmHost { name: "host1".into(), start, options }]);
        }
    }
}
