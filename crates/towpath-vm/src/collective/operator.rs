//! What reductions and scans combine elements by.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// What a built-in operator does. Sums and products of integers wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// x + y.
    Sum,
    /// x · y.
    Product,
    /// The smaller; of floats, −0 is smaller than +0, and a NaN wins over all numbers.
    Min,
    /// The larger; of floats, +0 is larger than −0, and a NaN wins over all numbers.
    Max,
    /// Bitwise and, of integers.
    BitAnd,
    /// Bitwise or, of integers.
    BitOr,
    /// Bitwise exclusive or, of integers.
    BitXor,
    /// 1 if both are not 0, else 0, of integers.
    LogicalAnd,
    /// 1 if one is not 0, else 0, of integers.
    LogicalOr,
    /// 1 if exactly one is not 0, else 0, of integers.
    LogicalXor,
}

/// The type of the elements. They are little-endian in memory, and need no alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 8 bits, signed.
    I8,
    /// 8 bits.
    U8,
    /// 16 bits, signed.
    I16,
    /// 16 bits.
    U16,
    /// 32 bits, signed.
    I32,
    /// 32 bits.
    U32,
    /// 64 bits, signed.
    I64,
    /// 64 bits.
    U64,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Real and imaginary part in single precision.
    C32,
    /// Real and imaginary part in double precision.
    C64,
}

/// Whether a user's operator may be applied in another order than that of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commutes {
    /// x ∘ y = y ∘ x.
    Yes,
    /// The operator is applied in the order of the ranks.
    No,
}

/// The operator is not defined for the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// No such function of such elements.
    #[error("{function:?} is not defined for elements of type {element:?}")]
    Undefined {
        /// The function.
        function: Function,
        /// The elements.
        element: Element,
    },
    /// An element must have a length.
    #[error("elements of 0 bytes")]
    Empty,
}

/// Which operand the accumulator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// acc := acc ∘ other.
    Left,
    /// acc := other ∘ acc.
    Right,
}

type BuiltIn = fn(&mut [u8], &[u8], Side);
type User = Box<dyn FnMut(&mut [u8], &[u8])>;

enum Apply {
    BuiltIn(BuiltIn),
    User(User),
}

/// An associative operator on vectors of elements.
pub struct Operator {
    apply: Apply,
    element_bytes: usize,
    commutes: bool,
    /// What members compare: 0 is no operator.
    signature: u8,
}

impl Operator {
    /// `function` applied element by element.
    pub fn built_in(function: Function, element: Element) -> Result<Self, OperatorError> {
        let apply = match element {
            Element::I8 => integer::i8(function),
            Element::U8 => integer::u8(function),
            Element::I16 => integer::i16(function),
            Element::U16 => integer::u16(function),
            Element::I32 => integer::i32(function),
            Element::U32 => integer::u32(function),
            Element::I64 => integer::i64(function),
            Element::U64 => integer::u64(function),
            Element::F32 => float::f32(function),
            Element::F64 => float::f64(function),
            Element::C32 => complex::f32(function),
            Element::C64 => complex::f64(function),
        };
        let apply = apply.ok_or(OperatorError::Undefined { function, element })?;
        Ok(Self {
            apply: Apply::BuiltIn(apply),
            element_bytes: element.bytes(),
            commutes: true,
            signature: (function as u8 + 1) << 4 | element as u8,
        })
    }

    /// A user's operator on elements of `element_bytes`. `combine(left, right)` is given as many
    /// whole elements of both, not aligned, and leaves left ∘ right in `left`. It must be
    /// associative, and the same at every member.
    pub fn user(
        element_bytes: usize,
        commutes: Commutes,
        combine: impl FnMut(&mut [u8], &[u8]) + 'static,
    ) -> Result<Self, OperatorError> {
        if element_bytes == 0 {
            return Err(OperatorError::Empty);
        }
        let commutes = commutes == Commutes::Yes;
        let apply = Apply::User(Box::new(combine));
        Ok(Self { apply, element_bytes, commutes, signature: 1 + u8::from(commutes) })
    }

    /// Bytes of one element.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    pub(super) fn commutes(&self) -> bool {
        self.commutes
    }

    pub(super) fn signature(&self) -> u8 {
        self.signature
    }

    /// `acc` := `acc` ∘ `right`. Both have the same length.
    pub(super) fn append(&mut self, acc: &mut [u8], right: &[u8]) {
        assert_eq!(acc.len(), right.len(), "lengths are checked as messages come");
        match &mut self.apply {
            Apply::BuiltIn(apply) => apply(acc, right, Side::Left),
            Apply::User(combine) => combine(acc, right),
        }
    }

    /// `acc` := `left` ∘ `acc`. Both have the same length.
    pub(super) fn prepend(&mut self, left: &[u8], acc: &mut Vec<u8>) {
        assert_eq!(acc.len(), left.len(), "lengths are checked as messages come");
        match &mut self.apply {
            Apply::BuiltIn(apply) => apply(acc, left, Side::Right),
            Apply::User(combine) => {
                let mut out = left.to_vec();
                combine(&mut out, acc);
                *acc = out;
            }
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {:#04x} on {} bytes", self.signature, self.element_bytes)
    }
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C32 => 8,
            Self::C64 => 16,
        }
    }
}

