//! Linear programs, solved with a proof: doubles find a basis, exact numbers turn it into a dual
//! solution, and only a dual solution that passes the exact check gives a bound.
//!
//! maximise c·x subject to A x ≤ b, x ≥ 0, with b ≥ 0 (so that x = 0 is feasible and the first
//! phase of the simplex method is not needed). By weak duality b·y bounds the maximum from above
//! for *every* y ≥ 0 with Aᵀ y ≥ c: rounding in the search can make the bound larger, never wrong.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::rational::Rational;

/// The most variables of a program.
pub const VARIABLES_MAX: usize = 600;
/// The most rows of a program.
pub const ROWS_MAX: usize = 8000;

/// Σ coefficient · x ≤ limit. Invariant: limit ≥ 0.
#[derive(Clone, Debug)]
struct Row {
    terms: Vec<(usize, Rational)>,
    limit: Rational,
}

/// A linear program in the form of the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Program {
    objective: BTreeMap<usize, Rational>,
    variables: usize,
    rows: Vec<Row>,
}

/// An upper bound of the maximum, proven, and what it took.
#[derive(Clone, Debug)]
pub(super) struct Proven {
    pub(super) bound: Rational,
    pub(super) pivots: usize,
    /// Rows with a multiplier above zero: what the bound rests on.
    pub(super) rows_used: usize,
}

impl Program {
    pub(super) fn new(variables: usize) -> Self {
        Self { objective: BTreeMap::new(), variables, rows: Vec::new() }
    }

    pub(super) fn maximise(&mut self, terms: &[(usize, i64)]) {
        for &(variable, coefficient) in terms {
            self.objective.insert(variable, Rational::integer(coefficient));
        }
    }

