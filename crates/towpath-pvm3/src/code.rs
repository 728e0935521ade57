//! Result codes of the interface, with the words that PVM has for them.

use std::ffi::CStr;

/// An error, as a PVM program sees it. The number is part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    BadParam = -2,
    Mismatch = -3,
    Overflow = -4,
    NoData = -5,
    NoHost = -6,
    NoFile = -7,
    Denied = -8,
    NoMem = -10,
    BadMsg = -12,
    SysErr = -14,
    NoBuf = -15,
    NoSuchBuf = -16,
    NullGroup = -17,
    DupGroup = -18,
    NoGroup = -19,
    NotInGroup = -20,
    NoInst = -21,
    HostFail = -22,
    NoParent = -23,
    NotImpl = -24,
    DSysErr = -25,
    BadVersion = -26,
    OutOfRes = -27,
    DupHost = -28,
    CantStart = -29,
    Already = -30,
    NoTask = -31,
    NotFound = -32,
    Exists = -33,
    HostrNMstr = -34,
    ParentNotSet = -35,
    IpLoopback = -36,
}

/// What a call gives: a number that is not negative, or a code.
pub(crate) type Outcome = Result<i32, Code>;

impl Code {
    /// Every code.
    pub(crate) const ALL: [Self; 32] = [
        Self::BadParam,
        Self::Mismatch,
        Self::Overflow,
        Self::NoData,
        Self::NoHost,
        Self::NoFile,
        Self::Denied,
        Self::NoMem,
        Self::BadMsg,
        Self::SysErr,
        Self::NoBuf,
        Self::NoSuchBuf,
        Self::NullGroup,
        Self::DupGroup,
        Self::NoGroup,
        Self::NotInGroup,
        Self::NoInst,
        Self::HostFail,
        Self::NoParent,
        Self::NotImpl,
        Self::DSysErr,
        Self::BadVersion,
        Self::OutOfRes,
        Self::DupHost,
        Self::CantStart,
        Self::Already,
        Self::NoTask,
        Self::NotFound,
        Self::Exists,
        Self::HostrNMstr,
        Self::ParentNotSet,
        Self::IpLoopback,
    ];

    /// The number.
    pub(crate) const fn number(self) -> i32 {
        self as i32
    }

    /// The code with this number.
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }
}

/// An [`Outcome`] as one number.
pub(crate) fn flat(outcome: Outcome) -> i32 {
    outcome.unwrap_or_else(Code::number)
}

/// How many texts there are: numbers 0 to −36.
pub(crate) const TEXTS: usize = 37;

/// What PVM says for each number (`pvm_errlist`), by its absolute value.
pub(crate) static TEXT: [&CStr; TEXTS] = [
    c"Error 0",
    c"Error 1",
    c"Bad parameter",
    c"Parameter mismatch",
    c"Value too large",
    c"End of buffer",
    c"No such host",
    c"No such file",
    c"Permission denied",
    c"Error 9",
    c"Malloc failed",
    c"Error 11",
    c"Can't decode message",
    c"Error 13",
    c"Can't contact local daemon",
    c"No current buffer",
    c"No such buffer",
    c"Null group name",
    c"Already in group",
    c"No such group",
    c"Not in group",
    c"No such instance",
    c"Host failed",
    c"No parent task",
    c"Not implemented",
    c"Pvmd system error",
    c"Version mismatch",
    c"Out of resources",
    c"Duplicate host",
    c"Can't start pvmd",
    c"Already in progress",
    c"No such task",
    c"Not Found",
    c"Already Exists",
    c"Hoster must run on master host",
    c"Spawning parent set PvmNoParent",
    c"Master Host IP Address is Loopback! (See pvm3/Readme)",
];

/// The words for a number, whatever it is.
pub(crate) fn text(number: i32) -> &'static CStr {
    let index = usize::try_from(number.unsigned_abs()).unwrap_or(TEXTS);
    if number > 0 { c"Unknown Error" } else { TEXT.get(index).copied().unwrap_or(c"Unknown Error") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number_and_has_words() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(code));
            assert!(!text(code.number()).to_str().unwrap().starts_with("Error "), "{code:?}");
        }
        assert_eq!(Code::from_number(-9), None);
        assert_eq!(text(-5), c"End of buffer");
        assert_eq!(text(-37), c"Unknown Error");
        assert_eq!(text(i32::MIN), c"Unknown Error");
    }
}
