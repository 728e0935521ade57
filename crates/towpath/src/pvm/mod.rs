//! What a daemon does for programs that were written for PVM.
//!
//! | module | what it holds |
//! |---|---|
//! | [`hostfile`] | PVM's host files |
//! | [`library`] | our library in the place of PVM's |
//!
//! What the console and the library know as well is in `towpath_pvm`.

pub mod hostfile;
pub mod library;
