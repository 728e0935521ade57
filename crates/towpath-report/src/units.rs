//! Sizes, rates and times as people write and read them.
//!
//! Numbers are read exactly, digit by digit: `0.1MB` is 100 000 bytes, not a float near it.

use std::time::Duration;

use towpath_media::trace::FrameRate;
use towpath_wire::{ByteSize, Rate};

/// A start-up delay, in time or in frames of the trace it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Of time.
    Time(Duration),
    /// Frames.
    Slots(u64),
}

/// Parses `4MB` (10⁶ bytes), `4MiB` (2²⁰), `512kB`, `1000000`.
pub fn size(text: &str) -> Result<ByteSize, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "" | "B" => 1,
        "kB" | "KB" | "k" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" | "kiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => {
            let known = ["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"];
            let multiples = " (kB, MB, … are powers of 1000; KiB, MiB, … of 1024)";
            return Err(unknown(unit, &known) + multiples);
        }
    };
    Ok(ByteSize::from_bytes(scaled(number, factor, text)?))
}

/// Parses `2Mbps`, `2Mbit/s`, `250kB/s`, `1.5 Mbit/s`. A number alone is in bit/s.
pub fn rate(text: &str) -> Result<Rate, String> {
    let (number, unit) = split(text);
    let (prefix, bits) = match unit.strip_suffix("B/s") {
        Some(prefix) => (prefix, 8),
        None => {
            (["bit/s", "bps", "b/s"].iter().find_map(|s| unit.strip_suffix(s)).unwrap_or(unit), 1)
        }
    };
    let factor = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => {
            let bits = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "kbps", "Mbps", "Gbps"];
            let bytes = ["B/s", "kB/s", "MB/s", "GB/s"];
            // Who writes of bytes means bytes.
            let is_bytes = unit.contains('B') || unit.contains("yte");
            let all = if is_bytes { [&bytes[..], &bits] } else { [&bits[..], &bytes] };
            return Err(unknown(unit, &all.concat()));
        }
    };
    match scaled(number, factor * bits, text)? {
        0 => Err(format!("{text} is no rate: nothing would ever arrive")),
        bps => Ok(Rate::from_bps(bps)),
    }
}

/// Parses `0.5s`, `500ms`, `2m`, `1.5h`. A number alone is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    time(text, &["ms", "s", "min", "h", "us", "ns"])
}

/// As [`duration`], or `12 slots` (frame times).
pub fn delay(text: &str) -> Result<Delay, String> {
    let (number, unit) = split(text);
    if !["slot", "slots", "frame", "frames"].contains(&unit) {
        return Ok(Delay::Time(time(text, &["ms", "s", "min", "h", "slots", "us", "ns"])?));
    }
    let slots = number.parse().map_err(|_| format!("{number:?} is not a whole number"))?;
    Ok(Delay::Slots(slots))
}

/// `known`: the units that may be written here.
fn time(text: &str, known: &[&str]) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let ns = match unit {
        "" | "s" => 1_000_000_000,
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(unknown(unit, known)),
    };
    Ok(Duration::from_nanos(scaled(number, ns, text)?))
}

/// A reader of durations with limits, which are written as its text is.
pub fn duration_between(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| between(duration, text, [least, most])
}

/// A reader of sizes with limits, which are written as its text is.
pub fn size_between(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<ByteSize, String> + Clone + Send + Sync + 'static {
    move |text| between(size, text, [least, most])
}

fn between<T: PartialOrd>(
    read: fn(&str) -> Result<T, String>,
    text: &str,
    [least, most]: [&'static str; 2],
) -> Result<T, String> {
    let limit = |text| read(text).expect("limits are written as values are");
    let value = read(text)?;
    if value < limit(least) || value > limit(most) {
        return Err(format!("{text} is not between {least} and {most}"));
    }
    Ok(value)
}

/// Parses `25`, `30000/1001`, `23.976`. The three decimals that stand for 1000/1001 of a whole
/// number (23.976, 29.97, 59.94) mean just that.
pub fn frame_rate(text: &str) -> Result<FrameRate, String> {
    let bad = || format!("{text:?} is no frame rate such as 25, 29.97 or 30000/1001");
    let (frames, seconds) = match (text, text.split_once('/')) {
        ("23.976" | "23.98", _) => (24_000, 1001),
        ("29.97", _) => (30_000, 1001),
        ("59.94", _) => (60_000, 1001),
        (_, Some((a, b))) => (a.parse().map_err(|_| bad())?, b.parse().map_err(|_| bad())?),
        (_, None) => (
            scaled(text, 1000, text).ok().and_then(|f| u32::try_from(f).ok()).ok_or_else(bad)?,
            1000,
        ),
    };
    FrameRate::new(frames, seconds).map_err(|e| e.to_string())
}

/// Number and unit, without spaces around them.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    if text.starts_with(['-', '+']) {
        // No number, as whoever scales it will say.
        return (text, "");
    }
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}

