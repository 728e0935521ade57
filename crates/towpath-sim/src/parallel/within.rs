//! Numbers of a file that have a least and a most.

use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// A whole number, `LEAST` <= it <= `MOST`. A file with another one is refused with its line, the
/// number and the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Within<const LEAST: u64, const MOST: u64>(u64);

impl<const LEAST: u64, const MOST: u64> Within<LEAST, MOST> {
    /// The number.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The number, of things that are counted.
    pub const fn count(self) -> usize {
        self.0 as usize
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Within<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        checked(i64::deserialize(from)?, LEAST, MOST).map(Self).map_err(D::Error::custom)
    }
}

/// Once for all limits.
fn checked(value: i64, least: u64, most: u64) -> Result<u64, String> {
    match u64::try_from(value) {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{value}, must be {least} to {most}")),
    }
}
