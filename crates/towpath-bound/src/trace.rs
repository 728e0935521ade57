//! How a bound came about, as text that a person can check by hand.

use alloc::string::String;
use core::fmt;

use super::analysis::{Bound, Step};
use super::envelope::{Envelope, RateLatency, TokenBucket};
use super::least::{Analysis, Least};
use super::rational::Rational;

/// A flow's bound with every method that was asked and every step of each.
///
/// Numbers stand as exact fractions with their decimal value beside them; the last decimal is
/// rounded to the nearest and only there for reading.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    analysis: &'a Analysis,
    least: &'a Least,
}

impl<'a> Trace<'a> {
    /// Of a bound that `analysis` gave.
    pub fn new(analysis: &'a Analysis, least: &'a Least) -> Self {
        Self { analysis, least }
    }

    fn name(&self, server: Option<usize>) -> &'a str {
        let servers = self.analysis.network().servers();
        server.map_or("whole path", |server| servers[server].name.as_str())
    }

    fn method(&self, f: &mut fmt::Formatter<'_>, bound: &Bound) -> fmt::Result {
        match &bound.delay {
            Some(delay) => writeln!(f, "  {}: delay {}", bound.method, Readable(delay))?,
            None => writeln!(f, "  {}: no bound", bound.method)?,
        }
        for step in &bound.steps {
            self.step(f, step)?;
        }
        if let Some(size) = &bound.program {
            writeln!(
                f,
                "    {} variables, {} constraints ({} carry the proof), {} pivots",
                size.variables, size.rows, size.rows_used, size.pivots
            )?;
        }
        Ok(())
    }

    fn step(&self, f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
        write!(f, "    {}:", self.name(step.server))?;
        let mut comma = "";
        if let Some(arrival) = &step.arrival {
            write!(f, " arrival {}", Curve(arrival))?;
            comma = ",";
        }
        match &step.service {
            Some(RateLatency { rate, latency }) => {
                write!(f, "{comma} service {rate} (t − {latency})")?;
            }
            None => write!(f, "{comma} nothing left over")?,
        }
        if let Some(delay) = &step.delay {
            write!(f, ", delay {}", Readable(delay))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Trace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Least { flow, method, delay, jitter, backlog, output, servers, tried } = self.least;
        let flow = &self.analysis.network().flows()[*flow].name;
        writeln!(f, "flow {flow}: delay at most {}, by {method}", Readable(delay))?;
        writeln!(f, "  jitter at most {}", Readable(jitter))?;
        writeln!(f, "  under way at once at most {}", Readable(backlog))?;
        writeln!(f, "  leaves as {}", Curve(output))?;
        for server in servers {
            write!(f, "  queue of {}", self.name(Some(server.server)))?;
            match &server.backlog {
                Some(backlog) => writeln!(f, ": at most {}", Readable(backlog))?,
                None => writeln!(f, ": unbounded")?,
            }
        }
        tried.iter().try_for_each(|bound| self.method(f, bound))
    }
}

/// A fraction with its decimal value, if it is one.
struct Readable<'a>(&'a Rational);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        if *self.0 == self.0.ceil() {
            return Ok(());
        }
        write!(f, " ≈ {:.6}", self.0.to_f64())
    }
}

/// An envelope as a minimum of lines.
struct Curve<'a>(&'a Envelope);

impl fmt::Display for Curve<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |TokenBucket { rate, burst }: &TokenBucket| -> String {
            alloc::format!("{burst} + {rate} t")
        };
        if let [only] = self.0.pieces() {
            return f.write_str(&line(only));
        }
        for (index, piece) in self.0.pieces().iter().enumerate() {
            let before = if index == 0 { "min(" } else { ", " };
            write!(f, "{before}{}", line(piece))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::network::{Flow, Multiplexing, Network, Server};
    use super::*;

    #[test]
    fn a_trace_can_be_followed_by_hand() {
        let part = Rational::integer;
        let servers =
            ["a", "b"].map(|name| Server::new(name, part(20), part(20), Multiplexing::Fifo));
        let flows = ["f", "g"].map(|name| {
            Flow::new(name, Envelope::token_bucket(part(5), part(25)), alloc::vec![0, 1])
        });
        let network = Network::new(servers.into(), flows.into()).unwrap();
        let analysis = Analysis::new(&network).unwrap();
        let least = analysis.least(0).unwrap();
        let text = Trace::new(&analysis, &least).to_string();
        let lines: alloc::vec::Vec<&str> = text.lines().collect();
        // Two servers in a row act as one of latency 40: 40 + 50 / 20.
        assert_eq!(lines[0], "flow f: delay at most 85/2 ≈ 42.500000, by FIFO linear program");
        assert_eq!(lines[3], "  leaves as 475/2 + 5 t", "25 + 5 · 42.5");
        assert_eq!(lines[4], "  queue of a: at most 250", "50 + 10 · 20");
        let first =
            lines.iter().position(|line| line.starts_with("  total flow, per hop")).unwrap();
        assert_eq!(
            lines[first + 1],
            "    a: arrival 25 + 5 t, service 20 (t − 20), delay 45/2 ≈ 22.500000"
        );
        let separated = "    a: arrival 25 + 5 t, service 15 (t − 85/4)";
        assert!(lines.contains(&separated), "{text}");
    }
}
