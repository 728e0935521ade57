//! Tasks and a daemon that the test plays: what real daemons do seldom or never.

pub(crate) mod actors;
pub(crate) mod stage;

mod arming;
mod blocks;
mod calls;
mod carried;
mod casts;
mod channels;
mod choosing;
mod filling;
mod limits;
mod looks;
mod meeting;
mod members;
mod messages;
mod panels;
mod questions;
mod queued;
mod rings;
mod streams;
mod teams;
mod values;
