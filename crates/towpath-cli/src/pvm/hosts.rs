//! Hosts: `conf`, `add`, `delete`, `mstat`, `halt`.

use std::fmt::Write;

use towpath::pvm::hostfile::{self, PvmHost};
use towpath_pvm::names::arch_to_pvm;
use towpath_vm::Host;

use super::console::{Console, Next, wrong_args};
use super::tids::Tid;
use crate::control;
use crate::up::Added;

/// PVM's number for the formats of data on these machines.
const FORMATS: u32 = 0x0040_8c41;

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn table(hosts: &[Host]) -> String {
    let count = hosts.len();
    let formats = usize::from(count > 0);
    let mut out = format!("{count} host{}, {formats} data format\n", plural(count));
    let _ =
        writeln!(out, "{:>24} {:>8} {:>8} {:>7} {:>10}", "HOST", "DTID", "ARCH", "SPEED", "DSIG");
    for host in hosts {
        let (dtid, arch) = (Tid::from(host.id), arch_to_pvm(&host.arch));
        let _ = writeln!(
            out,
            "{:>24} {dtid:>8x} {arch:>8} {:>7} {FORMATS:#010x}",
            host.name, host.speed
        );
    }
    out
}

/// Rows of a host and what came of it, under a heading.
fn outcomes(done: usize, heading: &str, rows: &[(String, String)]) -> String {
    let mut out = format!("{done} successful\n{:>24} {heading:>8}\n", "HOST");
    for (name, what) in rows {
        let _ = writeln!(out, "{name:>24} {what:>8}");
    }
    out
}

impl Console<'_> {
    pub(super) fn conf(&mut self) -> anyhow::Result<String> {
        Ok(table(&self.hosts()?))
    }

    pub(super) fn mstat(&mut self, args: &[&str]) -> anyhow::Result<String> {
        if args.is_empty() {
            return wrong_args();
        }
        let hosts = self.hosts()?;
        let known = |name: &str| hosts.iter().any(|host| control::is_called(host, name));
        let line = |name: &&str| {
            let status = if known(name) { "ok" } else { "No such host" };
            format!("{name:>24}  {status}\n")
        };
        Ok(args.iter().map(line).collect())
    }

    pub(super) fn add(&mut self, args: &[&str]) -> anyhow::Result<String> {
        if args.is_empty() {
            return wrong_args();
        }
        let rows = self.start_hosts(args)?;
        let done = rows.iter().filter(|(_, outcome)| outcome.is_ok()).count();
        let rows =
            rows.into_iter().map(|(name, outcome)| (name, outcome.unwrap_or_else(|why| why)));
        Ok(outcomes(done, "DTID", &rows.collect::<Vec<_>>()))
    }

    /// Starts hosts; for each its number, or why it was not started.
    pub(super) fn start_hosts(&mut self, args: &[&str]) -> anyhow::Result<Vec<Added>> {
        let there = self.hosts()?;
        let (mut wanted, mut rows) = (Vec::new(), Vec::new());
        for arg in args {
            let host = self.described(arg)?;
            if there.iter().any(|t| t.name == host.name) {
                rows.push((host.name, Err("Duplicate host".to_string())));
            } else if !wanted.iter().any(|w: &PvmHost| w.name == host.name) {
                wanted.push(host);
            }
        }
        let added = if wanted.is_empty() {
            Vec::new()
        } else {
            let hoster = super::roles::hoster(&mut self.task);
            self.start.add(self.vm, &wanted, hoster)?
        };
        let now = self.hosts()?;
        for (name, outcome) in added {
            let host = now.iter().find(|host| host.name == name);
            let number = |id| host.map_or(id, |host| format!("{:x}", Tid::from(host.id)));
            let why = |why: String| format!("Can't start pvmd: {}", why.replace('\n', " "));
            rows.push((name, outcome.map(number).map_err(why)));
        }
        Ok(rows)
    }

    /// A host as `add` names it: `name` as the host file describes it, or with options of its own.
    fn described(&self, text: &str) -> anyhow::Result<PvmHost> {
        let found = hostfile::parse(text, &|name| self.settings.variable(name).map(Into::into))?;
        for note in &found.notes {
            eprintln!("add: {note}");
        }
        let mut hosts = found.hosts.into_iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            anyhow::bail!("`{text}` is not one host");
        };
        let described = self.described.iter().find(|d| d.name == host.name);
        Ok(match described {
            Some(described) if host.options == hostfile::PvmOptions::default() => described.clone(),
            _ => host,
        })
    }

    pub(super) fn delete(&mut self, args: &[&str]) -> anyhow::Result<String> {
        if args.is_empty() {
            return wrong_args();
        }
        let hosts = self.hosts()?;
        let (mut rows, mut done) = (Vec::new(), 0);
        for name in args {
            let what = match hosts.iter().find(|host| control::is_called(host, name)) {
                None => "No such host".to_string(),
                // PVM does not let a console delete its own host either.
                Some(host) if host.id == self.task.host() => "Bad parameter".to_string(),
                Some(host) => {
                    let deleted = self.task.delete_hosts(vec![host.id])?.pop();
                    done += u32::from(!matches!(deleted, Some(Err(_))));
                    let fault = deleted.and_then(Result::err).map(|fault| fault.to_string());
                    fault.unwrap_or_else(|| "deleted".to_string())
                }
            };
            rows.push(((*name).to_string(), what));
        }
        let mut out = format!("{done} successful\n{:>24}  STATUS\n", "HOST");
        for (name, what) in rows {
            let _ = writeln!(out, "{name:>24}  {what}");
        }
        Ok(out)
    }

    /// Ends the virtual machine, and with it this console.
    pub(super) fn halt(&mut self) -> anyhow::Result<Next> {
        // The other machines' hosts by the daemons; then this one's are waited for.
        let told = self.task.halt();
        crate::down::end_all(self.vm, told.is_err())?;
        Ok(Next::Quit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_vm::HostState;
    use towpath_wire::HostId;

    #[test]
    fn the_table_has_pvms_columns() {
        let host = |slot, name: &str| Host {
            id: HostId::new(slot, 1).unwrap(),
            name: name.into(),
            addr: ([127, 0, 0, 1], 7).into(),
            key: [0; 32],
            arch: "x86_64-linux".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            state: HostState::Up,
            fields: towpath_vm::Fields::default(),
        };
        // As Debian's PVM 3.4.6 prints it.
        let expected = "\
1 host, 1 data format
                    HOST     DTID     ARCH   SPEED       DSIG
                      vm    40000  LINUX64    1000 0x00408c41
";
        assert_eq!(table(&[host(1, "vm")]), expected);
        let two = table(&[host(1, "a"), host(2, "b")]);
        assert!(two.starts_with("2 hosts, 1 data format\n"), "{two}");
    }

    #[test]
    fn outcomes_have_pvms_columns() {
        let rows = [("nohostx".to_string(), "80000".to_string())];
        let expected = "\
1 successful
                    HOST     DTID
                 nohostx    80000
";
        assert_eq!(outcomes(1, "DTID", &rows), expected);
    }
}
