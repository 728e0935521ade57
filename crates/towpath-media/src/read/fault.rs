//! What can be wrong with a file, counted by kind, with the first places.

use alloc::vec::Vec;

use serde::Serialize;

/// Offsets kept per kind of fault; the counters go on.
pub const FAULT_OFFSETS_MAX: usize = 16;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What is wrong. A reader goes on after each of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FaultKind {
            $($(#[$doc])* $name,)*
        }

        impl FaultKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// A short text for people.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    /// Two packets in a row did not start with 0x47; the offset is the first one's.
    SyncLoss = "packet rhythm lost",
    /// One packet did not start with 0x47; it was left out.
    SyncByte = "packet does not start with 0x47",
    /// `transport_error_indicator` is set; the packet was left out.
    TransportError = "packet marked as corrupt by its carrier",
    /// A continuity counter skipped: packets were lost.
    Continuity = "packets lost (continuity counter)",
    /// A packet came more than twice.
    Repeated = "packet repeated more than once",
    /// An adaptation field is longer than its packet.
    AdaptationField = "adaptation field longer than its packet",
    /// A section's CRC-32 is wrong; it was left out.
    SectionCrc = "table with a wrong CRC-32",
    /// A section is longer than it may be, or contradicts itself; it was left out.
    Section = "table that contradicts itself",
    /// A PES packet does not start with its start code, or its header contradicts itself.
    PesHeader = "PES header that contradicts itself",
    /// A PES packet ended before the length that it told.
    PesLength = "PES packet shorter or longer than its header tells",
    /// A clock reference stepped back or by more than 100 ms unannounced.
    ClockJump = "clock reference jumped unannounced",
    /// A clock reference's extension is not below 300; the reference was left out.
    ClockExtension = "clock reference out of range",
    /// Bytes of a program stream or AVI that belong to nothing; the offset is the first one's.
    Garbage = "bytes that belong to nothing",
    /// A header of an elementary stream contradicts itself.
    StreamHeader = "stream header that contradicts itself",
    /// A chunk is longer than the file, or than the list it is in.
    ChunkLength = "chunk longer than the file",
    /// A transport stream does not begin with a packet; the offset is that of the first one.
    Headless = "file begins inside a packet",
    /// No header, frame, table or clock reference that is right in itself.
    Unproven = "nothing in it proves what it is",
    /// The file ended inside of something.
    Truncated = "file ends inside a packet, chunk or picture",
    /// More programs, streams or frames than the reader's limits; the rest was left out.
    Limit = "more programs or streams than the limit",
}

/// How often and first where a kind of fault was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultCount {
    /// Which.
    pub kind: FaultKind,
    /// How often.
    pub count: u64,
    /// Byte offsets in the file of the first [`FAULT_OFFSETS_MAX`].
    pub first_offsets: Vec<u64>,
}

/// All faults of a file. `kinds` holds each kind at most once, in the order of first occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Only the kinds that occurred.
    pub kinds: Vec<FaultCount>,
}

impl Faults {
    /// Counts one.
    pub fn record(&mut self, kind: FaultKind, offset: u64) {
        let at = self.kinds.iter().position(|k| k.kind == kind).unwrap_or_else(|| {
            self.kinds.push(FaultCount { kind, count: 0, first_offsets: Vec::new() });
            self.kinds.len() - 1
        });
        let entry = &mut self.kinds[at];
        entry.count += 1;
        if entry.first_offsets.len() < FAULT_OFFSETS_MAX {
            entry.first_offsets.push(offset);
        }
    }

    /// How often this kind occurred.
    pub fn count(&self, kind: FaultKind) -> u64 {
        self.kinds.iter().find(|k| k.kind == kind).map_or(0, |k| k.count)
    }

    /// How many faults in all.
    pub fn total(&self) -> u64 {
        self.kinds.iter().map(|k| k.count).sum()
    }
}
