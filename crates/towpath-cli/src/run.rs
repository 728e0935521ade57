//! `run`: a command on one host, as if it ran here.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use towpath::VmDir;
use towpath::protocol::{Reply, Request, TaskEvent};
use towpath_vm::{Ending, HostState, Stream, TaskSpec};

use crate::control::{connect, find_host, host_table};

/// Bytes of output under way.
const WINDOW: u32 = 256 * 1024;
/// How often an interrupt is looked for.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath run --host h2 -- uname -a
  towpath run --host h3 --env LANG=C --workdir /tmp -- sh -c 'pwd; exit 3'; echo $?

Exit status: the command's own; 128+n if signal n ended it; 124 after --timeout; 127 where there
is no such program, 126 where it cannot be run; 255 where its host was lost or Towpath failed.
Ctrl-C is passed on; a third one kills. Standard input is empty.")]
pub(crate) struct RunArgs {
    /// Which host: h2, 2, or its name (default: the first one)
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Set a variable, or pass on one of ours
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Working directory (default: this one)
    #[arg(long, value_name = "DIR")]
    workdir: Option<OsString>,
    /// End it after so long, such as 500ms, 30s, 2m or 1h
    #[arg(long, value_name = "DURATION", value_parser = crate::farm::duration)]
    timeout: Option<Duration>,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

fn spec(args: &RunArgs) -> anyhow::Result<TaskSpec> {
    let bytes = |s: &OsString| s.clone().into_vec();
    let timeout_ms = match args.timeout.map(|t| u32::try_from(t.as_millis())) {
        None => 0,
        Some(Ok(ms)) => ms.max(1),
        Some(Err(_)) => bail!("--timeout is above 1193 hours, the limit"),
    };
    let cwd = match &args.workdir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().context("this directory")?.into_os_string(),
    };
    let mut env = Vec::new();
    for setting in &args.env {
        let setting = bytes(setting);
        if let Some(at) = setting.iter().position(|b| *b == b'=') {
            env.push((setting[..at].to_vec(), setting[at + 1..].to_vec()));
        } else {
            let name = OsString::from_vec(setting.clone());
            let value = std::env::var_os(&name);
            let value = value.with_context(|| format!("--env {}: not set here", name.display()))?;
            env.push((setting, value.into_vec()));
        }
    }
    Ok(TaskSpec {
        program: bytes(&args.command[0]),
        args: args.command[1..].iter().map(bytes).collect(),
        env,
        cwd: cwd.into_vec(),
        queued: false,
        timeout_ms,
        output_window: WINDOW,
        input_window: 0,
    })
}

pub(crate) fn run(vm: &VmDir, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let mut spec = spec(args)?;
    let mut client = connect(vm)?;
    let hosts = host_table(&mut client)?;
    let host = match &args.host {
        Some(wanted) => find_host(&hosts, wanted)?,
        None => hosts.iter().find(|h| h.state == HostState::Up).context("no host is up")?.clone(),
    };
    let interrupts = Arc::new(AtomicUsize::new(0));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let interrupts = interrupts.clone();
        let count = move || {
            interrupts.fetch_add(1, Ordering::Relaxed);
        };
        // The handler only counts.
        signal_hook::iterator::Signals::new([signal])
            .map(|mut s| std::thread::spawn(move || s.forever().for_each(|_| count())))?;
    }
    spec.env.push((b"TOWPATH_HOST".to_vec(), host.name.clone().into_bytes()));
    client.sender.send(&Request::Spawn { tag: 1, host: host.id, spec })?;
    let mut seen = 0;
    loop {
        let count = interrupts.load(Ordering::Relaxed);
        if count > seen {
            seen = count;
            let signal = if count > 2 { 9 } else { 2 };
            client.sender.send(&Request::Kill { tag: 1, signal })?;
        }
        let Some(Reply::Task { event, .. }) = client.receiver.next(Some(TICK))? else { continue };
        match event {
            TaskEvent::Started { .. } | TaskEvent::InputTaken(_) => {}
            TaskEvent::Output { stream, bytes } => {
                if write(stream, &bytes).is_err() {
                    // Nobody reads any more: as if the command had got the signal itself.
                    client.sender.send(&Request::Kill { tag: 1, signal: 13 })?;
                }
                client.sender.send(&Request::Credit { tag: 1, bytes: bytes.len() as u32 })?;
            }
            TaskEvent::Ended(exit) => {
                if !matches!(exit.ending, Ending::Exited(_)) {
                    eprintln!("{}: {}", host.id, exit.ending);
                }
                return Ok(ExitCode::from(exit.ending.shell_status()));
            }
        }
    }
}

fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Out => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Stream::Err => io::stderr().write_all(bytes),
    }
}
