//! Who gets whom: the assignment of largest total gain, for pairs that are few beside all.
//!
//! Pairs fall apart into components; each is solved by shortest augmenting paths with potentials
//! (R. Jonker, A. Volgenant, 1987). The result depends on the pairs alone, not on their order.

use std::collections::{BTreeMap, BTreeSet};

/// Components of more are assigned greedily, best first: so much work is bounded.
const COMPONENT_MAX: usize = 400;

/// A pair that may be, with what it is worth; one that is worth nothing is never taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) left: u64,
    pub(crate) right: u64,
    pub(crate) gain: f64,
}

/// The pairs taken: each left and each right at most once.
pub(crate) fn assign(pairs: &[Pair]) -> Vec<(u64, u64)> {
    let mut pairs: Vec<Pair> = pairs.iter().copied().filter(|pair| pair.gain > 0.0).collect();
    pairs.sort_by(|a, b| (a.left, a.right).cmp(&(b.left, b.right)).then(b.gain.total_cmp(&a.gain)));
    pairs.dedup_by_key(|pair| (pair.left, pair.right));
    let mut taken = Vec::new();
    for component in components(&pairs) {
        if component.len() == 1 {
            taken.push((component[0].left, component[0].right));
        } else if component.len() > COMPONENT_MAX * 8 {
            greedy(component, &mut taken);
        } else {
            exact(&component, &mut taken);
        }
    }
    taken.sort_unstable();
    taken
}

/// Pairs that hang together, by their first left.
fn components(pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let mut parent: Vec<usize> = (0..pairs.len()).collect();
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    let (mut lefts, mut rights) = (BTreeMap::new(), BTreeMap::new());
    for (at, pair) in pairs.iter().enumerate() {
        for other in
            [*lefts.entry(pair.left).or_insert(at), *rights.entry(pair.right).or_insert(at)]
        {
            let (a, b) = (root(&mut parent, at), root(&mut parent, other));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut all: BTreeMap<usize, Vec<Pair>> = BTreeMap::new();
    for (at, pair) in pairs.iter().enumerate() {
        let root = root(&mut parent, at);
        all.entry(root).or_default().push(*pair);
    }
    all.into_values().collect()
}

fn greedy(mut component: Vec<Pair>, taken: &mut Vec<(u64, u64)>) {
    component
        .sort_by(|a, b| b.gain.total_cmp(&a.gain).then((a.left, a.right).cmp(&(b.left, b.right))));
    let (mut lefts, mut rights) = (BTreeSet::new(), BTreeSet::new());
    for pair in component {
        if !lefts.contains(&pair.left) && !rights.contains(&pair.right) {
            lefts.insert(pair.left);
            rights.insert(pair.right);
            taken.push((pair.left, pair.right));
        }
    }
}

fn numbered(names: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut names: Vec<u64> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Rows are lefts; columns are rights, and for each left one of its own that costs nothing: being
/// left alone.
fn exact(component: &[Pair], taken: &mut Vec<(u64, u64)>) {
    let lefts = numbered(component.iter().map(|pair| pair.left));
    let rights = numbered(component.iter().map(|pair| pair.right));
    let (n, m) = (lefts.len(), rights.len() + lefts.len());
    const NEVER: f64 = 1e9;
    let mut cost = vec![NEVER; n * m];
    for (row, line) in cost.chunks_exact_mut(m).enumerate() {
        line[rights.len() + row] = 0.0;
    }
    for pair in component {
        let row = lefts.binary_search(&pair.left).expect("numbered");
        let column = rights.binary_search(&pair.right).expect("numbered");
        cost[row * m + column] = -pair.gain;
    }
    let owner = shortest_paths(&cost, n, m);
    for (column, right) in rights.iter().enumerate() {
        if let Some(row) = owner[column].filter(|row| cost[row * m + column] < 0.0) {
            taken.push((lefts[row], *right));
        }
    }
}

/// The row of each column.
fn shortest_paths(cost: &[f64], n: usize, m: usize) -> Vec<Option<usize>> {
    let (mut u, mut v) = (vec![0.0; n], vec![0.0; m]);
    let mut owner: Vec<Option<usize>> = vec![None; m];
    for start in 0..n {
        let mut distance = vec![f64::INFINITY; m];
        let mut before: Vec<Option<usize>> = vec![None; m];
        let mut done = vec![false; m];
        let (mut row, mut last) = (start, None);
        let end = loop {
            let reached = last.map_or(0.0, |column: usize| distance[column]);
            for column in (0..m).filter(|column| !done[*column]) {
                let through = reached + cost[row * m + column] - u[row] - v[column];
                if through < distance[column] {
                    distance[column] = through;
                    before[column] = last;
                }
            }
            let open = (0..m).filter(|column| !done[*column]);
            let next = open.min_by(|a, b| distance[*a].total_cmp(&distance[*b]));
            let next = next.expect("a column of its own for each row");
            done[next] = true;
            match owner[next] {
                None => break next,
                Some(other) => (row, last) = (other, Some(next)),
            }
        };
        let shortest = distance[end];
        for column in (0..m).filter(|column| done[*column] && *column != end) {
            let shift = shortest - distance[column];
            v[column] -= shift;
            if let Some(other) = owner[column] {
                u[other] += shift;
            }
        }
        u[start] += shortest;
        let mut column = end;
        while let Some(earlier) = before[column] {
            owner[column] = owner[earlier];
            column = earlier;
        }
        owner[column] = Some(start);
    }
    owner
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The best by trying everything.
    fn best(pairs: &[Pair], used: &mut Vec<u64>) -> f64 {
        let Some((first, rest)) = pairs.split_first() else { return 0.0 };
        let without = best(rest, used);
        let (left, right) = (first.left, first.right + 1000);
        if used.contains(&left) || used.contains(&right) {
            return without;
        }
        used.extend([left, right]);
        let with = first.gain + best(rest, used);
        used.truncate(used.len() - 2);
        with.max(without)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn nothing_is_better(
            list in prop::collection::vec((0_u64..6, 0_u64..6, -1_i32..40), 0..14),
        ) {
            let mut pairs: Vec<Pair> = list
                .into_iter()
                .map(|(left, right, gain)| Pair { left, right, gain: f64::from(gain) })
                .collect();
            pairs.sort_by_key(|p| (p.left, p.right));
            pairs.dedup_by_key(|p| (p.left, p.right));
            let taken = assign(&pairs);
            let worth = |(left, right): &(u64, u64)| {
                pairs.iter().find(|p| (p.left, p.right) == (*left, *right)).unwrap().gain
            };
            let total: f64 = taken.iter().map(worth).sum();
            prop_assert!((total - best(&pairs, &mut Vec::new())).abs() < 1e-9, "{total}");
            for (at, (left, right)) in taken.iter().enumerate() {
                prop_assert!(!taken[..at].iter().any(|(l, r)| l == left || r == right));
            }
            pairs.reverse();
            prop_assert_eq!(assign(&pairs), taken);
        }
    }
}
