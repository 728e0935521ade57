//! From values to positions: ranges, ticks at round numbers, and their labels.

use super::chart::Axis;

/// The unit of an axis. Values are always in the base unit (seconds, bytes, bit/s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time.
    Seconds,
    /// Decimal multiples: kB, MB.
    Bytes,
    /// Rates, in decimal multiples.
    BitsPerSecond,
    /// A number of something.
    Count,
}

impl Unit {
    /// The unit that suits values up to `max`: its factor and its name.
    fn prefixed(self, max: f64) -> (f64, &'static str) {
        let table: &[(f64, &str)] = match self {
            Self::Seconds if max < 1.0 => &[(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms")],
            Self::Seconds => &[(1.0, "s"), (60.0, "min")],
            Self::Bytes => &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")],
            Self::BitsPerSecond => {
                &[(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")]
            }
            Self::Count => &[(1.0, "")],
        };
        // Minutes only where seconds would have four digits.
        let enough = |unit: &str, factor: f64| if unit == "min" { 1000.0 } else { factor };
        *table.iter().rev().find(|(f, unit)| max >= enough(unit, *f)).unwrap_or(&table[0])
    }
}

/// An axis over known values.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// Where a line and a label stand, ascending.
    pub(crate) ticks: Vec<(f64, String)>,
    /// `Mbit/s`; empty where there is no unit.
    pub(crate) unit: &'static str,
}

/// At most about so many ticks: the step is the next round number.
const TICKS: f64 = 8.0;

impl Scale {
    /// A scale that holds all `values`, which [`Axis::shows`] each. `round` ends it at a tick.
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64>, round: bool) -> Self {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (f64::min(l, v), f64::max(h, v)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        if axis.log {
            Self::logarithmic(axis, low, high)
        } else {
            Self::linear(axis, low, high, round)
        }
    }

    fn linear(axis: &Axis, low: f64, high: f64, round: bool) -> Self {
        let (mut low, mut high) = (low, high);
        if axis.from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= high.abs().max(low.abs()) * 1e-9 {
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = (if axis.from_zero { low } else { low - room }, high + room);
        }
        let (factor, unit) = axis.unit.prefixed(high.abs().max(low.abs()));
        let mut step = round_up((high - low) / factor / TICKS);
        if axis.unit == Unit::Count {
            step = step.max(1.0);
        }
        let (first, last) = ((low / factor / step).ceil(), (high / factor / step).floor());
        let (first, last) = if round {
            ((low / factor / step).floor(), (high / factor / step).ceil())
        } else {
            (first, last)
        };
        if round {
            (low, high) = (first * step * factor, last * step * factor);
        }
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let ticks = (0..=(last - first) as usize)
            .map(|k| (first + k as f64) * step)
            .map(|v| (v * factor, format!("{:.digits$}", v + 0.0)))
            .collect();
        Self { log: false, low, high, ticks, unit }
    }

    fn logarithmic(axis: &Axis, low: f64, high: f64) -> Self {
        let (factor, unit) = axis.unit.prefixed(high);
        // Tick number k stands at mantissa 1, 2 or 5 of a decade.
        let at = |k: i32| [1.0, 2.0, 5.0][k.rem_euclid(3) as usize] * 10f64.powi(k.div_euclid(3));
        let near = |v: f64| 3 * v.log10().floor() as i32;
        let (a, b) = (low / factor, high / factor);
        let first = (near(a) - 1..=near(a) + 3).rev().find(|k| at(*k) <= a * (1.0 + 1e-9));
        let last = (near(b)..=near(b) + 4).find(|k| at(*k) >= b * (1.0 - 1e-9));
        let first = first.unwrap_or(near(a));
        let last = last.unwrap_or(near(b) + 3).max(first + 1);
        let stride = if last - first <= 9 { 1 } else { 3 * (1 + (last - first) / 27) };
        let ticks = (first..=last)
            .filter(|k| k.rem_euclid(stride) == 0)
            .map(|k| (at(k) * factor, format!("{}", at(k))))
            .collect();
        Self { log: true, low: at(first) * factor, high: at(last) * factor, ticks, unit }
    }

    /// Where `value` stands: 0 at the low end, 1 at the high end.
    pub(crate) fn position(&self, value: f64) -> f64 {
        if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// The value from which bars stand.
    pub(crate) fn base(&self) -> f64 {
        self.low.max(0.0)
    }
}

/// The least of 1, 2, 5 times a power of ten that is at least `step`.
fn round_up(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|s| *s >= step * 0.999_999)
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64], round: bool) -> (Vec<String>, &'static str) {
        let scale = Scale::new(axis, values.iter().copied(), round);
        (scale.ticks.into_iter().map(|t| t.1).collect(), scale.unit)
    }

    #[test]
    fn ticks_stand_at_round_numbers_in_the_unit_that_suits() {
        let rate = Axis::new("rate", Unit::BitsPerSecond);
        let expected = ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"].map(String::from).to_vec();
        assert_eq!(labels(&rate, &[400_000.0, 2_300_000.0], true), (expected, "Mbit/s"));
        let time = Axis::new("time", Unit::Seconds).tight();
        let expected = ["4", "6", "8", "10", "12"].map(String::from).to_vec();
        assert_eq!(labels(&time, &[0.003, 0.0123], false), (expected, "ms"));
        let frames = Axis::new("frames", Unit::Count);
        assert_eq!(labels(&frames, &[2.0], true).0, ["0", "1", "2"]);
    }

    #[test]
    fn a_logarithmic_axis_spans_whole_ticks() {
        let axis = Axis::new("buffer", Unit::Bytes).log();
        assert_eq!(labels(&axis, &[107e3, 900e3], true).0, ["100", "200", "500", "1000"]);
        let wide = Scale::new(&axis, [30.0, 4e9].into_iter(), true);
        assert!(wide.position(30.0) >= 0.0 && wide.position(4e9) <= 1.0);
        assert!(wide.ticks.len() <= 10, "{:?}", wide.ticks);
        assert!((wide.position(wide.low) - 0.0).abs() < 1e-12);
    }

    #[test]
    fn one_value_no_value_and_absurd_values_have_an_axis() {
        for values in [&[][..], &[0.0], &[7.0], &[-3.0], &[1e-300], &[1e300, -1e300]] {
            for axis in [Axis::new("a", Unit::Count), Axis::new("a", Unit::Bytes).tight()] {
                for round in [false, true] {
                    let scale = Scale::new(&axis, values.iter().copied(), round);
                    assert!(scale.high > scale.low, "{values:?}");
                    assert!(scale.ticks.len() < 20, "{values:?}: {:?}", scale.ticks);
                    for v in values {
                        assert!((-1e-9..=1.0 + 1e-9).contains(&scale.position(*v)), "{values:?}");
                    }
                }
            }
        }
    }
}
