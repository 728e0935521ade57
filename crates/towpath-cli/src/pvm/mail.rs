//! Mailboxes: `names`, `put`, `insert`, `lookup`, `remove`, `reset info`.

use std::fmt::Write;

use anyhow::bail;
use towpath::TaskId;
use towpath::task::{AskError, Fault, MailRules, Mailbox, RegistryOp};
use towpath_pvm::names::OWN_MAILBOXES;

use super::console::{Console, wrong_args};
use super::tids::Tid;

/// The mailbox in which tasks stand that `reset` spares.
pub(super) const NO_RESET: &str = "###_PVM_NO_RESET_###";
const PERSISTENT: u32 = 1;
const MANY: u32 = 2;
const OVERWRITABLE: u32 = 4;
/// What libpvm3 keeps before a message (see towpath-pvm3, `library/mailbox.rs`): seven numbers.
const HEADER: usize = 28;
/// Which of them says how the message is written, and which who wrote it.
const FORMAT: usize = 3;
const SOURCE: usize = 5;
/// `PvmDataDefault`, little-endian as both of Towpath's architectures.
const PLAIN: u32 = 0x1000_0001;

/// An entry with the strings of a message.
fn content(source: TaskId, text: Option<&str>) -> Vec<u8> {
    let mut numbers = [0; HEADER / 4];
    numbers[FORMAT] = PLAIN;
    numbers[SOURCE] = source.pvm_tid();
    let mut content: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    if let Some(text) = text {
        // As `pvm_pkstr` does it: the length with the zero behind it, all in fours.
        let len = text.len() + 1;
        content.extend((len as u32).to_le_bytes());
        content.extend(text.bytes());
        content.resize(HEADER + 4 + len.next_multiple_of(4), 0);
    }
    content
}

const fn flags(rules: MailRules) -> u32 {
    let MailRules { persistent, many, overwritable } = rules;
    (persistent as u32) * PERSISTENT + (many as u32) * MANY + (overwritable as u32) * OVERWRITABLE
}

/// A mailbox of the library's own: nobody is shown it, and nobody's reset empties it.
fn is_internal(name: &str) -> bool {
    name.starts_with(OWN_MAILBOXES)
}

fn listing(boxes: &[Mailbox]) -> String {
    let mut out = String::new();
    for Mailbox { name, entries } in boxes.iter().filter(|one| !is_internal(&one.name)) {
        let _ = writeln!(out, "<{name}>:");
        for (index, owner, rules) in entries {
            let owner = owner.map_or(0, |owner: TaskId| owner.pvm_tid());
            let _ = write!(out, "\tindex={index} owner={owner:#x}/{owner} ");
            let _ = writeln!(out, "flags={:#x}", flags(*rules));
        }
        out.push('\n');
    }
    out
}

fn index(text: &str) -> anyhow::Result<u32> {
    match text.parse() {
        Ok(index) => Ok(index),
        Err(_) => bail!("`{text}` is no index"),
    }
}

/// `name [index]`.
fn entry<'a>(args: &[&'a str]) -> anyhow::Result<(&'a str, Option<u32>)> {
    match args {
        [name] => Ok((name, None)),
        [name, at] => Ok((name, Some(index(at)?))),
        _ => wrong_args(),
    }
}

impl Console<'_> {
    pub(super) fn names(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let pattern = match args {
            [] => "*",
            [pattern] => pattern,
            _ => return wrong_args(),
        };
        Ok(listing(&self.task.mailboxes(pattern)?))
    }

    /// `put name flags [text]`: an empty entry, or one with a string.
    pub(super) fn put(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let (name, flags, text) = match args {
            [name, flags] => (name, flags, None),
            [name, flags, text] => (name, flags, Some(*text)),
            _ => return wrong_args(),
        };
        let flags = index(flags)?;
        let has = |flag| flags & flag != 0;
        let rules = MailRules {
            persistent: has(PERSISTENT),
            many: has(MANY),
            overwritable: has(OVERWRITABLE),
        };
        self.put_entry(name, (!has(MANY)).then_some(0), rules, text)?;
        Ok(String::new())
    }

    /// `insert name index`: PVM 3.3's form, an entry that anybody may replace.
    pub(super) fn insert(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let (name, index) = entry(args)?;
        let rules = MailRules { persistent: true, many: true, overwritable: true };
        let index = self.put_entry(name, index, rules, None)?;
        Ok(format!("index={index}\n"))
    }

    fn put_entry(
        &mut self,
        name: &str,
        index: Option<u32>,
        rules: MailRules,
        text: Option<&str>,
    ) -> anyhow::Result<u32> {
        let content = content(self.task.id(), text);
        Ok(self.task.mail_put(name, index, rules, 0, content)?)
    }

    /// `lookup name [index]`: whether there is an entry, and whose.
    pub(super) fn lookup(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let (name, index) = entry(args)?;
        let (delete, wait) = (false, false);
        let get = RegistryOp::Get { name: name.into(), index, from: 0, delete, wait };
        match self.task.mail_get(get) {
            Ok(mail) => {
                let owner = mail.owner.map_or(Tid(0), Tid::from);
                let (at, len) = (mail.index, mail.content.len().saturating_sub(HEADER));
                Ok(format!(
                    "index={at} owner=t{owner:x} flags={:#x} {len} bytes\n",
                    flags(mail.rules)
                ))
            }
            Err(AskError::Fault(Fault::NotFound)) => Ok("Not found\n".into()),
            Err(e) => Err(e.into()),
        }
    }

    /// `remove name [index]`: deletes an entry.
    pub(super) fn remove(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let (name, index) = entry(args)?;
        self.task.mail_delete(name, index.unwrap_or(0))?;
        Ok(String::new())
    }

    /// Deletes entries whose owners have ended: of all mailboxes, of one, or one entry.
    pub(super) fn reset_mail(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let pattern = args.first().copied().unwrap_or("*");
        let only = args.get(1).map(|text| index(text)).transpose()?;
        let boxes = self.task.mailboxes(pattern)?;
        for Mailbox { name, entries } in boxes.into_iter().filter(|one| !is_internal(&one.name)) {
            for (index, owner, _) in entries {
                if owner.is_some() || only.is_some_and(|only| only != index) {
                    continue;
                }
                match self.task.mail_delete(&name, index) {
                    // Somebody was faster, or it is not for others to delete.
                    Ok(()) | Err(AskError::Fault(Fault::NotFound | Fault::Denied)) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_wire::HostId;

    #[test]
    fn mailboxes_are_listed_as_pvm_lists_them() {
        let owner = HostId::new(1, 1).unwrap().task(1);
        let rules = MailRules { many: true, ..MailRules::default() };
        let boxes = [NO_RESET.into(), format!("{OWN_MAILBOXES}CONTEXTS_###")];
        let boxes = boxes.map(|name| Mailbox { name, entries: vec![(0, owner, rules)] });
        let expected = "<###_PVM_NO_RESET_###>:\n\tindex=0 owner=0x40001/262145 flags=0x2\n\n";
        assert_eq!(listing(&boxes), expected);
        let text = content(owner.unwrap(), Some("abc"));
        assert_eq!(text[HEADER..], *b"\x04\0\0\0abc\0");
        assert_eq!(content(owner.unwrap(), None).len(), HEADER);
        let all = MailRules { persistent: true, many: true, overwritable: true };
        assert_eq!(flags(all), 7);
    }
}
