//! Structures that can be sent.

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
