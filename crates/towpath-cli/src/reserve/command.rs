//! `reserve`: what a network would promise, before anything is reserved.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::decide::decide;
use super::{report, requests};
use crate::files::{print, print_through, write_file};
use crate::topology::{diagram_of, load};
use crate::words::ns_text;

/// Exit status where a request was refused.
const REFUSED: u8 = 1;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath reserve --topology scenarios/topology/two-switches.toml \\
                  --what-if scenarios/topology/requests.toml
  towpath reserve --topology net.toml --what-if requests.toml --svg loads.svg
  towpath reserve --topology net.toml --what-if requests.toml --json | jq '.requests[].answer'

A file of requests, decided in their order on an empty network:

  [framing]                      # how messages become wire bits; all keys are optional
  counts = \"messages\"            # or \"wire\": sizes are wire bytes already
  mtu_bytes = 1500
  train_frames = 1               # frames that leave in one piece (GSO)

  [[request]]
  name = \"camera\"
  from = \"h1\"
  to = \"h4\"
  delay_ns = 5_000_000           # a bound on delay; jitter_ns bounds its variation
  tspec = { kind = \"token_bucket\", rate_bps = 8_000_000, burst_bytes = 20_000,
            peak_bps = 20_000_000, min_bytes = 200, max_bytes = 1392 }

  [[request]]
  name = \"backup\"
  from = \"h2\"
  to = \"h4\"
  service = \"share\"              # bounded, statistical (with late_ppm), share or best_effort
  set = \"night\"                  # all of a set are reserved, or none
  tspec = { kind = \"sigma_rho\", sigma_bytes = 64_000, rho_bps = 10_000_000 }

Kinds of tspec: spaced, averaged, sigma_rho, token_bucket, d_bind, peak_mean, schedule; in their
place rsvp, atm or tenet in those models' own parameters. A class (rsvp_guaranteed, atm_cbr,
tenet_statistical, 8021p_5, ...) sets the service. count = N asks for N alike. All keys with an
example each: docs/admission.md and scenarios/topology/requests.toml.

Exit status: 0 everything is admitted; 1 something is refused; 255 a file is not what it should
be (its line is named), or cannot be read.")]
pub(crate) struct ReserveArgs {
    /// The network, in TOML; see `towpath topology show --help`
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// The requests, in TOML
    #[arg(long, value_name = "FILE")]
    what_if: PathBuf,
    /// Take all requests as one set: together or not at all
    #[arg(long)]
    collective: bool,
    /// Show every promise hop by hop (otherwise up to 8 requests)
    #[arg(long)]
    hops: bool,
    /// Draw the network with what is reserved
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ReserveArgs) -> anyhow::Result<ExitCode> {
    if args.topology.as_os_str() == "-" && args.what_if.as_os_str() == "-" {
        bail!("--topology and --what-if cannot both be standard input");
    }
    let topology = load(&args.topology)?;
    let asked = requests::read(&args.what_if, &topology)?;
    let decided = decide(topology.clone(), asked, args.collective);
    if let Some(path) = &args.svg {
        let share = |port| decided.share(&topology, port);
        let title = format!(
            "Reserved: {} channels admitted, {} refused",
            decided.admitted(),
            decided.refused()
        );
        write_file(path, diagram_of(&topology, Some(&share)).svg(&title))?;
    }
    eprintln!("decided in {}", ns_text(u64::try_from(decided.took_ns).unwrap_or(u64::MAX)));
    if args.json {
        print_through(|out| report::write_json(out, &topology, &decided))?;
    } else {
        print(&report::text(&topology, &decided, args.hops))?;
    }
    Ok(if decided.refused() > 0 { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}
