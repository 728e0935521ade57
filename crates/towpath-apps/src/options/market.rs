//! A market: how well each model explains what was paid.
//!
//! Trades are made up: the report's market study (108 851 trades of 13 series) is not public. Trade
//! i depends on i and the seed alone: one of 13 series (strike, maturity, dividend), a day, a stock
//! price from a geometric walk over the days, and a price paid that is the AMC value at the
//! market's volatility, which drifts over the days, times a lognormal error of 2 %. Real trades
//! come as CSV with the columns `spot,strike,rate,maturity,dividend,dividend_time,paid`.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use towpath_report::plot::{Axis, Chart, Column, Shape, Table, Unit};

use super::american::with_dividend;
use super::black_scholes::{greeks, implied, price};
use super::contract::{Contract, Dividend, Kind};
#[cfg(feature = "database")]
use super::database::{About, Limits, Recording};
use super::monte_carlo::{splitmix, uniform};
use super::normal::quantile;
use super::stochastic::{Variance, american, european};
use crate::exchange::{Exchange, map_all};
use crate::report::Report;

const TRADES_MAX: usize = 10_000_000;
const FILE_MAX: u64 = 1 << 30;
const BLOCK: usize = 512;
const DAYS: usize = 120;
const SERIES: u64 = 13;
/// EUS and AMS cost a thousand times as much: one trade of so many is priced by them.
const SAMPLED: usize = 256;
const LEVEL: usize = 13;
/// Models in the order of the table.
const MODELS: [&str; 4] = ["BS", "AMC", "EUS", "AMS"];
/// Blocks whose prices are gathered at once, where they are kept.
#[cfg(feature = "database")]
const ROUND: usize = 64;
/// Sums of a block: per model count, Σ error, Σ error², and day, Σ implied volatility, count.
const WIDTH: usize = 3 * MODELS.len();

#[derive(Clone, Debug, Args)]
pub(crate) struct MarketArgs {
    /// How many trades are made up
    #[arg(long, default_value_t = 100_000)]
    pub(crate) trades: usize,
    /// Trades from a file instead
    #[arg(long, value_name = "CSV")]
    pub(crate) file: Option<PathBuf>,
    /// Of the made-up trades
    #[arg(long, default_value_t = 1988)]
    pub(crate) seed: u64,
    /// Weight of a day in the running estimate of volatility
    #[arg(long, default_value_t = 0.2)]
    pub(crate) weight: f64,
    /// Keep each trade with its prices in this SQLite database, too; see `query`
    #[cfg(feature = "database")]
    #[arg(long, value_name = "FILE")]
    pub(crate) database: Option<PathBuf>,
    /// How large the database may be
    #[cfg(feature = "database")]
    #[arg(long, value_name = "MIB", default_value_t = super::database::MIB_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(super::database::MIB_MAX)))]
    pub(crate) database_mib: u32,
}

/// What each model says of a trade, in their order; none: it was not asked, or has no answer.
pub(crate) type Priced = [Option<f64>; MODELS.len()];

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trade {
    /// Of a market that is made up: its number; of a file: its strike's, in the order of lines.
    pub(crate) series: usize,
    pub(crate) day: usize,
    pub(crate) of: Contract,
    pub(crate) dividend: Dividend,
    pub(crate) paid: f64,
}

/// The market's volatility of a day: what estimation should find.
fn volatility(day: usize) -> f64 {
    0.25 + 0.08 * (day as f64 * std::f64::consts::TAU / DAYS as f64).sin()
}

/// The stock's price of each day.
fn walk(seed: u64) -> Vec<f64> {
    let mut price = 95.0_f64;
    let step = |day: usize| {
        price *= (0.008 * quantile(uniform(seed, day as u64))).exp();
        price.clamp(60.0, 150.0)
    };
    (0..DAYS).map(step).collect()
}

fn made_up(seed: u64, walk: &[f64], trades: usize, at: usize) -> Trade {
    let day = at * DAYS / trades;
    let series = splitmix(seed ^ splitmix(at as u64)) % SERIES;
    let noise = |what: u64| uniform(seed.wrapping_add(what), at as u64);
    let of = Contract {
        kind: Kind::Call,
        spot: walk[day] * (0.998 + 0.004 * noise(1)),
        strike: 80.0 + 2.5 * series as f64,
        rate: 0.07,
        carry: 0.0,
        volatility: volatility(day),
        maturity: 0.1 + 0.05 * (series % 4) as f64 + 0.01 * noise(2),
    };
    let dividend = Dividend { amount: 0.8, time: of.maturity * 0.5 };
    let paid = with_dividend(&of, dividend) * (0.02 * quantile(noise(3))).exp();
    Trade { series: series as usize, day, of, dividend, paid }
}

