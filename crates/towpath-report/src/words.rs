//! Whole figures in few letters, for tables: rounded up, so that a bound is never understated.

/// The names of a unit and of its multiples, each 1000 times the one before.
#[derive(Clone, Copy, Debug)]
pub struct Scale(&'static [&'static str]);

/// Of nanoseconds.
pub const TIME: Scale = Scale(&["ns", "µs", "ms", "s"]);
/// Of bit/s.
pub const RATE: Scale = Scale(&["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
/// Of bytes.
pub const SIZE: Scale = Scale(&["B", "kB", "MB", "GB", "TB"]);

/// Digits that count, where nothing asks for more.
pub const DIGITS: u32 = 4;

/// `500 ns`, `1.235 ms`, `12 s`: four digits that count.
pub fn ns_text(ns: u64) -> String {
    TIME.rounded(ns.into())
}

/// As `ns_text`, rounded down: for what is the stricter the longer it is.
pub fn ns_text_down(ns: u64) -> String {
    TIME.text(TIME.down(ns.into(), DIGITS))
}

/// `100 Mbit/s`.
pub fn bps_text(bps: u64) -> String {
    RATE.rounded(bps.into())
}

/// `1.049 MB`.
pub fn bytes_text(bytes: u64) -> String {
    SIZE.rounded(bytes.into())
}

/// Whole bytes of so many bits: `1.049 MB`.
pub fn bits_text(bits: u128) -> String {
    SIZE.rounded(bits.div_ceil(8))
}

impl Scale {
    /// Four digits that count, rounded up, without zeros at the end.
    fn rounded(self, value: u128) -> String {
        self.text(self.up(value, DIGITS))
    }

    /// The least value that is not below `value` and has at most so many digits that count; in
    /// the largest unit all digits before the point count.
    pub fn up(self, value: u128, digits: u32) -> u128 {
        let step = self.step(value, digits);
        value.div_ceil(step).saturating_mul(step)
    }

    /// As `up`, the greatest value that is not above `value`.
    fn down(self, value: u128, digits: u32) -> u128 {
        let step = self.step(value, digits);
        value / step * step
    }

    /// What the last of so many digits stands for.
    fn step(self, value: u128, digits: u32) -> u128 {
        let unit = self.unit(value).1;
        let whole = (value / unit).to_string().len() as u32;
        let decimals = digits.saturating_sub(whole);
        unit / 10_u128.pow(decimals).min(unit)
    }

    /// All digits of `value`, in the unit that suits.
    pub fn text(self, value: u128) -> String {
        let (name, unit) = self.unit(value);
        let (whole, part) = (value / unit, value % unit);
        if part == 0 {
            return format!("{whole} {name}");
        }
        let width = unit.to_string().len() - 1;
        let part = format!("{part:0width$}");
        format!("{whole}.{} {name}", part.trim_end_matches('0'))
    }

    /// The largest unit that is not above `value`, or the smallest.
    fn unit(self, value: u128) -> (&'static str, u128) {
        let sized = self.0.iter().zip(0..).map(|(name, power)| (*name, 1000_u128.pow(power)));
        let (first, rest) = (sized.clone().take(1), sized.skip(1));
        first.chain(rest.take_while(|(_, unit)| value >= *unit)).last().unwrap_or(("", 1))
    }
}

/// `1 frame`, `2 frames`.
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Never rounded up to all or down to nothing.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".to_string(),
        p if p < 0.1 => "< 0.1 %".to_string(),
        p if p < 9.95 => format!("{p:.1} %"),
        p if share < 1.0 => format!("{:.0} %", p.min(99.0)),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_never_too_small() {
        let times = [0, 1, 999, 1000, 1001, 12_345, 12_340, 999_949, 999_999, 1_000_001];
        let expected = [
            "0 ns",
            "1 ns",
            "999 ns",
            "1 µs",
            "1.001 µs",
            "12.35 µs",
            "12.34 µs",
            "1 ms",
            "1 ms",
            "1.001 ms",
        ];
        assert_eq!(times.map(ns_text), expected);
        assert_eq!(ns_text(u64::MAX), "18446744074 s");
        let down = [0, 999, 33_333_333, 12_349, 999_999].map(ns_text_down);
        assert_eq!(down, ["0 ns", "999 ns", "33.33 ms", "12.34 µs", "999.9 µs"]);
        assert_eq!(
            [100_000_000, 1_500_000, 7].map(bps_text),
            ["100 Mbit/s", "1.5 Mbit/s", "7 bit/s"]
        );
        assert_eq!([8 << 20, 1, 0].map(bits_text), ["1.049 MB", "1 B", "0 B"]);
        for ns in (0..5_000_000).step_by(997) {
            let text = ns_text(ns);
            let (number, unit) = text.split_once(' ').unwrap();
            let factor = match unit {
                "ns" => 1.0,
                "µs" => 1e3,
                "ms" => 1e6,
                _ => 1e9,
            };
            let shown = number.parse::<f64>().unwrap() * factor;
            assert!(shown >= ns as f64 - 1e-6 && shown <= ns as f64 * 1.001 + 1.0, "{ns} {text}");
        }
    }

    #[test]
    fn a_share_is_not_rounded_to_all_or_nothing() {
        let shown = [0.0, 0.000_01, 0.052, 0.5, 0.9999, 1.0, 1.304].map(percent);
        assert_eq!(shown, ["0 %", "< 0.1 %", "5.2 %", "50 %", "99 %", "100 %", "130 %"]);
    }
}
