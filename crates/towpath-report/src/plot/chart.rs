//! What a chart shows, without how it is drawn.

use super::scale::Unit;
use super::svg;

/// A chart with one or more series over common axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// One line above the picture; also its name for those who cannot see it.
    pub title: String,
    /// What to look for; wrapped below the picture. May be empty.
    pub caption: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// In the order of the legend; drawn in this order, so that later ones lie on top.
    pub series: Vec<Series>,
}

/// An axis: what it measures, and how values spread along it.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Unit of the values; the axis chooses the prefix (`M` of `Mbit/s`).
    pub unit: Unit,
    /// Logarithmic: values that are not positive are left out.
    pub log: bool,
    /// A linear axis begins at zero even where all values are far above it.
    pub from_zero: bool,
}

/// Named points, in the order of x.
#[derive(Clone, Debug)]
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// In the units of the axes. A value that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// How they are joined.
    pub shape: Shape,
}

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight lines.
    Line,
    /// A value holds until the next point.
    Step,
    /// A dot each.
    Dots,
    /// A bar each, from zero.
    Bars,
}

impl Chart {
    /// Without a series yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), caption: String::new(), x, y, series: Vec::new() }
    }

    /// With words below it.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, shape: Shape, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series { name: name.into(), points, shape });
        self
    }

    /// The picture, at most a few tens of kilobytes however many points there are.
    pub fn svg(&self) -> String {
        svg::render(self)
    }
}

impl Axis {
    /// Linear, from zero.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, log: false, from_zero: true }
    }

    /// On a logarithmic scale.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Shows only the range of the values.
    #[must_use]
    pub fn tight(mut self) -> Self {
        self.from_zero = false;
        self
    }

    /// Whether this axis can show `value`.
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }
}
