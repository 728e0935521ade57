//! The virtual machine: spawning, signals, hosts, tasks.

use std::ffi::{c_char, c_int};

use towpath_task::{Fault, Host, HostState, Place, SpawnTasks, TaskId, TaskInfo};

use crate::code::{Code, Failure};
use crate::given::{self, Out, field, put};
use crate::handle::{Done, Handle, Outcome, with};

/// `towpath_spawn` of the header.
#[repr(C)]
pub(crate) struct CSpawn {
    program: *const c_char,
    args: *const *const c_char,
    env: *const *const c_char,
    cwd: *const c_char,
    place: u32,
    orphan: u32,
    host: u64,
    name: *const c_char,
    count: u32,
    context: u32,
}

/// `towpath_host_info` of the header.
#[repr(C)]
pub(crate) struct CHost {
    id: u64,
    cpus: u32,
    slots: u32,
    up: u32,
    reserved: u32,
    name: [c_char; 72],
    arch: [c_char; 72],
    address: [c_char; 64],
}

/// `towpath_task_info` of the header.
#[repr(C)]
pub(crate) struct CTask {
    id: u64,
    age_us: u64,
    parent: u64,
    pid: u32,
    state: u32,
    command: [c_char; 208],
}

impl From<&Host> for CHost {
    fn from(host: &Host) -> Self {
        Self {
            id: host.id.to_raw(),
            cpus: host.cpus.into(),
            slots: host.slots.into(),
            up: (host.state == HostState::Up).into(),
            reserved: 0,
            name: field(&host.name),
            arch: field(&host.arch),
            address: field(&host.addr.to_string()),
        }
    }
}

impl From<&TaskInfo> for CTask {
    fn from(task: &TaskInfo) -> Self {
        Self {
            id: task.id.to_raw(),
            age_us: task.age_us,
            parent: member(task.parent),
            pid: task.pid,
            state: u32::from(task.enrolled) | u32::from(task.started) << 1,
            command: field(&task.command),
        }
    }
}

/// Where to spawn, as in the header.
///
/// # Safety
/// `name` is null or a string.
unsafe fn place(kind: u32, host: u64, name: *const c_char) -> Result<Place, Failure> {
    // SAFETY: the caller's promise.
    let name = || unsafe { given::name(name, "the place's name") }.map(str::to_string);
    Ok(match kind {
        0 => Place::Any,
        1 => Place::Host(given::host_id(host)?),
        2 => Place::Name(name()?),
        3 => Place::Arch(name()?),
        4 => Place::Not(given::host_id(host)?),
        other => return Err(Failure::argument(format!("place {other}: there are 0 to 4"))),
    })
}

