//! How far delivery has come, exactly.

/// The instant until which a pacer has planned its sending, in fractions of a tick, and the bytes
/// sent until then.
///
/// Invariant: `units > 0`; both only grow.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// In `1 / units` tick.
    time: u128,
    units: u128,
    bytes: u64,
}

impl Head {
    /// At tick 0, counting in `units` per tick.
    pub(super) const fn new(units: u128) -> Self {
        Self { time: 0, units, bytes: 0 }
    }

    /// Bytes sent until this instant.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first tick not before this instant.
    pub fn tick(&self) -> u64 {
        u64::try_from(self.time.div_ceil(self.units)).unwrap_or(u64::MAX)
    }

    /// Whether this instant is before `tick`.
    pub fn is_before(&self, tick: u64) -> bool {
        self.time < self.units.saturating_mul(u128::from(tick))
    }

    /// Sends nothing until `tick`.
    pub(super) fn wait(&mut self, tick: u64) {
        self.time = self.time.max(self.units.saturating_mul(u128::from(tick)));
    }

    /// `bytes` more are sent by the instant `time`.
    pub(super) fn reach(&mut self, time: u128, bytes: u64) {
        self.time = self.time.max(time);
        self.bytes += bytes;
    }

    /// Sends `bytes`, each taking `per_byte` units.
    pub(super) fn send(&mut self, bytes: u64, per_byte: u128) {
        self.time = self.time.saturating_add(per_byte.saturating_mul(u128::from(bytes)));
        self.bytes += bytes;
    }
}