/// acc := acc ∘ other or other ∘ acc, element by element of `N` bytes.
fn each<const N: usize>(
    acc: &mut [u8],
    other: &[u8],
    side: Side,
    function: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (acc, _) = acc.as_chunks_mut::<N>();
    let (other, _) = other.as_chunks::<N>();
    match side {
        Side::Left => acc.iter_mut().zip(other).for_each(|(a, b)| *a = function(*a, *b)),
        Side::Right => acc.iter_mut().zip(other).for_each(|(a, b)| *a = function(*b, *a)),
    }
}

/// A `BuiltIn` of an expression in two numbers of a type.
macro_rules! elementwise {
    ($t:ty, |$x:ident, $y:ident| $value:expr) => {
        Some(|acc, other, side| {
            each::<{ size_of::<$t>() }>(acc, other, side, |x, y| {
                let ($x, $y) = (<$t>::from_le_bytes(x), <$t>::from_le_bytes(y));
                <$t>::to_le_bytes($value)
            });
        })
    };
}

mod integer {
    use super::{BuiltIn, Function, each};

    macro_rules! functions {
        ($($t:ident)*) => { $(
            pub(super) fn $t(function: Function) -> Option<BuiltIn> {
                match function {
                    Function::Sum => elementwise!($t, |x, y| x.wrapping_add(y)),
                    Function::Product => elementwise!($t, |x, y| x.wrapping_mul(y)),
                    Function::Min => elementwise!($t, |x, y| x.min(y)),
                    Function::Max => elementwise!($t, |x, y| x.max(y)),
                    Function::BitAnd => elementwise!($t, |x, y| x & y),
                    Function::BitOr => elementwise!($t, |x, y| x | y),
                    Function::BitXor => elementwise!($t, |x, y| x ^ y),
                    Function::LogicalAnd => {
                        elementwise!($t, |x, y| <$t>::from(x != 0 && y != 0))
                    }
                    Function::LogicalOr => {
                        elementwise!($t, |x, y| <$t>::from(x != 0 || y != 0))
                    }
                    Function::LogicalXor => {
                        elementwise!($t, |x, y| <$t>::from((x != 0) != (y != 0)))
                    }
                }
            }
        )* };
    }
    functions!(i8 u8 i16 u16 i32 u32 i64 u64);
}

mod float {
    use super::{BuiltIn, Function, each};

    macro_rules! functions {
        ($($t:ident)*) => { $(
            pub(super) fn $t(function: Function) -> Option<BuiltIn> {
                // `total_cmp` orders −0 before +0; of two NaNs the left one stays.
                match function {
                    Function::Sum => elementwise!($t, |x, y| x + y),
                    Function::Product => elementwise!($t, |x, y| x * y),
                    Function::Min => elementwise!($t, |x, y| {
                        if x.is_nan() || !y.is_nan() && x.total_cmp(&y).is_le() { x } else { y }
                    }),
                    Function::Max => elementwise!($t, |x, y| {
                        if x.is_nan() || !y.is_nan() && x.total_cmp(&y).is_ge() { x } else { y }
                    }),
                    _ => None,
                }
            }
        )* };
    }
    functions!(f32 f64);
}

mod complex {
    use super::{BuiltIn, Function, each};

    macro_rules! functions {
        ($($t:ident)*) => { $(
            pub(super) fn $t(function: Function) -> Option<BuiltIn> {
                const HALF: usize = size_of::<$t>();
                fn parts(z: [u8; 2 * HALF]) -> ($t, $t) {
                    let (halves, _) = z.as_chunks::<HALF>();
                    (<$t>::from_le_bytes(halves[0]), <$t>::from_le_bytes(halves[1]))
                }
                fn whole(re: $t, im: $t) -> [u8; 2 * HALF] {
                    let mut z = [0; 2 * HALF];
                    z[..HALF].copy_from_slice(&re.to_le_bytes());
                    z[HALF..].copy_from_slice(&im.to_le_bytes());
                    z
                }
                match function {
                    Function::Sum => Some(|acc, other, side| {
                        each(acc, other, side, |x, y| {
                            let ((a, b), (c, d)) = (parts(x), parts(y));
                            whole(a + c, b + d)
                        });
                    }),
                    Function::Product => Some(|acc, other, side| {
                        each(acc, other, side, |x, y| {
                            let ((a, b), (c, d)) = (parts(x), parts(y));
                            whole(a * c - b * d, a * d + b * c)
                        });
                    }),
                    _ => None,
                }
            }
        )* };
    }
    functions!(f32 f64);
}
