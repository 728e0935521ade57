//! The schemes by name.

use core::fmt;
use core::str::FromStr;

/// A way to deliver a stored video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// One rate from start to end.
    Cbr,
    /// One rate, held up at a clock reference that is early.
    Pcbr,
    /// A high rate while late, a low one while early.
    Pdcbr,
    /// One rate, held up while the receiver's buffer is full.
    WindowPcbr,
    /// Least peak and variance (Salehi et al.).
    Smooth,
    /// Critical bandwidth allocation: few increases (Feng and Sechrest).
    Cba,
    /// Few changes (Feng, Jahanian and Sechrest).
    Mcba,
    /// One rate per interval of fixed length (`McManus` and Ross).
    Pcrtt,
    /// The rate between two clock references is that of their bytes (first source, eq. 4.3).
    Ideal,
}

impl Scheme {
    /// All, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Cbr,
        Self::Pcbr,
        Self::Pdcbr,
        Self::WindowPcbr,
        Self::Smooth,
        Self::Cba,
        Self::Mcba,
        Self::Pcrtt,
        Self::Ideal,
    ];

    /// Whether its peak does not fall evenly with buffer and delay: CBA and MCBA.
    pub const fn is_greedy(self) -> bool {
        matches!(self, Self::Cba | Self::Mcba)
    }

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cbr => "cbr",
            Self::Pcbr => "pcbr",
            Self::Pdcbr => "pdcbr",
            Self::WindowPcbr => "window-pcbr",
            Self::Smooth => "smooth",
            Self::Cba => "cba",
            Self::Mcba => "mcba",
            Self::Pcrtt => "pcrtt",
            Self::Ideal => "ideal",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name).ok_or(())
    }
}
