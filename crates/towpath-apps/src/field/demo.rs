//! The slots from parameters to report.

use anyhow::ensure;
use clap::Args;
use rustfft::num_complex::Complex64;
use towpath_report::plot::{Axis, Chart, Shape, Unit};

use super::slots::{LIGHT, Network, Slots, Solution};
use crate::exchange::{Exchange, map_all};
use crate::picture::Field;
use crate::report::Report;

const MAP_MAX: usize = 2000;
/// Directions of the pattern, a degree each.
pub(crate) const DIRECTIONS: usize = 181;

#[derive(Clone, Debug, Args)]
pub(crate) struct FieldArgs {
    /// Frequency in Hz
    #[arg(long, default_value_t = 1e10)]
    frequency: f64,
    /// Width of the slots in wavelengths
    #[arg(long, default_value_t = 0.2)]
    width: f64,
    /// Distance of their middles in wavelengths
    #[arg(long, default_value_t = 1.0)]
    distance: f64,
    /// Relative permittivity in the guides
    #[arg(long, default_value_t = 1.0)]
    permittivity: f64,
    /// Direction of the wave in degrees from the plane
    #[arg(long, default_value_t = 60.0)]
    angle: f64,
    /// What the guides end in
    #[arg(long, value_enum, default_value_t = Network::Pi)]
    network: Network,
    /// Unknowns of each slot
    #[arg(long, default_value_t = 32)]
    pulses: usize,
    /// Columns of the near field's map; its rows are half as many
    #[arg(long, default_value_t = 120)]
    map: usize,
}

impl FieldArgs {
    fn slots(&self) -> anyhow::Result<Slots> {
        let wavelength = LIGHT / self.frequency;
        let slots = Slots {
            wavelength,
            width: self.width * wavelength,
            distance: self.distance * wavelength,
            permittivity: self.permittivity,
            angle: self.angle.to_radians(),
            load: self.network.admittance(self.permittivity),
            pulses: self.pulses,
        };
        ensure!((2..=MAP_MAX).contains(&self.map), "{} columns: from 2 to {MAP_MAX}", self.map);
        Ok(slots.checked()?)
    }
}

/// Fills the matrix together; every rank solves it.
pub(super) fn solved(exchange: &mut dyn Exchange, slots: &Slots) -> anyhow::Result<Solution> {
    let n = 2 * slots.pulses;
    let rows = map_all(exchange, n, 2 * n, |at, out| {
        out.extend(slots.row(at).iter().flat_map(|y| [y.re, y.im]));
    })?;
    let row = |row: &[f64]| row.chunks_exact(2).map(|c| Complex64::new(c[0], c[1])).collect();
    let rows: Vec<Vec<Complex64>> = rows.chunks_exact(2 * n).map(row).collect();
    Ok(slots.solve(&rows)?)
}

/// |F| in all directions, at the root; and the powers, scattered and loaded, at all.
pub(crate) fn pattern(
    exchange: &mut dyn Exchange,
    slots: &Slots,
) -> anyhow::Result<(Option<Vec<f64>>, [f64; 2])> {
    let solution = solved(exchange, slots)?;
    let all = map_all(exchange, DIRECTIONS, 1, |degree, out| {
        out.push(solution.far((degree as f64).to_radians()).norm());
    })?;
    let powers = [solution.scattered, solution.loaded];
    Ok(((exchange.rank() == 0).then_some(all), powers))
}

/// |F| by degrees from the plane.
pub(crate) fn pattern_chart(values: &[f64]) -> Chart {
    let axis = |label| Axis::new(label, Unit::Count);
    let points = values.iter().enumerate().map(|(degree, f)| (degree as f64, *f)).collect();
    Chart::new("Far field", axis("degrees from the plane"), axis("|F|")).with(
        "|F|",
        Shape::Line,
        points,
    )
}

/// The whole demonstration; the root gets the report.
pub(crate) fn field(
    exchange: &mut dyn Exchange,
    args: &FieldArgs,
) -> anyhow::Result<Option<Report>> {
    let slots = args.slots()?;
    let solution = solved(exchange, &slots)?;
    let pattern = map_all(exchange, DIRECTIONS, 2, |degree, out| {
        let f = solution.far((degree as f64).to_radians());
        out.extend([f.re, f.im]);
    })?;
    let (columns, rows) = (args.map, args.map / 2);
    let side = slots.wavelength * (slots.distance / slots.wavelength + 3.0);
    let map = map_all(exchange, rows, columns, |row, out| {
        let y = side * 0.5 * (1.0 - row as f64 / rows as f64);
        let x = |column: usize| side * (column as f64 / (columns - 1) as f64 - 0.5);
        out.extend((0..columns).map(|column| solution.near(x(column), y).norm()));
    })?;
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let lead = format!(
        "Two slots {} λ wide, {} λ apart, {:?} network, wave at {}°; {} unknowns, {} tasks",
        args.width,
        args.distance,
        args.network,
        args.angle,
        2 * args.pulses,
        exchange.size()
    );
    let mut report = Report::new("Field of two slots", &lead);
    let [v1, v2] = solution.volts;
    report.say(
        "Slots",
        &format!(
            "voltages {v1:.6} V and {v2:.6} V at 1 A/m\npowers: {:.6} W/m scattered, {:.6} W/m in \
             the load, {:.1e} of what is given is missing",
            solution.scattered,
            solution.loaded,
            solution.imbalance()
        ),
    );
    report.field("Scattered field above the plane, |H|", &Field::new(columns, map.clone()));
    let sizes: Vec<f64> = pattern.chunks_exact(2).map(|f| f[0].hypot(f[1])).collect();
    report.chart("Pattern", &pattern_chart(&sizes));
    let line = |degree: usize| {
        format!("{degree},{:e},{:e}\n", pattern[2 * degree], pattern[2 * degree + 1])
    };
    let lines: String = (0..DIRECTIONS).map(line).collect();
    report.file("far.csv", format!("theta_deg,f_re,f_im\n{lines}"));
    let lines = map
        .chunks(columns)
        .map(|row| row.iter().map(|h| format!("{h:e}")).collect::<Vec<_>>().join(",") + "\n");
    report.file("near.csv", lines.collect::<String>());
    Ok(Some(report))
}

/// What is timed: 96 unknowns and a pattern of 181 directions.
pub(crate) fn once() -> anyhow::Result<()> {
    let slots = Slots {
        wavelength: 0.03,
        width: 0.006,
        distance: 0.03,
        permittivity: 1.0,
        angle: 1.0,
        load: Network::Pi.admittance(1.0),
        pulses: 48,
    };
    let rows: Vec<_> = (0..2 * slots.pulses).map(|at| slots.row(at)).collect();
    let solution = slots.solve(&rows)?;
    for degree in 0..DIRECTIONS {
        std::hint::black_box(solution.far((degree as f64).to_radians()));
    }
    Ok(())
}
