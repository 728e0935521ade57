//! The hosts of a virtual machine from a file.
//!
//! ```text
//! # one host a line; `*` sets what the lines below it do not set themselves
//! *            towpath=/opt/towpath/bin/towpath
//! alice@node1  slots=8 addr=192.0.2.5:7077
//! node[02-16]  slots=4 home=/scratch/towpath
//! ```
//! | option | meaning | default |
//! |---|---|---|
//! | `slots=N` | jobs at once, 1 to 1024 | the machine's processors, and one |
//! | `addr=IP[:PORT]` | where its daemon receives | the one that leads to the founder, any port |
//! | `home=DIR` | `TOWPATH_HOME` there | the user's own |
//! | `towpath=PATH` | the program there | `towpath`, found by the login shell's `PATH` |

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use towpath_wire::Rate;

use super::hostlist::{self, HostlistError, NAMES_MAX};

/// Longest file read, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// One machine to start a host on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name, as ssh is to be told, and the host's name in the host table.
    pub name: String,
    /// What it is started with.
    pub options: Options,
}

/// What a machine's host is started with; `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Who to be there.
    pub user: Option<String>,
    /// Jobs at once.
    pub slots: Option<u16>,
    /// Where to receive.
    pub addr: Option<SocketAddr>,
    /// How fast its links send at most. No word of a file sets it.
    pub link_rate: Option<Rate>,
    /// `TOWPATH_HOME` there.
    pub home: Option<String>,
    /// The program there.
    pub towpath: Option<String>,
    /// Variables for its daemon.
    pub env: Vec<(String, String)>,
}

/// Why a file cannot be read; `F` is what can be wrong with a line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostfileError<F = Fault> {
    /// It is too long.
    #[error("host file of {len} bytes, limit {FILE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// A line is wrong.
    #[error("line {line}: {fault}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        fault: F,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    /// Its names.
    #[error(transparent)]
    Names(#[from] HostlistError),
    /// A user's name that cannot be one.
    #[error("`{0}` is no user name")]
    User(String),
    /// An option that nobody knows.
    #[error("unknown option `{0}`; known are slots=N, addr=IP[:PORT], home=DIR, towpath=PATH")]
    Option(String),
    /// An option's value is wrong.
    #[error("{option}={value}: {wanted}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// One option for several hosts that only one can have.
    #[error("addr= with a port stands for one host, this line for {0}")]
    Shared(usize),
    /// A host that the file may not have as well.
    #[error(transparent)]
    Host(#[from] HostFault),
}

/// A host that a file may not have as well.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostFault {
    /// It stands in the file twice.
    #[error("host `{name}` stands on line {first} already")]
    Twice {
        /// The host.
        name: String,
        /// Where it stood first.
        first: usize,
    },
    /// Too many hosts.
    #[error("more than {NAMES_MAX} hosts, the limit")]
    TooMany,
}

/// Hands the lines of a file to `take`, with their numbers, until one is wrong.
pub(crate) fn each_line<F>(
    text: &str,
    mut take: impl FnMut(usize, &str) -> Result<(), F>,
) -> Result<(), HostfileError<F>> {
    if text.len() > FILE_BYTES_MAX {
        return Err(HostfileError::TooLong { len: text.len() });
    }
    let mut lines = (1..).zip(text.lines());
    lines.try_for_each(|(line, words)| {
        take(line, words).map_err(|fault| HostfileError::Line { line, fault })
    })
}

/// The hosts of a file, and where each stands.
#[derive(Default)]
pub(crate) struct Seen(HashMap<String, usize>);

impl Seen {
    /// A host that stands on this line.
    pub(crate) fn add(&mut self, name: &str, line: usize) -> Result<(), HostFault> {
        if let Some(&first) = self.0.get(name) {
            return Err(HostFault::Twice { name: name.into(), first });
        }
        if self.0.len() == NAMES_MAX {
            return Err(HostFault::TooMany);
        }
        self.0.insert(name.into(), line);
        Ok(())
    }
}

/// Reads a file's text.
pub fn parse(text: &str) -> Result<Vec<Machine>, HostfileError> {
    let mut file = File::default();
    each_line(text, |number, line| file.line(number, line.split('#').next().unwrap_or_default()))?;
    Ok(file.machines)
}

#[derive(Default)]
struct File {
    machines: Vec<Machine>,
    defaults: Options,
    seen: Seen,
}

