//! Result codes: one table for Rust's errors, `towpath.h` and their texts.

use std::ffi::CStr;

use towpath_task::started::StartedError;
use towpath_task::{
    AskError, ChannelError, EnrolError, Fault, Lost, OpenError, RecvError, SendError,
};

macro_rules! codes {
    ($($name:ident $symbol:literal = $value:literal, $text:literal;)*) => {
        /// What a function of the C interface returns: 0, 1, or a negative error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $(#[doc = concat!("`", $symbol, "`: ", $text, ".")] $name = $value,)*
        }

        /// Every code with its name in the header and its text.
        pub const TABLE: &[(Code, &str, &CStr)] = &[
            $((
                Code::$name,
                $symbol,
                match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                    Ok(text) => text,
                    Err(_) => panic!("a text with a zero byte"),
                },
            ),)*
        ];
    };
}

codes! {
    Ok "TOWPATH_OK" = 0, "done";
    None "TOWPATH_NONE" = 1, "nothing there in time";
    Argument "TOWPATH_E_ARGUMENT" = -1, "an argument is null or makes no sense";
    NoDaemon "TOWPATH_E_NO_DAEMON" = -2, "no daemon answers on this machine";
    Refused "TOWPATH_E_REFUSED" = -3, "the daemon refused";
    System "TOWPATH_E_SYSTEM" = -4, "the operating system refused something";
    Lost "TOWPATH_E_LOST" = -5, "the daemon is gone";
    Forked "TOWPATH_E_FORKED" = -6, "this process was forked from the task: enrol anew";
    NoTask "TOWPATH_E_NO_TASK" = -7, "no such task, or it has ended";
    Full "TOWPATH_E_FULL" = -8, "too many messages wait to be received";
    TooLong "TOWPATH_E_TOO_LONG" = -9, "longer than the room, or than it may be";
    Undelivered "TOWPATH_E_UNDELIVERED" = -10, "what was sent before could not be delivered";
    Busy "TOWPATH_E_BUSY" = -11, "the handle is in use by another call";
    NoHost "TOWPATH_E_NO_HOST" = -12, "no such host, or none that fits";
    NotJoined "TOWPATH_E_NOT_JOINED" = -13, "this host is not part of a virtual machine";
    NotStarted "TOWPATH_E_NOT_STARTED" = -14, "the program could not be started";
    HostLost "TOWPATH_E_HOST_LOST" = -15, "the host was lost before it answered";
    Frozen "TOWPATH_E_FROZEN" = -16, "the leader is lost: nothing changes until it is back";
    NoGroup "TOWPATH_E_NO_GROUP" = -17, "no such group";
    InGroup "TOWPATH_E_IN_GROUP" = -18, "already in the group";
    NotInGroup "TOWPATH_E_NOT_IN_GROUP" = -19, "not in the group";
    GroupFrozen "TOWPATH_E_GROUP_FROZEN" = -20, "the group is frozen";
    NotFound "TOWPATH_E_NOT_FOUND" = -21, "no such entry";
    Exists "TOWPATH_E_EXISTS" = -22, "an entry is there that may not be overwritten";
    Denied "TOWPATH_E_DENIED" = -23, "it belongs to somebody else";
    Limit "TOWPATH_E_LIMIT" = -24, "a limit was reached";
    Unexpected "TOWPATH_E_UNEXPECTED" = -25, "the daemon answered otherwise than was asked";
    Broken "TOWPATH_E_BROKEN" = -26, "a member ended while others waited";
    Mismatch "TOWPATH_E_MISMATCH" = -27, "the members do not agree on what they do together";
    Panic "TOWPATH_E_PANIC" = -28, "a fault of the library itself: the handle is no longer usable";
    Closed "TOWPATH_E_CLOSED" = -29, "the channel is over";
    TooLate "TOWPATH_E_TOO_LATE" = -30, "its time was over before it could be sent";
    Type "TOWPATH_E_TYPE" = -31, "the message holds something else than was asked for";
}

impl Code {
    /// What the code means.
    pub fn text(self) -> &'static CStr {
        let row = TABLE.iter().find(|(code, ..)| *code == self);
        row.expect("every code has its row").2
    }

    /// The code of this number, if it is one.
    pub fn of(number: i32) -> Option<Self> {
        TABLE.iter().map(|(code, ..)| *code).find(|code| *code as i32 == number)
    }
}

/// Why a call did not do what it should: a code, and words.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) why: String,
}

impl Failure {
    pub(crate) fn argument(why: impl Into<String>) -> Self {
        Self { code: Code::Argument, why: why.into() }
    }
}

macro_rules! failures {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(e: $error) -> Self {
                Self { code: (&e).into(), why: e.to_string() }
            }
        })*
    };
}

failures!(StartedError, EnrolError, SendError, RecvError, AskError, Fault, OpenError, ChannelError);

impl From<&Lost> for Code {
    fn from(e: &Lost) -> Self {
        match e {
            Lost::Daemon(_) => Self::Lost,
            Lost::Forked => Self::Forked,
        }
    }
}

