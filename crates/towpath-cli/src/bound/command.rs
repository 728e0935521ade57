//! `bound`: worst-case delays by network calculus.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use towpath_bound::{Analysis, Bound, Method, Network, NetworkError};

use super::case::{self, Order};
use super::convert::convert;
use super::report::{self, Row, Units};
use crate::files::print;
use crate::reserve;
use crate::topology::load;
use crate::words::bps_text;

/// Flows up to which every method is asked unless a method is chosen.
const ALL_METHODS_FLOWS: usize = 64;
/// Exit status where a flow has no bound.
const UNBOUNDED: u8 = 1;

/// Methods by the names that the field uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Family {
    /// All valid ones
    All,
    /// Total flow analysis
    Tfa,
    /// Separated flow analysis
    Sfa,
    /// Pay multiplexing only once (any order between flows)
    Pmoo,
    /// Linear program of polynomial size (first come, first served)
    Plp,
}

impl Family {
    pub(super) const SINGLE: [Self; 4] = [Self::Tfa, Self::Sfa, Self::Pmoo, Self::Plp];

    pub(super) fn has(self, method: Method) -> bool {
        let of = match method {
            Method::Tfa(_) | Method::TfaPerHop => Self::Tfa,
            Method::Sfa(_) | Method::SfaPerHop => Self::Sfa,
            Method::Pmoo(_) => Self::Pmoo,
            Method::FifoProgram => Self::Plp,
        };
        self == Self::All || self == of
    }

    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::All => "ALL",
            Self::Tfa => "TFA",
            Self::Sfa => "SFA",
            Self::Pmoo => "PMOO",
            Self::Plp => "PLP",
        }
    }

    /// Where a method that bounds nothing would.
    const fn needs(self) -> &'static str {
        match self {
            Self::All | Self::Tfa | Self::Sfa => "tfa and sfa hold for every order of service",
            Self::Pmoo => "pmoo holds for every order of service, for up to 64 flows",
            Self::Plp => {
                "plp is for servers that are first come, first served (--multiplexing fifo, \
                 fcfs ports); tfa, sfa and pmoo hold for any order"
            }
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Tfa => "tfa",
            Self::Sfa => "sfa",
            Self::Pmoo => "pmoo",
            Self::Plp => "plp",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath bound --topology scenarios/topology/two-switches.toml \\
                --flows scenarios/topology/requests.toml --admitted
  towpath bound --topology net.toml --flows requests.toml --method tfa --explain
  towpath bound scenarios/bound/tandem.toml --explain
  towpath bound netcalc_cases.json --case nc-s-sinktree4 --multiplexing fifo --json

A network of servers, in TOML or JSON, in any consistent units; numbers may be fractions:

  multiplexing = \"fifo\"              # or \"blind\": any order; or \"static_priority\"

  [[server]]
  id = \"s0\"
  rate = 20
  latency = 20
  line = [100, 1]                    # optional: rate and largest frame of the line behind it

  [[flow]]
  id = \"f0\"
  rate = 5
  burst = \"25/2\"
  path = [\"s0\"]

In JSON the lists are `servers` and `flows`; a file with a list of `cases` holds several networks.
With --topology, ports are servers: first come, first served where the port is, and for any order
between channels where it is not. The figures hold together only if all the flows of the file are
there; what is promised to a channel by `towpath reserve` holds whoever comes later.

Methods by order of service: tfa and sfa for every order; pmoo for every order, of up to 64 flows;
plp where servers are first come, first served. Every figure is exact or rounded up; where methods
differ, the least is the bound.

Exit status: 0; 1 a flow has no bound; 255 more than a server serves, paths in a cycle, or a file
that is not what it should be.")]
pub(crate) struct BoundArgs {
    /// A network of servers and flows; `-` is standard input
    #[arg(required_unless_present = "topology", conflicts_with = "topology")]
    network: Option<PathBuf>,
    /// A topology, whose channels are given by --flows
    #[arg(long, value_name = "FILE", requires = "flows")]
    topology: Option<PathBuf>,
    /// Channels, as for `towpath reserve --what-if`
    #[arg(long, value_name = "FILE", requires = "topology")]
    flows: Option<PathBuf>,
    /// Only the channels that `towpath reserve` would admit, in their order
    #[arg(long, requires = "topology")]
    admitted: bool,
    /// Only this case of a file with cases
    #[arg(long, value_name = "ID", requires = "network")]
    case: Option<String>,
    /// Order of service, whatever the file says
    #[arg(long, value_name = "ORDER", requires = "network")]
    multiplexing: Option<Order>,
    /// Ask these methods (default: all up to 64 flows, TFA and SFA above)
    #[arg(long, value_name = "METHOD")]
    method: Option<Family>,
    /// Tell how each bound came about
    #[arg(long)]
    explain: bool,
    /// Print one JSON object per network
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &BoundArgs) -> anyhow::Result<ExitCode> {
    let mut unbounded = false;
    if let (Some(topology), Some(flows)) = (&args.topology, &args.flows) {
        let topology = load(topology)?;
        let mut asked = reserve::read(flows, &topology)?;
        if args.admitted {
            asked = reserve::admitted(&topology, asked);
        }
        let converted = convert(&topology, &asked).map_err(|e| overfull(e, args.admitted))?;
        if converted.left_out > 0 {
            eprintln!(
                "note: {} requests left out: bounded ones go before them",
                converted.left_out
            );
        }
        unbounded = tell(args, "topology", &converted.network, &converted.fixed, Units::Bits)?;
    } else if let Some(path) = &args.network {
        let cases = case::read(path, args.multiplexing, args.case.as_deref())?;
        for (k, case) in cases.iter().enumerate() {
            if cases.len() > 1 && !args.json {
                print(&format!("{}{}\n", if k == 0 { "" } else { "\n" }, case.name))?;
            }
            unbounded |= tell(args, &case.name, &case.network, &[], Units::Own)?;
        }
    } else {
        bail!("nothing to bound\nhint: give a network, or --topology with --flows");
    }
    Ok(if unbounded { ExitCode::from(UNBOUNDED) } else { ExitCode::SUCCESS })
}

/// What is too much for a port, in its unit, and what to do about it.
fn overfull(e: anyhow::Error, admitted: bool) -> anyhow::Error {
    match e.downcast_ref() {
        Some(NetworkError::Unstable { server, by }) => {
            let by = by.ceil_u64().map_or_else(|| by.to_string(), bps_text);
            let hint = if admitted { "" } else { "\nhint: --admitted leaves out what is refused" };
            anyhow!("port {server}: its channels send {by} more than it in the long run{hint}")
        }
        _ => e,
    }
}

/// Bounds every flow; whether one has none.
fn tell(
    args: &BoundArgs,
    name: &str,
    network: &Network,
    fixed: &[Duration],
    units: Units,
) -> anyhow::Result<bool> {
    let analysis = Analysis::new(network)?;
    let rows = rows(args, &analysis, fixed);
    if let Some(family) = args.method
        && !analysis.methods().iter().any(|method| family.has(*method))
    {
        bail!("{name}: {} has no bound here\nhint: {}", family.name(), family.needs());
    }
    print(&match (args.json, args.explain) {
        (true, _) => format!("{}\n", {
            let mut value = report::as_json(name, &analysis, &rows, units);
            value["version"] = json!(1);
            value
        }),
        (false, false) => report::table(&analysis, &rows, units).text(),
        (false, true) => {
            report::table(&analysis, &rows, units).text()
                + &report::explain(&analysis, &rows, units)
        }
    })?;
    Ok(rows.iter().any(|row| row.least().is_none()))
}

fn rows(args: &BoundArgs, analysis: &Analysis, fixed: &[Duration]) -> Vec<Row> {
    let flows = analysis.network().flows();
    let fast = args.method.is_none() && flows.len() > ALL_METHODS_FLOWS;
    if fast {
        eprintln!("note: {} flows: only TFA and SFA; --method all asks every one", flows.len());
    }
    let family = args.method.unwrap_or(Family::All);
    let mut methods = analysis.methods();
    methods.retain(|method| family.has(*method));
    let least = if fast { analysis.fast_of_all() } else { analysis.of_all_by(&methods) };
    let asked = |tried: Vec<Bound>| tried.into_iter().filter(|b| family.has(b.method)).collect();
    let row = |(flow, least): (usize, Result<_, _>)| {
        let tried = least.map_or(Vec::new(), |l: towpath_bound::Least| l.tried);
        Row {
            flow,
            name: flows[flow].name.clone(),
            fixed: fixed.get(flow).copied().unwrap_or_default(),
            tried: asked(tried),
        }
    };
    least.into_iter().enumerate().map(row).collect()
}
