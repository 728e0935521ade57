//! Requests from a file, and from the files that it names as their traffic.

use std::collections::HashMap;
use std::path::Path;

use anyhow::anyhow;
use towpath_qos::admission::file::{self, Asked, Measured, RequestFault, RequestsError};
use towpath_qos::spec::TSpec;
use towpath_qos::spec::wire::{Demand, Framing};
use towpath_qos::topology::Topology;

use crate::topology::{at_line, host, read_text};
use crate::tspec::specification;

/// Reads requests for channels of `topology`.
pub(crate) fn read(path: &Path, topology: &Topology) -> anyhow::Result<Vec<Asked>> {
    let text = read_text(path, file::BYTES_MAX)?;
    let beside = path.parent().unwrap_or(Path::new(""));
    // Many requests may name one file: it is read and measured once.
    let mut known: HashMap<Measured, Result<(TSpec, Demand), String>> = HashMap::new();
    let mut measure = |of: &Measured, framing: Option<&Framing>| {
        let path = beside.join(&of.file);
        let spec = || specification(&path, of, framing).map_err(|e| format!("{e:#}"));
        known.entry(of.clone()).or_insert_with(spec).clone()
    };
    file::parse(&text, topology, &mut measure).map_err(|e| {
        let said = e.to_string();
        // What could not be measured brings a hint of its own.
        let (what, hint) = said.split_once("\nhint: ").unwrap_or((&said, ""));
        let hint = if hint.is_empty() { hint_for(&e, topology) } else { hint.to_string() };
        anyhow!("{}", at_line(path, &text, e.line, what, &hint))
    })
}

fn hint_for(e: &RequestsError, topology: &Topology) -> String {
    match &e.fault {
        RequestFault::Syntax(_) | RequestFault::Empty => {
            "`towpath reserve --help` has an example".to_string()
        }
        RequestFault::UnknownHost(name) => {
            let known = host(topology, name).err().map(|e| e.to_string());
            known.and_then(|e| Some(e.split_once("\nhint: ")?.1.to_string())).unwrap_or_default()
        }
        fault => fault.hint().to_string(),
    }
}
