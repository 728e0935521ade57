//! What is computed again and again: a panel of its parameters, and a round.

use clap::ValueEnum;
use towpath::task::panel::{Panel, Parameter, Series, SeriesId};

use crate::exchange::Exchange;
use crate::field::{DIRECTIONS, Network, Slots, pattern};
use crate::options::{Contract, Kind, SIDE, greeks, price, surface};

/// What is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// 10 000 option prices: spot across, volatility down
    Prices,
    /// The far field of two loaded slots
    Slots,
}

/// Columns and values of what a round gives the root.
pub(super) struct Picture {
    pub(super) columns: usize,
    pub(super) values: Vec<f64>,
}

/// What a round gives the root: the picture, and points of series.
pub(super) struct Round {
    pub(super) picture: Picture,
    pub(super) told: Vec<(SeriesId, Vec<f64>)>,
}

/// The series of the whole picture, and that of a few of its numbers.
const PICTURE: SeriesId = SeriesId(0);
const NUMBERS: SeriesId = SeriesId(1);

impl Subject {
    /// Its panel under this name, or under its own.
    pub(super) fn panel(self, name: Option<&str>) -> anyhow::Result<Panel> {
        let mut panel = Panel::new(name.unwrap_or(match self {
            Self::Prices => "prices",
            Self::Slots => "slots",
        }))?;
        let parameters = match self {
            Self::Prices => vec![
                Parameter::real("strike", 100.0).between(0.01, 1e6).unit("$"),
                Parameter::real("rate", 0.05).between(-1.0, 1.0).unit("1/a"),
                Parameter::real("maturity", 0.5).between(0.001, 100.0).unit("a"),
                Parameter::real("volatility", 0.3).between(0.001, 10.0).unit("1/√a"),
                Parameter::real("spot", 100.0).between(0.01, 1e6).unit("$"),
            ],
            Self::Slots => vec![
                Parameter::real("width", 0.2).between(0.001, 1.0).unit("wavelengths"),
                Parameter::real("distance", 1.0).between(0.002, 20.0).unit("wavelengths"),
                Parameter::real("angle", 60.0).between(0.0, 180.0).unit("degrees"),
                Parameter::real("permittivity", 1.0).between(1.0, 100.0),
                Parameter::choice(
                    "network",
                    &networks().iter().map(String::as_str).collect::<Vec<_>>(),
                ),
            ],
        };
        for parameter in parameters {
            panel.parameter(parameter)?;
        }
        panel.parameter(Parameter::switch("running", true))?;
        let side = SIDE as u32;
        let (picture, numbers) = match self {
            Self::Prices => (
                Series::field("surface", side, side).unit("$"),
                Series::curves("price", &["call", "delta"]),
            ),
            Self::Slots => (
                Series::field("pattern", 1, DIRECTIONS as u32),
                Series::curves("power", &["scattered", "loaded"]).unit("W/m"),
            ),
        };
        panel.series(picture.over("round"))?;
        panel.series(numbers.over("round").keep(1000))?;
        Ok(panel)
    }

    /// Why these values cannot be together.
    pub(super) fn check(self, values: &[f64]) -> anyhow::Result<()> {
        match self {
            Self::Prices => contract(values).checked().map(drop)?,
            Self::Slots => slots(values).checked().map(drop)?,
        }
        Ok(())
    }

    /// One round; at the root what it gives, by series.
    pub(super) fn round(
        self,
        exchange: &mut dyn Exchange,
        values: &[f64],
    ) -> anyhow::Result<Option<Round>> {
        let (columns, picture, numbers) = match self {
            Self::Prices => {
                let of = contract(values);
                let numbers = vec![price(&of), greeks(&of).delta];
                (SIDE, surface(exchange, &of)?, numbers)
            }
            Self::Slots => {
                let (pattern, numbers) = pattern(exchange, &slots(values))?;
                (DIRECTIONS, pattern, numbers.to_vec())
            }
        };
        let Some(values) = picture else { return Ok(None) };
        let told = vec![(PICTURE, values.clone()), (NUMBERS, numbers)];
        Ok(Some(Round { picture: Picture { columns, values }, told }))
    }
}

/// Names of the networks, as on the command line.
fn networks() -> Vec<String> {
    let name = |network: &Network| Some(network.to_possible_value()?.get_name().to_owned());
    Network::value_variants().iter().filter_map(name).collect()
}

fn contract(values: &[f64]) -> Contract {
    Contract {
        kind: Kind::Call,
        strike: values[0],
        rate: values[1],
        carry: 0.0,
        maturity: values[2],
        volatility: values[3],
        spot: values[4],
    }
}

fn slots(values: &[f64]) -> Slots {
    let all = Network::value_variants();
    let network = all[(values[4] as usize).min(all.len() - 1)];
    let wavelength = 0.03;
    Slots {
        wavelength,
        width: values[0] * wavelength,
        distance: values[1] * wavelength,
        permittivity: values[3],
        angle: values[2].to_radians(),
        load: network.admittance(values[3]),
        pulses: 32,
    }
}