/// Trades of a file, in its order; the order is taken for time.
fn read(text: &str) -> anyhow::Result<Vec<Trade>> {
    let mut lines = text.lines().enumerate();
    let names = "spot,strike,rate,maturity,dividend,dividend_time,paid";
    let head = lines.next().map_or("", |(_, line)| line.trim());
    ensure!(head == names, "line 1 is `{head}`\nhint: the columns are {names}");
    let (mut trades, mut strikes) = (Vec::new(), HashMap::new());
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let line_number = at + 1;
        ensure!(trades.len() < TRADES_MAX, "more than {TRADES_MAX} trades");
        let cells: Result<Vec<f64>, _> = line.split(',').map(|c| c.trim().parse()).collect();
        let cells = cells.with_context(|| format!("line {line_number}: `{line}`"))?;
        let [spot, strike, rate, maturity, amount, time, paid] = cells[..] else {
            bail!("line {line_number} has {} columns, not 7", cells.len());
        };
        let of = Contract {
            kind: Kind::Call,
            spot,
            strike,
            rate,
            carry: 0.0,
            volatility: 0.3,
            maturity,
        };
        let of = of.checked().with_context(|| format!("line {line_number}"))?;
        let dividend = Dividend { amount, time }.checked(&of);
        let dividend = dividend.with_context(|| format!("line {line_number}"))?;
        ensure!(paid.is_finite() && paid > 0.0, "line {line_number}: the price paid is {paid}");
        let next = strikes.len();
        let series = *strikes.entry(strike.to_bits()).or_insert(next);
        trades.push(Trade { series, day: 0, of, dividend, paid });
    }
    let count = trades.len();
    ensure!(count > 0, "no trade in the file");
    for (at, trade) in trades.iter_mut().enumerate() {
        trade.day = at * DAYS / count;
    }
    Ok(trades)
}

/// Where trades come from: every task can make each of them.
enum Source {
    MadeUp { seed: u64, walk: Vec<f64>, trades: usize },
    File(Vec<Trade>),
}

impl Source {
    /// The root reads the file and gives everyone its text.
    fn open(exchange: &mut dyn Exchange, args: &MarketArgs) -> anyhow::Result<Self> {
        let Some(path) = &args.file else {
            ensure!(
                (1..=TRADES_MAX).contains(&args.trades),
                "{} trades: from 1 to {TRADES_MAX}",
                args.trades
            );
            return Ok(Self::MadeUp {
                seed: args.seed,
                walk: walk(args.seed),
                trades: args.trades,
            });
        };
        let text = match exchange.rank() {
            0 => {
                let about = std::fs::metadata(path).with_context(|| path.display().to_string())?;
                let len = about.len();
                ensure!(len <= FILE_MAX, "{} has {len} bytes, at most {FILE_MAX}", path.display());
                Some(std::fs::read(path)?)
            }
            _ => None,
        };
        let text = exchange.broadcast(0, text)?;
        let text = std::str::from_utf8(&text).context("the trades are not text")?;
        Ok(Self::File(read(text)?))
    }

    fn len(&self) -> usize {
        match self {
            Self::MadeUp { trades, .. } => *trades,
            Self::File(trades) => trades.len(),
        }
    }

    fn trade(&self, at: usize) -> Trade {
        match self {
            Self::MadeUp { seed, walk, trades } => made_up(*seed, walk, *trades, at),
            Self::File(trades) => trades[at],
        }
    }
}

/// The volatility at which AMC is `paid`: two steps of the secant from what a European call, which
/// is worth less, would need.
fn explained(of: &Contract, dividend: Dividend, paid: f64, start: f64) -> f64 {
    let error = |volatility| with_dividend(&Contract { volatility, ..*of }, dividend) - paid;
    let (mut before, mut error_before) = (start, error(start));
    let mut now = start - error_before / greeks(&Contract { volatility: start, ..*of }).vega;
    for _ in 0..2 {
        let error_now = error(now.max(0.01));
        if (error_now - error_before).abs() < 1e-12 {
            break;
        }
        let next = now - error_now * (now - before) / (error_now - error_before);
        (before, error_before, now) = (now, error_now, next.clamp(0.01, 5.0));
    }
    now
}

