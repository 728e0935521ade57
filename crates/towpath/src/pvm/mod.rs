//! What a daemon does for programs that were written for PVM.
//!
//! | module | what it holds |
//! |---|---|
//! | [`hostfile`] | PVM's host files |
//! | [`library`] | our library in the place of PVM's |
//! | [`linkage`] | how a program is linked with PVM's library |

pub mod hostfile;
pub mod library;
pub mod linkage;
