//! What a tap does, as a file: TOML, like all scenarios.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use towpath_qos::file::{line_of, one_line};

use super::machine::{Direction, Ways};
use super::way::WayState;
use crate::link::LinkSpec;

/// Longest file.
pub const BYTES_MAX: usize = crate::scenario::BYTES_MAX;
/// Entries `[[change]]` at most.
const ENTRIES_MAX: usize = 256;
/// Changes at most, repetitions included.
pub const EVENTS_MAX: usize = 100_000;
/// Latest change: 30 days.
const AT_MS_MAX: u64 = 30 * 86_400_000;

/// What can be said of a direction, in `[link.NAME]` and in `[[change]]`.
const FIELDS: [&str; 17] = [
    "rate_bps",
    "rate_burst_bytes",
    "queue_bytes",
    "delay_us",
    "jitter_us",
    "loss_ppm",
    "burst_enter_ppm",
    "burst_leave_ppm",
    "burst_loss_ppm",
    "reorder_ppm",
    "reorder_us",
    "duplicate_ppm",
    "corrupt_ppm",
    "frame_bytes_max",
    "framing_bytes",
    "up",
    "about",
];

/// What a tap is like at first, and what happens when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What it shows, in a sentence.
    pub about: String,
    /// Feeds every random draw.
    pub seed: u64,
    /// The directions at first, by [`Direction`].
    pub begin: [WayState; 2],
    /// In order of time.
    pub changes: Vec<Change>,
}

/// Something that happens at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, from the beginning.
    pub at: Duration,
    /// To which directions.
    pub ways: Ways,
    /// What becomes different; the rest stays as it is.
    pub settings: Vec<Setting>,
}

/// One thing that is different from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Dead or alive.
    Up(bool),
    /// A number of the link, by its name in scripts.
    Number(&'static str, u64),
}

impl Change {
    /// What a direction is like afterwards.
    pub fn apply(&self, state: &mut WayState) {
        for setting in &self.settings {
            setting.apply(state);
        }
    }
}

impl Setting {
    /// What a direction is like afterwards.
    pub fn apply(&self, state: &mut WayState) {
        let (key, value) = match *self {
            Self::Up(up) => {
                state.up = up;
                return;
            }
            Self::Number(key, value) => (key, value),
        };
        let link = &mut state.link;
        // What does not fit is out of range as well.
        let small = u32::try_from(value).unwrap_or(u32::MAX);
        match key {
            "rate_bps" => link.rate_bps = value,
            "rate_burst_bytes" => link.rate_burst_bytes = value,
            "queue_bytes" => link.queue_bytes = value,
            "delay_us" => link.delay_us = value,
            "jitter_us" => link.jitter_us = value,
            "loss_ppm" => link.loss_ppm = small,
            "burst_enter_ppm" => link.burst_enter_ppm = small,
            "burst_leave_ppm" => link.burst_leave_ppm = small,
            "burst_loss_ppm" => link.burst_loss_ppm = small,
            "reorder_ppm" => link.reorder_ppm = small,
            "reorder_us" => link.reorder_us = value,
            "duplicate_ppm" => link.duplicate_ppm = small,
            "corrupt_ppm" => link.corrupt_ppm = small,
            "frame_bytes_max" => link.datagram_bytes_max = small,
            "framing_bytes" => link.framing_bytes = value,
            _ => {}
        }
    }
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}\nhint: {hint}")]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    /// Which field, its value, what it must be.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// A fault with the offset of its place.
struct Fault {
    at: usize,
    message: String,
    hint: String,
}

fn fault<T>(at: usize, message: String, hint: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, message, hint: hint.into() })
}

impl Default for Script {
    fn default() -> Self {
        Self::of(WayState::default())
    }
}

impl Default for WayState {
    /// 1 Gbit/s, no delay, 256 KiB of queue, no faults; frames count as long as they are.
    fn default() -> Self {
        let link = LinkSpec { delay_us: 0, framing_bytes: 0, ..LinkSpec::PLAIN };
        Self { link, up: true }
    }
}

impl Script {
    /// Both directions alike, and nothing happens.
    pub fn of(state: WayState) -> Self {
        Self { about: String::new(), seed: 1, begin: [state; 2], changes: Vec::new() }
    }

    /// Reads a script from TOML.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Self::parse_over(text, Self::default())
    }

    /// The same, where what the script does not say is as in `base`.
    pub fn parse_over(text: &str, base: Self) -> Result<Self, ScriptError> {
        let error = |at: usize, message: String, hint: String| ScriptError {
            line: line_of(text, at),
            message,
            hint,
        };
        if text.len() > BYTES_MAX {
            let message = format!("file in bytes is {}, must be 0 to {BYTES_MAX}", text.len());
            return Err(error(0, message, "`every_ms` and `times` repeat a change".into()));
        }
        let document = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            error(at, one_line(e.message()), "scripts are TOML: https://toml.io".into())
        })?;
        let mut script = base;
        let read = read(&mut script, document.get_ref());
        read.map_err(|Fault { at, message, hint }| error(at, message, hint))?;
        script.changes.sort_by_key(|change| change.at);
        Ok(script)
    }
}

