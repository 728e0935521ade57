//! Jobs that go on without whoever started them: where each is kept, how it stands.
//!
//! ```text
//! $TOWPATH_HOME/NAME/jobs/N/      one job
//! ├── source.K      its Kth source of items, as it was read when it began
//! ├── args          the command line's words, each with a NUL byte behind it
//! ├── environ       the variables it was given, the same way
//! ├── about         what it is, as JSON; written last: without it there is no job
//! ├── lock          held while its minder or its client runs
//! ├── items         how many it has
//! ├── joblog        the farm's own job log
//! ├── mark          how far its output and its job log go together ([`Mark`])
//! ├── unserved      its client found no daemon to work with
//! ├── waits         its minder waits for a daemon
//! ├── outcome       the exit status of its client, which has ended by itself
//! ├── again         from this byte of the job log on failures are results; others run again
//! ├── ended         how it ended, as JSON
//! └── out/ err/ said/    what it printed, and what was said about it ([`spool`])
//! ```
//! Beside them `jobs/last` has the last number that was given: none is given twice.
//! Times are seconds since the Unix epoch by this machine's clock.

pub mod minder;
pub mod spool;

mod job;

pub use job::{
    About, ENDED_MAX, Ended, JOB_VAR, JOBLOG, JOBS_MAX, Job, JobError, Making, Mark, SOURCE_MAX,
    State, all, find, make, now_s,
};
