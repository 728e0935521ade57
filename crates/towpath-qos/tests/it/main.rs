//! Schedulers from outside.

mod schedulers;
