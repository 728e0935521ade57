//! Panels: parameters that others change while a task computes, and results that they follow.
//!
//! A task shows a [`Panel`] under a name that is known in the whole virtual machine; any other task
//! opens a [`View`] of it, as `towpath panel` does. What they say to each other are messages in two
//! contexts of their own, with the name's number as their tag: no daemon knows of it, and a
//! computation that nobody looks at pays for a glance.

mod error;
mod show;
mod view;

pub use error::PanelError;
pub use show::Panel;
pub use towpath_vm::panel::{
    BoardError, CHOICES_MAX, Counts, Form, Kind, Parameter, ParameterId, Point, Refusal,
    SERIES_MAX, Series, SeriesId, Told, ValueError,
};
pub use view::{View, panels};

use towpath_vm::talk::RegistryOp;
use towpath_wire::talk::{CONTEXT_OWN, CONTEXTS_KEPT, Tag};

/// To panels, and from them.
const TO_PANELS: u32 = CONTEXT_OWN + 3;
const FROM_PANELS: u32 = CONTEXT_OWN + 4;
const _: () = assert!(FROM_PANELS < CONTEXT_OWN + CONTEXTS_KEPT);
/// Names of the mailboxes in which panels are found.
const MAILBOX: &str = "panel.";

/// Whether there is a panel, and whose.
fn look_up(mailbox: &str) -> RegistryOp {
    let name = mailbox.to_owned();
    RegistryOp::Get { name, index: None, from: 0, delete: false, wait: false }
}

/// The tag of a panel's messages: of 2⁶⁴, so that two panels of one task do not meet (FNV-1a).
fn tag_of(name: &str) -> Tag {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}