impl File {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Fault> {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let mut options = self.defaults.clone();
        let (user, names) = match first.rsplit_once('@') {
            Some((user, names)) => (Some(user), names),
            None => (None, first),
        };
        if let Some(user) = user {
            if !is_user(user) {
                return Err(Fault::User(user.into()));
            }
            options.user = Some(user.into());
        }
        for word in words {
            options.set(word)?;
        }
        if names == "*" {
            self.defaults = options;
            return Ok(());
        }
        let names = hostlist::expand(names)?;
        if names.len() > 1 && options.addr.is_some_and(|a| a.port() != 0) {
            return Err(Fault::Shared(names.len()));
        }
        for name in names {
            self.seen.add(&name, number)?;
            self.machines.push(Machine { name, options: options.clone() });
        }
        Ok(())
    }
}

/// Whether it can be the name of a user: ssh is told it, and must not take it for an option.
pub fn is_user(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(fine)
}

/// Whether a text may be the value of an option: one line, as the other side's shell is told it.
pub fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

impl Options {
    fn set(&mut self, word: &str) -> Result<(), Fault> {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Fault::Option(word.into()));
        };
        let wrong = |option, wanted| Fault::Value { option, value: value.into(), wanted };
        let text = |option| {
            let fine = !value.is_empty() && is_line(value);
            if fine { Ok(Some(value.to_string())) } else { Err(wrong(option, "a path")) }
        };
        match name {
            "slots" => {
                let slots = value.parse().ok().filter(|n| (1..=1024).contains(n));
                self.slots = Some(slots.ok_or_else(|| wrong("slots", "1 to 1024"))?);
            }
            "addr" => {
                let addr = address(value).ok_or_else(|| wrong("addr", "an IP address"))?;
                self.addr = Some(addr);
            }
            "home" => self.home = text("home")?,
            "towpath" => self.towpath = text("towpath")?,
            _ => return Err(Fault::Option(word.into())),
        }
        Ok(())
    }
}

/// An address with or without a port.
fn address(text: &str) -> Option<SocketAddr> {
    let alone = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0));
    text.parse().ok().or_else(alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn defaults_count_for_the_lines_below_and_ranges_are_spread() {
        let text = "# ours\n\
             a slots=2\n\
             \n\
             * towpath=/opt/towpath slots=3 # from here on\n\
             bob@n[1-2] home=/scratch\n\
             c addr=192.0.2.1:70 slots=1\n";
        let machines = parse(text).unwrap();
        let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["a", "n1", "n2", "c"]);
        assert_eq!(machines[0].options, Options { slots: Some(2), ..Options::default() });
        assert_eq!(
            machines[2].options,
            Options {
                user: Some("bob".into()),
                slots: Some(3),
                home: Some("/scratch".into()),
                towpath: Some("/opt/towpath".into()),
                ..Options::default()
            }
        );
        assert_eq!(machines[3].options.addr, Some(([192, 0, 2, 1], 70).into()));
        assert_eq!(machines[3].options.slots, Some(1));
    }

    #[test]
    fn a_fault_names_its_line() {
        let fault = |text: &str| match parse(text) {
            Err(HostfileError::Line { line: 2, fault }) => fault,
            other => panic!("{other:?}"),
        };
        let twice = HostFault::Twice { name: "a".into(), first: 1 };
        assert_eq!(fault("a\na"), Fault::Host(twice));
        assert_eq!(fault("a\nb sp=100"), Fault::Option("sp=100".into()));
        assert!(matches!(fault("a\nb slots=0"), Fault::Value { option: "slots", .. }));
        assert!(matches!(fault("a\nb addr=x"), Fault::Value { option: "addr", .. }));
        assert!(matches!(fault("a\n-oX"), Fault::Names(_)));
        assert_eq!(fault("a\n-l@b"), Fault::User("-l".into()));
        assert_eq!(fault("a\nb[1-3] addr=192.0.2.1:70"), Fault::Shared(3));
        assert_eq!(fault("a[1-4000]\nb[1-96]"), Fault::Host(HostFault::TooMany));
    }

    proptest! {
        #[test]
        fn any_text_gives_machines_or_an_error(text in "[a-c*@=\\[\\]0-3, \n#.-]{0,80}") {
            if let Ok(machines) = parse(&text) {
                prop_assert!(machines.iter().all(|m| hostlist::is_name(&m.name)));
            }
        }
    }
}
