//! Fewer points, the same picture: a film has 90 000 frames, a picture some hundred columns.

use super::chart::Shape;

/// A point in the picture's coordinates; `None` is a gap.
pub(crate) type Dot = Option<(f64, f64)>;

/// Leaves out points that would not change the picture at a resolution of `cell`.
pub(crate) fn reduce(points: &[Dot], shape: Shape, cell: f64) -> Vec<Dot> {
    match shape {
        Shape::Line | Shape::Step => columns(points, cell),
        Shape::Dots => cells(points, cell),
        Shape::Bars => points.to_vec(),
    }
}

/// Of each column's run of points: the first, the lowest, the highest, the last, in their order.
fn columns(points: &[Dot], cell: f64) -> Vec<Dot> {
    let column = |dot: &Dot| dot.map(|(x, _)| (x / cell).floor());
    let mut out = Vec::new();
    for run in points.chunk_by(|a, b| column(a) == column(b)) {
        if run[0].is_none() {
            out.push(None);
            continue;
        }
        let height = |k: &usize| run[*k].map_or(0.0, |(_, y)| y);
        let least = (0..run.len()).min_by(|a, b| height(a).total_cmp(&height(b))).unwrap_or(0);
        let most = (0..run.len()).max_by(|a, b| height(a).total_cmp(&height(b))).unwrap_or(0);
        let mut kept = [0, least, most, run.len() - 1];
        kept.sort_unstable();
        let mut before = None;
        for k in kept {
            if before != Some(k) {
                out.push(run[k]);
            }
            before = Some(k);
        }
    }
    out
}

/// One point per square.
fn cells(points: &[Dot], cell: f64) -> Vec<Dot> {
    let mut seen = std::collections::HashSet::new();
    let square = |(x, y): (f64, f64)| ((x / cell).floor() as i64, (y / cell).floor() as i64);
    points.iter().filter(|dot| dot.is_some_and(|d| seen.insert(square(d)))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_in_a_long_line_is_kept() {
        let mut points: Vec<Dot> =
            (0..90_000).map(|k| Some((f64::from(k) / 100.0, 50.0))).collect();
        points[45_678] = Some((456.78, 3.0));
        let few = reduce(&points, Shape::Line, 1.0);
        assert!(few.len() <= 4 * 900, "{}", few.len());
        assert!(few.contains(&Some((456.78, 3.0))));
        assert_eq!((few[0], few.last()), (points[0], points.last()));
        let xs: Vec<f64> = few.iter().flatten().map(|d| d.0).collect();
        assert!(xs.is_sorted());
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let points = [Some((0.1, 1.0)), None, None, Some((0.2, 1.0))];
        assert_eq!(reduce(&points, Shape::Step, 1.0), [points[0], None, points[3]]);
    }

    #[test]
    fn dots_on_the_same_spot_are_one() {
        let points = [Some((5.1, 5.1)), Some((5.2, 5.3)), Some((9.0, 5.0))];
        assert_eq!(reduce(&points, Shape::Dots, 1.0), [points[0], points[2]]);
    }
}
