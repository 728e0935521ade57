//! Times as people write them.

use std::time::Duration;

/// Parses `500ms`, `30s`, `2m`, `1.5h`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit {unit:?}; known are ms, s, m and h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{digits:?} is not a number"))?;
    let seconds = number * unit_s;
    // What the daemon counts in milliseconds of 32 bits.
    if (0.001..=4_000_000.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("{text} is not between 1ms and 1111h"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        for bad in ["", "s", "-1s", "0", "3d", "nan", "9999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
