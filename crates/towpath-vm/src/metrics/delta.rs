//! What changed, in bytes. One delta is a run of [parameters](towpath_wire::parameter):
//!
//! ```text
//! kind 1 (critical), first: number u64 | flags u8 | lost u32 | untold u32
//!     flags: 1 a round begins, 2 it ends with this delta
//! kind 0x80 + group (skippable), for each series: flags u8 | key u64 | sub u32 | mask | steps
//!     flags: 1 the series is new, and was zero; 2 it is gone, and nothing follows;
//!            the upper four bits: which part of the series
//!     mask: bit i: metric i of the group has a step, LEB128
//!     step: what is added to it, wrapping, zigzag, LEB128
//! ```
//! Deltas are numbered from 0 without gaps. A round is one look at all series, over as many deltas
//! as it needs; `lost` says how many rounds were left out before the one that begins, for want of
//! a reader. Nothing is lost by that but moments: steps are from what was told last.

use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::bytes::{ParseError, Reader, Writer};
use towpath_wire::parameter::{PARAMETER_HEADER, Parameters, SKIPPABLE, emit_parameter, unknown};

use super::table::{METRICS_MAX, Series, Values, group};

const HEAD: u8 = 1;
const HEAD_LEN: usize = 17;
/// Flags of a head.
const BEGINS: u8 = 1;
const ENDS: u8 = 2;
/// Flags of a series.
const FRESH: u8 = 1;
const GONE: u8 = 2;
const PART_SHIFT: u8 = 4;
/// Bytes of a number at most.
const VARINT_MAX: usize = 10;
/// Bytes of a series at most: they fit into one parameter.
const SERIES_LEN_MAX: usize = 13 + 4 + METRICS_MAX * VARINT_MAX;
const _: () = assert!(SERIES_LEN_MAX <= 255 && METRICS_MAX <= 28, "four bytes of mask");

/// Why a delta is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricsError {
    /// It cannot be read.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It does not begin with its number.
    #[error("a delta of metrics begins with no number")]
    NoHead,
    /// Others were to come before it.
    #[error("delta of metrics {number}, expected {expected}")]
    OutOfTurn {
        /// Its number.
        number: u64,
        /// The number of the next one.
        expected: u64,
    },
    /// A series changes that was not told.
    #[error("series {key}/{sub} of group {group} changes, and was not told before")]
    Untold {
        /// The group's number.
        group: u8,
        /// Its key.
        key: u64,
        /// Its sub.
        sub: u32,
    },
    /// There are more series than are kept.
    #[error("more than {0} series")]
    TooMany(usize),
}

/// What a delta says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// How many came before it.
    pub number: u64,
    /// A round begins with it.
    pub begins: bool,
    /// A round ends with it: everything was looked at.
    pub ends: bool,
    /// Rounds that were left out before this one.
    pub lost: u32,
    /// Series that are not told since there are too many.
    pub untold: u32,
}

/// What became of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new: its steps are from zero.
    Fresh,
    /// It changed.
    Stepped,
    /// It is gone.
    Gone,
}

/// What is told of one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which.
    pub series: Series,
    /// What became of it.
    pub change: Change,
    /// What is added to each value, wrapping.
    pub steps: Values,
}

/// Puts a delta together.
#[derive(Debug)]
pub struct Composer {
    bytes: Vec<u8>,
}

impl Default for Composer {
    fn default() -> Self {
        Self { bytes: vec![0; PARAMETER_HEADER + HEAD_LEN] }
    }
}

impl Composer {
    /// A series went from `old`, which was told, or from nothing, to `new`.
    pub fn step(&mut self, series: Series, old: Option<&Values>, new: &Values) {
        let zero = [0; METRICS_MAX];
        let from = old.unwrap_or(&zero);
        let steps = new.iter().zip(from).map(|(new, old)| new.wrapping_sub(*old));
        let mask = steps.clone().enumerate().fold(0, |m, (i, s)| m | u64::from(s != 0) << i);
        let mut buf = [0; SERIES_LEN_MAX];
        let mut w = Writer::new(&mut buf);
        emit_series(&mut w, if old.is_none() { FRESH } else { 0 }, series);
        emit_varint(&mut w, mask);
        for step in steps.filter(|s| *s != 0) {
            emit_varint(&mut w, zigzag(step));
        }
        let used = w.used();
        self.put(SKIPPABLE | series.group, &buf[..used]);
    }