/// On-line: the volatility that explains a day's prices, each day from those before.
fn estimates(
    exchange: &mut dyn Exchange,
    source: &Source,
    weight: f64,
) -> anyhow::Result<Vec<(f64, f64)>> {
    let n = source.len();
    let sums = map_all(exchange, n.div_ceil(BLOCK), 3, |block, out| {
        let (mut sum, mut count) = (0.0, 0.0);
        let range = block * BLOCK..((block + 1) * BLOCK).min(n);
        let day = source.trade(range.start).day;
        for at in range {
            let Trade { of, dividend, paid, .. } = source.trade(at);
            // Near the money, where the price says something about it.
            let spot = dividend.escrowed(&of);
            if (spot / of.strike).ln().abs() < 0.1
                && let Some(start) = implied(&Contract { spot, ..of }, paid)
            {
                sum += explained(&of, dividend, paid, start);
                count += 1.0;
            }
        }
        out.extend([day as f64, sum, count]);
    })?;
    let mut days = vec![(0.0, 0.0); DAYS];
    for block in sums.chunks_exact(3) {
        days[block[0] as usize].0 += block[1];
        days[block[0] as usize].1 += block[2];
    }
    // What is known in the morning: the days before, the later the heavier.
    let (mut known, mut curve) = (0.3, Vec::with_capacity(DAYS));
    for (sum, count) in days {
        let seen = if count > 0.0 { sum / count } else { known };
        curve.push((known, seen));
        known += weight * (seen - known);
    }
    Ok(curve)
}

/// What the models say of the trade with number `at`, at the volatility known that morning.
fn priced(trade: &Trade, at: usize, curve: &[(f64, f64)]) -> Priced {
    let of = Contract { volatility: curve[trade.day].0, ..trade.of };
    let escrowed = Contract { spot: trade.dividend.escrowed(&of), ..of };
    let (bs, amc) = (price(&escrowed), with_dividend(&of, trade.dividend));
    if !at.is_multiple_of(SAMPLED) {
        return [Some(bs), Some(amc), None, None];
    }
    let variance = Variance {
        start: of.volatility * of.volatility,
        drift: 0.0,
        volatility: 0.5,
        correlation: -0.3,
    };
    let eus = european(&escrowed, &variance, LEVEL).ok().map(|eus| eus.price);
    let ams = american(&of, trade.dividend, &variance, LEVEL).ok().map(|ams| ams.price);
    [Some(bs), Some(amc), eus, ams]
}

/// Per model how many trades, Σ error, Σ error².
#[derive(Default)]
struct Sums([f64; WIDTH]);

impl Sums {
    fn add(&mut self, trade: &Trade, priced: &Priced) {
        for (model, value) in priced.iter().enumerate() {
            let Some(value) = value else { continue };
            let error = value - trade.paid;
            self.0[3 * model] += 1.0;
            self.0[3 * model + 1] += error;
            self.0[3 * model + 2] += error * error;
        }
    }

    fn add_block(&mut self, block: &[f64]) {
        for (sum, part) in self.0.iter_mut().zip(block) {
            *sum += part;
        }
    }
}

/// The trades of a block.
fn block(n: usize, block: usize) -> std::ops::Range<usize> {
    block * BLOCK..((block + 1) * BLOCK).min(n)
}

/// Σ errors of the models, by block; sums in the order of blocks.
fn errors(
    exchange: &mut dyn Exchange,
    source: &Source,
    curve: &[(f64, f64)],
) -> anyhow::Result<[f64; WIDTH]> {
    let n = source.len();
    let sums = map_all(exchange, n.div_ceil(BLOCK), WIDTH, |number, out| {
        let mut sums = Sums::default();
        for at in block(n, number) {
            let trade = source.trade(at);
            sums.add(&trade, &priced(&trade, at, curve));
        }
        out.extend(sums.0);
    })?;
    let mut all = Sums::default();
    sums.chunks_exact(WIDTH).for_each(|block| all.add_block(block));
    Ok(all.0)
}

