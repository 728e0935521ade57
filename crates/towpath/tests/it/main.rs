//! Tasks, teams and streams on real daemons that run in this process.

mod broken_teams;
#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;
mod ends;
mod examples;
mod lent;
mod messages;
mod spawn;
mod started;
mod streams;
mod support;
mod teams;
