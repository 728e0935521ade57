//! What can be wrong with a file of requests.

use alloc::string::String;

use super::check::CHANNELS_MAX;
use super::form::ServiceForm;
use crate::spec::SpecError;
use crate::spec::wire::FramingError;

/// The first fault of a file, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RequestsError {
    /// From 1.
    pub line: usize,
    /// The request's name, where it is one's.
    pub request: Option<String>,
    /// What is wrong there.
    pub fault: RequestFault,
}

impl core::fmt::Display for RequestsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.request {
            None => write!(f, "{}", self.fault),
            Some(name) => write!(f, "request {name:?}: {}", self.fault),
        }
    }
}

/// What can be wrong with requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// Not TOML, an unknown key, a value of the wrong type, or too long.
    #[error("{0}")]
    Syntax(String),
    /// No request.
    #[error("there is no [[request]]")]
    Empty,
    /// Of headers.
    #[error("framing: {0}")]
    Framing(FramingError),
    /// An empty name, or one with control characters.
    #[error("its name is empty or holds control characters")]
    Name,
    /// Two requests of one name.
    #[error("there are two of this name")]
    Duplicate,
    /// Too many channels, or none.
    #[error("count is {count}; a file holds 1 to {CHANNELS_MAX} channels")]
    Count {
        /// Its `count`.
        count: u32,
    },
    /// A host that there is not.
    #[error("unknown host {0:?}")]
    UnknownHost(String),
    /// Traffic that contradicts itself.
    #[error("its traffic: {0}")]
    Traffic(SpecError),
    /// Traffic of a file that cannot be measured.
    #[error("its traffic: {0}")]
    Measured(String),
    /// No traffic, or of several models.
    #[error("{0} kinds of traffic, must be one")]
    Kinds(usize),
    /// Half of what a variable-rate ATM connection has.
    #[error("atm: sustained_cells_per_s and burst_cells go together")]
    AtmPair,
    /// A value outside its limits.
    #[error("{what} is {value}, must be {least} to {most}")]
    Range {
        /// The key.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A service that its class contradicts.
    #[error("service is {service}, but its class stands for {class}")]
    Class {
        /// As it is given.
        service: ServiceForm,
        /// Of the class.
        class: ServiceForm,
    },
    /// Neither service nor class nor bound.
    #[error("neither service, class nor delay_ns")]
    NoService,
    /// A key that the service needs.
    #[error("no {key}, which {service} service needs")]
    Missing {
        /// The key.
        key: &'static str,
        /// The service.
        service: ServiceForm,
    },
    /// A key that the service has no use for.
    #[error("{key} has no meaning with {service} service")]
    Meaningless {
        /// The key.
        key: &'static str,
        /// The service.
        service: ServiceForm,
    },
    /// The same wish in two places.
    #[error("{key} beside tenet, which says it as {of}")]
    Twice {
        /// The key.
        key: &'static str,
        /// The Tenet parameters.
        of: &'static str,
    },
    /// A deterministic class for what may be late, or a statistical one for what may not.
    #[error("its class is {class}, but zmin_ppm is {zmin_ppm} and wmin_ppm {wmin_ppm}")]
    Tenet {
        /// The class that was asked for.
        class: &'static str,
        /// Least probability of being in time.
        zmin_ppm: u32,
        /// Least probability of not being lost.
        wmin_ppm: u32,
    },
}

impl RequestFault {
    /// What to do about it; empty where the fault says it all.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kinds(_) => "give one of tspec, rsvp, atm, tenet and measured",
            Self::Class { .. } | Self::Twice { .. } => "leave one of them out",
            Self::NoService => "service = \"share\" asks for no bound",
            Self::Missing { key: "late_ppm", .. } => "late_ppm = 1000 is one of a thousand",
            Self::Tenet { .. } => {
                "deterministic means 1000000 for both; leave the class out and it follows"
            }
            _ => "",
        }
    }

    pub(super) const fn at(self, offset: Option<usize>) -> (Option<usize>, Self) {
        (offset, self)
    }
}
