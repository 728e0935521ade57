//! A network as the tools of network calculus have it: servers with rate and latency, flows with
//! token buckets, in units of the file's own.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use towpath_qos::bound::{Envelope, Flow, Multiplexing, Network, Rational, Server};

use crate::files::shown;
use crate::topology::{at_line, read_text};

/// Bytes of one file: published sets of cases are long.
const FILE_BYTES_MAX: usize = 64 << 20;

/// An exact number: a whole one, a decimal, or a text such as `"25/2"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Decimal(f64),
    Text(String),
}

impl Number {
    fn exact(&self, what: &str) -> anyhow::Result<Rational> {
        let text = match self {
            Self::Whole(value) => value.to_string(),
            // The shortest decimal that reads as this double: what stood in the file.
            Self::Decimal(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        };
        Rational::from_str(&text).map_err(|e| anyhow!("{what} {text:?}: {e}"))
    }
}

#[derive(Debug, Deserialize)]
struct ServerForm {
    id: String,
    rate: Number,
    latency: Number,
    /// What the line behind it carries: rate, and largest frame.
    line: Option<Vec<Number>>,
}

#[derive(Debug, Deserialize)]
struct FlowForm {
    id: String,
    rate: Number,
    burst: Number,
    path: Vec<String>,
    #[serde(default)]
    class: u8,
}

/// Keys that are not known are passed over: published cases carry their figures beside them.
#[derive(Debug, Deserialize)]
struct CaseForm {
    id: Option<String>,
    multiplexing: Option<Order>,
    #[serde(alias = "server", default)]
    servers: Vec<ServerForm>,
    #[serde(alias = "flow", default)]
    flows: Vec<FlowForm>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "a network, or an object with cases")]
struct FileForm {
    #[serde(alias = "case")]
    cases: Option<Vec<serde_json::Value>>,
    #[serde(flatten)]
    one: CaseForm,
}

/// In which order servers take what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// First come, first served
    Fifo,
    /// Any order between flows
    #[serde(alias = "arbitrary")]
    Blind,
    /// The lowest class first
    StaticPriority,
}

impl From<Order> for Multiplexing {
    fn from(order: Order) -> Self {
        match order {
            Order::Fifo => Self::Fifo,
            Order::Blind => Self::Blind,
            Order::StaticPriority => Self::StaticPriority,
        }
    }
}

/// A named network.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) network: Network,
}

/// Reads one network, or the networks among the cases of a file; `only` one of them.
pub(super) fn read(
    path: &Path,
    order: Option<Order>,
    only: Option<&str>,
) -> anyhow::Result<Vec<Case>> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    let file = shown(path);
    let form: FileForm = if is_json(path, &text) {
        serde_json::from_str(&text).map_err(|e| {
            let what = format!("no JSON of a network: {}", without_place(&e));
            anyhow!("{}", at_line(path, &text, e.line(), &what, HINT))
        })?
    } else {
        towpath_qos::file::read(&text, FILE_BYTES_MAX).map_err(|e| {
            let what = format!("no TOML of a network: {}", e.message);
            anyhow!("{}", at_line(path, &text, e.line, &what, HINT))
        })?
    };
    let Some(cases) = form.cases else {
        let name = form.one.id.clone().unwrap_or_else(|| file.clone());
        let network = network(&form.one, order).with_context(|| format!("in {file}"))?;
        return Ok(vec![Case { name, network }]);
    };
    let mut found = Vec::new();
    for value in cases {
        let id = value["id"].as_str().unwrap_or("a case without id").to_string();
        let chosen = only.map_or(value.get("servers").is_some(), |only| only == id);
        if chosen {
            let form: CaseForm =
                serde_json::from_value(value).with_context(|| format!("case {id} in {file}"))?;
            let network = network(&form, order).with_context(|| format!("case {id} in {file}"))?;
            found.push(Case { name: id, network });
        }
    }
    match (found.is_empty(), only) {
        (false, _) => Ok(found),
        (true, Some(only)) => bail!("{file} has no case {only:?}"),
        (true, None) => bail!("{file} has no case with servers"),
    }
}

/// By its name, or by its beginning: TOML has tables in brackets, but no list before any key.
fn is_json(path: &Path, text: &str) -> bool {
    let first = text.trim_start().as_bytes();
    let list = first.first() == Some(&b'[') && {
        let next = text.trim_start()[1..].trim_start().as_bytes().first().copied();
        matches!(next, Some(b'{' | b']' | b'"'))
    };
    path.extension().is_some_and(|e| e == "json") || first.first() == Some(&b'{') || list
}

/// What a JSON parser says, without the line and column behind it.
fn without_place(e: &serde_json::Error) -> String {
    let said = e.to_string();
    said.rsplit_once(" at line ").map_or(said.clone(), |(what, _)| what.to_string())
}

const HINT: &str = "`towpath bound --help` has an example";

fn network(form: &CaseForm, order: Option<Order>) -> anyhow::Result<Network> {
    if form.servers.is_empty() || form.flows.is_empty() {
        bail!("no servers or no flows\nhint: {HINT}");
    }
    let order = order.or(form.multiplexing).unwrap_or(Order::Fifo);
    let mut servers = Vec::with_capacity(form.servers.len());
    let mut index = std::collections::HashMap::new();
    for server in &form.servers {
        let what = |key: &str| format!("server {}: {key}", server.id);
        let (rate, latency) =
            (server.rate.exact(&what("rate"))?, server.latency.exact(&what("latency"))?);
        let mut built = Server::new(&server.id, rate, latency, order.into());
        if let Some(line) = &server.line {
            let [rate, frame] = line.as_slice() else {
                bail!("server {}: line has {} numbers, must have 2", server.id, line.len());
            };
            built = built.with_line(rate.exact(&what("line"))?, frame.exact(&what("line"))?);
        }
        if index.insert(server.id.as_str(), servers.len()).is_some() {
            bail!("duplicate server {:?}", server.id);
        }
        servers.push(built);
    }
    let mut names = std::collections::HashSet::new();
    let mut flows = Vec::with_capacity(form.flows.len());
    for flow in &form.flows {
        let what = |key: &str| format!("flow {}: {key}", flow.id);
        if !names.insert(flow.id.as_str()) {
            bail!("duplicate flow {:?}", flow.id);
        }
        let known = |id: &String| {
            let place = index.get(id.as_str()).copied();
            place.ok_or_else(|| anyhow!("flow {}: unknown server {id:?} in its path", flow.id))
        };
        let path = flow.path.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let rate = flow.rate.exact(&what("rate"))?;
        let arrival = Envelope::token_bucket(rate, flow.burst.exact(&what("burst"))?);
        flows.push(Flow { class: flow.class, ..Flow::new(&flow.id, arrival, path) });
    }
    Ok(Network::new(servers, flows)?)
}
