//! Teams and what their members do together.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use towpath_task::TaskId;
use towpath_task::collective::{
    CollectiveError, Commutes, Element, Function, Lengths, Operation, Operator, Output, Payload,
};
use towpath_task::{Team, TeamError};

use crate::code::{Code, Failure};
use crate::given::{self, Out, needed};
use crate::handle::{Done, Handle, Inner, both, with};

/// `towpath_combine` of the header.
type Combine = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, usize);

/// `towpath_operator` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct COperator {
    function: u32,
    element: u32,
    combine: Option<Combine>,
    data: *mut c_void,
    element_bytes: usize,
    commutes: u32,
    reserved: u32,
}

/// Functions, by their number in the header, from 1.
const FUNCTIONS: [Function; 10] = [
    Function::Sum,
    Function::Product,
    Function::Min,
    Function::Max,
    Function::BitAnd,
    Function::BitOr,
    Function::BitXor,
    Function::LogicalAnd,
    Function::LogicalOr,
    Function::LogicalXor,
];

/// Elements, by their number in the header, from 1.
const ELEMENTS: [Element; 12] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::U16,
    Element::I32,
    Element::U32,
    Element::I64,
    Element::U64,
    Element::F32,
    Element::F64,
    Element::C32,
    Element::C64,
];

impl From<TeamError> for Failure {
    fn from(e: TeamError) -> Self {
        let code = match &e {
            TeamError::Members(_)
            | TeamError::Start(_)
            | TeamError::Foreign
            | TeamError::Operator(_) => Code::Argument,
            TeamError::Started => Code::Limit,
            TeamError::Hole { .. }
            | TeamError::Collective(
                CollectiveError::MemberLost { .. } | CollectiveError::GaveUp { .. },
            ) => Code::Broken,
            TeamError::Collective(_) | TeamError::Content(_) => Code::Mismatch,
            TeamError::Group(e) => e.into(),
            TeamError::Send(e) => e.into(),
            TeamError::Recv(e) => e.into(),
            _ => Code::Unexpected,
        };
        Self { code, why: e.to_string() }
    }
}

impl COperator {
    /// # Safety
    /// `combine`, if there is one, is a function as the header demands.
    unsafe fn read(&self) -> Result<Operator, Failure> {
        let bad = |what: &str, n: u32| Failure::argument(format!("{what} {n}: there is none"));
        let Some(combine) = self.combine else {
            let at = |n: u32| (n as usize).wrapping_sub(1);
            let function = FUNCTIONS.get(at(self.function));
            let element = ELEMENTS.get(at(self.element));
            let function = function.ok_or_else(|| bad("function", self.function))?;
            let element = element.ok_or_else(|| bad("element", self.element))?;
            let built_in = Operator::built_in(*function, *element);
            return built_in.map_err(|e| Failure::argument(e.to_string()));
        };
        let commutes = if self.commutes == 0 { Commutes::No } else { Commutes::Yes };
        let data = self.data;
        let call = move |left: &mut [u8], right: &[u8]| {
            // SAFETY: the header demands a function that takes so many bytes of both and returns;
            // it is called only while the operation that it was given to lasts.
            unsafe { combine(data, left.as_mut_ptr().cast(), right.as_ptr().cast(), left.len()) }
        };
        let user = Operator::user(self.element_bytes, commutes, call);
        user.map_err(|e| Failure::argument(e.to_string()))
    }
}

/// # Safety
/// `operator` is as the header demands.
pub(crate) unsafe fn operator(given: Option<&COperator>) -> Result<Operator, Failure> {
    let given = given.ok_or_else(|| Failure::argument("the operator is null"))?;
    // SAFETY: the caller's promise.
    unsafe { given.read() }
}

