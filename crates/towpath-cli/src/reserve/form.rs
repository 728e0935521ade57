//! A file of requests, as it stands in TOML.

use serde::Deserialize;
use toml::Spanned;
use towpath_qos::spec::TSpecForm;
use towpath_qos::spec::service::Class;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestsForm {
    #[serde(default)]
    pub(super) framing: FramingForm,
    #[serde(default)]
    pub(super) request: Vec<Spanned<RequestForm>>,
}

/// How messages become wire bits.
#[derive(Debug, Deserialize)]
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

/// One channel, or `count` alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestForm {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) service: Option<ServiceForm>,
    pub(super) class: Option<ClassForm>,
    pub(super) delay_ns: Option<u64>,
    pub(super) jitter_ns: Option<u64>,
    pub(super) late_ppm: Option<u32>,
    pub(super) priority: Option<u8>,
    /// Together or not at all with all others of the set.
    pub(super) set: Option<String>,
    #[serde(default)]
    pub(super) owner: u64,
    #[serde(default = "one")]
    pub(super) count: u32,
    /// Smallest message, for models that do not know it.
    #[serde(default = "small")]
    pub(super) message_min_bytes: u64,
    // Its traffic: one of these.
    pub(super) tspec: Option<TSpecForm>,
    pub(super) rsvp: Option<RsvpForm>,
    pub(super) atm: Option<AtmForm>,
    pub(super) tenet: Option<TenetForm>,
}

const fn one() -> u32 {
    1
}

const fn small() -> u64 {
    64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServiceForm {
    Bounded,
    Statistical,
    Share,
    BestEffort,
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