impl CSpawn {
    /// # Safety
    /// Its pointers are as the header demands.
    unsafe fn read(&self) -> Result<SpawnTasks, Failure> {
        // SAFETY: the caller's promise for each of them.
        let (program, args, env, place) = unsafe {
            (
                given::c_bytes(self.program, "the program")?.to_vec(),
                given::strings(self.args, "args")?,
                given::strings(self.env, "env")?,
                place(self.place, self.host, self.name)?,
            )
        };
        let cwd = if self.cwd.is_null() {
            Vec::new()
        } else {
            // SAFETY: the caller's promise.
            unsafe { given::c_bytes(self.cwd, "cwd") }?.to_vec()
        };
        let pair = |entry: Vec<u8>| {
            let at = entry.iter().position(|b| *b == b'=');
            let at = at.filter(|at| *at > 0).ok_or_else(|| {
                let text = String::from_utf8_lossy(&entry);
                Failure::argument(format!("env: {text:?} is not NAME=VALUE"))
            })?;
            Ok((entry[..at].to_vec(), entry[at + 1..].to_vec()))
        };
        let env = env.into_iter().map(pair).collect::<Result<_, Failure>>()?;
        let (count, context, orphan) = (self.count, self.context, self.orphan != 0);
        let unique = false;
        Ok(SpawnTasks { program, args, env, cwd, place, count, context, orphan, unique })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_spawn_tasks(
    handle: Option<&Handle>,
    spawn: Option<&CSpawn>,
    ids: *mut u64,
    codes: *mut c_int,
) -> c_int {
    with(handle, |inner| {
        let spawn = spawn.ok_or_else(|| Failure::argument("what to spawn is null"))?;
        // SAFETY: the header asks for strings, and for room of `count` results.
        let tasks = unsafe { spawn.read() }?;
        let count = tasks.count as usize;
        let len = |is_null: bool| if is_null { 0 } else { count };
        // SAFETY: as above.
        let (ids, codes) = unsafe {
            (
                given::room(ids, len(ids.is_null()), "the ids")?,
                given::room(codes, len(codes.is_null()), "the codes")?,
            )
        };
        let results = inner.task.spawn(tasks)?;
        if results.len() != count {
            return Err(Failure {
                code: Code::Unexpected,
                why: format!("{} results for {count} tasks", results.len()),
            });
        }
        for (to, result) in ids.iter_mut().zip(&results) {
            to.write(result.as_ref().map_or(0, |task| task.to_raw()));
        }
        each(&mut codes.iter_mut(), &results);
        Ok(Done::Yes)
    })
}

fn each<'a, T: 'a>(
    codes: &mut dyn Iterator<Item = &'a mut std::mem::MaybeUninit<c_int>>,
    results: &[Result<T, Fault>],
) {
    for (to, result) in codes.zip(results) {
        to.write(result.as_ref().err().map_or(Code::Ok, Code::from) as c_int);
    }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_signal(handle: Option<&Handle>, task: u64, signal: i32) -> c_int {
    with(handle, |inner| {
        inner.task.signal(given::task_id(task)?, signal)?;
        Ok(Done::Yes)
    })
}

/// Copies as many as there is room for.
///
/// # Safety
/// `out` is null or room for `room` things.
pub(crate) unsafe fn list<T, C: for<'a> From<&'a T>>(
    all: &[T],
    out: *mut C,
    room: usize,
    count: Out<'_, usize>,
) -> Outcome {
    // SAFETY: the caller's promise.
    let out = unsafe { given::room(out, room, "the list") }?;
    for (to, from) in out.iter_mut().zip(all) {
        to.write(from.into());
    }
    put(count, all.len());
    Ok(Done::Yes)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_hosts(
    handle: Option<&Handle>,
    out: *mut CHost,
    room: usize,
    count: Out<'_, usize>,
) -> c_int {
    // SAFETY: the header asks for such room.
    with(handle, |inner| unsafe { list(&inner.task.hosts()?, out, room, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_tasks(
    handle: Option<&Handle>,
    host: u64,
    out: *mut CTask,
    room: usize,
    count: Out<'_, usize>,
) -> c_int {
    with(handle, |inner| {
        let host = if host == 0 { None } else { Some(given::host_id(host)?) };
        // SAFETY: the header asks for such room.
        unsafe { list(&inner.task.tasks(host)?, out, room, count) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_task_lookup(
    handle: Option<&Handle>,
    task: u64,
    out: Out<'_, CTask>,
) -> c_int {
    with(handle, |inner| {
        put(out, (&inner.task.task(given::task_id(task)?)?).into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_delete_hosts(
    handle: Option<&Handle>,
    hosts: *const u64,
    count: usize,
    codes: *mut c_int,
) -> c_int {
    with(handle, |inner| {
        let len = if codes.is_null() { 0 } else { count };
        // SAFETY: the header asks for so many ids and room for as many codes.
        let (hosts, codes) = unsafe {
            (given::slice(hosts, count, "the hosts")?, given::room(codes, len, "the codes")?)
        };
        let hosts = hosts.iter().map(|raw| given::host_id(*raw)).collect::<Result<Vec<_>, _>>()?;
        let results = inner.task.delete_hosts(hosts)?;
        each(&mut codes.iter_mut(), &results);
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_clock(handle: Option<&Handle>, host: u64, out: Out<'_, u64>) -> c_int {
    with(handle, |inner| {
        put(out, inner.task.clock(given::host_id(host)?)?);
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_halt(handle: Option<&Handle>) -> c_int {
    with(handle, |inner| {
        inner.task.halt()?;
        Ok(Done::Yes)
    })
}

/// A group's member, 0 for a hole.
pub(crate) fn member(member: Option<TaskId>) -> u64 {
    member.map_or(0, TaskId::to_raw)
}
