//! Bounds as tables: a column per method, and how each came about.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use towpath_bound::{Analysis, Bound, Envelope, Flow, Method, Rational};

use super::command::Family;
use crate::plot::{Column, Table};
use crate::words::{bits_text, bps_text, ns_text};

/// What the numbers of a network mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    /// The file's own.
    Own,
    /// Bits and seconds.
    Bits,
}

impl Units {
    pub(super) fn time(self, value: &Rational) -> String {
        match (self, value.seconds_up()) {
            (Self::Bits, Some(time)) => ns_text(towpath_wire::units::nanos(time)),
            _ => decimal_up(value),
        }
    }

    fn data(self, value: &Rational) -> String {
        match (self, value.ceil_u64()) {
            (Self::Bits, Some(bits)) => bits_text(bits.into()),
            _ => decimal_up(value),
        }
    }

    fn rate(self, value: &Rational) -> String {
        match (self, value.floor().ceil_u64()) {
            (Self::Bits, Some(bps)) => bps_text(bps),
            _ => decimal_up(value),
        }
    }
}

/// Four decimals, rounded up.
fn decimal_up(value: &Rational) -> String {
    let scaled = (value * &Rational::integer(10_000)).ceil().to_string();
    let (sign, digits) = scaled.strip_prefix('-').map_or(("", scaled.as_str()), |d| ("-", d));
    let digits = format!("{digits:0>5}");
    let (whole, part) = digits.split_at(digits.len() - 4);
    let part = part.trim_end_matches('0');
    format!("{sign}{whole}{}{part}", if part.is_empty() { "" } else { "." })
}

/// A flow with what each method says.
pub(super) struct Row {
    pub(super) flow: usize,
    pub(super) name: String,
    /// Forwarding and propagation, part of every figure.
    pub(super) fixed: Duration,
    pub(super) tried: Vec<Bound>,
}

impl Row {
    fn fixed(&self) -> Rational {
        Rational::seconds(self.fixed)
    }

    /// The least delay of a family, fixed part included.
    fn least_of(&self, family: Family) -> Option<(&Bound, Rational)> {
        let of = self.tried.iter().filter(|b| family == Family::All || family.has(b.method));
        let of = of.filter_map(|b| Some((b, b.delay.as_ref()?)));
        let (bound, delay) = of.min_by(|a, b| a.1.cmp(b.1))?;
        Some((bound, delay + &self.fixed()))
    }

    pub(super) fn least(&self) -> Option<(&Bound, Rational)> {
        self.least_of(Family::All)
    }

    /// What of the least delay is not the same for every packet.
    fn jitter(&self, flow: &Flow) -> Option<Rational> {
        let delay = self.least()?.0.delay.clone().unwrap_or_default();
        Some((&delay - &flow.delay_least).max(Rational::ZERO))
    }

    /// The most of the flow that is under way.
    fn under_way(&self, flow: &Flow) -> Option<Rational> {
        let backlog = |b: &Bound| {
            // Whatever is under way has come within the last delay.
            let within = b.delay.as_ref().map(|d| flow.arrival.at(d));
            let own = b.backlog.clone().filter(|_| b.method.bounds_own_backlog());
            [within, own].into_iter().flatten().min()
        };
        self.tried.iter().filter_map(backlog).min()
    }
}

/// A row per flow, a column per family that was asked.
pub(super) fn table(analysis: &Analysis, rows: &[Row], units: Units) -> Table {
    let asked = |f: &Family| rows.iter().any(|r| r.tried.iter().any(|b| f.has(b.method)));
    let families: Vec<Family> = Family::SINGLE.into_iter().filter(asked).collect();
    let mut columns = vec![Column::words("FLOW", "")];
    columns.extend(families.iter().map(|f| Column::figures(f.heading(), "")));
    columns.extend([
        Column::figures("LEAST", ""),
        Column::words("BY", ""),
        Column::figures("JITTER", ""),
        Column::figures("UNDER WAY", ""),
    ]);
    let mut table = Table::new(&columns);
    for row in rows {
        let flow = &analysis.network().flows()[row.flow];
        let mut cells = vec![row.name.clone()];
        let none = || "-".to_string();
        cells.extend(
            families
                .iter()
                .map(|f| row.least_of(*f).map_or_else(none, |(_, delay)| units.time(&delay))),
        );
        let least = row.least();
        cells.extend([
            least.as_ref().map_or_else(none, |(_, delay)| units.time(delay)),
            least.as_ref().map_or_else(none, |(b, _)| b.method.to_string()),
            row.jitter(flow).map_or_else(none, |j| units.time(&j)),
            row.under_way(flow).map_or_else(none, |b| units.data(&b)),
        ]);
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    }
    table
}

