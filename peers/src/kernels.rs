//! The applications' own files.

#[path = "../../crates/towpath-apps/src/kernels/alone.rs"]
pub(crate) mod alone;
#[path = "../../crates/towpath-apps/src/kernels/gemm.rs"]
pub(crate) mod gemm;
#[path = "../../crates/towpath-apps/src/kernels/lu.rs"]
pub(crate) mod lu;
#[path = "../../crates/towpath-apps/src/kernels/matmul.rs"]
pub(crate) mod matmul;
