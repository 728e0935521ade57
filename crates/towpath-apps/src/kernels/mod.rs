//! The eight kernels of the suite: small programs with known answers, whose point is how they talk.

mod alone;
pub(crate) mod branch;
mod ep;
mod fft;
mod gemm;
mod hough;
mod lu;
mod matmul;
mod nbody;
mod rated;
mod sort;
mod suite;
#[cfg(test)]
mod tests;
mod tsp;

pub(crate) use rated::rated;
pub(crate) use suite::{KernelArgs, kernel};
