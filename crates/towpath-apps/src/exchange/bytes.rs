//! Numbers as bytes and back, the least significant first: the one place that knows how values
//! travel in messages.

use std::borrow::Cow;

use towpath::Plain;
use towpath::task::plain::Order;

use super::{ExchangeError, MESSAGE_MAX, Result};

/// The bytes of values: where they lie, if this machine has them in that order.
pub(crate) fn of<T: Plain>(values: &[T]) -> Cow<'_, [u8]> {
    if Order::NATIVE == Order::Little {
        return T::bytes(values);
    }
    let mut turned = values.to_vec();
    T::turn(&mut turned);
    Cow::Owned(T::bytes(&turned).into_owned())
}

/// Reads as many values as `out` has.
pub(crate) fn fill<T: Plain>(out: &mut [T], bytes: &[u8]) -> Result<()> {
    if bytes.len() != size_of_val(out) {
        let what = "as many numbers as there should be";
        return Err(ExchangeError::Malformed { len: bytes.len(), what });
    }
    T::read(bytes, Order::Little, out);
    Ok(())
}

/// The values of a message.
pub(crate) fn to<T: Plain>(bytes: &[u8]) -> Result<Vec<T>> {
    if !bytes.len().is_multiple_of(T::SIZE) || bytes.len() > MESSAGE_MAX {
        let what = "numbers of their length";
        return Err(ExchangeError::Malformed { len: bytes.len(), what });
    }
    let mut out = vec![T::ZERO; bytes.len() / T::SIZE];
    fill(&mut out, bytes)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_halves_are_refused() {
        let values = [1.5, -0.0, f64::INFINITY];
        assert_eq!(to::<f64>(&of(&values)).unwrap(), values);
        assert_eq!(to::<u64>(&of(&[7_u64, u64::MAX])).unwrap(), [7, u64::MAX]);
        assert_eq!(of(&[0x0102_u64])[..], [2, 1, 0, 0, 0, 0, 0, 0]);
        let error = to::<f64>(&[0; 9]).unwrap_err();
        assert_eq!(error.to_string(), "a message of 9 bytes is not numbers of their length");
        let error = fill(&mut [0.0_f64; 2], &[0; 8]).unwrap_err();
        let right = "a message of 8 bytes is not as many numbers as there should be";
        assert_eq!(error.to_string(), right);
    }
}