fn unknown(unit: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match meant(unit, known) {
        Some(meant) => format!("unknown unit {unit:?}; did you mean {meant}? Known are {all}"),
        None => format!("unknown unit {unit:?}; known are {all}"),
    }
}

/// The known unit that is most like an unknown one: the same but for capitals, else one that it
/// begins with or is the beginning of (`sec`, `Mb`), else one of the same first letter.
fn meant<'a>(unit: &str, known: &[&'a str]) -> Option<&'a str> {
    let unit = unit.to_lowercase();
    if unit.contains("bit") && !known.iter().any(|k| k.contains("bit")) {
        return None;
    }
    let like = |alike: &dyn Fn(&str) -> bool| known.iter().find(|k| alike(&k.to_lowercase()));
    let first = unit.chars().next()?;
    let found = like(&|k| k == unit)
        .or_else(|| like(&|k| k.len() > 1 && (unit.starts_with(k) || k.starts_with(&unit))))
        .or_else(|| like(&|k| k.starts_with(first)));
    found.copied()
}

/// A decimal number times `factor`, rounded to the nearest whole number.
fn scaled(number: &str, factor: u64, text: &str) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if number.starts_with('-') {
        return Err(format!("{text} is less than nothing"));
    }
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{text:?} does not begin with a number"));
    }
    if fraction.len() > 18 {
        return Err(format!("{text:?} has {} decimals, more than the 18 allowed", fraction.len()));
    }
    let too_large = || format!("{text} is too large; the limit is {} of the base unit", u64::MAX);
    let mantissa: u128 = digits.parse().map_err(|_| too_large())?;
    let power = 10u128.pow(fraction.len() as u32);
    let product = mantissa.checked_mul(factor.into()).ok_or_else(too_large)?;
    u64::try_from(product.saturating_add(power / 2) / power).map_err(|_| too_large())
}

