//! Others who do the same, where they are installed: MPI is measured in the same rounds. Its
//! program (`mpi.c`) is compiled by the MPI that is there and started by its `mpirun`, once a row
//! and round; it does what our members do, and writes its times into a file.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::args::Common;
use super::counts::Sent;
use super::sample::{Sample, now_ns};
use super::world::Process;

const PROGRAM: &str = include_str!("mpi.c");
/// Longest time for one row of a peer, its own measuring time aside.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Most bytes of a peer's complaint that are shown.
const COMPLAINT_MAX: usize = 300;

/// An MPI that works here.
pub(super) struct Mpi {
    dir: tempfile::TempDir,
    cpus: String,
}

/// What one run of a peer took.
pub(super) struct Ran {
    /// What rank 0 wrote.
    pub(super) ns: Vec<u64>,
    /// Clocks of the machine before it was started and after it had ended.
    pub(super) begin: u64,
    pub(super) end: u64,
}

fn there(program: &str) -> bool {
    let shell = format!("command -v {program}");
    let found = Command::new("sh").args(["-c", &shell]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The peer, if it is there and works, and a line of the report for each.
pub(super) fn find(common: &Common) -> (Option<Mpi>, Vec<String>) {
    let pvm = if there("pvm") {
        "PVM: measured by `cargo bench -p towpath-pvm3 --bench beside_pvm`, not here."
    } else {
        "PVM: `pvm` is not installed."
    };
    let mpi = if common.hosts > 1 {
        Err("measured on one host only".to_string())
    } else if !there("mpirun") || !there("mpicc") {
        Err("`mpirun` and `mpicc` are not both installed".to_string())
    } else {
        Mpi::build(common).map_err(|e| format!("left out, it does not work here: {e:#}"))
    };
    let line = match &mpi {
        Ok(_) => format!("MPI: {}.", Mpi::version()),
        Err(why) => format!("MPI: {why}."),
    };
    (mpi.ok(), vec![line, pvm.to_string()])
}

impl Mpi {
    fn build(common: &Common) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("tpmpi").tempdir()?;
        std::fs::write(dir.path().join("mpi.c"), PROGRAM)?;
        let mut cc = Command::new("mpicc");
        cc.args(["-O2", "-o", "peer", "mpi.c"]).current_dir(dir.path());
        let built = cc.stdin(Stdio::null()).output()?;
        if !built.status.success() {
            bail!("mpicc: {}", complaint(&built.stderr));
        }
        let list: Vec<String> = common.list().iter().map(usize::to_string).collect();
        let cpus = if list.is_empty() { "none".to_string() } else { list.join(",") };
        let mpi = Self { dir, cpus };
        mpi.run(2, &["echo", "16", "0.01"], Duration::ZERO)?;
        Ok(mpi)
    }

    /// What `mpirun --version` calls itself.
    fn version() -> String {
        let said = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output();
        let said = said.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
        let first = said.unwrap_or_default().lines().next().unwrap_or_default().trim().to_string();
        if first.is_empty() { "an `mpirun` without a version".to_string() } else { first }
    }

    /// Runs the peer's program as so many processes; `time` is what it measures for.
    pub(super) fn run(&self, ranks: u32, args: &[&str], time: Duration) -> anyhow::Result<Ran> {
        self.run_in(ranks, args, time, &[])
    }

    fn run_in(
        &self,
        ranks: u32,
        args: &[&str],
        time: Duration,
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Ran> {
        let at = |name: &str| self.dir.path().join(name);
        let errors = std::fs::File::create(at("errors"))?;
        let mut c = Command::new("mpirun");
        c.args(["-n", &ranks.to_string()]).arg(at("peer")).arg(at("times"));
        c.arg(&self.cpus).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        // More processes than processors, and as root in containers: what Open MPI asks for.
        c.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        c.env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .env("OMPI_MCA_hwloc_base_binding_policy", "none");
        c.envs(environment.iter().copied());
        let begin = now_ns();
        let mut process = Process(c.spawn().context("cannot start mpirun")?);
        let patience = Instant::now() + PATIENCE + time;
        let status = loop {
            if let Some(status) = process.0.try_wait()? {
                break status;
            }
            if Instant::now() > patience {
                bail!("mpirun has not ended after {} s", (PATIENCE + time).as_secs());
            }
            std::thread::sleep(LOOK);
        };
        let end = now_ns();
        if !status.success() {
            bail!("mpirun: {}", complaint(&std::fs::read(at("errors"))?));
        }
        Ok(Ran { ns: times(&at("times"))?, begin, end })
    }

    /// A sample of a row that rank 0 wrote the times of.
    pub(super) fn sample(
        &self,
        ranks: u32,
        args: &[&str],
        time: Duration,
    ) -> anyhow::Result<Sample> {
        Ok(Sample::of(self.run(ranks, args, time)?.ns))
    }

    /// What all processes send in one of so many exchanges, by Open MPI's monitoring, what
    /// collectives send within included. It takes time, so none is measured. None where this MPI
    /// has no such thing.
    pub(super) fn sent(&self, ranks: u32, count: u32, steps: &[&str]) -> Option<Sent> {
        let prefix = self.dir.path().join("sent");
        let file = |rank: u32| prefix.with_extension(format!("{rank}.prof"));
        (0..ranks).for_each(|rank| drop(std::fs::remove_file(file(rank))));
        let environment = [
            ("OMPI_MCA_pml_monitoring_enable", "1"),
            ("OMPI_MCA_pml_monitoring_enable_output", "3"),
            ("OMPI_MCA_pml_monitoring_filename", prefix.to_str()?),
        ];
        let count_text = count.to_string();
        let words: Vec<&str> =
            ["only", &count_text].into_iter().chain(steps.iter().copied()).collect();
        self.run_in(ranks, &words, Duration::ZERO, &environment).ok()?;
        let mut all = Sent::default();
        for rank in 0..ranks {
            all.add(sent_to_each(&std::fs::read_to_string(file(rank)).ok()?)?);
        }
        Some(all.per(count))
    }
}

/// What one process has sent, by what the monitoring wrote of it: a line for each receiver, such as
/// `E  0  1  960 bytes  10 msgs sent  …` (columns apart by tabs; `I` instead of `E` in some).
fn sent_to_each(text: &str) -> Option<Sent> {
    let mut all = Sent::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let ["E" | "I", _, _, bytes, messages, ..] = fields[..] else { continue };
        let number = |field: &str, unit: &str| field.strip_suffix(unit)?.parse::<u64>().ok();
        let messages = number(messages, " msgs sent")?;
        all.add(Sent { messages: messages as f64, bytes: number(bytes, " bytes")? as f64 });
    }
    Some(all)
}

fn times(path: &Path) -> anyhow::Result<Vec<u64>> {
    let text = std::fs::read_to_string(path).context("the peer wrote no times")?;
    let ns = text.lines().map(str::parse).collect::<Result<Vec<_>, _>>();
    let ns = ns.context("the peer wrote something else than times")?;
    if ns.is_empty() {
        bail!("the peer wrote no times");
    }
    Ok(ns)
}

/// The first line that says something, not too much of it.
fn complaint(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find(|l| l.chars().any(char::is_alphanumeric)).unwrap_or("no reason");
    line.trim().chars().take(COMPLAINT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_and_there_are_some() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            times(file.path()).map_err(|e| format!("{e:#}"))
        };
        assert_eq!(of("12\n7\n").unwrap(), [12, 7]);
        assert!(of("").unwrap_err().contains("no times"));
        assert!(of("12\nsoon\n").unwrap_err().contains("something else"));
        assert!(of("-5\n").is_err());
    }

    #[test]
    fn what_monitoring_wrote_is_added_and_nothing_else_of_it() {
        let text = "# POINT TO POINT\nE\t0\t1\t960 bytes\t10 msgs sent\t0,10\n\
                    E\t0\t2\t1920 bytes\t10 msgs sent\t0,10\n# COLLECTIVES\n\
                    C\t0\t1\t960 bytes\t10 msgs sent\nA2A\t0\t2880 bytes\t10 msgs sent\n";
        let sent = sent_to_each(text).unwrap().per(10);
        assert_eq!(sent, Sent { messages: 2.0, bytes: 288.0 });
        assert_eq!(sent_to_each("E\t0\t1\tmany bytes\t10 msgs sent\n"), None);
        assert_eq!(sent_to_each(""), Some(Sent::default()));
    }

    #[test]
    fn a_complaint_is_its_first_line_with_words() {
        let said = b"-----\n  mpirun was unable to start \nmore\n";
        assert_eq!(complaint(said), "mpirun was unable to start");
        assert_eq!(complaint(b"--\n"), "no reason");
    }
}