type Item<'i> = Spanned<DeValue<'i>>;

fn read(script: &mut Script, document: &DeTable<'_>) -> Result<(), Fault> {
    const HINT: &str = "at the top: kind, about, seed, [link.NAME], [[change]]";
    // The links first: whether a change is in range is asked of what it changes.
    for (key, value) in document {
        let at = key.span().start;
        match key.get_ref().as_ref() {
            "kind" => {
                let kind = text("kind", value)?;
                if kind != "tap" {
                    let hint = "other scenarios run with `towpath sim run`";
                    return fault(
                        value.span().start,
                        format!("kind is {kind:?}, must be \"tap\""),
                        hint,
                    );
                }
            }
            "about" => script.about = text("about", value)?,
            "seed" => script.seed = number("seed", value)?,
            "link" => links(script, value)?,
            "change" => {}
            other => return fault(at, format!("unknown field `{}`", short(other)), HINT),
        }
    }
    let Some(changes) = document.get("change") else { return Ok(()) };
    let Some(list) = changes.get_ref().as_array() else {
        return wrong_type("change", changes, "a list", "write [[change]], in two brackets");
    };
    if list.len() > ENTRIES_MAX {
        let message =
            format!("number of [[change]] is {}, must be at most {ENTRIES_MAX}", list.len());
        return fault(changes.span().start, message, "`every_ms` and `times` repeat a change");
    }
    list.iter().try_for_each(|entry| change(script, entry))
}

fn links(script: &mut Script, value: &Item<'_>) -> Result<(), Fault> {
    const HINT: &str = "write [link.both], [link.there] or [link.back]";
    let Some(table) = value.get_ref().as_table() else {
        return wrong_type("link", value, "a table", HINT);
    };
    // Both first, whatever their order in the file: what is said of one way holds for it.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| ways(key.get_ref()) != Some(Ways::Both));
    for (key, link) in entries {
        let name = key.get_ref().as_ref();
        let Some(ways) = ways(name) else {
            let message = format!("link {:?} is unknown, must be there, back or both", short(name));
            return fault(key.span().start, message, HINT);
        };
        let Some(fields) = link.get_ref().as_table() else {
            return wrong_type(name, link, "a table", HINT);
        };
        for (key, value) in fields {
            let place = format!("link.{name}.{}", short(key.get_ref()));
            let Some(setting) = setting(key, value, &place)? else { continue };
            for direction in Direction::BOTH.into_iter().filter(|one| ways.has(*one)) {
                let state = &mut script.begin[direction as usize];
                set(state, setting, &place, value)?;
            }
        }
    }
    Ok(())
}

/// A change as it is written.
#[derive(Default)]
struct Entry {
    at_ms: Option<u64>,
    every_ms: Option<u64>,
    times: Option<u64>,
    ways: Ways,
    settings: Vec<Setting>,
}

fn change(script: &mut Script, item: &Item<'_>) -> Result<(), Fault> {
    let Some(table) = item.get_ref().as_table() else {
        return wrong_type("change", item, "a table", OF_A_CHANGE);
    };
    let mut entry = Entry::default();
    for (key, value) in table {
        let field = || within(&format!("{} of a change", key.get_ref()), value, 1..=AT_MS_MAX);
        match key.get_ref().as_ref() {
            "at_ms" => entry.at_ms = Some(within("at_ms of a change", value, 0..=AT_MS_MAX)?),
            "every_ms" => entry.every_ms = Some(field()?),
            "times" => {
                let limits = 1..=EVENTS_MAX as u64;
                entry.times = Some(within("times of a change", value, limits)?);
            }
            "link" => {
                let name = text("link of a change", value)?;
                let Some(ways) = ways(&name) else {
                    let must = "must be there, back or both";
                    let message = format!("link of a change is {:?}, {must}", short(&name));
                    let hint = "`there` is from the first end to the second";
                    return fault(value.span().start, message, hint);
                };
                entry.ways = ways;
            }
            name => {
                let place = format!("{} of a change", short(name));
                if let Some(setting) = setting(key, value, &place)? {
                    // In range for one is in range for all: no limit depends on another field.
                    set(&mut script.begin[0].clone(), setting, &place, value)?;
                    entry.settings.push(setting);
                }
            }
        }
    }
    entry.put(script, item.span().start)
}

const OF_A_CHANGE: &str = "a change has at_ms, link (there, back or both), every_ms, times, and \
                           what [link.NAME] has";

