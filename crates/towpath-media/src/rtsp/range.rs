//! The `Range` header: where to play from (RFC 2326 §3.6, §12.29).

use core::time::Duration;

/// What is to be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// From here; `None`: from where it stands.
    pub from: Option<Duration>,
    /// To here; `None`: to the end.
    pub to: Option<Duration>,
}

/// Times beyond this are none: a hundred hours.
const LONGEST_S: u64 = 360_000;

/// Reads `npt=FROM-TO`; `None` for what else there may be.
pub fn range(text: &str) -> Option<Range> {
    let npt = text.trim().strip_prefix("npt=").or_else(|| text.trim().strip_prefix("npt ="))?;
    let npt = npt.split(';').next().unwrap_or_default();
    let (from, to) = npt.trim().split_once('-')?;
    let from = match from.trim() {
        "now" | "" => None,
        text => Some(time(text)?),
    };
    let to = if to.trim().is_empty() { None } else { Some(time(to.trim())?) };
    Some(Range { from, to })
}

/// Seconds, or hours, minutes and seconds, with a fraction.
fn time(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let number =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
    let mut seconds: u64 = 0;
    let parts = whole.split(':').count();
    if parts != 1 && parts != 3 {
        return None;
    }
    for part in whole.split(':') {
        let part: u64 = number(part)?;
        seconds = seconds.checked_mul(60)?.checked_add(part)?;
    }
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = &fraction[..fraction.len().min(9)];
    let mut nanos: u32 = if digits.is_empty() { 0 } else { number(digits)? as u32 };
    for _ in digits.len()..9 {
        nanos *= 10;
    }
    (seconds <= LONGEST_S).then(|| Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_of_a_clock() {
        let from = |text| range(text).map(|range| range.from);
        assert_eq!(from("npt=10.5-"), Some(Some(Duration::from_millis(10_500))));
        assert_eq!(from("npt=1:02:03.25-"), Some(Some(Duration::from_millis(3_723_250))));
        assert_eq!(from("npt=now-"), Some(None));
        let whole = range("npt=0.000-7.741;time=19970123T143720Z").expect("range");
        assert_eq!(whole.to, Some(Duration::from_millis(7741)));
        for bad in [
            "",
            "npt=",
            "npt=x-",
            "npt=-1-",
            "smpte=10:07:33-",
            "npt=1:2-",
            "npt=99999999999999999999-",
            "npt=1.é-",
            "npt=0.12345678é-",
        ] {
            let _ = range(bad);
        }
        assert_eq!(range("smpte=10:07:33-"), None);
        assert_eq!(range("npt=999999-"), None);
    }
}