/// `2.683 Mbit/s`: four digits that count.
pub fn rate_text(bps: f64) -> String {
    with_prefix(bps, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")], "bit/s")
}

/// `107.1 kB`: decimal multiples, four digits that count.
pub fn size_text(bytes: f64) -> String {
    with_prefix(bytes, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B")
}

/// `333.3 ms`, `12.40 s`, `1 h 02 min`.
pub fn time_text(seconds: f64) -> String {
    if seconds >= 3600.0 {
        let minutes = (seconds / 60.0).round() as u64;
        return format!("{} h {:02} min", minutes / 60, minutes % 60);
    }
    if seconds == 0.0 {
        return "0 s".to_string();
    }
    with_prefix(seconds, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")], "s")
}

fn with_prefix(value: f64, prefixes: &[(f64, &str)], base: &str) -> String {
    // What would be rounded up to the next prefix gets it.
    let Some((factor, unit)) = prefixes.iter().find(|(f, _)| value.abs() >= f * 0.999_95) else {
        let whole = value.fract() == 0.0;
        return if whole { format!("{value} {base}") } else { format!("{value:.3} {base}") };
    };
    let scaled = value / factor;
    let digits = match scaled.abs() {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        v if v < 999.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_know_both_kinds_of_multiples() {
        let bytes = |t| size(t).unwrap().as_bytes();
        assert_eq!(bytes("4MB"), 4_000_000);
        assert_eq!(bytes("4 MiB"), 4 * 1024 * 1024);
        assert_eq!(bytes("0.1MB"), 100_000);
        assert_eq!(bytes("1.5KiB"), 1536);
        assert_eq!(bytes("188"), 188);
        assert_eq!(bytes("18446744073709551615"), u64::MAX);
    }

    #[test]
    fn rates_are_in_bits_unless_they_say_bytes() {
        let bps = |t| rate(t).unwrap().as_bps();
        assert_eq!(bps("2Mbps"), 2_000_000);
        assert_eq!(bps("2 Mbit/s"), 2_000_000);
        assert_eq!(bps("250kB/s"), 2_000_000);
        assert_eq!(bps("9600"), 9600);
        assert_eq!(bps("2.5G"), 2_500_000_000);
    }

    #[test]
    fn delays_are_times_or_slots() {
        assert_eq!(delay("0.5s"), Ok(Delay::Time(Duration::from_millis(500))));
        assert_eq!(delay("500ms"), Ok(Delay::Time(Duration::from_millis(500))));
        assert_eq!(delay("1"), Ok(Delay::Time(Duration::from_secs(1))));
        assert_eq!(delay("33.333333ms"), Ok(Delay::Time(Duration::from_nanos(33_333_333))));
        assert_eq!(delay("12 slots"), Ok(Delay::Slots(12)));
        assert_eq!(delay("1slot"), Ok(Delay::Slots(1)));
        assert_eq!(delay("0"), Ok(Delay::Time(Duration::ZERO)));
    }

    /// One row per form: every reader of times takes it, or names it.
    #[test]
    fn durations_are_read_alike_everywhere() {
        let ns = |ns| Ok(Duration::from_nanos(ns));
        for (text, time) in [
            ("500ms", ns(500_000_000)),
            ("10s", ns(10_000_000_000)),
            ("2h", ns(7_200_000_000_000)),
            ("2m", ns(120_000_000_000)),
            ("1.5 min", ns(90_000_000_000)),
            ("30", ns(30_000_000_000)),
            ("0.05", ns(50_000_000)),
            ("250 µs", ns(250_000)),
            ("250us", ns(250_000)),
            ("7ns", ns(7)),
            ("0", ns(0)),
        ] {
            assert_eq!(duration(text), time, "{text}");
            assert_eq!(delay(text), time.clone().map(Delay::Time), "{text}");
            assert_eq!(duration_between("0", "2h")(text), time, "{text}");
        }
        for (text, said) in [
            ("", "\"\" does not begin with a number"),
            ("s", "\"s\" does not begin with a number"),
            ("-1s", "-1s is less than nothing"),
            ("3d", "unknown unit \"d\"; known are ms, s, min, h, us, ns"),
            ("nan", "unknown unit \"nan\"; did you mean ns? Known are ms, s, min, h, us, ns"),
            ("12 slots", "unknown unit \"slots\"; did you mean s? Known are ms, s, min, h, us, ns"),
            ("9999999h", "9999999h is too large"),
        ] {
            let error = duration(text).expect_err(text);
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }

    #[test]
    fn limits_are_named_as_they_are_written() {
        let time = duration_between("50ms", "1.5min");
        assert_eq!(time("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        for text in ["0", "49.999ms", "90.1s", "2h"] {
            assert_eq!(time(text), Err(format!("{text} is not between 50ms and 1.5min")));
        }
        let size = size_between("16B", "64MiB");
        assert_eq!(size("16"), Ok(ByteSize::from_bytes(16)));
        assert_eq!(size("64MiB"), Ok(ByteSize::from_mib(64)));
        for text in ["15", "65MiB", "1GB"] {
            assert_eq!(size(text), Err(format!("{text} is not between 16B and 64MiB")));
        }
    }

    #[test]
    fn frame_rates_are_fractions() {
        let fraction = |text| frame_rate(text).map(|r| (r.num(), r.den()));
        assert_eq!(fraction("25"), Ok((25, 1)));
        assert_eq!(fraction("29.97"), Ok((30_000, 1001)));
        assert_eq!(fraction("12.5"), Ok((25, 2)));
        assert_eq!(fraction("30000/1001"), Ok((30_000, 1001)));
        for bad in ["0", "x", "1/0", "0/1", "-25", "1e3", "500000", "1/2000", ""] {
            assert!(frame_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        for bad in ["", "MB", "4XB", "-1MB", "1e6", "1.2.3", "99999999999TB", "0x10", "٣MB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bad in ["0", "0Mbps", "Mbps", "2Pbps", "2Mbyte", "0.0001"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        for bad in ["", "s", "-1s", "3d", "1.5slots", "nan", "999999999999h"] {
            assert!(delay(bad).is_err(), "{bad}");
        }
        assert!(size("4XB").unwrap_err().contains("MiB"));
        for text in ["-1s", "-0.5", "-1 slots"] {
            assert!(delay(text).unwrap_err().contains("less than nothing"), "{text}");
        }
    }

    #[test]
    fn what_was_meant_is_guessed() {
        for (unit, meant) in [("1mb", "MB"), ("1Mb", "MB"), ("1mib", "MiB"), ("1gigs", "GB")] {
            let said = size(unit).unwrap_err();
            assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
        }
        for (unit, meant) in
            [("1Mb", "Mbit/s"), ("1mbps", "Mbps"), ("1MB", "MB/s"), ("1kbyte/s", "kB/s")]
        {
            let said = rate(unit).unwrap_err();
            assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
        }
        for (unit, meant) in [("1sec", "s"), ("1 minutes", "min"), ("1msec", "ms"), ("1H", "h")] {
            let said = delay(unit).unwrap_err();
            assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
        }
        for said in [size("1Mbit"), size("1x")].map(Result::unwrap_err) {
            assert!(!said.contains("did you mean"), "{said}");
        }
    }

    #[test]
    fn four_digits_count() {
        assert_eq!(rate_text(2_683_123.4), "2.683 Mbit/s");
        assert_eq!(rate_text(999_999.0), "1.000 Mbit/s");
        assert_eq!(rate_text(950.0), "950 bit/s");
        assert_eq!(size_text(107_083.0), "107.1 kB");
        assert_eq!(size_text(54.0), "54 B");
        assert_eq!(size_text(36_500_000.0), "36.50 MB");
        assert_eq!(time_text(0.333_33), "333.3 ms");
        assert_eq!(time_text(12.4), "12.40 s");
        assert_eq!(time_text(3725.0), "1 h 02 min");
        assert_eq!(time_text(0.0), "0 s");
    }
}
