//! Where panels are found, and in which contexts their messages go.

use towpath_vm::talk::RegistryOp;
use towpath_wire::talk::{CONTEXT_OWN, CONTEXTS_KEPT, Tag};

/// To panels, and from them.
pub(super) const TO_PANELS: u32 = CONTEXT_OWN + 3;
pub(super) const FROM_PANELS: u32 = CONTEXT_OWN + 4;
const _: () = assert!(FROM_PANELS < CONTEXT_OWN + CONTEXTS_KEPT);
/// Names of the mailboxes in which panels are found.
pub(super) const MAILBOX: &str = "panel.";

/// Whether there is a panel, and whose.
pub(super) fn look_up(mailbox: &str) -> RegistryOp {
    let name = mailbox.to_owned();
    RegistryOp::Get { name, index: None, from: 0, delete: false, wait: false }
}

/// The tag of a panel's messages: of 2⁶⁴, so that two panels of one task do not meet (FNV-1a).
pub(super) fn tag_of(name: &str) -> Tag {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panels_tag_is_its_names_hash_in_every_build() {
        for (name, tag) in [
            ("", 0xcbf2_9ce4_8422_2325_u64),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(tag_of(name).cast_unsigned(), tag, "{name}");
        }
    }
}
