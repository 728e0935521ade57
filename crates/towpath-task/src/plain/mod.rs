//! Messages of numbers: what can be sent as it lies in memory, and how receivers are kept from
//! reading it as something else.
//!
//! | module | what it holds |
//! |---|---|
//! | `code` | what a message's format field says of its type |
//! | `tile` | parts of arrays: columns, halos, blocks |
//! | `send`, `receive` | the calls of [`Task`](crate::Task) |
//!
//! A message sent by [`Task::send_slice`](crate::Task::send_slice) says in its format field of which
//! type its values are, and in which order its sender's machine has their bytes ([`TypeCode`]).
//! Who receives it as another type gets an error that names both, and the message stays where it
//! is; bytes are turned round where the machines differ.
//!
//! ```
//! use towpath_task::plain::{Plain, TypeCode};
//!
//! towpath_task::record! {
//!     /// What the bodies of a simulation send each other.
//!     #[derive(Debug, PartialEq)]
//!     pub struct Body { pub mass: f64, pub at: [f64; 3] }
//! }
//! assert_eq!(TypeCode::of::<f64>().to_string(), "f64");
//! // An array counts as that of which it is one.
//! assert_eq!(TypeCode::of::<[f64; 3]>(), TypeCode::of::<f64>());
//! assert_ne!(TypeCode::of::<Body>(), TypeCode::of::<f64>());
//! ```

use std::borrow::Cow;

use towpath_vm::collective::Element;

mod code;
mod receive;
mod send;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use code::check;
pub use code::{ContentError, Order, TypeCode};
pub use num_complex::{Complex32, Complex64};
pub use receive::Values;
pub use tile::{Tile, TileMut};

/// What can be sent as it lies in memory: numbers, complex numbers and arrays of them; and
/// structures that [`record!`](crate::record) declares, which are packed. Every bit pattern is a
/// value, so `bool` and `char` are not.
pub trait Plain: Copy + Send + 'static {
    /// What its messages say that they hold.
    const CODE: TypeCode;
    /// Bytes of one value in a message.
    const SIZE: usize;
    /// A value to fill arrays with that are received into.
    const ZERO: Self;

    /// The values as a message has them, in the order of this machine's bytes: where they lie, or
    /// packed.
    fn bytes(values: &[Self]) -> Cow<'_, [u8]>;

    /// Where they lie, if they lie there as a message has them.
    fn bytes_mut(values: &mut [Self]) -> Option<&mut [u8]>;

    /// Turns the bytes of each number round, in place.
    fn turn(values: &mut [Self]);

    /// Reads as many values as there are in `out` from a message; `bytes` has so many.
    fn read(bytes: &[u8], order: Order, out: &mut [Self]) {
        let to = Self::bytes_mut(out).expect("what is packed reads by itself");
        to.copy_from_slice(bytes);
        if order != Order::NATIVE {
            Self::turn(out);
        }
    }
}

macro_rules! numbers {
    ($($t:ident $element:ident),*) => { $(
        impl Plain for $t {
            const CODE: TypeCode = TypeCode::element(Element::$element);
            const SIZE: usize = size_of::<Self>();
            const ZERO: Self = 0 as $t;

            #[inline]
            fn bytes(values: &[Self]) -> Cow<'_, [u8]> {
                Cow::Borrowed(bytemuck::cast_slice(values))
            }

            #[inline]
            fn bytes_mut(values: &mut [Self]) -> Option<&mut [u8]> {
                Some(bytemuck::cast_slice_mut(values))
            }

            fn turn(values: &mut [Self]) {
                for value in values {
                    let mut bytes = value.to_ne_bytes();
                    bytes.reverse();
                    *value = Self::from_ne_bytes(bytes);
                }
            }
        }
    )* };
}

numbers!(i8 I8, u8 U8, i16 I16, u16 U16, i32 I32, u32 U32, i64 I64, u64 U64, f32 F32, f64 F64);

