//! Tasks: starting, asking after, signalling.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::tid;
use crate::vm::{Place, SpawnRequest, TaskRow, Vm};

/// Flags of `pvm_spawn`.
const HOST: i32 = 1;
const ARCH: i32 = 2;
const DEBUG: i32 = 4;
const COMPLEMENT: i32 = 32;
const BOTH: i32 = HOST | ARCH;
pub(super) const ORPHAN: i32 = 64;
/// Variable with the context that a child begins in.
pub(super) const CONTEXT_VAR: &str = "PVMCTX";
/// `pvm_kill` sends this.
const TERMINATE: i32 = 15;

impl Library {
    /// `pvm_spawn`: for each of `count` a task, or a code. Those that run come first.
    pub(crate) fn spawn(
        &self,
        program: &[u8],
        args: &[&[u8]],
        flags: i32,
        place: &[u8],
        count: i32,
    ) -> Result<Vec<i32>, Code> {
        let flags = flags | environment_flags();
        self.my_tid()?;
        let wanted = u32::try_from(count).ok().filter(|&count| count > 0).ok_or(Code::BadParam)?;
        let managed = self.spawn_managed((program, args), flags, place, count)?;
        let mut tids = match managed {
            Some(tids) => tids,
            None => self.spawn_here((program, args), flags, place, wanted)?,
        };
        tids.sort_by_key(|&tid| tid < 0);
        Ok(tids)
    }

    /// `pvm_spawn` without a manager.
    fn spawn_here(
        &self,
        (program, args): (&[u8], &[&[u8]]),
        flags: i32,
        place: &[u8],
        count: u32,
    ) -> Result<Vec<i32>, Code> {
        self.enrolled(|session, vm| {
            let mut request = SpawnRequest {
                program: program.to_vec(),
                args: args.iter().map(|arg| arg.to_vec()).collect(),
                flags,
                env: session.child_environment(vm),
                place: place_of(flags, place)?,
                count,
                context: session.context,
                orphan: flags & ORPHAN != 0,
            };
            under_debugger(flags, &mut request);
            let tids = vm.spawn(&request)?;
            for &tid in tids.iter().filter(|&&tid| tid > 0) {
                session.begin_output(tid);
            }
            Ok(tids)
        })
    }

    /// `pvm_sendsig`. A task that is not there takes it in silence.
    pub(crate) fn signal(&self, to: i32, signal: i32) -> Outcome {
        self.enrolled(|_, vm| {
            if !tid::is_task(to) {
                return Err(Code::BadParam);
            }
            match vm.signal(to, signal) {
                Ok(()) | Err(Code::NoTask | Code::NoHost) => Ok(0),
                Err(code) => Err(code),
            }
        })
    }

    /// `pvm_kill`.
    pub(crate) fn kill(&self, to: i32) -> Outcome {
        self.signal(to, TERMINATE)
    }

    /// `pvm_pstat`: 0 for a task that runs.
    pub(crate) fn task_status(&self, which: i32) -> Outcome {
        self.enrolled(|_, vm| match tid::is_task(which) {
            false => Err(Code::BadParam),
            true if vm.runs(which)? => Ok(0),
            true => Err(Code::NoTask),
        })
    }

    /// `pvm_tasks`: of a host, of all (0), or one task.
    pub(crate) fn tasks(&self, which: i32) -> Result<Vec<TaskRow>, Code> {
        if let Some(tasks) = self.tasks_managed(which)? {
            return Ok(tasks);
        }
        self.enrolled(|_, vm| {
            let host = tid::host_of(which);
            if which != 0 {
                let hosts = vm.hosts()?;
                if !hosts.iter().any(|row| row.tid == host) {
                    return Err(Code::NoHost);
                }
            }
            let mut tasks = vm.tasks(host)?;
            if tid::is_task(which) {
                tasks.retain(|row| row.tid == which);
            }
            Ok(tasks)
        })
    }
}