/// Puts bytes where C wants them, which has room for exactly as many.
fn fill(to: &mut [MaybeUninit<u8>], from: &[u8]) -> Result<(), Failure> {
    if to.len() != from.len() {
        let why = format!("a result of {} bytes, room for {}", from.len(), to.len());
        return Err(Failure { code: Code::TooLong, why });
    }
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_team_of_group(
    handle: Option<&Handle>,
    group: *const c_char,
    size: u32,
    out: Out<'_, *mut Team>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for the team")?;
        out.write(std::ptr::null_mut());
        // SAFETY: the header asks for a string.
        let team = inner.task.team(unsafe { given::name(group, "the group") }?, size)?;
        out.write(Box::into_raw(Box::new(team)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_team_of(
    handle: Option<&Handle>,
    members: *const u64,
    count: usize,
    out: Out<'_, *mut Team>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for the team")?;
        out.write(std::ptr::null_mut());
        // SAFETY: the header asks for so many ids.
        let members = unsafe { given::slice(members, count, "the members") }?;
        let members = members.iter().map(|raw| given::task_id(*raw));
        let team = inner.task.team_of(&members.collect::<Result<Vec<TaskId>, _>>()?)?;
        out.write(Box::into_raw(Box::new(team)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_team_free(team: *mut Team) {
    if !team.is_null() {
        // SAFETY: the header says that it comes from one of the above and is not used any more.
        drop(unsafe { Box::from_raw(team) });
    }
}

/// `TOWPATH_NO_COLOUR` of the header.
const NO_COLOUR: u32 = u32::MAX;

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_team_split(
    handle: Option<&Handle>,
    team: *mut Team,
    colour: u32,
    key: u32,
    out: Out<'_, *mut Team>,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        let out = needed(out, "the place for the team")?;
        out.write(std::ptr::null_mut());
        let colour = (colour != NO_COLOUR).then_some(colour);
        let Some(part) = team.split(&mut inner.task, colour, key)? else { return Ok(Done::No) };
        out.write(Box::into_raw(Box::new(part)));
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_team_rank(team: Option<&Team>) -> u32 {
    team.map_or(u32::MAX, Team::rank)
}

#[unsafe(no_mangle)]
extern "C" fn towpath_team_size(team: Option<&Team>) -> u32 {
    team.map_or(0, Team::size)
}

#[unsafe(no_mangle)]
extern "C" fn towpath_team_member(team: Option<&Team>, rank: u32) -> u64 {
    team.and_then(|team| team.members().get(rank as usize)).map_or(0, |task| task.to_raw())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_barrier(handle: Option<&Handle>, team: *mut Team) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        team.barrier(&mut inner.task)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_broadcast(
    handle: Option<&Handle>,
    team: *mut Team,
    root: u32,
    bytes: *mut c_void,
    len: usize,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        // SAFETY: the header asks for so many bytes, filled at the root.
        let bytes = unsafe { given::bytes_mut(bytes, len) }?;
        let is_root = team.rank() == root;
        let got = team.broadcast(&mut inner.task, root, is_root.then(|| bytes.to_vec()))?;
        if got.len() != len {
            let why = format!("the root gave {} bytes, here are {len}", got.len());
            return Err(Failure { code: Code::Mismatch, why });
        }
        if !is_root {
            bytes.copy_from_slice(&got);
        }
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

/// What is done with vectors.
enum Combined {
    Reduce(u32),
    AllReduce,
    Scan,
    ExclusiveScan,
}

/// # Safety
/// The pointers are as the header demands.
unsafe fn combine(
    (handle, team): (Option<&Handle>, *mut Team),
    what: &Combined,
    (bytes, result, len): (*const c_void, *mut c_void, usize),
    by: Option<&COperator>,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        // SAFETY: the caller's promise.
        let (data, operator) = unsafe { (given::bytes(bytes, len)?, operator(by)?) };
        let data: Payload = data.to_vec().into();
        let operation = match what {
            Combined::Reduce(root) => Operation::Reduce { root: *root, data, operator },
            Combined::AllReduce => Operation::AllReduce { data, operator },
            Combined::Scan => Operation::Scan { data, operator },
            Combined::ExclusiveScan => Operation::ExclusiveScan { data, operator },
        };
        let Output::One(combined) = team.perform(&mut inner.task, operation)? else {
            return Ok(Done::No);
        };
        // SAFETY: the caller's promise.
        fill(unsafe { given::room(result.cast(), len, "the result") }?, &combined)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_reduce(
    handle: Option<&Handle>,
    team: *mut Team,
    root: u32,
    bytes: *const c_void,
    result: *mut c_void,
    len: usize,
    by: Option<&COperator>,
) -> c_int {
    // SAFETY: the header's demands.
    match unsafe { combine((handle, team), &Combined::Reduce(root), (bytes, result, len), by) } {
        // Others than the root have done their part, too.
        code if code == Code::None as c_int => Code::Ok as c_int,
        code => code,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_all_reduce(
    handle: Option<&Handle>,
    team: *mut Team,
    bytes: *const c_void,
    result: *mut c_void,
    len: usize,
    by: Option<&COperator>,
) -> c_int {
    // SAFETY: the header's demands.
    unsafe { combine((handle, team), &Combined::AllReduce, (bytes, result, len), by) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_scan(
    handle: Option<&Handle>,
    team: *mut Team,
    bytes: *const c_void,
    result: *mut c_void,
    len: usize,
    by: Option<&COperator>,
) -> c_int {
    // SAFETY: the header's demands.
    unsafe { combine((handle, team), &Combined::Scan, (bytes, result, len), by) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_exclusive_scan(
    handle: Option<&Handle>,
    team: *mut Team,
    bytes: *const c_void,
    result: *mut c_void,
    len: usize,
    by: Option<&COperator>,
) -> c_int {
    // SAFETY: the header's demands.
    unsafe { combine((handle, team), &Combined::ExclusiveScan, (bytes, result, len), by) }
}

/// Puts parts of equal length one behind the other.
fn fill_all(to: &mut [MaybeUninit<u8>], parts: &[Payload], len: usize) -> Result<(), Failure> {
    for (rank, part) in parts.iter().enumerate() {
        fill(&mut to[rank * len..(rank + 1) * len], part)?;
    }
    Ok(())
}

fn times(len: usize, team: &Team) -> Result<usize, Failure> {
    let all = len.checked_mul(team.size() as usize);
    all.ok_or_else(|| Failure::argument(format!("{len} bytes for each of {}", team.size())))
}

/// Parts of equal length that lie one behind the other.
fn cut(bytes: &[u8], len: usize, size: u32) -> Vec<Payload> {
    (0..size as usize).map(|rank| bytes[rank * len..(rank + 1) * len].to_vec().into()).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_gather(
    handle: Option<&Handle>,
    team: *mut Team,
    root: u32,
    bytes: *const c_void,
    len: usize,
    all: *mut c_void,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        // SAFETY: the header asks for so many bytes.
        let data = unsafe { given::bytes(bytes, len) }?.to_vec().into();
        let operation = Operation::Gather { root, data, lengths: Lengths::Equal };
        if let Output::Many(parts) = team.perform(&mut inner.task, operation)? {
            // SAFETY: the header asks the root for room of a part for each member.
            let all = unsafe { given::room(all.cast(), times(len, team)?, "all parts") }?;
            fill_all(all, &parts, len)?;
        }
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_all_gather(
    handle: Option<&Handle>,
    team: *mut Team,
    bytes: *const c_void,
    len: usize,
    all: *mut c_void,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        // SAFETY: the header asks for so many bytes, and room for a part of each member.
        let (data, all) = unsafe {
            (given::bytes(bytes, len)?, given::room(all.cast(), times(len, team)?, "all parts")?)
        };
        let (data, lengths) = (data.to_vec().into(), Lengths::Equal);
        match team.perform(&mut inner.task, Operation::AllGather { data, lengths })? {
            Output::Many(parts) => fill_all(all, &parts, len)?,
            _ => unreachable!("everyone gets all parts"),
        }
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_scatter(
    handle: Option<&Handle>,
    team: *mut Team,
    root: u32,
    all: *const c_void,
    bytes: *mut c_void,
    len: usize,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        let is_root = team.rank() == root;
        let given = if is_root { times(len, team)? } else { 0 };
        // SAFETY: the header asks for room of so many bytes, and the root for all parts.
        let (all, to) =
            unsafe { (given::bytes(all, given)?, given::room(bytes.cast(), len, "the part")?) };
        let parts = is_root.then(|| cut(all, len, team.size()));
        match team.perform(&mut inner.task, Operation::Scatter { root, parts })? {
            Output::One(part) => fill(to, &part)?,
            _ => unreachable!("everyone gets a part"),
        }
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_all_to_all(
    handle: Option<&Handle>,
    team: *mut Team,
    parts: *const c_void,
    all: *mut c_void,
    len: usize,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        let given = times(len, team)?;
        // SAFETY: the header asks for a part for each member, and room for as many.
        let (parts, all) =
            unsafe { (given::bytes(parts, given)?, given::room(all.cast(), given, "all parts")?) };
        let (parts, lengths) = (cut(parts, len, team.size()), Lengths::Equal);
        match team.perform(&mut inner.task, Operation::AllToAll { parts, lengths })? {
            Output::Many(parts) => fill_all(all, &parts, len)?,
            _ => unreachable!("everyone gets a part of each"),
        }
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_all_to_all_counts(
    handle: Option<&Handle>,
    team: *mut Team,
    parts: *const c_void,
    lens: *const usize,
    all: *mut c_void,
    rooms: *const usize,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        let size = team.size() as usize;
        // SAFETY: the header asks for a length for each member.
        let (lens, rooms) = unsafe {
            (given::slice(lens, size, "the lengths")?, given::slice(rooms, size, "the rooms")?)
        };
        let sum = |lens: &[usize]| {
            let all = lens.iter().try_fold(0_usize, |all, len| all.checked_add(*len));
            all.ok_or_else(|| Failure::argument("the lengths are too many bytes"))
        };
        // SAFETY: the header asks for so many bytes, and room for as many as are to come.
        let (mut rest, all) = unsafe {
            (given::bytes(parts, sum(lens)?)?, given::room(all.cast(), sum(rooms)?, "all parts")?)
        };
        let part = |len: &usize| {
            let part;
            (part, rest) = rest.split_at(*len);
            part.to_vec().into()
        };
        let (parts, lengths) = (lens.iter().map(part).collect(), Lengths::Any);
        let output = team.perform(&mut inner.task, Operation::AllToAll { parts, lengths })?;
        let Output::Many(parts) = output else { unreachable!("everyone gets a part of each") };
        let mut at = 0;
        for (rank, (part, room)) in parts.iter().zip(rooms).enumerate() {
            if part.len() != *room {
                let why = format!("rank {rank} gave {} bytes, here is room for {room}", part.len());
                return Err(Failure { code: Code::Mismatch, why });
            }
            fill(&mut all[at..at + room], part)?;
            at += room;
        }
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}
