//! The log on a disk, as bytes: one file that grows, and is replaced as a whole by each snapshot.
//!
//! ```text
//! head, 48 bytes:
//!  0..16 "towpath log 1\n\0\0" | 16..24 generation | 24..32 id | 32..40 drawn for this file
//!  40..44 zero | 44..48 CRC-32C of 0..44
//! then records, each at a multiple of 8:
//!  0..4 CRC-32C of the head and of 4..24+n | 4..8 length n | 8..16 its number, from 1
//!  16 kind | 17..24 zero | 24..24+n body | zeros to a multiple of 8
//!  1 Boot      0..4 boot | 4..12 life
//!  2 Vote      0..8 term | 8..16 vote, 0 for nobody
//!  3 Entry     0..8 index | then the entry
//!  4 Snapshot  0..8 index | 8..16 term | then the members, then the state
//!  5 Mark      0..8 all before this place was on the disk when this was written
//! ```
//! Kinds are critical or skippable by [the rule of kinds](towpath_wire::parameter).
//!
//! **Torn or damaged.** A power cut may leave any part of what was not yet brought to the disk;
//! nothing was promised about that, so the file is cut off at the first record that is not whole.
//! But damage *before* the place that a later whole record marks as being on the disk has hit what
//! was promised: such a file is refused. A mark is written after each time that the disk has
//! everything; where a power cut took the last one, damage to the very last of it goes unseen.

mod encode;
mod recover;

pub use encode::{HEAD, Head, Journal, RECORD_HEADER};
pub use recover::{JournalError, Recovered, recover};

#[cfg(test)]
mod tests;