    /// A series is gone.
    pub fn gone(&mut self, series: Series) {
        let mut buf = [0; 13];
        emit_series(&mut Writer::new(&mut buf), GONE, series);
        self.put(SKIPPABLE | series.group, &buf);
    }

    fn put(&mut self, kind: u8, value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.resize(at + PARAMETER_HEADER + value.len(), 0);
        emit_parameter(&mut Writer::new(&mut self.bytes[at..]), kind, value);
    }

    /// The delta.
    pub fn finish(mut self, head: &Head) -> Vec<u8> {
        let mut buf = [0; HEAD_LEN];
        let mut w = Writer::new(&mut buf);
        w.u64(head.number);
        w.u8(if head.begins { BEGINS } else { 0 } | if head.ends { ENDS } else { 0 });
        w.u32(head.lost);
        w.u32(head.untold);
        emit_parameter(&mut Writer::new(&mut self.bytes), HEAD, &buf);
        self.bytes
    }
}

fn emit_series(w: &mut Writer<'_>, flags: u8, series: Series) {
    w.u8(flags | series.part << PART_SHIFT);
    w.u64(series.key);
    w.u32(series.sub);
}

/// Small steps of either sign have few bits.
const fn zigzag(step: u64) -> u64 {
    step << 1 ^ (step.cast_signed() >> 63).cast_unsigned()
}

const fn unzigzag(n: u64) -> u64 {
    n >> 1 ^ (n & 1).wrapping_neg()
}

fn emit_varint(w: &mut Writer<'_>, mut n: u64) {
    while n > 127 {
        w.u8(n as u8 | 128);
        n >>= 7;
    }
    w.u8(n as u8);
}

fn parse_varint(r: &mut Reader<'_>) -> Result<u64, ParseError> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let byte = r.u8()?;
        n |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(n);
        }
    }
    Err(ParseError::Limit { field: "bytes of a number", value: 11, limit: VARINT_MAX as u64 })
}

/// A delta to be read: what it says of itself, and of each series in order. Groups that this build
/// does not know are passed over, and of those that it knows the metrics that it does not.
pub fn parse(
    bytes: &[u8],
) -> Result<(Head, impl Iterator<Item = Result<Told, MetricsError>>), MetricsError> {
    let mut parameters = Parameters::new(bytes);
    let (kind, mut r) = parameters.next().ok_or(MetricsError::NoHead)??;
    if kind != HEAD {
        return Err(MetricsError::NoHead);
    }
    let (number, flags) = (r.u64()?, r.u8()?);
    let (begins, ends) = (flags & BEGINS != 0, flags & ENDS != 0);
    let head = Head { number, begins, ends, lost: r.u32()?, untold: r.u32()? };
    let told = parameters.filter_map(|parameter| match parameter {
        Ok((kind, mut r)) => match group(kind & !SKIPPABLE).filter(|_| kind & SKIPPABLE != 0) {
            Some(group) => {
                let values = group.distribution().map_or(group.metrics.len(), |_| METRICS_MAX);
                Some(parse_series(&mut r, group.number, values))
            }
            None => unknown("part of a delta of metrics", kind).err().map(|e| Err(e.into())),
        },
        Err(e) => Some(Err(e.into())),
    });
    Ok((head, told))
}

