//! What a task keeps, a file for each part: they know nothing of [`Task`](crate::Task).

pub(crate) mod accounts;
pub(crate) mod channels;
pub(crate) mod directs;
pub(crate) mod ends;
pub(crate) mod news;
pub(crate) mod questions;
pub(crate) mod routes;
pub(crate) mod sending;
pub(crate) mod words;
pub(crate) mod yields;