/// The same at the root, which also gets each trade's prices as they are computed, in order, some
/// blocks at a time.
#[cfg(feature = "database")]
fn errors_kept(
    exchange: &mut dyn Exchange,
    source: &Source,
    curve: &[(f64, f64)],
    mut keep: impl FnMut(&[(Trade, Priced)]) -> anyhow::Result<()>,
) -> anyhow::Result<Option<[f64; WIDTH]>> {
    let (n, mut all) = (source.len(), Sums::default());
    for first in (0..n.div_ceil(BLOCK)).step_by(ROUND) {
        let trades = block(n, first).start..block(n, first + ROUND - 1).end;
        let own = crate::exchange::share(trades.len(), exchange.rank(), exchange.size());
        let mut prices = Vec::with_capacity(own.len() * MODELS.len());
        for at in own.map(|offset| trades.start + offset) {
            let prices_of = priced(&source.trade(at), at, curve);
            prices.extend(prices_of.map(|price| price.unwrap_or(f64::NAN)));
        }
        let counts = crate::exchange::share_counts(trades.len(), exchange.size(), MODELS.len());
        let Some(prices) = exchange.gather_counts(0, &prices, &counts)? else { continue };
        let prices = prices.as_chunks::<{ MODELS.len() }>().0;
        let known = |price: f64| Some(price).filter(|price| !price.is_nan());
        let pair = |(at, prices): (usize, &[f64; 4])| (source.trade(at), prices.map(known));
        let rows: Vec<(Trade, Priced)> = trades.clone().zip(prices).map(pair).collect();
        for rows in rows.chunks(BLOCK) {
            let mut sums = Sums::default();
            for (trade, prices) in rows {
                sums.add(trade, prices);
            }
            all.add_block(&sums.0);
        }
        keep(&rows)?;
    }
    Ok((exchange.rank() == 0).then_some(all.0))
}

/// Errors, kept in the database where one is named; at the root.
#[cfg(feature = "database")]
fn errors_or_kept(
    exchange: &mut dyn Exchange,
    source: &Source,
    curve: &[(f64, f64)],
    recording: Option<Recording>,
    is_kept: bool,
) -> anyhow::Result<Option<[f64; WIDTH]>> {
    if !is_kept {
        return errors(exchange, source, curve).map(Some);
    }
    let mut recording = recording;
    let sums = errors_kept(exchange, source, curve, |rows| match &mut recording {
        Some(recording) => Ok(recording.prices(rows)?),
        None => Ok(()),
    })?;
    if let Some(recording) = recording {
        recording.finish(curve)?;
    }
    Ok(sums)
}

/// The root's database, where one is named.
#[cfg(feature = "database")]
fn recording(
    exchange: &dyn Exchange,
    args: &MarketArgs,
    trades: usize,
) -> anyhow::Result<Option<Recording>> {
    let Some(path) = args.database.as_ref().filter(|_| exchange.rank() == 0) else {
        return Ok(None);
    };
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let about = About {
        at_unix_s: since.map_or(0, |since| since.as_secs() as i64),
        source: args.file.as_ref().map_or("made up".to_owned(), |path| path.display().to_string()),
        seed: args.file.is_none().then_some(args.seed),
        weight: args.weight,
        trades,
    };
    Ok(Some(Recording::begin(path, Limits::of_mib(args.database_mib), &about)?))
}

