//! The types that can be packed.

use crate::code::Code;

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Byte,
    Short,
    UShort,
    Int,
    UInt,
    Long,
    ULong,
    Float,
    Double,
    /// Two floats.
    Cplx,
    /// Two doubles.
    Dcplx,
}

impl Element {
    /// Every type.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 11] = [
        Self::Byte,
        Self::Short,
        Self::UShort,
        Self::Int,
        Self::UInt,
        Self::Long,
        Self::ULong,
        Self::Float,
        Self::Double,
        Self::Cplx,
        Self::Dcplx,
    ];

    /// Bytes in a program's memory.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Short | Self::UShort => 2,
            Self::Int | Self::UInt | Self::Float => 4,
            Self::Long | Self::ULong | Self::Double | Self::Cplx => 8,
            Self::Dcplx => 16,
        }
    }

    /// Bytes in a message of [`Encoding::Default`](super::Encoding): as XDR has it (RFC 4506,
    /// section 4): nothing below four bytes, except in a row of bytes; PVM's longs have four.
    pub(crate) const fn coded_size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Short | Self::UShort | Self::Long | Self::ULong => 4,
            _ => self.size(),
        }
    }

    /// Bytes of the coded numbers that an element consists of: what is turned round between
    /// machines.
    pub(crate) const fn coded_unit(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Double | Self::Dcplx => 8,
            _ => 4,
        }
    }

    /// The type that `PVM_BYTE` and so on name, for `pvm_psend` and `pvm_precv`.
    pub(crate) const fn of_data_type(data_type: i32) -> Result<Self, Code> {
        Ok(match data_type {
            0 => return Err(Code::NotImpl),
            1 => Self::Byte,
            2 => Self::Short,
            3 => Self::Int,
            4 => Self::Float,
            5 => Self::Cplx,
            6 => Self::Double,
            7 => Self::Dcplx,
            8 => Self::Long,
            9 => Self::UShort,
            10 => Self::UInt,
            11 => Self::ULong,
            _ => return Err(Code::BadParam),
        })
    }
}
