//! Link-sharing guidelines: when a leaf over its limit may borrow.

/// When a class may send although it is over its limit. A class at level 1 is a leaf, an inner
/// class one above its highest child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Some ancestor is under its limit, and no class below that one's level is unsatisfied
    /// (under its limit, with packets below it that may use it).
    Formal,
    /// Some ancestor is under its limit. As the link itself never is over its own, this limits
    /// only classes that may not borrow from it.
    AncestorsOnly,
    /// Some ancestor up to level `Top` is under its limit; `Top` follows the lowest class under
    /// its limit that had packets of late.
    TopLevel,
}