    /// Adds Σ terms ≤ limit; terms of the same variable are summed.
    ///
    /// # Panics
    /// If the limit is negative.
    pub(super) fn add(&mut self, terms: Vec<(usize, Rational)>, limit: Rational) {
        assert!(!limit.is_negative(), "the origin must stay feasible");
        let mut sum: BTreeMap<usize, Rational> = BTreeMap::new();
        for (variable, coefficient) in terms {
            *sum.entry(variable).or_default() += &coefficient;
        }
        sum.retain(|_, coefficient| !coefficient.is_zero());
        self.rows.push(Row { terms: sum.into_iter().collect(), limit });
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// A proven upper bound of the maximum; `None` if the program is unbounded or too large, or
    /// no dual solution passed the check.
    pub(super) fn solve(&self) -> Option<Proven> {
        if self.variables > VARIABLES_MAX || self.rows.len() > ROWS_MAX {
            return None;
        }
        let mut search = Search::new(self);
        let pivots = search.run()?;
        let dual = self.dual(&search)?;
        let bound = self.check(&dual)?;
        Some(Proven { bound, pivots, rows_used: dual.values().filter(|y| y.is_positive()).count() })
    }

    /// The dual solution of the found basis: rows whose slack is not basic, one equation for each
    /// basic variable.
    fn dual(&self, search: &Search) -> Option<BTreeMap<usize, Rational>> {
        let mut position = alloc::vec![usize::MAX; self.rows.len()];
        let tight: Vec<usize> = search.tight_rows();
        for (index, &row) in tight.iter().enumerate() {
            position[row] = index;
        }
        let mut equations: BTreeMap<usize, Equation> = search
            .basic_variables()
            .map(|variable| {
                let right = self.objective.get(&variable).cloned().unwrap_or_default();
                (variable, Equation { terms: BTreeMap::new(), right })
            })
            .collect();
        for &row in &tight {
            for (variable, coefficient) in &self.rows[row].terms {
                if let Some(equation) = equations.get_mut(variable) {
                    equation.terms.insert(position[row], coefficient.clone());
                }
            }
        }
        let values = eliminate(equations.into_values().collect(), tight.len())?;
        Some(tight.into_iter().zip(values).collect())
    }

    /// b·y if y ≥ 0 and Aᵀ y ≥ c hold exactly.
    fn check(&self, dual: &BTreeMap<usize, Rational>) -> Option<Rational> {
        let mut reached = alloc::vec![Rational::ZERO; self.variables];
        let mut bound = Rational::ZERO;
        for (&row, multiplier) in dual {
            if multiplier.is_negative() {
                return None;
            }
            bound += &(&self.rows[row].limit * multiplier);
            for (variable, coefficient) in &self.rows[row].terms {
                reached[*variable] += &(coefficient * multiplier);
            }
        }
        let covered = |(variable, wanted): (&usize, &Rational)| reached[*variable] >= *wanted;
        let rest_is_covered = reached.iter().enumerate().all(|(variable, value)| {
            self.objective.contains_key(&variable) || !value.is_negative()
        });
        (self.objective.iter().all(covered) && rest_is_covered).then_some(bound)
    }
}

struct Equation {
    terms: BTreeMap<usize, Rational>,
    right: Rational,
}

/// Gauss elimination in exact numbers; the shortest equation goes next, which keeps the rest
/// sparse. `None` if the system is singular.
fn eliminate(mut equations: Vec<Equation>, unknowns: usize) -> Option<Vec<Rational>> {
    if equations.len() != unknowns {
        return None;
    }
    let mut solved: Vec<(usize, Equation)> = Vec::with_capacity(unknowns);
    while !equations.is_empty() {
        let shortest = (0..equations.len()).min_by_key(|&index| equations[index].terms.len())?;
        let mut equation = equations.swap_remove(shortest);
        let uses = |unknown: usize| {
            equations.iter().filter(|other| other.terms.contains_key(&unknown)).count()
        };
        let unknown = *equation.terms.keys().min_by_key(|&&unknown| uses(unknown))?;
        let pivot = equation.terms.remove(&unknown)?;
        for coefficient in equation.terms.values_mut() {
            *coefficient = &*coefficient / &pivot;
        }
        equation.right = &equation.right / &pivot;
        for other in &mut equations {
            if let Some(factor) = other.terms.remove(&unknown) {
                other.subtract(&equation, &factor);
            }
        }
        solved.push((unknown, equation));
    }
    let mut values = alloc::vec![Rational::ZERO; unknowns];
    for (unknown, equation) in solved.iter().rev() {
        let known: Rational = equation.terms.iter().map(|(&at, c)| c * &values[at]).sum();
        values[*unknown] = &equation.right - &known;
    }
    Some(values)
}

impl Equation {
    fn subtract(&mut self, other: &Self, factor: &Rational) {
        for (&unknown, coefficient) in &other.terms {
            let entry = self.terms.entry(unknown).or_default();
            *entry = &*entry - &(coefficient * factor);
            if entry.is_zero() {
                self.terms.remove(&unknown);
            }
        }
        self.right = &self.right - &(&other.right * factor);
    }
}

/// The primal simplex method on a condensed tableau in doubles. What it finds is only a proposal.
struct Search {
    /// (rows + 1) × (variables + 1); the last row is the objective, the last column the limits.
    cells: Vec<f64>,
    width: usize,
    rows: usize,
    /// Label of each column and row: a variable, or `variables + row` for a slack.
    columns: Vec<usize>,
    basis: Vec<usize>,
    variables: usize,
}

/// Below this a pivot counts as zero. Programs are scaled to numbers near one.
const PIVOT_LEAST: f64 = 1e-9;
/// A column must gain more than this per unit.
const GAIN_LEAST: f64 = 1e-12;

impl Search {
    fn new(program: &Program) -> Self {
        let (rows, variables) = (program.rows.len(), program.variables);
        let width = variables + 1;
        let mut cells = alloc::vec![0.0; (rows + 1) * width];
        let mut noise = 0x9E37_79B9_7F4A_7C15_u64;
        for (index, row) in program.rows.iter().enumerate() {
            for (variable, coefficient) in &row.terms {
                cells[index * width + variable] = coefficient.to_f64();
            }
            // Most limits are zero: distinct small steps keep the method from standing still.
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let step = 1e-9 * (1.0 + (noise >> 40) as f64 / f64::from(1 << 24));
            cells[index * width + variables] = row.limit.to_f64() + step;
        }
        for (&variable, coefficient) in &program.objective {
            cells[rows * width + variable] = -coefficient.to_f64();
        }
        let columns = (0..variables).collect();
        let basis = (variables..variables + rows).collect();
        Self { cells, width, rows, columns, basis, variables }
    }

    /// Pivots until no column gains; the number of pivots, or `None` if unbounded or too long.
    fn run(&mut self) -> Option<usize> {
        let limit = 20 * (self.rows + self.variables) + 100;
        for pivots in 0..limit {
            let Some(column) = self.entering() else { return Some(pivots) };
            let row = self.leaving(column)?;
            self.pivot(row, column);
        }
        None
    }

    fn entering(&self) -> Option<usize> {
        let costs = &self.cells[self.rows * self.width..][..self.variables];
        let best = costs.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
        (*best.1 < -GAIN_LEAST).then_some(best.0)
    }

