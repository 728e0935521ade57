//! The C and Fortran interfaces of PVM 3.4.6 on Towpath, built as `libpvm3.so.3`.
//!
//! Programs that were linked with PVM run with this library in its place. It exports no Rust
//! interface; what the calls mean stands in PVM's manual pages, and where Towpath differs in
//! docs/pvm.md.
//!
//! | module | what is there |
//! |---|---|
//! | `code`, `tid`, `trace_names` | numbers and names of the interface |
//! | `strided` | arrays of the program |
//! | `message`, `buffers` | messages: numbers in and out, encodings; their numbers |
//! | `library` | what the calls mean |
//! | `vm` | what a virtual machine does for a task |
//! | `abi`, `fortran` | the exported functions |
//! | `variadic` | functions with a variable number of arguments |
//! | `data` | the exported variables |
//!
//! **Invariant:** pointers of the program are followed in `abi`, `fortran`, `variadic` and
//! `strided`, and nowhere else but where memory was lent for sending (`message::body`).
//!
//! **Invariant:** no panic leaves an exported function.

#![allow(
    // Counts and lengths are C ints: what does not fit was refused when it was made.
    clippy::cast_possible_wrap,
    // Names are PVM's.
    clippy::missing_safety_doc
)]

mod abi;
mod buffers;
mod code;
mod complaint;
mod data;
mod fortran;
mod library;
mod message;
mod strided;
mod tid;
mod trace_names;
// Unit tests run on machines of the other byte order, too (`make big-endian`).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", not(test)))]
mod variadic;
mod vm;
