//! A tornado on its way: Rankine's vortex with the pressure that its turning needs and the
//! temperature of air that expanded to it without heat.

use anyhow::ensure;
use clap::Args;

use crate::exchange::{Exchange, Result, map_all};
use crate::picture::Field;
use crate::report::Report;

const SIDE_MAX: usize = 2000;
const FRAMES_MAX: usize = 1000;
/// Air far away: pascal, kelvin, kg/m³; R/c_p.
const PRESSURE: f64 = 100_000.0;
const TEMPERATURE: f64 = 300.0;
const DENSITY: f64 = 1.16;
const ADIABATIC: f64 = 0.2857;
/// Metres of the field's side.
const SIDE: f64 = 4000.0;
/// Metres a frame.
const DRIFT: f64 = 150.0;

#[derive(Clone, Debug, Args)]
pub(crate) struct TornadoArgs {
    /// Points of the field's side
    #[arg(long, default_value_t = 120)]
    side: usize,
    /// Frames of its way
    #[arg(long, default_value_t = 8)]
    frames: usize,
    /// Fastest wind, m/s
    #[arg(long, default_value_t = 80.0)]
    speed: f64,
    /// Metres from the middle to the fastest wind
    #[arg(long, default_value_t = 250.0)]
    radius: f64,
}

/// Wind (m/s, around the middle), pressure and temperature so far from the middle.
fn air(speed: f64, radius: f64, r: f64) -> [f64; 3] {
    let part = r / radius;
    // dp/dr = ρ v²/r: the pressure holds the air on its circle.
    let (wind, lack) = match part < 1.0 {
        true => (speed * part, 1.0 - 0.5 * part * part),
        false => (speed / part, 0.5 / (part * part)),
    };
    let pressure = PRESSURE - DENSITY * speed * speed * lack;
    [wind, pressure, TEMPERATURE * (pressure / PRESSURE).powf(ADIABATIC)]
}

/// All three fields of a frame, row by row.
fn frame(exchange: &mut dyn Exchange, args: &TornadoArgs, frame: usize) -> Result<Vec<f64>> {
    let n = args.side;
    let middle = [0.2 * SIDE + DRIFT * frame as f64, 0.3 * SIDE + 0.5 * DRIFT * frame as f64];
    map_all(exchange, n, 3 * n, |row, out| {
        let at = |index: usize| SIDE * (index as f64 + 0.5) / n as f64;
        for column in 0..n {
            let r = (at(column) - middle[0]).hypot(at(row) - middle[1]);
            out.extend(air(args.speed, args.radius, r));
        }
    })
}

/// The whole demonstration; the root gets the report.
pub(crate) fn tornado(
    exchange: &mut dyn Exchange,
    args: &TornadoArgs,
) -> anyhow::Result<Option<Report>> {
    let TornadoArgs { side, frames, speed, radius } = *args;
    ensure!((2..=SIDE_MAX).contains(&side), "{side} points: from 2 to {SIDE_MAX}");
    ensure!((1..=FRAMES_MAX).contains(&frames), "{frames} frames: from 1 to {FRAMES_MAX}");
    ensure!((0.0..=200.0).contains(&speed), "a wind of {speed} m/s: from 0 to 200");
    ensure!((1.0..=2000.0).contains(&radius), "a radius of {radius} m: from 1 to 2000");
    let mut worst: Vec<f64> = vec![0.0; side * side];
    let mut last = Vec::new();
    for number in 0..frames {
        last = frame(exchange, args, number)?;
        for (most, here) in worst.iter_mut().zip(last.chunks_exact(3)) {
            *most = most.max(here[0]);
        }
    }
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let lead = format!("{frames} frames of {side} x {side} points, {} tasks", exchange.size());
    let mut report = Report::new("Tornado", &lead);
    let of = |what: usize| last.chunks_exact(3).map(|here| here[what]).collect::<Vec<_>>();
    let least = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
    let words = format!(
        "{:.0} Pa and {:.2} K in its middle, {PRESSURE} Pa and {TEMPERATURE} K far away",
        least(&of(1)),
        least(&of(2))
    );
    report.say("Air", &words);
    report.field("Strongest wind along its way", &Field::new(side, worst));
    report.field("Pressure in the last frame", &Field::new(side, of(1)));
    report.field("Temperature in the last frame", &Field::new(side, of(2)));
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    #[test]
    fn pressure_holds_the_air_on_its_circle() {
        let (speed, radius, h) = (80.0, 250.0, 0.01);
        for r in [10.0, 100.0, 249.0, 251.0, 700.0, 3000.0] {
            let slope = (air(speed, radius, r + h)[1] - air(speed, radius, r - h)[1]) / (2.0 * h);
            let needed = DENSITY * air(speed, radius, r)[0].powi(2) / r;
            assert!((slope - needed).abs() < 1e-4 * needed.max(0.1), "{r} m: {slope} {needed}");
        }
        let [wind, pressure, temperature] = air(speed, radius, 1e9);
        assert!(wind < 1e-4 && (pressure - PRESSURE).abs() < 1e-6);
        assert!((temperature - TEMPERATURE).abs() < 1e-6);
        // Without heat p^(1-γ) T^γ stays what it was.
        let [_, p, t] = air(speed, radius, 0.0);
        assert!(((t / TEMPERATURE).ln() / (p / PRESSURE).ln() - ADIABATIC).abs() < 1e-9);
    }

    #[test]
    fn any_number_of_tasks_draws_the_same() {
        let args = TornadoArgs { side: 30, frames: 1, speed: 60.0, radius: 300.0 };
        let draw = |size| run(size, |e| Ok(frame(e, &args, 3)?)).swap_remove(0).unwrap();
        for size in [2, 3, 4, 7, 8] {
            assert!(draw(size) == draw(1), "{size} tasks");
        }
    }
}