impl Entry {
    /// Adds what it stands for; `place` is that of the entry.
    fn put(self, script: &mut Script, place: usize) -> Result<(), Fault> {
        let Some(at_ms) = self.at_ms else {
            let hint = "at_ms is when, from the beginning";
            return fault(place, "a change has no at_ms".into(), hint);
        };
        if self.settings.is_empty() {
            return fault(place, "a change changes nothing".into(), OF_A_CHANGE);
        }
        let times = self.times.unwrap_or(1);
        if times > 1 && self.every_ms.is_none() {
            let message = format!("times is {times} without every_ms");
            return fault(place, message, "say every_ms, too");
        }
        let every_ms = self.every_ms.unwrap_or(0);
        let count = script.changes.len() as u64 + times;
        if count > EVENTS_MAX as u64 {
            let message = format!("changes are {count}, must be at most {EVENTS_MAX}");
            return fault(place, message, "repetitions count: lower `times`");
        }
        let last = at_ms.saturating_add(every_ms.saturating_mul(times - 1));
        if last > AT_MS_MAX {
            let message =
                format!("the last repetition is at {last} ms, must be at most {AT_MS_MAX}");
            return fault(place, message, "lower `times` or `every_ms`");
        }
        let instants = (0..times).map(|n| Duration::from_millis(at_ms + n * every_ms));
        let of = |at| Change { at, ways: self.ways, settings: self.settings.clone() };
        script.changes.extend(instants.map(of));
        Ok(())
    }
}

/// `None`: a comment.
fn setting(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Item<'_>,
    place: &str,
) -> Result<Option<Setting>, Fault> {
    let name = key.get_ref().as_ref();
    let Some(known) = FIELDS.into_iter().find(|field| *field == name) else {
        let hint = format!("fields of a link: {}", FIELDS.join(", "));
        return fault(key.span().start, format!("unknown field `{}`", short(name)), hint);
    };
    match known {
        "about" => text(place, value).map(|_| None),
        "up" => match value.get_ref().as_bool() {
            Some(up) => Ok(Some(Setting::Up(up))),
            None => wrong_type(place, value, "true or false", "false: dead, and nobody is told"),
        },
        known => number(place, value).map(|value| Some(Setting::Number(known, value))),
    }
}

fn set(state: &mut WayState, setting: Setting, place: &str, value: &Item<'_>) -> Result<(), Fault> {
    setting.apply(state);
    let Some((_, _, must)) = state.link.out_of_range() else { return Ok(()) };
    let message = format!("{place} is {}, must be {must}", shown(value));
    fault(value.span().start, message, unit_of(place))
}

/// What a field counts.
fn unit_of(place: &str) -> &'static str {
    match place {
        p if p.contains("_ppm") => "parts per million: 1 % is 10000",
        p if p.contains("_bps") => "bits per second: 10 Mbit/s is 10000000",
        p if p.contains("_us") => "microseconds: 10 ms is 10000",
        p if p.contains("_ms") => "milliseconds: 1 s is 1000",
        _ => "a whole number of bytes",
    }
}

fn ways(name: &str) -> Option<Ways> {
    match name {
        "there" => Some(Ways::One(Direction::There)),
        "back" => Some(Ways::One(Direction::Back)),
        "both" => Some(Ways::Both),
        _ => None,
    }
}

fn text(place: &str, value: &Item<'_>) -> Result<String, Fault> {
    match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => wrong_type(place, value, "text", "text stands in quotes"),
    }
}

fn number(place: &str, value: &Item<'_>) -> Result<u64, Fault> {
    let hint = if place == "seed" { "any number" } else { unit_of(place) };
    let Some(number) = value.get_ref().as_integer() else {
        return wrong_type(place, value, "a whole number", hint);
    };
    u64::from_str_radix(number.as_str(), number.radix()).or_else(|_| {
        let must = format!("must be 0 to {}", u64::MAX);
        fault(value.span().start, format!("{place} is {}, {must}", shown(value)), hint)
    })
}

fn within(
    place: &str,
    value: &Item<'_>,
    limits: std::ops::RangeInclusive<u64>,
) -> Result<u64, Fault> {
    let found = number(place, value)?;
    if limits.contains(&found) {
        return Ok(found);
    }
    let (least, most) = (limits.start(), limits.end());
    let message = format!("{place} is {found}, must be {least} to {most}");
    fault(value.span().start, message, unit_of(place))
}

fn wrong_type<T>(place: &str, value: &Item<'_>, must: &str, hint: &str) -> Result<T, Fault> {
    fault(value.span().start, format!("{place} is {}, must be {must}", shown(value)), hint)
}

/// A value as it stands in a message.
fn shown(value: &Item<'_>) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("{:?}", short(text)),
        DeValue::Integer(number) => short(&number.to_string()),
        DeValue::Float(number) => short(number.as_str()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

fn short(text: &str) -> String {
    const MOST: usize = 60;
    let mut out: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}
