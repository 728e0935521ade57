//! Towpath's errors as PVM's codes: one table.

use towpath_task::{AskError, Fault, RecvError, SendError};

use crate::code::Code;

/// Numbers of the operating system: no such file, not allowed.
const NO_FILE: [i32; 3] = [2, 13, 20];

pub(super) fn of_fault(fault: &Fault) -> Code {
    match fault {
        Fault::NotJoined => Code::SysErr,
        Fault::NoHost => Code::NoHost,
        Fault::NoTask => Code::NoTask,
        Fault::NotStarted { errno, .. } if NO_FILE.contains(errno) => Code::NoFile,
        Fault::NotStarted { .. } | Fault::Limit { .. } | Fault::NotReserved(_) => Code::OutOfRes,
        Fault::HostLost => Code::HostFail,
        Fault::Frozen(_) => Code::DSysErr,
        Fault::NoGroup => Code::NoGroup,
        Fault::InGroup => Code::DupGroup,
        // PVM: a static group takes nobody in.
        Fault::NotInGroup | Fault::GroupFrozen => Code::NotInGroup,
        Fault::NotFound => Code::NotFound,
        Fault::Exists => Code::Exists,
        Fault::Denied => Code::Denied,
        Fault::Broken => Code::NoInst,
        Fault::Bad(_) => Code::BadParam,
    }
}

pub(super) fn of_ask(error: &AskError) -> Code {
    match error {
        AskError::Fault(fault) => of_fault(fault),
        AskError::Unexpected => Code::DSysErr,
        AskError::TooLong { .. } => Code::OutOfRes,
        AskError::Full(_) => Code::NoMem,
        AskError::Lost(_) => Code::SysErr,
    }
}

pub(super) fn of_receive(error: &RecvError) -> Code {
    match error {
        RecvError::Full(_) | RecvError::TooLong { .. } => Code::NoMem,
        RecvError::Content(_) => Code::BadMsg,
        RecvError::Lost(_) => Code::SysErr,
    }
}

/// A task that is not there takes a message in silence.
pub(super) fn of_send(outcome: &Result<(), SendError>) -> Result<(), Code> {
    match outcome {
        Ok(()) | Err(SendError::NoTask(_)) => Ok(()),
        Err(SendError::Full(_)) => Err(Code::NoMem),
        Err(SendError::Receivers { .. }) => Err(Code::OutOfRes),
        Err(SendError::Lost(_) | SendError::Undelivered { .. }) => Err(Code::SysErr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_pvms_codes() {
        let not_started = |errno| Fault::NotStarted { errno, text: String::new() };
        for (fault, code) in [
            (not_started(2), Code::NoFile),
            (not_started(13), Code::NoFile),
            (not_started(11), Code::OutOfRes),
            (Fault::InGroup, Code::DupGroup),
            (Fault::GroupFrozen, Code::NotInGroup),
            (Fault::Limit { what: "tasks".into(), limit: 1 }, Code::OutOfRes),
        ] {
            assert_eq!(of_fault(&fault), code, "{fault:?}");
        }
    }
}