/// The whole study.
pub(crate) fn market(
    exchange: &mut dyn Exchange,
    args: &MarketArgs,
) -> anyhow::Result<Option<Report>> {
    ensure!((0.0..=1.0).contains(&args.weight), "the weight is {}: from 0 to 1", args.weight);
    let source = Source::open(exchange, args)?;
    #[cfg(feature = "database")]
    let recording = recording(exchange, args, source.len())?;
    let curve = estimates(exchange, &source, args.weight)?;
    #[cfg(feature = "database")]
    let sums = {
        let is_kept = args.database.is_some();
        errors_or_kept(exchange, &source, &curve, recording, is_kept)?
    };
    #[cfg(not(feature = "database"))]
    let sums = Some(errors(exchange, &source, &curve)?);
    let Some(sums) = sums.filter(|_| exchange.rank() == 0) else { return Ok(None) };
    let mut report = Report::new(
        "Market",
        &format!("{} trades priced by {} tasks", source.len(), exchange.size()),
    );
    let mut table = Table::new(&[
        Column::words("model", "model"),
        Column::figures("trades", "trades"),
        Column::figures("mean error", "error_mean"),
        Column::figures("RMS error", "error_rms"),
    ]);
    for (model, sums) in MODELS.iter().zip(sums.chunks_exact(3)) {
        let n = sums[0].max(1.0);
        let cell = |text: String| (text.clone(), text);
        table.push(vec![
            cell((*model).to_owned()),
            cell(format!("{}", sums[0])),
            cell(format!("{:.6}", sums[1] / n)),
            cell(format!("{:.6}", (sums[2] / n).sqrt())),
        ]);
    }
    report.table("Errors, at the volatility known in the morning", &table);
    let points = |of: fn(&(f64, f64)) -> f64| {
        curve.iter().enumerate().map(|(day, both)| (day as f64, of(both))).collect()
    };
    let axis = |label| Axis::new(label, Unit::Count);
    let chart = Chart::new("Volatility day by day", axis("day"), axis("volatility"))
        .with("known in the morning", Shape::Line, points(|both| both.0))
        .with("of the day's prices", Shape::Step, points(|both| both.1));
    report.chart("Estimated while the market runs", &chart);
    report.file("errors.csv", table.csv());
    report.file("volatility.csv", days(&curve));
    Ok(Some(report))
}

fn days(curve: &[(f64, f64)]) -> String {
    let line = |(day, (known, seen)): (usize, &(f64, f64))| format!("{day},{known:.9},{seen:.9}\n");
    let lines: String = curve.iter().enumerate().map(line).collect();
    format!("day,known,seen\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    fn args(trades: usize) -> MarketArgs {
        MarketArgs {
            trades,
            file: None,
            seed: 5,
            weight: 0.3,
            #[cfg(feature = "database")]
            database: None,
            #[cfg(feature = "database")]
            database_mib: 1,
        }
    }

    #[test]
    fn any_number_of_tasks_says_the_same() {
        let said = |size| {
            let mut all = run(size, |exchange| market(exchange, &args(3000)));
            let report = all.swap_remove(0).unwrap().unwrap();
            report.text().replace(&format!("by {size} tasks"), "")
        };
        let one = said(1);
        for size in [2, 3, 4, 7, 8] {
            assert_eq!(said(size), one);
        }
    }

    #[test]
    fn estimation_follows_the_market_and_the_right_model_errs_least() {
        let args = args(20_000);
        let mut all = run(2, |exchange| {
            let source = Source::open(exchange, &args)?;
            let curve = estimates(exchange, &source, args.weight)?;
            Ok((errors(exchange, &source, &curve)?, curve))
        });
        let (sums, curve) = all.swap_remove(0).unwrap();
        for (day, (known, _)) in curve.iter().enumerate().skip(20) {
            // The market moves by 0.004 a day, three days' trades are a block, and a day weighs
            // 0.3: the estimate is some nine days behind at most.
            assert!((known - volatility(day)).abs() < 0.04, "day {day}: {known}");
        }
        let rms = |model: usize| (sums[3 * model + 2] / sums[3 * model]).sqrt();
        assert!(rms(1) < rms(0), "AMC {} made the prices, BS {}", rms(1), rms(0));
    }

    #[test]
    fn files_are_read_or_refused_by_line() {
        let names = "spot,strike,rate,maturity,dividend,dividend_time,paid\n";
        let good = read(&format!("{names}90,100,0.15,0.25,1.1,0.125,2.6\n")).unwrap();
        assert_eq!((good[0].of.strike, good[0].paid), (100.0, 2.6));
        let said = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(said("a,b\n").starts_with("line 1 is `a,b`"));
        assert!(said(&format!("{names}90,NaN,0.1,1,1,0.5,2\n")).starts_with("line 2: the strike"));
        assert!(said(&format!("{names}90,1\n")).starts_with("line 2 has 2 columns"));
        assert_eq!(said(names), "no trade in the file");
        let mut all = run(1, |exchange| market(exchange, &args(1_000_000_000)));
        let said = all.swap_remove(0).map(drop).unwrap_err().to_string();
        assert_eq!(said, "1000000000 trades: from 1 to 10000000");
    }
}
