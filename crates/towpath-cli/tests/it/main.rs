//! The `towpath` command from outside: one test binary. What changes its own process for all
//! others, or must be alone, is a file beside this folder.

mod applications;
mod daemon_limits;
mod farm;
mod faults;
mod flood;
mod hosts;
mod install;
mod interrupted;
mod jobs;
mod large;
mod maintenance;
mod measured;
mod media;
mod metrics;
mod plan;
mod plan_buffer;
mod plan_conventions;
mod plan_process;
mod pvm;
mod reservation;
mod routes;
mod run;
mod safety;
mod sim_vm;
mod slurm;
mod ssh;
mod start;
mod stream;
mod support;
mod survival;
mod tap;
mod tokens;
mod transfer;
mod undone;
mod voters;
