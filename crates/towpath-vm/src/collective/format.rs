//! The word that goes in the `format` field of each message's header.
//!
//! ```text
//! 0..4 phase: 0 data, 1 the team is broken | 4..8 operation
//! 8..16 operator and element, or the type of what is moved
//! 16..32 root
//! ```
//! Every member checks it against its own operation, so that members who disagree on what they do
//! are told so instead of waiting for each other.

use core::fmt;

/// The body is part of the operation.
pub(super) const DATA: u32 = 0;
/// The body says from which operation on the team is broken, and why. Of no operation.
pub(super) const BROKEN: u32 = 1;

const PHASE_BITS: u32 = 0xf;

/// Operation, operator and root, as members compare them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call(u32);

/// What an operation is called, by its code.
const NAMES: [&str; 16] = [
    "a barrier",
    "a broadcast",
    "a reduce",
    "an allreduce",
    "a gather",
    "an allgather",
    "a scatter",
    "an all-to-all",
    "a scan",
    "an exclusive scan",
    "a barrier by words",
    "an unknown operation",
    "an unknown operation",
    "an unknown operation",
    "an unknown operation",
    "an unknown operation",
];

impl Call {
    pub(super) fn new(code: u32, operator: u8, root: u32) -> Self {
        Self(code << 4 | u32::from(operator) << 8 | root << 16)
    }

    /// The same with a type of data, where no operator says one.
    pub(super) fn of_type(self, kind: u8) -> Self {
        let [_, operator, ..] = self.0.to_le_bytes();
        if operator == 0 { Self(self.0 | u32::from(kind) << 8) } else { self }
    }

    pub(super) fn from_raw(raw: u32) -> Self {
        Self(raw & !PHASE_BITS)
    }

    pub(super) fn to_raw(self) -> u32 {
        self.0
    }

    /// The whole word of a message in `phase`.
    pub(super) fn format(self, phase: u32) -> u32 {
        self.0 | phase
    }

    /// Takes a word apart: what the sender does, and the phase of the message.
    pub(super) fn parse(format: u32) -> (Self, u32) {
        (Self::from_raw(format), format & PHASE_BITS)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, operator, root) = (self.0 >> 4 & 0xf, self.0 >> 8 & 0xff, self.0 >> 16);
        write!(f, "{}", NAMES[code as usize])?;
        if operator != 0 {
            let what = if matches!(code, 2 | 3 | 8 | 9) { "by operator" } else { "of type" };
            write!(f, " {what} {operator:#04x}")?;
        }
        if matches!(code, 1 | 2 | 4 | 6) { write!(f, " with root {root}") } else { Ok(()) }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_type_of_data_where_no_operator_says_one() {
        let plain = Call::new(3, 0, 7);
        let typed = plain.of_type(5);
        assert_eq!(typed.to_raw(), plain.to_raw() | 5 << 8);
        assert_eq!(typed.of_type(9), typed, "it has one");
        let operator = Call::new(3, 2, 7);
        assert_eq!(operator.of_type(5), operator);
        for phase in [0, 1, 2] {
            assert_eq!(Call::parse(typed.format(phase)), (typed, phase));
        }
    }
}
