//! A network as the tools of network calculus have it: servers with rate and latency, flows with
//! token buckets, in units of the file's own.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{anyhow, bail};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use towpath_bound::{Envelope, Flow, Multiplexing, Network, NetworkError, Rational, Server};

use crate::files::shown;
use crate::topology::{at_line, read_text};

/// Bytes of one file: published sets of cases are long.
const FILE_BYTES_MAX: usize = 64 << 20;

/// An exact number, as text: a whole one, a decimal, or a text such as `"25/2"`.
#[derive(Debug)]
struct Number(String);

impl Number {
    fn exact(&self, what: &str) -> anyhow::Result<Rational> {
        let Self(text) = self;
        Rational::from_str(text).map_err(|e| anyhow!("{what} {text:?}: {e}"))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text such as \"25/2\"")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        Ok(Number(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value.to_string()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Number, E> {
        Ok(Number(value.to_string()))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Number, E> {
        Ok(Number(value.to_string()))
    }

    /// The shortest decimal that reads as this double: what stood in the file. A whole number that
    /// a double does not hold must be a text.
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        if value.abs() >= 9_007_199_254_740_992.0 {
            let said = "a number of 2^53 or more that is no 64-bit integer: write it as a text";
            return Err(E::custom(said));
        }
        Ok(Number(value.to_string()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Number, E> {
        Ok(Number(value.to_string()))
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
        let network = network(&form.one, order).map_err(|e| e.in_file(path, &text, 0))?;
        return Ok(vec![Case { name, network }]);
    };
    let mut found = Vec::new();
    for value in cases {
        let id = value["id"].as_str().unwrap_or("a case without id").to_string();
        let chosen = only.map_or(value.get("servers").is_some(), |only| only == id);
        if chosen {
            // The case's own part of the file, as far as its name tells it.
            let from = || text.find(&format!("\"{id}\"")).unwrap_or(0);
            let form: CaseForm = serde_json::from_value(value).map_err(|e| {
                Wrong::new(&id, format!("case {id}: {e}")).in_file(path, &text, from())
            })?;
            let network = network(&form, order).map_err(|e| {
                Wrong { said: format!("case {id}: {}", e.said), ..e }.in_file(path, &text, from())
            })?;
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

/// What is wrong with a network, and the name it has to do with.
struct Wrong {
    said: String,
    about: String,
    /// The name stands twice, and the second one is wrong.
    again: bool,
}

impl Wrong {
    fn new(about: &str, said: String) -> Self {
        Self { said, about: about.to_string(), again: false }
    }

    /// With the line in which the name stands, from byte `from` of the file on.
    fn in_file(self, path: &Path, text: &str, from: usize) -> anyhow::Error {
        let quoted = format!("\"{}\"", self.about);
        let mut places = text[from..].match_indices(&quoted).map(|(at, _)| from + at);
        let first = places.next();
        let at = if self.again { places.next().or(first) } else { first };
        let line = towpath_qos::file::line_of(text, at.unwrap_or(from));
        let (said, hint) = self.said.split_once("\nhint: ").unwrap_or((&self.said, HINT));
        anyhow!("{}", at_line(path, text, line, said, hint))
    }
}

fn network(form: &CaseForm, order: Option<Order>) -> Result<Network, Wrong> {
    if form.servers.is_empty() || form.flows.is_empty() {
        return Err(Wrong::new("", "no servers or no flows".into()));
    }
    let order = order.or(form.multiplexing).unwrap_or(Order::Fifo);
    let mut servers = Vec::with_capacity(form.servers.len());
    let mut index = std::collections::HashMap::new();
    for server in &form.servers {
        let wrong = |e: anyhow::Error| Wrong::new(&server.id, e.to_string());
        if index.insert(server.id.as_str(), servers.len()).is_some() {
            let said = format!("duplicate server {:?}", server.id);
            return Err(Wrong { again: true, ..Wrong::new(&server.id, said) });
        }
        servers.push(of_server(server, order).map_err(wrong)?);
    }
    let mut names = std::collections::HashSet::new();
    let mut flows = Vec::with_capacity(form.flows.len());
    for flow in &form.flows {
        if !names.insert(flow.id.as_str()) {
            let said = format!("duplicate flow {:?}", flow.id);
            return Err(Wrong { again: true, ..Wrong::new(&flow.id, said) });
        }
        let known = |id: &String| {
            let place = index.get(id.as_str()).copied();
            place.ok_or_else(|| {
                Wrong::new(id, format!("flow {}: unknown server {id:?} in its path", flow.id))
            })
        };
        let path = flow.path.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let wrong = |e: anyhow::Error| Wrong::new(&flow.id, e.to_string());
        let what = |key: &str| format!("flow {}: {key}", flow.id);
        let rate = flow.rate.exact(&what("rate")).map_err(wrong)?;
        let burst = flow.burst.exact(&what("burst")).map_err(wrong)?;
        let arrival = Envelope::token_bucket(rate, burst);
        flows.push(Flow { class: flow.class, ..Flow::new(&flow.id, arrival, path) });
    }
    Network::new(servers, flows).map_err(|e| Wrong::new(about(&e), e.to_string()))
}

fn of_server(form: &ServerForm, order: Order) -> anyhow::Result<Server> {
    let what = |key: &str| format!("server {}: {key}", form.id);
    let (rate, latency) = (form.rate.exact(&what("rate"))?, form.latency.exact(&what("latency"))?);
    let built = Server::new(&form.id, rate, latency, order.into());
    let Some(line) = &form.line else { return Ok(built) };
    let [rate, frame] = line.as_slice() else {
        bail!("server {}: line has {} numbers, must have 2", form.id, line.len());
    };
    Ok(built.with_line(rate.exact(&what("line"))?, frame.exact(&what("line"))?))
}

/// The server or flow that a fault is about.
fn about(e: &NetworkError) -> &str {
    match e {
        NetworkError::TooMany { .. } => "",
        NetworkError::Negative { name, .. } => name,
        NetworkError::EmptyPath { flow }
        | NetworkError::UnknownServer { flow, .. }
        | NetworkError::Revisits { flow, .. } => flow,
        NetworkError::Cycle { server } | NetworkError::Unstable { server, .. } => server,
    }
}
