//! Whole figures in few letters, for tables: rounded up, so that a bound is never understated.

/// `500 ns`, `1.235 ms`, `12 s`: four digits that count.
pub(crate) fn ns_text(ns: u64) -> String {
    prefixed(ns.into(), &["ns", "µs", "ms", "s"])
}

/// `100 Mbit/s`.
pub(crate) fn bps_text(bps: u64) -> String {
    prefixed(bps.into(), &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Whole bytes of so many bits: `1.049 MB`.
pub(crate) fn bits_text(bits: u128) -> String {
    prefixed(bits.div_ceil(8), &["B", "kB", "MB", "GB", "TB"])
}

/// Four digits that count, rounded up, without zeros at the end.
fn prefixed(value: u128, units: &[&str]) -> String {
    let mut power = 0;
    while power + 1 < units.len() && value >= 1000_u128.pow(power as u32 + 1) {
        power += 1;
    }
    let unit = 1000_u128.pow(power as u32);
    let whole = (value / unit).to_string().len() as u32;
    let decimals = if power == 0 { 0 } else { 4_u32.saturating_sub(whole) };
    let step = unit / 10_u128.pow(decimals).min(unit);
    let steps = value.div_ceil(step);
    // Rounded up into the next unit, as 999.96 µs is.
    if steps * step >= unit * 1000 && power + 1 < units.len() {
        return format!("1 {}", units[power + 1]);
    }
    let parts = unit / step;
    let (whole, part) = (steps / parts, steps % parts);
    let part = format!("{part:0width$}", width = decimals as usize);
    let part = part.trim_end_matches('0');
    let dot = if part.is_empty() { "" } else { "." };
    format!("{whole}{dot}{part} {}", units[power])
}

/// Never rounded up to all or down to nothing.
pub(crate) fn percent(share: f64) -> String {
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
