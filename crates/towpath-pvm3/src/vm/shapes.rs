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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_programs_keep_their_sign_and_none_is_the_machines() {
        for context in [0, 1, 0x7_ffff, -1, -2, (1 << 30) - 1, -(1 << 30)] {
            let raw = context_of(context);
            assert!(raw < 1 << 31, "{context}");
            assert_eq!(context_from(raw), context);
        }
        assert_eq!((context_of(5), context_of(-1)), (5, 0x7fff_ffff));
    }

    #[test]
    fn ends_are_told_as_wait_tells_them() {
        use towpath::Ending;
        let not_started = Ending::NotStarted { errno: 2, text: String::new() };
        for (ending, status) in [
            (Some(Ending::Exited(0)), 0),
            (Some(Ending::Exited(3)), 0x300),
            (Some(Ending::Exited(-1)), 0xff00),
            (Some(Ending::Signalled(15)), 15),
            (Some(Ending::Signalled(0x8b)), 11),
            (Some(Ending::TimedOut), 9),
            (Some(not_started), 0x7f00),
            (Some(Ending::HostLost), 0),
            (None, 0),
        ] {
            assert_eq!(status_of(ending.as_ref()), status, "{ending:?}");
        }
    }

    #[test]
    fn what_is_wanted_of_a_mailbox_is_asked_for() {
        let wanted = |index, later| MailWanted { index, later, delete: !later, wait: later };
        let RegistryOp::Get { name, index, from, delete, wait } = get_of("box", wanted(7, false))
        else {
            panic!("another question")
        };
        assert_eq!((name.as_str(), index, from, delete, wait), ("box", Some(7), 7, true, false));
        let RegistryOp::Get { index, from, delete, wait, .. } = get_of("box", wanted(7, true))
        else {
            panic!("another question")
        };
        assert_eq!((index, from, delete, wait), (None, 7, false, true));
        let rules = MailRules { persistent: true, many: false, overwritable: true };
        let towpath::MailRules { persistent, many, overwritable } = rules_of(rules);
        assert_eq!((persistent, many, overwritable), (true, false, true));
    }

    #[test]
    fn numbers_are_the_low_halves() {
        let host = HostId::new(3, 9).unwrap();
        assert_eq!(slot_of(host), 3 << 18);
        assert_eq!(low(host.task(5).unwrap()), 3 << 18 | 5);
        let envelope = envelope_of(Envelope { tag: 4, context: -3, format: 8 });
        assert_eq!((envelope.tag, envelope.context, envelope.format), (4, 0x7fff_fffd, 8));
        assert_eq!(code_of(&towpath::Fault::NoHost), Code::NoHost.number());
        let refused: Result<(), _> = Err(towpath::AskError::Unexpected);
        assert_eq!(asked(refused), Err(Code::DSysErr));
        assert_eq!(asked(Ok(3)), Ok(3));
    }
}
