//! Numbers as bytes and back, little endian: the one place that knows how values travel.

use super::{ExchangeError, MESSAGE_MAX, Result};

/// Numbers of 8 bytes.
macro_rules! of {
    ($to:ident, $append:ident, $from:ident, $type:ty) => {
        pub(crate) fn $to(values: &[$type]) -> Vec<u8> {
            let mut bytes = vec![0; 8 * values.len()];
            for (eight, value) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(values) {
                *eight = value.to_le_bytes();
            }
            bytes
        }

        pub(crate) fn $append(bytes: &[u8], out: &mut Vec<$type>) -> Result<()> {
            let (whole, rest) = bytes.as_chunks::<8>();
            if !rest.is_empty() || bytes.len() > MESSAGE_MAX {
                let what = concat!("numbers of type ", stringify!($type));
                return Err(ExchangeError::Malformed { len: bytes.len(), what });
            }
            out.extend(whole.iter().map(|eight| <$type>::from_le_bytes(*eight)));
            Ok(())
        }

        pub(crate) fn $from(bytes: &[u8]) -> Result<Vec<$type>> {
            let mut out = Vec::with_capacity(bytes.len() / 8);
            $append(bytes, &mut out)?;
            Ok(out)
        }
    };
}

of!(of_f64, append_f64, to_f64, f64);
of!(of_u64, append_u64, to_u64, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_halves_are_refused() {
        let values = [1.5, -0.0, f64::INFINITY];
        assert_eq!(to_f64(&of_f64(&values)).unwrap(), values);
        assert_eq!(to_u64(&of_u64(&[7, u64::MAX])).unwrap(), [7, u64::MAX]);
        let error = to_f64(&[0; 9]).unwrap_err();
        assert_eq!(error.to_string(), "a message of 9 bytes is not numbers of type f64");
    }
}
