//! PVM's programs, calls and codes on this library.

mod abi;
mod as_pvm;
mod codes;
mod compared;
mod differential;
mod kept;
mod programs;
mod roles;
mod support;
mod traced;
mod where_pvm_dies;
mod within;
