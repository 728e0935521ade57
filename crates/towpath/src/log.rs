//! The daemon's log: one line per thing worth knowing, on standard error.

/// Writes a line with the time of day (UTC).
macro_rules! log {
    ($($arg:tt)*) => {
        $crate::log::line(&format!($($arg)*))
    };
}
pub(crate) use log;

/// Writes one line.
pub(crate) fn line(text: &str) {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ms = unix.unwrap_or_default().as_millis();
    let (s, ms) = (ms / 1000, ms % 1000);
    let (h, m, s) = (s / 3600 % 24, s / 60 % 60, s % 60);
    eprintln!("{h:02}:{m:02}:{s:02}.{ms:03} {text}");
}
