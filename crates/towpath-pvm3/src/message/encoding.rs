//! How a message's numbers are written.
//!
//! `PvmDataDefault` has the layout of XDR (RFC 4506) in the byte order of the machine that packs:
//! lengths are those of PVM, and between equal machines a row of numbers is one copy. The header
//! says which order it is; a reader of the other order turns the numbers round.
//!
//! ```text
//! format  0x1000_0000 default | 0x4000_0000 trace, bit 0: little-endian
//!         anything else: raw, PVM's data signature of the machine
//!         and 0x0800_0000: the message has a wait id (see [`WAITS`])
//! ```

use crate::code::Code;

/// PVM's signature of the data formats of this kind of machine: what `pvm_config` shows, and what
/// a raw message carries. Debian's library computes the same for 64-bit little-endian machines.
pub(crate) const DSIG: i32 = if cfg!(target_endian = "little") { 0x0040_8c41 } else { 0x0060_8c61 };

/// In a header's format: four bytes stand in front of the message, its wait id (`pvm_setminfo`),
/// little-endian. Few messages have one. PVM's data signatures leave this bit free.
pub(crate) const WAITS: u32 = 0x0800_0000;

const DEFAULT: i32 = 0x1000_0000;
const IN_PLACE: i32 = 0x2000_0000;
const TRACE: i32 = 0x4000_0000;
const LITTLE: i32 = cfg!(target_endian = "little") as i32;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// `PvmDataDefault`. `swapped`: by a machine of the other byte order.
    Default { swapped: bool },
    /// `PvmDataRaw`: as in memory.
    Raw,
    /// `PvmDataInPlace`: raw, read from the program's memory when the message is sent.
    InPlace,
    /// `PvmDataTrace`: default, with the type in front of each value.
    Trace { swapped: bool },
    /// Raw, by a machine with other formats: only bytes can be read.
    Alien(i32),
}

impl Encoding {
    /// `PvmDataDefault`, as this machine writes it.
    pub(crate) const DEFAULT: Self = Self::Default { swapped: false };

    /// What `pvm_mkbuf` and `pvm_initsend` are asked for.
    pub(crate) const fn asked(encoding: i32) -> Result<Self, Code> {
        Ok(match encoding {
            0 => Self::DEFAULT,
            1 => Self::Raw,
            2 => Self::InPlace,
            4 => Self::Trace { swapped: false },
            _ => return Err(Code::BadParam),
        })
    }

    /// What a program sees in `pvmminfo.enc`.
    pub(crate) const fn shown(self) -> i32 {
        match self {
            Self::Default { .. } => DEFAULT,
            Self::Raw => DSIG,
            Self::InPlace => IN_PLACE,
            Self::Trace { .. } => TRACE,
            Self::Alien(dsig) => dsig,
        }
    }

    /// What the header of a message says.
    pub(crate) const fn format(self) -> u32 {
        (match self {
            Self::Default { swapped } => DEFAULT | if swapped { 1 - LITTLE } else { LITTLE },
            Self::Trace { swapped } => TRACE | if swapped { 1 - LITTLE } else { LITTLE },
            Self::Raw | Self::InPlace => DSIG,
            Self::Alien(dsig) => dsig,
        })
        .cast_unsigned()
    }

    /// What a header says.
    pub(crate) const fn of_format(format: u32) -> Self {
        let format = format.cast_signed();
        let swapped = format & 1 != LITTLE;
        match format & !1 {
            DEFAULT => Self::Default { swapped },
            TRACE => Self::Trace { swapped },
            _ if format == DSIG => Self::Raw,
            _ => Self::Alien(format),
        }
    }

    /// Numbers have XDR's layout.
    pub(crate) const fn is_coded(self) -> bool {
        matches!(self, Self::Default { .. } | Self::Trace { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_come_back() {
        for asked in [0, 1, 4] {
            let encoding = Encoding::asked(asked).unwrap();
            assert_eq!(Encoding::of_format(encoding.format()), encoding);
        }
        for encoding in [Encoding::Default { swapped: true }, Encoding::Alien(0x1234)] {
            assert_eq!(Encoding::of_format(encoding.format()), encoding);
        }
        // What was lent arrives as raw.
        assert_eq!(Encoding::of_format(Encoding::InPlace.format()), Encoding::Raw);
        assert_eq!(Encoding::asked(3), Err(Code::BadParam));
        assert_eq!(Encoding::asked(0).unwrap().shown(), 0x1000_0000);
    }
}