    fn leaving(&self, column: usize) -> Option<usize> {
        let mut best: Option<(f64, f64, usize)> = None;
        for row in 0..self.rows {
            let pivot = self.cells[row * self.width + column];
            if pivot <= PIVOT_LEAST {
                continue;
            }
            let ratio = self.cells[row * self.width + self.variables].max(0.0) / pivot;
            let better = best.is_none_or(|(least, steepest, _)| {
                ratio < least - 1e-12 || ratio <= least + 1e-12 && pivot > steepest
            });
            if better {
                best = Some((ratio, pivot, row));
            }
        }
        best.map(|(_, _, row)| row)
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let width = self.width;
        let inverse = 1.0 / self.cells[row * width + column];
        let mut line: Vec<f64> = self.cells[row * width..][..width].to_vec();
        for cell in &mut line {
            *cell *= inverse;
        }
        line[column] = inverse;
        let used: Vec<usize> = (0..width).filter(|&at| line[at] != 0.0 && at != column).collect();
        for other in (0..=self.rows).filter(|&other| other != row) {
            let cells = &mut self.cells[other * width..][..width];
            let factor = cells[column];
            if factor == 0.0 {
                continue;
            }
            for &at in &used {
                cells[at] -= factor * line[at];
            }
            cells[column] = -factor * inverse;
        }
        self.cells[row * width..][..width].copy_from_slice(&line);
        core::mem::swap(&mut self.columns[column], &mut self.basis[row]);
    }

    fn tight_rows(&self) -> Vec<usize> {
        let slacks = self.columns.iter().filter(|&&label| label >= self.variables);
        let mut rows: Vec<usize> = slacks.map(|label| label - self.variables).collect();
        rows.sort_unstable();
        rows
    }

    fn basic_variables(&self) -> impl Iterator<Item = usize> + '_ {
        self.basis.iter().copied().filter(|&label| label < self.variables)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(program: &mut Program, rows: &[(&[i64], i64)]) {
        for (coefficients, limit) in rows {
            let terms = coefficients.iter().enumerate();
            let terms = terms.map(|(at, &value)| (at, Rational::integer(value))).collect();
            program.add(terms, Rational::integer(*limit));
        }
    }

    #[test]
    fn a_textbook_program_is_solved_exactly() {
        // Dantzig: max 3x + 5y; x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18 has the maximum 36 at (2, 6).
        let mut program = Program::new(2);
        program.maximise(&[(0, 3), (1, 5)]);
        rows(&mut program, &[(&[1, 0], 4), (&[0, 2], 12), (&[3, 2], 18)]);
        assert_eq!(program.solve().unwrap().bound, Rational::integer(36));
    }

    #[test]
    fn an_unbounded_program_has_no_bound() {
        let mut program = Program::new(2);
        program.maximise(&[(0, 1)]);
        rows(&mut program, &[(&[1, -1], 1)]);
        assert!(program.solve().is_none());
    }

    #[test]
    fn a_wrong_dual_is_refused() {
        let mut program = Program::new(1);
        program.maximise(&[(0, 2)]);
        rows(&mut program, &[(&[1], 3)]);
        let dual = |y: i64| BTreeMap::from([(0, Rational::integer(y))]);
        assert_eq!(program.check(&dual(2)), Some(Rational::integer(6)));
        assert_eq!(program.check(&dual(1)), None, "does not cover the objective");
        assert_eq!(program.check(&dual(-2)), None, "negative");
    }

    proptest! {
        /// In two variables the maximum is at a corner: try them all.
        #[test]
        fn small_programs_equal_the_best_corner(
            limits in proptest::collection::vec((-3_i64..6, -3_i64..6, 0_i64..20), 1..6),
            objective in (0_i64..5, 0_i64..5),
        ) {
            let mut program = Program::new(2);
            program.maximise(&[(0, objective.0), (1, objective.1)]);
            let mut lines: Vec<(i64, i64, i64)> = limits;
            lines.extend([(1, 0, 50), (0, 1, 50)]);
            for &(a, b, limit) in &lines {
                rows(&mut program, &[(&[a, b], limit)]);
            }
            lines.extend([(-1, 0, 0), (0, -1, 0)]);
            let mut best = Rational::ZERO;
            for (index, &(a, b, e)) in lines.iter().enumerate() {
                for &(c, d, f) in &lines[..index] {
                    let Some(det) = Rational::new(1, i128::from(a * d - b * c)) else { continue };
                    let x = &Rational::integer(e * d - b * f) * &det;
                    let y = &Rational::integer(a * f - e * c) * &det;
                    let at = |p: i64, q: i64| {
                        &(&Rational::integer(p) * &x) + &(&Rational::integer(q) * &y)
                    };
                    if lines.iter().all(|&(p, q, limit)| at(p, q) <= Rational::integer(limit)) {
                        best = best.max(at(objective.0, objective.1));
                    }
                }
            }
            prop_assert_eq!(program.solve().map(|proven| proven.bound), Some(best));
        }
    }
}
