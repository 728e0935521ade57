//! Named messages: `pvm_putinfo`, `pvm_recvinfo`, `pvm_delinfo`, `pvm_getmboxinfo`, and the older
//! `pvm_insert`, `pvm_lookup`, `pvm_delete`.
//!
//! An entry's content is the message with what stands beside it:
//!
//! ```text
//! 0 context | 4 tag | 8 wait id | 12 format | 16 checksum | 20 source | 24 destination | 28 bytes
//! ```
//! The ints are little-endian.

use towpath_pvm::names::OWN_MAILBOXES;

use super::options::NO_RESET_CLASS;
use super::session::Library;
use crate::code::{Code, Outcome};
use crate::message::{Encoding, Info, Message, Received};
use crate::tid;
use crate::vm::{Answer, MailRules, MailWanted, Mailbox, Question};

const PERSISTENT: i32 = 1;
const MANY: i32 = 2;
const OVERWRITABLE: i32 = 4;
const FIRST: i32 = 8;
const READ_AND_DELETE: i32 = 16;
const WAIT: i32 = 32;
/// Bits of an index that is asked for, and where they begin.
const DIRECT: (i32, i32) = (0x1f_ffff, 10);
const HEADER: usize = 28;
const NO_INFO: Info =
    Info { context: 0, tag: 0, wait: 0, checksum: 0, source: tid::DAEMON, destination: 0 };

fn rules_of(flags: i32) -> MailRules {
    MailRules {
        persistent: flags & PERSISTENT != 0,
        many: flags & MANY != 0,
        overwritable: flags & OVERWRITABLE != 0,
    }
}

/// PVM's flags for rules.
pub(crate) fn flags_of(rules: MailRules) -> i32 {
    let flag = |set, flag| if set { flag } else { 0 };
    flag(rules.persistent, PERSISTENT)
        | flag(rules.many, MANY)
        | flag(rules.overwritable, OVERWRITABLE)
}

fn pack(message: &Message) -> Vec<u8> {
    let Info { context, tag, wait, checksum, source, destination } = message.info;
    let format = message.encoding().format().cast_signed();
    let mut content = Vec::with_capacity(HEADER + message.len());
    for int in [context, tag, wait, format, checksum, source, destination] {
        content.extend_from_slice(&int.to_le_bytes());
    }
    message.with_parts(|parts| parts.iter().for_each(|part| content.extend_from_slice(part)));
    content
}

