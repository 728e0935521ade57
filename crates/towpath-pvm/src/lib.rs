//! What daemons, the console and the library that takes the place of PVM's know of PVM alike.
//!
//! | module | what it holds |
//! |---|---|
//! | [`names`] | PVM's names of architectures, and where it looked for programs |
//! | [`linkage`] | how a program is linked with PVM's library |
//! | [`trace`] | names of PVM's trace events and of the data in them |
#![forbid(unsafe_code)]

pub mod linkage;
pub mod names;
pub mod trace;
