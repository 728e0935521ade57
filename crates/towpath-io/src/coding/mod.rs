//! The inner loop of coding across paths, by what the processor can do.
//!
//! | kernel | needs | multiplies |
//! |---|---|---|
//! | `gfni-512` | GFNI, AVX-512F and BW | 64 bytes by one instruction |
//! | `gfni-256` | GFNI, AVX2 | 32 bytes by one instruction |
//! | `avx2` | AVX2 | 32 bytes, half a byte at a time, by two table look-ups |
//! | `plain` | nothing | as the compiler vectorises it |
//!
//! All give the same bytes ([`towpath_proto::coding::Kernel`]); what is chosen is the first that
//! runs here. On other processors than x86-64 that is `plain`.

mod checked;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use checked::{all, best};