macro_rules! complex {
    ($($t:ident of $part:ident $element:ident),*) => { $(
        impl Plain for $t {
            const CODE: TypeCode = TypeCode::element(Element::$element);
            const SIZE: usize = size_of::<Self>();
            const ZERO: Self = Self { re: 0.0, im: 0.0 };

            fn bytes(values: &[Self]) -> Cow<'_, [u8]> {
                Cow::Borrowed(bytemuck::cast_slice(values))
            }

            fn bytes_mut(values: &mut [Self]) -> Option<&mut [u8]> {
                Some(bytemuck::cast_slice_mut(values))
            }

            fn turn(values: &mut [Self]) {
                $part::turn(bytemuck::cast_slice_mut(values));
            }
        }
    )* };
}

complex!(Complex32 of f32 C32, Complex64 of f64 C64);

impl<T: Plain, const N: usize> Plain for [T; N] {
    const CODE: TypeCode = T::CODE;
    const SIZE: usize = N * T::SIZE;
    const ZERO: Self = [T::ZERO; N];

    fn bytes(values: &[Self]) -> Cow<'_, [u8]> {
        T::bytes(values.as_flattened())
    }

    fn bytes_mut(values: &mut [Self]) -> Option<&mut [u8]> {
        T::bytes_mut(values.as_flattened_mut())
    }

    fn turn(values: &mut [Self]) {
        T::turn(values.as_flattened_mut());
    }

    fn read(bytes: &[u8], order: Order, out: &mut [Self]) {
        T::read(bytes, order, out.as_flattened_mut());
    }
}

/// Declares a structure that can be sent ([`plain::Plain`](crate::plain::Plain)); it is `Copy`. Its
/// fields go one behind the other, without gaps. Two structures are one type to a receiver when the
/// types of their fields are, in their order.
///
/// ```
/// use towpath_task::plain::{Order, Plain};
/// towpath_task::record! {
///     /// A particle.
///     #[derive(Debug, PartialEq)]
///     struct Particle { kind: u8, charge: f32, at: [f64; 3] }
/// }
/// let one = Particle { kind: 7, charge: -1.0, at: [1.0, 2.0, 3.0] };
/// let bytes = Particle::bytes(&[one]).into_owned();
/// assert_eq!(bytes.len(), 1 + 4 + 3 * 8);
/// let mut back = [Particle::ZERO];
/// Particle::read(&bytes, Order::NATIVE, &mut back);
/// assert_eq!(back, [one]);
/// ```
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $t:ty),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $t),+ }

        impl $crate::plain::Plain for $name {
            const CODE: $crate::plain::TypeCode = $crate::plain::TypeCode::record(&[
                $((<$t as $crate::plain::Plain>::CODE, <$t as $crate::plain::Plain>::SIZE)),+
            ]);
            const SIZE: usize = 0 $(+ <$t as $crate::plain::Plain>::SIZE)+;
            const ZERO: Self = Self { $($field: <$t as $crate::plain::Plain>::ZERO),+ };

            fn bytes(values: &[Self]) -> ::std::borrow::Cow<'_, [u8]> {
                let mut bytes = ::std::vec::Vec::with_capacity(values.len() * Self::SIZE);
                for value in values {
                    $(bytes.extend_from_slice(&<$t as $crate::plain::Plain>::bytes(
                        ::core::slice::from_ref(&value.$field),
                    ));)+
                }
                bytes.into()
            }

            fn bytes_mut(_: &mut [Self]) -> ::core::option::Option<&mut [u8]> {
                ::core::option::Option::None
            }

            fn turn(values: &mut [Self]) {
                for value in values {
                    $(<$t as $crate::plain::Plain>::turn(
                        ::core::slice::from_mut(&mut value.$field),
                    );)+
                }
            }

            fn read(bytes: &[u8], order: $crate::plain::Order, out: &mut [Self]) {
                for (mut bytes, value) in bytes.chunks_exact(Self::SIZE).zip(out) {
                    $(
                        let field;
                        (field, bytes) = bytes.split_at(<$t as $crate::plain::Plain>::SIZE);
                        <$t as $crate::plain::Plain>::read(
                            field,
                            order,
                            ::core::slice::from_mut(&mut value.$field),
                        );
                    )+
                    let _ = bytes;
                }
            }
        }
    };
}
