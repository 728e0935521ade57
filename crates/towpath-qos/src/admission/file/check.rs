//! From the form of a file to requests over a topology.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::ByteSize;

use super::fault::{RequestFault, RequestsError};
use super::form::{Counts, FramingForm, IpForm, Measured, RequestForm, RequestsForm};
use super::wish::{At, Want, class, place, want};
use crate::file;
use crate::spec::service::{self, AtmCells, Marks, TenetWish};
use crate::spec::wire::{Demand, Framing, FramingError, Ip};
use crate::spec::{TSpec, TSpecForm};
use crate::topology::{NodeId, Topology};

/// Largest file: 64 MiB.
pub const BYTES_MAX: usize = 64 << 20;
/// Channels of one file, `count` counted.
pub const CHANNELS_MAX: usize = 200_000;

/// A channel that is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Unique in its file; one of `count` has its number behind it.
    pub name: String,
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Its traffic as it was given: one for all of a `count`.
    pub spec: Arc<TSpec>,
    /// Its traffic in wire bits.
    pub demand: Demand,
    /// How `demand` follows from `spec`; `None` where another file was measured packet by packet,
    /// and for a schedule, of whose thousands of points nobody writes a part down.
    pub units: Option<Units>,
    /// What it wants.
    pub want: Want,
    /// The class it was asked for by, and what that is here.
    pub class: Option<(String, Marks)>,
    /// Together or not at all with others of this set.
    pub set: Option<String>,
    /// Whose it is.
    pub owner: u64,
}

/// What a specification in a file of requests counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// `None`: wire bytes.
    framing: Option<Framing>,
    message_min: ByteSize,
}

impl Units {
    fn demand(&self, spec: &TSpec) -> Demand {
        match &self.framing {
            Some(framing) => framing.demand(spec, self.message_min),
            None => Demand::of_spec(spec, self.message_min),
        }
    }
}

impl Asked {
    /// So many parts of 1024 of its traffic, as a specification for the same file, with what that
    /// is on the wire; `None` where no specification is left, or there are no `units`.
    pub fn share(&self, parts: u32) -> Option<(TSpecForm, Demand)> {
        let units = self.units?;
        let frame = units.framing.map_or(self.spec.packet_max(), |framing| framing.payload());
        let form = self.spec.share((parts, 1024), frame).ok()?;
        let spec = TSpec::try_from(form.clone()).ok()?;
        Some((form, units.demand(&spec)))
    }
}

/// Measures traffic that a file holds: its specification, and what it is on the wire, packet by
/// packet. Without framing, sizes count wire bytes already.
pub(super) type Measure<'a> =
    dyn FnMut(&Measured, Option<&Framing>) -> Result<(TSpec, Demand), String> + 'a;

/// Reads requests for channels of `topology`; `measure` is asked for traffic that other files
/// hold.
///
/// Errors: [`RequestsError`], the first fault with its line. Limits: [`BYTES_MAX`],
/// [`CHANNELS_MAX`].
pub fn parse(
    text: &str,
    topology: &Topology,
    measure: &mut Measure<'_>,
) -> Result<Vec<Asked>, RequestsError> {
    let fault = |offset: usize, fault| {
        let line = file::line_of(text, offset);
        RequestsError { line, request: None, fault }
    };
    let form: RequestsForm = file::read(text, BYTES_MAX).map_err(|e| {
        let fault = RequestFault::Syntax(e.message);
        RequestsError { line: e.line, request: None, fault }
    })?;
    let at = place(form.framing.as_ref()).unwrap_or(0);
    let framing = framing(form.framing.map(toml::Spanned::into_inner).unwrap_or_default())
        .map_err(|e| fault(at, RequestFault::Framing(e)))?;
    if form.request.is_empty() {
        return Err(fault(0, RequestFault::Empty));
    }
    let mut all: Vec<Asked> = Vec::new();
    let mut names = BTreeSet::new();
    for spanned in &form.request {
        let request = spanned.get_ref();
        let in_request = |(offset, found): At| RequestsError {
            request: Some(request.name.get_ref().clone()),
            ..fault(offset.unwrap_or(spanned.span().start), found)
        };
        let asked = check(request, framing.as_ref(), topology, measure).map_err(in_request)?;
        let count = request.count.as_ref().map_or(1, |count| *count.get_ref());
        if count == 0 || all.len() + count as usize > CHANNELS_MAX {
            let fault = RequestFault::Count { count };
            return Err(in_request(fault.at(place(request.count.as_ref()))));
        }
        for k in 1..=count {
            let name = if count == 1 { asked.name.clone() } else { format!("{}.{k}", asked.name) };
            if !names.insert(name.clone()) {
                let fault = RequestFault::Duplicate.at(place(Some(&request.name)));
                return Err(RequestsError { request: Some(name), ..in_request(fault) });
            }
            all.push(Asked { name, ..asked.clone() });
        }
    }
    Ok(all)
}

