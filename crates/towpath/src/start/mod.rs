//! Starting a virtual machine on many machines.
//!
//! | module | what it holds |
//! |---|---|
//! | [`hostlist`] | lists of names in Slurm's compressed form |
//! | [`hostfile`] | hosts and their options from a file |
//! | [`machines`] | where the list of machines comes from: file, environment, Slurm |
//! | [`launch`] | one host started on its machine by ssh or srun |
//! | [`parallel`] | many things at once, but not too many |
//! | [`processors`] | how many processors this daemon may use |
//! | [`limits`] | descriptors: many for the daemon, the usual number for tasks |
//! | [`cgroup`] | a group of its own for a daemon and what it starts |

pub mod cgroup;
pub mod hostfile;
pub mod hostlist;
pub mod launch;
pub mod limits;
pub mod machines;
pub mod parallel;
pub mod processors;
