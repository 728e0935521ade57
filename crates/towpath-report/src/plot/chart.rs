//! What a chart shows, without how it is drawn.

use super::scale::Unit;
use super::svg;

/// A chart with one or more series over common axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// One line above the picture; also its name for those who cannot see it.
    pub(crate) title: String,
    /// What to look for; wrapped below the picture. May be empty.
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// In the order of the legend; drawn in this order, so that later ones lie on top.
    pub(crate) series: Vec<Series>,
}

/// An axis: what it measures, and how values spread along it.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    /// Unit of the values; the axis chooses the prefix (`M` of `Mbit/s`).
    pub(crate) unit: Unit,
    /// Logarithmic: values that are not positive are left out.
    pub(crate) log: bool,
    /// A linear axis begins at zero even where all values are far above it.
    pub(crate) from_zero: bool,
}

/// Named points, in the order of x.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// In the units of the axes. A value that is not finite leaves a gap.
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) shape: Shape,
}

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
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
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), caption: String::new(), x, y, series: Vec::new() }
    }

    #[must_use]
    pub(crate) fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a series.
    #[must_use]
    pub(crate) fn with(
        mut self,
        name: impl Into<String>,
        shape: Shape,
        points: Vec<(f64, f64)>,
    ) -> Self {
        self.series.push(Series { name: name.into(), points, shape });
        self
    }

    /// The picture, at most a few tens of kilobytes however many points there are.
    pub(crate) fn svg(&self) -> String {
        svg::render(self)
    }
}

impl Axis {
    pub(crate) fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, log: false, from_zero: true }
    }

    #[must_use]
    pub(crate) fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Shows only the range of the values.
    #[must_use]
    pub(crate) fn tight(mut self) -> Self {
        self.from_zero = false;
        self
    }

    /// Whether this axis can show `value`.
    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }
}