impl Session {
    /// What a child finds in its environment: what `PVM_EXPORT` names, and trace settings.
    pub(super) fn child_environment(&self, vm: &mut dyn Vm) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut env = self.tracer_of_children(vm);
        env.push((CONTEXT_VAR.into(), format!("{:#x}", self.context).into_bytes()));
        let Some(names) = std::env::var_os("PVM_EXPORT") else { return env };
        for name in names.as_bytes().split(|&byte| byte == b':').filter(|name| !name.is_empty()) {
            if let Some(value) = std::env::var_os(OsStr::from_bytes(name)) {
                env.push((name.to_vec(), value.into_vec()));
            }
        }
        env.push((b"PVM_EXPORT".to_vec(), names.into_vec()));
        env
    }
}

/// Flags that the environment adds to every spawn.
fn environment_flags() -> i32 {
    std::env::var("PVMTASK").ok().map_or(0, |text| parse_int(&text))
}

/// A number in C's notation; 0 for anything else.
pub(crate) fn parse_int(text: &str) -> i32 {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    let value = i64::from_str_radix(&digits[..end], radix).unwrap_or(0);
    (if negative { -value } else { value }) as i32
}

/// A task that is to be started under a debugger is its first argument.
pub(super) fn under_debugger(flags: i32, request: &mut SpawnRequest) {
    if flags & DEBUG != 0 {
        request.args.insert(0, std::mem::replace(&mut request.program, debugger()));
    }
}

/// The program that starts others under a debugger.
fn debugger() -> Vec<u8> {
    if let Some(set) = std::env::var_os("PVM_DEBUGGER") {
        return set.into_vec();
    }
    let root = std::env::var_os("PVM_ROOT").unwrap_or_else(|| "/usr/lib/pvm3".into());
    let mut path = root.into_vec();
    path.extend_from_slice(b"/lib/debugger");
    path
}

fn place_of(flags: i32, place: &[u8]) -> Result<Place, Code> {
    if flags & (HOST | ARCH | COMPLEMENT) == 0 {
        return Ok(Place::Any);
    }
    // As with PVM no host is without a name, is of both kinds, or is outside of all.
    if place.is_empty() || matches!(flags & (HOST | ARCH), 0 | BOTH) {
        return Ok(Place::Named(String::new()));
    }
    let name = String::from_utf8(place.to_vec()).map_err(|_| Code::NoHost)?;
    Ok(match (flags & ARCH != 0, flags & COMPLEMENT != 0) {
        (false, false) if name == "." => Place::Here,
        (false, false) => Place::Named(name),
        (false, true) => Place::NotNamed(name),
        (true, false) => Place::Arch(name),
        (true, true) => Place::NotArch(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_environment() {
        for (text, value) in
            [("12", 12), ("0x1F", 31), ("017", 15), ("-0x2", -2), ("", 0), ("x", 0), ("5 tasks", 5)]
        {
            assert_eq!(parse_int(text), value, "{text:?}");
        }
    }

    #[test]
    fn places() {
        assert_eq!(place_of(0, b"there"), Ok(Place::Any));
        for flags in [HOST, ARCH, HOST | ARCH, COMPLEMENT] {
            assert_eq!(place_of(flags, b""), Ok(Place::Named(String::new())));
        }
        assert_eq!(place_of(HOST | ARCH, b"LINUX64"), Ok(Place::Named(String::new())));
        assert_eq!(place_of(COMPLEMENT, b"a"), Ok(Place::Named(String::new())));
        assert_eq!(place_of(HOST, b"."), Ok(Place::Here));
        assert_eq!(place_of(HOST | COMPLEMENT, b"a"), Ok(Place::NotNamed("a".into())));
        assert_eq!(place_of(ARCH, b"LINUX64"), Ok(Place::Arch("LINUX64".into())));
    }

    #[test]
    fn a_program_under_a_debugger_is_the_debuggers_argument() {
        let of = |flags| {
            let mut request = SpawnRequest {
                program: b"p".to_vec(),
                args: vec![b"a".to_vec()],
                flags,
                env: Vec::new(),
                place: Place::Any,
                count: 1,
                context: 0,
                orphan: false,
            };
            under_debugger(flags, &mut request);
            (request.program, request.args)
        };
        assert_eq!(of(HOST | ORPHAN), (b"p".to_vec(), vec![b"a".to_vec()]));
        let (program, args) = of(DEBUG | HOST);
        assert_eq!((program, args), (debugger(), vec![b"p".to_vec(), b"a".to_vec()]));
    }
}
