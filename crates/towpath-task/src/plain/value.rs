//! Numbers, complex numbers and arrays of them as messages have them.

use std::borrow::Cow;

use num_complex::{Complex32, Complex64};
use towpath_vm::collective::Element;

use super::code::{Order, TypeCode};

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
