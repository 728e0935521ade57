//! Notes: a few bytes that an owner says once, in whatever leaves next.
//!
//! A note asks for nothing: no credit, no acknowledgement, no repair. So two hosts that do no more
//! than tell each other again and again that they are there wake up for that alone. Its owner is to
//! say few, and to bear that one is lost, overtaken, or replaced by the next one before it left.

use alloc::vec::Vec;

use towpath_wire::frame::{self, NOTE_OVERHEAD};

use super::core::{Association, AssociationEvent};
use crate::machine::PacketWriter;

/// Longest note, in bytes.
pub const NOTE_MAX: usize = 512;

impl Association {
    /// Says these bytes once, [`NOTE_MAX`] at most; false where they are more. They take the place
    /// of those that have not left yet.
    pub fn note(&mut self, bytes: Vec<u8>) -> bool {
        let fits = bytes.len() <= NOTE_MAX;
        if fits && self.is_open() {
            self.note = Some(bytes);
        }
        fits
    }

    pub(super) fn write_note(&mut self, w: &mut PacketWriter<'_, '_>) {
        let fits = |note: &mut Vec<u8>| w.room() >= NOTE_OVERHEAD + note.len();
        if let Some(note) = self.note.take_if(fits) {
            w.frame(NOTE_OVERHEAD + note.len(), |w| frame::emit_note(w, &note));
        }
    }

    /// One came. Of those that cannot be told yet, the last is kept.
    pub(super) fn handle_note(&mut self, bytes: &[u8]) {
        if bytes.len() > NOTE_MAX {
            return;
        }
        let waiting = self.events.iter_mut().find_map(|event| match event {
            AssociationEvent::Noted(note) => Some(note),
            _ => None,
        });
        match waiting {
            Some(note) => *note = bytes.into(),
            None => self.events.push_back(AssociationEvent::Noted(bytes.into())),
        }
    }
}
