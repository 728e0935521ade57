//! What the task layer says, as PVM says it, and back.

use towpath_task as towpath;
use towpath_task::{HostId, RegistryOp, TaskId};

use super::codes::{of_ask, of_fault};
use super::contract::{Envelope, MailRules, MailWanted};
use crate::code::Code;

pub(super) fn low(task: TaskId) -> i32 {
    task.pvm_tid().cast_signed()
}

pub(super) fn slot_of(host: HostId) -> i32 {
    (host.to_raw() as u32).cast_signed()
}

/// A program's context has 31 bits, with sign: the top bit marks contexts of the machine's own.
pub(super) fn context_of(context: i32) -> u32 {
    context.cast_unsigned() & (u32::MAX >> 1)
}

pub(super) fn context_from(context: u32) -> i32 {
    (context << 1).cast_signed() >> 1
}

pub(super) fn envelope_of(envelope: Envelope) -> towpath::Envelope {
    let Envelope { tag, context, format } = envelope;
    towpath::Envelope { tag: tag.into(), context: context_of(context), format }
}

/// PVM has no number for a tag of more than 32 bits: it reads as the greatest.
pub(super) fn tag_from(tag: towpath::Tag) -> i32 {
    i32::try_from(tag).unwrap_or(i32::MAX)
}

pub(super) fn rules_of(rules: MailRules) -> towpath::MailRules {
    let MailRules { persistent, many, overwritable } = rules;
    towpath::MailRules { persistent, many, overwritable }
}

pub(super) fn asked<T>(outcome: Result<T, towpath::AskError>) -> Result<T, Code> {
    outcome.map_err(|error| of_ask(&error))
}

/// The end of a task as `wait` tells it.
pub(super) fn status_of(ending: Option<&towpath::Ending>) -> i32 {
    match ending {
        Some(towpath::Ending::Exited(status)) => (status & 0xff) << 8,
        Some(towpath::Ending::Signalled(signal)) => signal & 0x7f,
        Some(towpath::Ending::TimedOut) => 9,
        Some(towpath::Ending::NotStarted { .. }) => 127 << 8,
        _ => 0,
    }
}

pub(super) fn get_of(name: &str, wanted: MailWanted) -> RegistryOp {
    let MailWanted { index, later, delete, wait } = wanted;
    let from = index.cast_unsigned();
    let index = (!later).then_some(from);
    RegistryOp::Get { name: name.to_owned(), index, from, delete, wait }
}

pub(super) fn code_of(fault: &towpath::Fault) -> i32 {
    of_fault(fault).number()
}
