//! Which kernels run here; and what each of them may count on.

use std::sync::OnceLock;

use towpath_proto::coding::{Kernel, PLAIN};

/// The best kernel that runs here.
pub fn best() -> &'static dyn Kernel {
    static BEST: OnceLock<&'static dyn Kernel> = OnceLock::new();
    *BEST.get_or_init(|| all()[0])
}

/// Every kernel that runs here, the best first; `plain` is the last.
pub fn all() -> Vec<&'static dyn Kernel> {
    let mut all: Vec<&'static dyn Kernel> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    all.extend(super::x86::all());
    all.push(&PLAIN);
    all
}

/// Sums that one pass makes at most.
#[cfg(target_arch = "x86_64")]
pub(super) const SUMS_MAX: usize = 4;
/// Sources that one pass reads at most.
#[cfg(target_arch = "x86_64")]
pub(super) const SOURCES_MAX: usize = 16;

/// What one pass is asked for. Invariants, which [`each_pass`] sees to: `rows.len() ≤ 4`,
/// `sources.len() ≤ 16`, each row has as many coefficients as there are sources, and each source at
/// least `len` bytes; so has each sum that comes with it, and there are as many of these as rows.
#[cfg(target_arch = "x86_64")]
pub(super) struct Pass<'a> {
    pub(super) rows: &'a [&'a [u8]],
    pub(super) sources: &'a [&'a [u8]],
    pub(super) len: usize,
}

#[cfg(target_arch = "x86_64")]
impl Pass<'_> {
    /// The first sum takes each source once: no product is needed.
    pub(super) fn is_first_plain(&self) -> bool {
        self.rows[0].iter().all(|c| *c == 1)
    }
}

/// Splits what [`Kernel::add`] is asked for into passes.
#[cfg(target_arch = "x86_64")]
pub(super) fn each_pass(
    coefficients: &[&[u8]],
    sources: &[&[u8]],
    outs: &mut [&mut [u8]],
    mut run: impl FnMut(&Pass<'_>, &mut [&mut [u8]]),
) {
    assert_eq!(coefficients.len(), outs.len(), "a row of coefficients for each sum");
    let longest = sources.iter().map(|s| s.len()).max().unwrap_or_default();
    for (row, out) in coefficients.iter().zip(&*outs) {
        assert_eq!(row.len(), sources.len(), "a coefficient for each source");
        assert!(longest <= out.len(), "a source of {longest} bytes for a sum of {}", out.len());
    }
    for (rows, outs) in coefficients.chunks(SUMS_MAX).zip(outs.chunks_mut(SUMS_MAX)) {
        for (n, sources) in sources.chunks(SOURCES_MAX).enumerate() {
            let first = n * SOURCES_MAX;
            let mut part = [&[][..]; SUMS_MAX];
            for (part, row) in part.iter_mut().zip(rows) {
                *part = &row[first..first + sources.len()];
            }
            pass(&part[..rows.len()], sources, outs, &mut run);
        }
    }
}

/// All sources as far as the shortest of them goes, then the rest of each that is longer.
#[cfg(target_arch = "x86_64")]
fn pass(
    rows: &[&[u8]],
    sources: &[&[u8]],
    outs: &mut [&mut [u8]],
    run: &mut impl FnMut(&Pass<'_>, &mut [&mut [u8]]),
) {
    let len = sources.iter().map(|s| s.len()).min().unwrap_or_default();
    if len > 0 {
        run(&Pass { rows, sources, len }, outs);
    }
    for (n, source) in sources.iter().enumerate().filter(|(_, s)| s.len() > len) {
        let rest = [&source[len..]];
        let mut one = [&[][..]; SUMS_MAX];
        for (one, row) in one.iter_mut().zip(rows) {
            *one = &row[n..=n];
        }
        let mut behind: [&mut [u8]; SUMS_MAX] = Default::default();
        for (behind, out) in behind.iter_mut().zip(outs.iter_mut()) {
            *behind = &mut out[len..];
        }
        let count = rows.len();
        let pass = Pass { rows: &one[..count], sources: &rest, len: rest[0].len() };
        run(&pass, &mut behind[..count]);
    }
}