impl From<&EnrolError> for Code {
    fn from(e: &EnrolError) -> Self {
        match e {
            EnrolError::Connect { .. } | EnrolError::NoDaemon(_) | EnrolError::NoHome => {
                Self::NoDaemon
            }
            EnrolError::Environment(_) => Self::Argument,
            EnrolError::Refused(_) => Self::Refused,
            EnrolError::System { .. } => Self::System,
            EnrolError::Lost(lost) => lost.into(),
        }
    }
}

impl From<&SendError> for Code {
    fn from(e: &SendError) -> Self {
        match e {
            SendError::NoTask(_) => Self::NoTask,
            SendError::Receivers { .. } => Self::Limit,
            SendError::Undelivered { .. } => Self::Undelivered,
            SendError::Full(_) => Self::Full,
            SendError::Lost(lost) => lost.into(),
        }
    }
}

impl From<&RecvError> for Code {
    fn from(e: &RecvError) -> Self {
        match e {
            RecvError::Full(_) => Self::Full,
            RecvError::TooLong { .. } => Self::TooLong,
            RecvError::Content(_) => Self::Type,
            RecvError::Lost(lost) => lost.into(),
        }
    }
}

impl From<&StartedError> for Code {
    fn from(e: &StartedError) -> Self {
        match e {
            StartedError::Posted(_) | StartedError::Sends { .. } | StartedError::Queued { .. } => {
                Self::Limit
            }
            StartedError::Send(e) => e.into(),
            StartedError::Recv(e) => e.into(),
            _ => Self::Argument,
        }
    }
}

impl From<&OpenError> for Code {
    fn from(e: &OpenError) -> Self {
        match e {
            OpenError::Refused(fault) => fault.into(),
            OpenError::Ask(ask) => ask.into(),
            OpenError::Lost(lost) => lost.into(),
        }
    }
}

impl From<&ChannelError> for Code {
    fn from(e: &ChannelError) -> Self {
        match e {
            ChannelError::Closed(_) => Self::Closed,
            ChannelError::NotOpen => Self::NotFound,
            ChannelError::TooLong { .. } | ChannelError::NoRoom { .. } => Self::TooLong,
            ChannelError::NotTimely => Self::Argument,
            ChannelError::TooLate => Self::TooLate,
            ChannelError::Full(_) => Self::Full,
            ChannelError::Lost(lost) => lost.into(),
        }
    }
}

impl From<&AskError> for Code {
    fn from(e: &AskError) -> Self {
        match e {
            AskError::Fault(fault) => fault.into(),
            AskError::Unexpected => Self::Unexpected,
            AskError::TooLong { .. } => Self::TooLong,
            AskError::Full(_) => Self::Full,
            AskError::Lost(lost) => lost.into(),
        }
    }
}

impl From<&Fault> for Code {
    fn from(e: &Fault) -> Self {
        match e {
            Fault::NotJoined => Self::NotJoined,
            Fault::NoHost => Self::NoHost,
            Fault::NoTask => Self::NoTask,
            Fault::NotStarted { .. } => Self::NotStarted,
            Fault::HostLost => Self::HostLost,
            Fault::Frozen(_) => Self::Frozen,
            Fault::NoGroup => Self::NoGroup,
            Fault::InGroup => Self::InGroup,
            Fault::NotInGroup => Self::NotInGroup,
            Fault::GroupFrozen => Self::GroupFrozen,
            Fault::NotFound => Self::NotFound,
            Fault::Exists => Self::Exists,
            Fault::Denied => Self::Denied,
            Fault::Limit { .. } | Fault::NotReserved(_) => Self::Limit,
            Fault::Broken => Self::Broken,
            Fault::Bad(_) => Self::Argument,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/towpath.h"));

    /// `TOWPATH_E_X = -1, /* text */` lines of the header.
    fn declared() -> Vec<(String, i32, String)> {
        let row = |line: &str| {
            let (name, rest) = line.trim().split_once(" = ")?;
            let (number, rest) = rest.split_once(',')?;
            let text = rest.trim().strip_prefix("/* ")?.strip_suffix(" */")?;
            Some((name.to_string(), number.parse().ok()?, text.to_string()))
        };
        let codes = HEADER.split_once("enum towpath_code {").expect("the header has codes").1;
        codes.split_once('}').expect("the list ends").0.lines().filter_map(row).collect()
    }

    #[test]
    fn the_header_and_the_table_say_the_same() {
        let declared = declared();
        assert_eq!(declared.len(), TABLE.len());
        for ((code, name, text), (name_h, number_h, text_h)) in TABLE.iter().zip(&declared) {
            assert_eq!((*name, *code as i32), (name_h.as_str(), *number_h));
            assert_eq!(text.to_str().unwrap(), text_h, "{name}");
        }
    }

    #[test]
    fn numbers_and_codes_are_one_to_one() {
        for (code, name, text) in TABLE {
            assert_eq!(Code::of(*code as i32), Some(*code), "{name}");
            assert_eq!(code.text(), *text);
            assert_eq!(TABLE.iter().filter(|(other, ..)| other == code).count(), 1);
        }
        assert_eq!(Code::of(2), None);
        assert_eq!(Code::of(i32::MIN), None);
    }
}
