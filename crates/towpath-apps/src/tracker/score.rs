//! How good a set of estimates is: OSPA (D. Schuhmacher, B.-T. Vo, B.-N. Vo, 2008) and GOSPA
//! (A. Rahmathullah et al., 2017), both of order 2.

use super::assignment::{Pair, assign};
use super::space::{Vector, along, norm};

/// Both distances, in the unit of the cut-off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    pub(crate) ospa: f64,
    /// With α = 2.
    pub(crate) gospa: f64,
}

/// Of one scan; none: neither truth nor estimates.
pub(crate) fn score(truth: &[Vector], estimates: &[Vector], cut: f64) -> Option<Score> {
    let most = truth.len().max(estimates.len());
    if most == 0 {
        return None;
    }
    let mut pairs = Vec::new();
    for (left, t) in truth.iter().enumerate() {
        for (right, e) in estimates.iter().enumerate() {
            let distance = norm(along(*t, -1.0, *e));
            let gain = cut * cut - distance * distance;
            pairs.push(Pair { left: left as u64, right: right as u64, gain });
        }
    }
    let taken = assign(&pairs);
    let distance = |(left, right): &(u64, u64)| {
        norm(along(truth[*left as usize], -1.0, estimates[*right as usize])).powi(2)
    };
    let near: f64 = taken.iter().map(distance).sum();
    let alone = (most - taken.len()) as f64;
    let each = (truth.len() + estimates.len() - 2 * taken.len()) as f64;
    Some(Score {
        ospa: ((near + alone * cut * cut) / most as f64).sqrt(),
        gospa: (near + each * cut * cut / 2.0).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wrong_where_all_is_right_and_a_miss_costs_the_cut() {
        let at = |x: f64| [x, 0.0, 0.0];
        let truth = [at(0.0), at(50.0)];
        assert_eq!(score(&truth, &[at(50.0), at(0.0)], 10.0).unwrap().ospa, 0.0);
        let one = score(&truth, &[at(3.0)], 10.0).unwrap();
        assert!((one.ospa - (109.0_f64 / 2.0).sqrt()).abs() < 1e-12);
        assert!((one.gospa - (9.0_f64 + 50.0).sqrt()).abs() < 1e-12);
        let far = score(&truth[..1], &[at(90.0)], 10.0).unwrap();
        assert_eq!((far.ospa, far.gospa), (10.0, 10.0));
        assert!(score(&[], &[], 10.0).is_none());
    }
}