fn parse_series(r: &mut Reader<'_>, group: u8, known: usize) -> Result<Told, MetricsError> {
    let flags = r.u8()?;
    let series = Series { group, key: r.u64()?, sub: r.u32()?, part: flags >> PART_SHIFT };
    let mut steps = [0; METRICS_MAX];
    if flags & GONE != 0 {
        return Ok(Told { series, change: Change::Gone, steps });
    }
    let mask = parse_varint(r)?;
    for (i, step) in steps.iter_mut().enumerate().take(known) {
        if mask >> i & 1 != 0 {
            *step = unzigzag(parse_varint(r)?);
        }
    }
    let change = if flags & FRESH != 0 { Change::Fresh } else { Change::Stepped };
    Ok(Told { series, change, steps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: Series = Series::new(6, 77, 3);

    fn all(bytes: &[u8]) -> Vec<Result<Told, MetricsError>> {
        parse(bytes).unwrap().1.collect()
    }

    proptest! {
        #[test]
        fn what_is_told_is_the_difference(
            old in prop::option::of(any::<Values>()),
            new in any::<Values>(),
            number: u64,
            lost: u32,
        ) {
            // The longest group, so that every metric is known.
            let series = Series { part: 15, ..Series::new(5, u64::MAX, u32::MAX) };
            let mut composer = Composer::default();
            composer.step(series, old.as_ref(), &new);
            composer.gone(ONE);
            let head = Head { number, lost, begins: true, ends: false, untold: 9 };
            let bytes = composer.finish(&head);
            prop_assert_eq!(parse(&bytes).unwrap().0, head);
            let told: Vec<_> = all(&bytes).into_iter().map(Result::unwrap).collect();
            prop_assert_eq!(told.len(), 2);
            let Told { change, steps, .. } = told[0];
            prop_assert_eq!(change, if old.is_none() { Change::Fresh } else { Change::Stepped });
            let from = old.unwrap_or_default();
            for i in 0..METRICS_MAX {
                prop_assert_eq!(from[i].wrapping_add(steps[i]), new[i]);
            }
            prop_assert_eq!(told[1].series, ONE);
            prop_assert_eq!(told[1].change, Change::Gone);
            // Cut anywhere it is an error, or a shorter delta.
            for cut in 0..bytes.len() {
                if let Ok((_, told)) = parse(&bytes[..cut]) {
                    prop_assert!(told.flatten().count() < 2);
                }
            }
        }
    }

    #[test]
    fn a_small_step_takes_a_byte_and_one_back_too() {
        let mut composer = Composer::default();
        let empty = composer.bytes.len();
        let (mut old, mut new) = ([1000; METRICS_MAX], [1000; METRICS_MAX]);
        (old[0], new[0], new[1]) = (63, 0, 1063);
        composer.step(ONE, Some(&old), &new);
        assert_eq!(composer.bytes.len() - empty, PARAMETER_HEADER + 13 + 1 + 2);
        let told = all(&composer.finish(&Head::default()));
        let steps = told[0].as_ref().unwrap().steps;
        assert_eq!((steps[0].cast_signed(), steps[1]), (-63, 63));
    }

    #[test]
    fn what_a_later_build_tells_is_passed_over() {
        let mut composer = Composer::default();
        // A group and a metric that there are not yet.
        composer.step(Series::new(99, 1, 1), None, &[1; METRICS_MAX]);
        composer.step(ONE, None, &[2; METRICS_MAX]);
        let told = all(&composer.finish(&Head::default()));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].as_ref().unwrap().steps[..6], [2, 2, 2, 2, 2, 0]);
    }

    #[test]
    fn what_is_no_delta_is_refused() {
        assert_eq!(parse(&[]).err(), Some(MetricsError::NoHead));
        assert_eq!(parse(&[SKIPPABLE | 6, 0]).err(), Some(MetricsError::NoHead));
        assert!(matches!(parse(&[HEAD, 3, 0, 0, 0]).err(), Some(MetricsError::Parse(_))));
        let mut composer = Composer::default();
        composer.put(2, &[]);
        let told = all(&composer.finish(&Head::default()));
        let text = told[0].as_ref().unwrap_err();
        assert!(text.to_string().contains("part of a delta of metrics has value 2"), "{text}");
        // A number without an end.
        let mut long = vec![0; 13];
        long.extend([255; 11]);
        let mut composer = Composer::default();
        composer.put(SKIPPABLE | 6, &long);
        assert!(all(&composer.finish(&Head::default()))[0].is_err());
    }

    use std::string::ToString;

    #[test]
    fn numbers_have_as_many_bytes_as_they_need() {
        for (n, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (300, &[0xAC, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = alloc::vec![9; 10];
            let mut w = Writer::new(&mut out);
            emit_varint(&mut w, n);
            assert_eq!(&out[..bytes.len()], bytes);
            assert!(out[bytes.len()..].iter().all(|byte| *byte == 9), "{n}");
            assert_eq!(parse_varint(&mut Reader::new(bytes)), Ok(n));
            assert!(parse_varint(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
        }
        let long = [0x80; 11];
        let limit = ParseError::Limit { field: "bytes of a number", value: 11, limit: 10 };
        assert_eq!(parse_varint(&mut Reader::new(&long)), Err(limit));
        for (step, turned) in
            [(0, 0), (1_i64, 2_u64), (-1, 1), (2, 4), (-2, 3), (i64::MIN, u64::MAX)]
        {
            assert_eq!(zigzag(step.cast_unsigned()), turned);
            assert_eq!(unzigzag(turned), step.cast_unsigned());
        }
    }
}
