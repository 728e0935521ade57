//! A file of requests, as it stands in TOML.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;
use toml::Spanned;

use crate::spec::TSpecForm;
use crate::spec::service::Class;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestsForm {
    pub(super) framing: Key<FramingForm>,
    #[serde(default)]
    pub(super) request: Vec<Spanned<RequestForm>>,
}

/// How messages become wire bits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FramingForm {
    pub(super) counts: Counts,
    pub(super) ip: IpForm,
    pub(super) vlan: bool,
    pub(super) mtu_bytes: u64,
    pub(super) train_frames: u64,
}

impl Default for FramingForm {
    fn default() -> Self {
        let (counts, ip) = (Counts::Messages, IpForm::V4);
        Self { counts, ip, vlan: false, mtu_bytes: 1500, train_frames: 1 }
    }
}

/// What the sizes of specifications count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counts {
    /// Bytes that the program sends; headers are added.
    Messages,
    /// Bytes on the wire, everything included.
    Wire,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IpForm {
    V4,
    V6,
}

/// A key that need not be there, with its place.
type Key<T> = Option<Spanned<T>>;

/// One channel, or `count` alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestForm {
    pub(super) name: Spanned<String>,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) service: Key<ServiceForm>,
    pub(super) class: Key<ClassForm>,
    pub(super) delay_ns: Key<u64>,
    pub(super) jitter_ns: Key<u64>,
    pub(super) late_ppm: Key<u32>,
    pub(super) priority: Key<u8>,
    /// Together or not at all with all others of the set.
    pub(super) set: Option<String>,
    #[serde(default)]
    pub(super) owner: u64,
    pub(super) count: Key<u32>,
    /// Smallest message, for models that do not know it.
    #[serde(default = "small")]
    pub(super) message_min_bytes: u64,
    // Its traffic: one of these.
    pub(super) tspec: Key<TSpecForm>,
    pub(super) rsvp: Key<RsvpForm>,
    pub(super) atm: Key<AtmForm>,
    pub(super) tenet: Key<TenetForm>,
    pub(super) measured: Key<Measured>,
}

const fn small() -> u64 {
    64
}

/// Traffic that a file holds: a trace, a capture or a schedule, which the caller measures.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Where it is; what is relative is so to the file of requests.
    pub file: String,
    /// The kind of specification that is measured; default `d_bind`.
    #[serde(default = "d_bind")]
    pub kind: String,
    /// Frames per second, where a frame trace does not tell: a number, or text as `30000/1001`.
    #[serde(default, deserialize_with = "number")]
    pub fps: Option<String>,
    /// Frames are cut into packets of at most so many bytes.
    pub packet_bytes: Option<u64>,
}

/// A number as it is written, or text.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number, or text such as \"30000/1001\"")]
    enum Number {
        Whole(u64),
        Part(f64),
        Text(String),
    }
    Ok(Some(match Number::deserialize(from)? {
        Number::Whole(n) => n.to_string(),
        Number::Part(n) => n.to_string(),
        Number::Text(text) => text,
    }))
}

fn d_bind() -> String {
    "d_bind".to_string()
}

/// A service by its name in a file of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceForm {
    /// A proven bound on delay.
    Bounded,
    /// The average, and a probability of being late.
    Statistical,
    /// The sustained rate.
    Share,
    /// Nothing.
    BestEffort,
}

impl fmt::Display for ServiceForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bounded => "bounded",
            Self::Statistical => "statistical",
            Self::Share => "share",
            Self::BestEffort => "best_effort",
        })
    }
}

/// RFC 2210's sender specification: bytes, and bytes per second.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RsvpForm {
    pub(super) rate_bytes_per_s: u64,
    pub(super) burst_bytes: u64,
    pub(super) peak_bytes_per_s: u64,
    pub(super) min_bytes: u64,
    pub(super) max_bytes: u64,
}

/// ATM's traffic parameters, in cells.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtmForm {
    pub(super) peak_cells_per_s: u64,
    #[serde(default)]
    pub(super) tolerance_ns: u64,
    pub(super) sustained_cells_per_s: Option<u64>,
    pub(super) burst_cells: Option<u64>,
}

/// The Tenet suite's traffic and wishes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenetForm {
    pub(super) xmin_ns: u64,
    pub(super) xave_ns: u64,
    pub(super) interval_ns: u64,
    pub(super) smax_bytes: u64,
    pub(super) dmax_ns: u64,
    pub(super) jmax_ns: Option<u64>,
    #[serde(default = "certain")]
    pub(super) zmin_ppm: u32,
    #[serde(default = "certain")]
    pub(super) wmin_ppm: u32,
}

const fn certain() -> u32 {
    1_000_000
}

/// A class by its name in the tables of docs/admission.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ClassForm(pub(super) Class);

pub(super) const CLASSES: [(&str, Class); 9] = [
    ("rsvp_guaranteed", Class::RsvpGuaranteed),
    ("rsvp_controlled_load", Class::RsvpControlledLoad),
    ("tenet_deterministic", Class::TenetDeterministic),
    ("tenet_statistical", Class::TenetStatistical),
    ("atm_cbr", Class::AtmCbr),
    ("atm_vbr_rt", Class::AtmVbrRt),
    ("atm_vbr_nrt", Class::AtmVbrNrt),
    ("atm_abr", Class::AtmAbr),
    ("atm_ubr", Class::AtmUbr),
];

impl TryFrom<String> for ClassForm {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some((_, class)) = CLASSES.iter().find(|(name, _)| *name == text) {
            return Ok(Self(*class));
        }
        let priority = text.strip_prefix("8021p_").and_then(|p| p.parse().ok());
        let class = priority.map(Class::Ieee8021p).filter(|c| c.marks().is_some());
        class.map(Self).ok_or_else(|| {
            let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
            format!("unknown class {text:?}; there are {} and 8021p_0 to 8021p_7", names.join(", "))
        })
    }
}

impl ClassForm {
    pub(super) fn name(self) -> String {
        match (CLASSES.iter().find(|(_, class)| *class == self.0), self.0) {
            (Some((name, _)), _) => (*name).to_string(),
            (None, Class::Ieee8021p(priority)) => format!("8021p_{priority}"),
            (None, other) => format!("{other:?}"),
        }
    }
}