pub(super) fn unpack(content: &[u8]) -> Result<Message, Code> {
    let (header, bytes) = content.split_at_checked(HEADER).ok_or(Code::BadMsg)?;
    let int = |index: usize| {
        let at = index * 4;
        i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let info = Info {
        context: int(0),
        tag: int(1),
        wait: int(2),
        checksum: int(4),
        source: int(5),
        destination: int(6),
    };
    Ok(Message::received(int(3).cast_unsigned(), Received::Shared(bytes.into()), info))
}

/// Content of an entry with these ints.
pub(super) fn content_of(ints: &[i32]) -> Result<Vec<u8>, Code> {
    let mut message = Message::new(Encoding::DEFAULT, Vec::new());
    for &int in ints {
        message.pack_int(int)?;
    }
    Ok(pack(&message))
}

/// The ints of an entry, as far as it holds some.
pub(super) fn ints_of(content: &[u8]) -> Vec<i32> {
    let Ok(mut message) = unpack(content) else { return Vec::new() };
    message.begin_unpacking();
    std::iter::from_fn(|| message.unpack_int().ok()).collect()
}

/// The entry at an index.
fn at(index: i32) -> MailWanted {
    MailWanted { index, ..MailWanted::default() }
}

fn checked(name: &str) -> Result<&str, Code> {
    if name.is_empty() { Err(Code::BadParam) } else { Ok(name) }
}

impl Library {
    /// `pvm_putinfo`: the entry's index.
    pub(crate) fn put_info(&self, name: &str, id: i32, flags: i32) -> Outcome {
        checked(name)?;
        self.enrolled(|session, vm| {
            let content = pack(session.buffers.get(id)?);
            let index = (flags >> DIRECT.1) & DIRECT.0;
            vm.mail_put(name, index, rules_of(flags), content)
        })
    }

    /// `pvm_recvinfo`: the number of a new receive buffer.
    pub(crate) fn receive_info(&self, name: &str, index: i32, flags: i32) -> Outcome {
        let name = checked(name)?;
        if index < 0 {
            return Err(Code::BadParam);
        }
        let has = |flag: i32| flags & flag != 0;
        let (later, delete, wait) = (has(FIRST), has(READ_AND_DELETE), has(WAIT));
        let wanted = MailWanted { index, later, delete, wait };
        self.enrolled(|session, _| session.buffers.free(session.buffers.receive()))?;
        let mail = match self.ask(Question::Mail { name, wanted }) {
            Ok(Answer::Mail(mail)) => Ok(mail),
            Ok(_) => Err(Code::SysErr),
            Err(code) => Err(code),
        };
        self.inside(|session, _| {
            let outcome = mail.and_then(|mail| unpack(&mail.content));
            // In PVM the receive buffer is the daemon's answer, of which nothing is left, where
            // there is no entry.
            let nothing = Received::Shared([].into());
            let (message, code) = match outcome {
                Ok(message) => (message, None),
                Err(code) => {
                    (Message::received(Encoding::DEFAULT.format(), nothing, NO_INFO), Some(code))
                }
            };
            let id = session.buffers.insert(message);
            session.buffers.set_receive(id)?;
            code.map_or(Ok(id), Err)
        })
    }

    /// `pvm_delinfo`: the index.
    pub(crate) fn delete_info(&self, name: &str, index: i32) -> Outcome {
        let name = checked(name)?;
        if index < 0 {
            return Err(Code::BadParam);
        }
        self.enrolled(|_, vm| vm.mail_delete(name, index).map(|()| index))
    }

    /// `pvm_getmboxinfo`: names that begin as the pattern says.
    pub(crate) fn mailboxes(&self, pattern: &str) -> Result<Vec<Mailbox>, Code> {
        let mut boxes = self.enrolled(|_, vm| vm.mailboxes(&format!("{pattern}*")))?;
        boxes.retain(|(name, _)| !name.starts_with(OWN_MAILBOXES));
        Ok(boxes)
    }

    /// `pvm_insert`: at the index asked for, if it is free (−1: at any).
    pub(crate) fn insert(&self, name: &str, index: i32, data: i32) -> Outcome {
        let name = checked(name)?;
        if index < -1 {
            return Err(Code::BadParam);
        }
        let content = content_of(&[data])?;
        self.enrolled(|_, vm| {
            let rules = MailRules { persistent: true, many: true, overwritable: false };
            let place = vm.mail_put(name, index.max(0), rules, content)?;
            if index >= 0 && place != index {
                vm.mail_delete(name, place)?;
                return Err(Code::Denied);
            }
            Ok(place)
        })
    }

    /// `pvm_lookup`: index and datum of the entry at an index, or of the first (−1).
    /// Without a value where the entry holds no number.
    pub(crate) fn look_up(&self, name: &str, index: i32) -> Result<(i32, Option<i32>), Code> {
        let name = checked(name)?;
        if index < -1 {
            return Err(Code::BadParam);
        }
        self.enrolled(|_, vm| {
            let mail = vm.mail_get(name, MailWanted { later: index < 0, ..at(index.max(0)) })?;
            let mut message = unpack(&mail.content)?;
            message.begin_unpacking();
            Ok((mail.index, message.unpack_int().ok()))
        })
    }

    /// Tasks that a reset spares (`pvm_getnoresets`).
    pub(crate) fn no_resets(&self) -> Result<Vec<i32>, Code> {
        self.enrolled(|_, vm| {
            let (mut tids, mut from) = (Vec::new(), 0);
            let from_on = |index| MailWanted { later: true, ..at(index) };
            loop {
                let mail = match vm.mail_get(NO_RESET_CLASS, from_on(from)) {
                    Err(Code::NotFound) => return Ok(tids),
                    mail => mail?,
                };
                from = mail.index + 1;
                tids.extend(unpack(&mail.content)?.unpack_int());
            }
        })
    }

    /// PVM's `pvmreset`: ends all tasks but `me` and those to be spared, if asked to, and deletes
    /// entries that outlived their owners, of one mailbox or all, at one index or all (−1).
    pub(crate) fn reset(&self, me: i32, kill: bool, class: &str, index: i32) -> Outcome {
        let spared = self.no_resets()?;
        self.enrolled(|_, vm| {
            for task in if kill { vm.tasks(0)? } else { Vec::new() } {
                if task.tid != me && !spared.contains(&task.tid) {
                    // One that has ended by itself meanwhile is as good.
                    let _ = vm.signal(task.tid, 15);
                }
            }
            for (name, entries) in vm.mailboxes("*")? {
                if name.starts_with(OWN_MAILBOXES) || !(class.is_empty() || class == name) {
                    continue;
                }
                for (at, owner, rules) in entries {
                    if rules.persistent && owner == 0 && (index < 0 || index == at) {
                        let _ = vm.mail_delete(&name, at);
                    }
                }
            }
            Ok(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_into_an_entry_and_out() {
        let mut message = Message::new(Encoding::DEFAULT, Vec::new());
        message.pack_int(-7).unwrap();
        message.info =
            Info { context: 3, tag: -4, wait: 5, checksum: 6, source: 7, destination: 8 };
        let mut back = unpack(&pack(&message)).unwrap();
        assert_eq!((back.info, back.encoding()), (message.info, message.encoding()));
        assert_eq!(back.unpack_int(), Ok(-7));
        assert_eq!(unpack(&[0; HEADER - 1]).err(), Some(Code::BadMsg));
    }

    #[test]
    fn flags_come_back() {
        for flags in 0..8 {
            assert_eq!(flags_of(rules_of(flags | 32)), flags);
        }
    }
}
