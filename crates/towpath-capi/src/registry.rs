//! Groups and mailboxes.

use std::ffi::{c_char, c_int, c_void};

use towpath_task::{Mail, MailRules, Members, RegistryOp};

use crate::code::Failure;
use crate::given::{self, Out, field, needed, put};
use crate::handle::{Done, Handle, with};
use crate::machine::{list, member};

/// `towpath_group_info` of the header.
#[repr(C)]
pub(crate) struct CGroup {
    size: u32,
    reserved: u32,
    name: [c_char; 264],
}

impl From<&(String, u32)> for CGroup {
    fn from((name, size): &(String, u32)) -> Self {
        Self { size: *size, reserved: 0, name: field(name) }
    }
}

/// `towpath_group_state` of the header.
#[repr(C)]
pub(crate) struct CGroupState {
    version: u64,
    count: usize,
    context: u32,
    reserved: u32,
}

impl From<&Members> for CGroupState {
    fn from(group: &Members) -> Self {
        let Members { members, version, context } = group;
        Self { version: *version, count: members.len(), context: *context, reserved: 0 }
    }
}

/// `towpath_mail_listed` of the header.
#[repr(C)]
pub(crate) struct CListed {
    index: u32,
    rules: u32,
    owner: u64,
    name: [c_char; 264],
}

/// `towpath_letter` of the header.
#[repr(C)]
pub(crate) struct CLetter {
    bytes: *const c_void,
    len: usize,
    rules: u32,
    format: u32,
}

/// `towpath_mail_entry` of the header.
#[repr(C)]
pub(crate) struct CMail {
    index: u32,
    rules: u32,
    format: u32,
    reserved: u32,
    owner: u64,
    bytes: *const c_void,
    len: usize,
}

/// Bits of a mailbox entry's rules, as in the header.
const RULES: [u32; 3] = [1, 2, 4];
/// No index was chosen, as in the header.
const ANY_INDEX: u32 = u32::MAX;

fn rules(bits: u32) -> Result<MailRules, Failure> {
    let [persistent, many, overwritable] = RULES.map(|bit| bits & bit != 0);
    if bits & !(RULES[0] | RULES[1] | RULES[2]) != 0 {
        return Err(Failure::argument(format!("rules {bits:#x}: bits 1, 2 and 4 are known")));
    }
    Ok(MailRules { persistent, many, overwritable })
}

fn bits(rules: MailRules) -> u32 {
    let set = [rules.persistent, rules.many, rules.overwritable];
    RULES.iter().zip(set).map(|(bit, set)| if set { *bit } else { 0 }).sum()
}

fn index(raw: u32) -> Option<u32> {
    (raw != ANY_INDEX).then_some(raw)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_join_group(
    handle: Option<&Handle>,
    group: *const c_char,
    instance: Out<'_, u32>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        put(instance, inner.task.join_group(unsafe { given::name(group, "the group") }?)?);
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_leave_group(handle: Option<&Handle>, group: *const c_char) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        inner.task.leave_group(unsafe { given::name(group, "the group") }?)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_group_members(
    handle: Option<&Handle>,
    group: *const c_char,
    out: *mut u64,
    room: usize,
    count: Out<'_, usize>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string and for such room.
        let (group, out) =
            unsafe { (given::name(group, "the group")?, given::room(out, room, "the ids")?) };
        let members = inner.task.group_members(group)?.members;
        for (to, from) in out.iter_mut().zip(&members) {
            to.write(member(*from));
        }
        put(count, members.len());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_group_look(
    handle: Option<&Handle>,
    group: *const c_char,
    out: Out<'_, CGroupState>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        let group = unsafe { given::name(group, "the group") }?;
        put(out, (&inner.task.group_members(group)?).into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_freeze_group(
    handle: Option<&Handle>,
    group: *const c_char,
    count: u32,
    out: Out<'_, CGroupState>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        let group = unsafe { given::name(group, "the group") }?;
        put(out, (&inner.task.freeze_group(group, count)?).into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_groups(
    handle: Option<&Handle>,
    out: *mut CGroup,
    room: usize,
    count: Out<'_, usize>,
) -> c_int {
    // SAFETY: the header asks for such room.
    with(handle, |inner| unsafe { list(&inner.task.groups()?, out, room, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_mailboxes(
    handle: Option<&Handle>,
    pattern: *const c_char,
    out: *mut CListed,
    room: usize,
    count: Out<'_, usize>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string and for such room.
        let (pattern, out) =
            unsafe { (given::name(pattern, "the pattern")?, given::room(out, room, "the list")?) };
        let all = inner.task.mailboxes(pattern)?;
        let entries = all.iter().flat_map(|mailbox| {
            mailbox.entries.iter().map(|(index, owner, rules)| CListed {
                index: *index,
                rules: bits(*rules),
                owner: member(*owner),
                name: field(&mailbox.name),
            })
        });
        for (to, entry) in out.iter_mut().zip(entries) {
            to.write(entry);
        }
        put(count, all.iter().map(|mailbox| mailbox.entries.len()).sum());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_group_barrier(
    handle: Option<&Handle>,
    group: *const c_char,
    count: u32,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        inner.task.group_barrier(unsafe { given::name(group, "the group") }?, count)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_mail_put(
    handle: Option<&Handle>,
    name: *const c_char,
    at: u32,
    letter: Option<&CLetter>,
    placed: Out<'_, u32>,
) -> c_int {
    with(handle, |inner| {
        let letter = letter.ok_or_else(|| Failure::argument("the letter is null"))?;
        // SAFETY: the header asks for a string and for so many bytes.
        let (name, bytes) =
            unsafe { (given::name(name, "the mailbox")?, given::bytes(letter.bytes, letter.len)?) };
        let (rules, format) = (rules(letter.rules)?, letter.format);
        put(placed, inner.task.mail_put(name, index(at), rules, format, bytes.to_vec())?);
        Ok(Done::Yes)
    })
}

/// How to read a mailbox entry, as in the header: take it out, wait for it.
const GET: [u32; 2] = [1, 2];

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_mail_get(
    handle: Option<&Handle>,
    name: *const c_char,
    at: u32,
    from: u32,
    how: u32,
    out: Out<'_, *mut Mail>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        let name = unsafe { given::name(name, "the mailbox") }?.to_string();
        let out = needed(out, "the place for the entry")?;
        out.write(std::ptr::null_mut());
        let [delete, wait] = GET.map(|bit| how & bit != 0);
        let get = RegistryOp::Get { name, index: index(at), from, delete, wait };
        out.write(Box::into_raw(Box::new(inner.task.mail_get(get)?)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_mail_look(mail: Option<&Mail>, out: Out<'_, CMail>) {
    if let Some(mail) = mail {
        let about = CMail {
            index: mail.index,
            rules: bits(mail.rules),
            format: mail.format,
            reserved: 0,
            owner: member(mail.owner),
            bytes: mail.content.as_ptr().cast(),
            len: mail.content.len(),
        };
        put(out, about);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_mail_free(mail: *mut Mail) {
    if !mail.is_null() {
        // SAFETY: the header says that it comes from `towpath_mail_get` and is not used any more.
        drop(unsafe { Box::from_raw(mail) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_mail_delete(
    handle: Option<&Handle>,
    name: *const c_char,
    at: u32,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        inner.task.mail_delete(unsafe { given::name(name, "the mailbox") }?, at)?;
        Ok(Done::Yes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_the_same_both_ways() {
        for all in 0..8 {
            assert_eq!(rules(all).map(bits).ok(), Some(all));
        }
        assert!(rules(8).is_err());
    }
}
