//! `cargo xtask purity`: proof that the sans-IO crates do no IO.
//!
//! For each crate, a generated static library holds the crate, what it depends on, the memory
//! functions, an allocator that hands out a fixed array, and a panic handler that loops. An
//! executable is linked from every object of the crate and that library alone. What the crate
//! needs beyond it (a C function, a system call, the standard library) is then an undefined symbol
//! or a build error, by name.
//!
//! - `-Clink-dead-code` makes the compiler emit every function that is not generic, used or not,
//!   inlined or not, so nothing is missed for being unused.
//! - Generic functions exist only in their users; those that no sans-IO crate instantiates are not
//!   linked. What they could call is bounded by the other checks: no `unsafe`, no `std` paths.
//! - Undefined symbols of the crate's objects and its dependencies' are listed too, so that what
//!   the probe supplies for `core` and `alloc` is not taken for something the crate may call.
//! - The linked image is disassembled: no instruction that enters the kernel, or reads a clock or
//!   an entropy source, may be in it, so inline assembly is no way out either.

mod image;
mod probe;
mod run;

pub(crate) use run::run;