fn curve(envelope: &Envelope, units: Units) -> String {
    let piece = |p: &towpath_bound::TokenBucket| {
        format!("{} + {}·t", units.data(&p.burst), units.rate(&p.rate))
    };
    let pieces: Vec<String> = envelope.pieces().iter().map(piece).collect();
    match pieces.as_slice() {
        [one] => one.clone(),
        several if several.len() <= 4 => format!("min({})", several.join(", ")),
        several => format!("min({}, … {} pieces)", several[..3].join(", "), several.len()),
    }
}

/// How the least bound of each flow came about, server by server.
pub(super) fn explain(analysis: &Analysis, rows: &[Row], units: Units) -> String {
    let mut out = String::new();
    for row in rows {
        let Some((bound, delay)) = row.least() else { continue };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "\n{}: {} by {}", row.name, units.time(&delay), bound.method);
        let flow = &analysis.network().flows()[row.flow];
        let _ = writeln!(out, "  it sends at most {}", curve(&flow.arrival, units));
        if let Some(size) = &bound.program {
            let _ = writeln!(
                out,
                "  linear program of {} variables and {} rows; its dual is checked exactly",
                size.variables, size.rows
            );
            path(&mut out, analysis, row, units);
        }
        for step in &bound.steps {
            let name = step.server.map(|s| analysis.network().servers()[s].name.as_str());
            let _ = write!(out, "  {}:", name.unwrap_or("the whole path"));
            if let Some(arrival) = &step.arrival {
                let what = match bound.method {
                    Method::Tfa(_) => "enters",
                    Method::Sfa(_) | Method::Pmoo(_) => "competes",
                    _ => "arrives",
                };
                let _ = write!(out, " {what} {};", curve(arrival, units));
            }
            if let Some(service) = &step.service {
                let (rate, latency) = (units.rate(&service.rate), units.time(&service.latency));
                let _ = write!(out, " served at {rate} after {latency};");
            }
            if let Some(delay) = &step.delay {
                let _ = write!(out, " delay {}", units.time(delay));
            }
            out.push('\n');
        }
        if !row.fixed.is_zero() {
            let _ = writeln!(out, "  forwarding and propagation: {}", units.time(&row.fixed()));
        }
    }
    out
}

fn path(out: &mut String, analysis: &Analysis, row: &Row, units: Units) {
    let flow = &analysis.network().flows()[row.flow];
    for &index in &flow.path {
        let server = &analysis.network().servers()[index];
        let flows = analysis.network().flows_at(index).len();
        let _ = write!(out, "  {}: {flows} flows pass", server.name);
        if let Some(delay) = &analysis.per_hop().delay[index] {
            let _ = write!(out, ", none stays longer than {}", units.time(delay));
        }
        out.push('\n');
    }
}

/// Exact numbers as text, beside doubles for programs that do not need them.
pub(super) fn as_json(name: &str, analysis: &Analysis, rows: &[Row], units: Units) -> Value {
    let number = |value: &Rational| match units {
        Units::Own => json!({ "exact": value.to_string(), "value": value.to_f64() }),
        Units::Bits => {
            let ns = value.seconds_up().map(towpath_wire::units::nanos);
            json!({ "exact_s": value.to_string(), "ns": ns })
        }
    };
    let data = |value: &Rational| match units {
        Units::Own => json!({ "exact": value.to_string(), "value": value.to_f64() }),
        Units::Bits => json!({ "exact_bits": value.to_string(), "bits": value.ceil_u64() }),
    };
    let row = |row: &Row| {
        let flow = &analysis.network().flows()[row.flow];
        let methods = Family::SINGLE.into_iter().filter_map(|f| {
            let (_, delay) = row.least_of(f)?;
            Some((f.name().to_string(), number(&delay)))
        });
        let least = row.least();
        json!({
            "flow": row.name,
            "delay": methods.collect::<serde_json::Map<_, _>>(),
            "least": least.as_ref().map(|(_, delay)| number(delay)),
            "by": least.as_ref().map(|(b, _)| b.method.to_string()),
            "jitter": row.jitter(flow).as_ref().map(number),
            "under_way": row.under_way(flow).as_ref().map(data),
        })
    };
    json!({ "network": name, "flows": rows.iter().map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_never_too_small() {
        let shown = |n, d| decimal_up(&Rational::new(n, d).unwrap());
        assert_eq!([shown(575, 12), shown(25, 2), shown(0, 1)], ["47.9167", "12.5", "0"]);
        assert_eq!([shown(1, 100_000), shown(-1, 3), shown(7, 1)], ["0.0001", "-0.3333", "7"]);
    }
}
