//! What names an association: below everything that speaks of one.

/// Names an association of this endpoint; also the index that the peer puts on its packets.
/// The low 12 bits are a table index, the rest is drawn anew for each use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u32);

/// Bits of the table's index.
pub(crate) const INDEX_BITS: u32 = 12;

impl AssociationId {
    pub(crate) const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}