/// `None`: sizes count wire bytes already.
fn framing(form: FramingForm) -> Result<Option<Framing>, FramingError> {
    if form.counts == Counts::Wire {
        return Ok(None);
    }
    let ip = match form.ip {
        IpForm::V4 => Ip::V4,
        IpForm::V6 => Ip::V6,
    };
    let mtu = ByteSize::from_bytes(form.mtu_bytes);
    Framing::new(ip, form.vlan, mtu, form.train_frames).map(Some)
}

fn check(
    form: &RequestForm,
    framing: Option<&Framing>,
    topology: &Topology,
    measure: &mut Measure<'_>,
) -> Result<Asked, At> {
    let name = form.name.get_ref();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(RequestFault::Name.at(place(Some(&form.name))));
    }
    let host = |key: &toml::Spanned<String>| {
        let unknown = || RequestFault::UnknownHost(key.get_ref().clone());
        topology.host_named(key.get_ref()).ok_or_else(|| unknown().at(place(Some(key))))
    };
    let (from, to) = (host(&form.from)?, host(&form.to)?);
    let mut measured = None;
    let mut keep = |of: &Measured| {
        let (spec, demand) = measure(of, framing)?;
        measured = Some(demand);
        Ok(spec)
    };
    let (spec, tenet) = traffic(form, &mut keep)?;
    let least = ByteSize::from_bytes(form.message_min_bytes);
    let units = Units { framing: framing.copied(), message_min: least };
    let (demand, units) = match measured {
        Some(demand) => (demand, None),
        None if matches!(spec, TSpec::Schedule(_)) => (units.demand(&spec), None),
        None => (units.demand(&spec), Some(units)),
    };
    let class = class(form, tenet)?.and_then(|class| Some((class.name(), class.0.marks()?)));
    let want = want(form, tenet, class.as_ref().map(|class| class.1))?;
    let (name, set, owner) = (name.clone(), form.set.clone(), form.owner);
    let spec = Arc::new(spec);
    Ok(Asked { name, from, to, spec, demand, units, want, class, set, owner })
}

/// The specification, from the one model that is given.
fn traffic(
    form: &RequestForm,
    measure: &mut dyn FnMut(&Measured) -> Result<TSpec, String>,
) -> Result<(TSpec, Option<TenetWish>), At> {
    let ns = Duration::from_nanos;
    let places = [
        place(form.tspec.as_ref()),
        place(form.rsvp.as_ref()),
        place(form.atm.as_ref()),
        place(form.tenet.as_ref()),
        place(form.measured.as_ref()),
    ];
    let given = places.iter().flatten().count();
    if given != 1 {
        return Err(RequestFault::Kinds(given).at(places.into_iter().flatten().nth(1)));
    }
    let at = places.into_iter().flatten().next();
    let wrong = |e| RequestFault::Traffic(e).at(at);
    if let Some(tspec) = &form.tspec {
        return Ok((TSpec::try_from(tspec.get_ref().clone()).map_err(wrong)?, None));
    }
    if let Some(measured) = &form.measured {
        let spec = measure(measured.get_ref());
        return Ok((spec.map_err(|e| RequestFault::Measured(e).at(at))?, None));
    }
    if let Some(r) = form.rsvp.as_ref().map(toml::Spanned::get_ref) {
        let rates = (r.rate_bytes_per_s, r.burst_bytes, r.peak_bytes_per_s);
        let spec = service::rsvp(rates, r.min_bytes, r.max_bytes);
        return Ok((spec.map_err(wrong)?, None));
    }
    if let Some(a) = form.atm.as_ref().map(toml::Spanned::get_ref) {
        let sustained = match (a.sustained_cells_per_s, a.burst_cells) {
            (Some(rate), Some(burst)) => Some((rate, burst)),
            (None, None) => None,
            _ => return Err(RequestFault::AtmPair.at(at)),
        };
        let (peak, tolerance) = (a.peak_cells_per_s, ns(a.tolerance_ns));
        let spec = service::atm(AtmCells { peak, tolerance, sustained });
        return Ok((spec.map_err(wrong)?, None));
    }
    let Some(t) = form.tenet.as_ref().map(toml::Spanned::get_ref) else {
        return Err(RequestFault::Kinds(0).at(None));
    };
    for (what, ppm) in [("zmin_ppm", t.zmin_ppm), ("wmin_ppm", t.wmin_ppm)] {
        if ppm > 1_000_000 {
            let value = ppm.into();
            return Err(RequestFault::Range { what, value, least: 0, most: 1_000_000 }.at(at));
        }
    }
    let smax = ByteSize::from_bytes(t.smax_bytes);
    let spec = service::tenet(ns(t.xmin_ns), ns(t.xave_ns), ns(t.interval_ns), smax);
    let wish = TenetWish {
        delay: ns(t.dmax_ns),
        jitter: t.jmax_ns.map(ns),
        in_time_ppm: t.zmin_ppm,
        kept_ppm: t.wmin_ppm,
    };
    Ok((spec.map_err(wrong)?, Some(wish)))
}
