//! What a request wants, from its service, its class and its wishes.

use core::time::Duration;

use toml::Spanned;

use super::fault::RequestFault;
use super::form::{ClassForm, RequestForm, ServiceForm};
use crate::spec::service::{Class, Marks, Promise, TenetWish};

/// What a channel wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A bound on delay, and on its variation.
    Bounded {
        /// On delay.
        delay: Duration,
        /// On its variation.
        jitter: Option<Duration>,
    },
    /// The average; what is late is dropped.
    Statistical {
        /// What counts as late.
        delay: Duration,
        /// Late or lost, in parts per million.
        late_ppm: u32,
    },
    /// The sustained rate.
    Share {
        /// Among shares.
        priority: u8,
    },
    /// Nothing.
    BestEffort,
}

/// A fault with a byte offset; `None`: of the request as a whole.
pub(super) type At = (Option<usize>, RequestFault);

/// Where a key stands.
pub(super) fn place<T>(key: Option<&Spanned<T>>) -> Option<usize> {
    key.map(|key| key.span().start)
}

fn value<T: Copy>(key: Option<&Spanned<T>>) -> Option<T> {
    key.map(|key| *key.get_ref())
}

/// A class by what it promises.
fn service_of(promise: Promise) -> ServiceForm {
    match promise {
        Promise::Bounded => ServiceForm::Bounded,
        Promise::Statistical => ServiceForm::Statistical,
        Promise::Share => ServiceForm::Share,
        Promise::BestEffort => ServiceForm::BestEffort,
    }
}

/// The class that was asked for, or that follows from a Tenet request; they must agree.
pub(super) fn class(form: &RequestForm, tenet: Option<TenetWish>) -> Result<Option<ClassForm>, At> {
    let asked = value(form.class.as_ref());
    let Some(tenet) = tenet else { return Ok(asked) };
    match asked.map(|class| class.0) {
        Some(asked @ (Class::TenetDeterministic | Class::TenetStatistical))
            if asked != tenet.class() =>
        {
            let deterministic = asked == Class::TenetDeterministic;
            let class = if deterministic { "tenet_deterministic" } else { "tenet_statistical" };
            let (zmin_ppm, wmin_ppm) = (tenet.in_time_ppm, tenet.kept_ppm);
            let fault = RequestFault::Tenet { class, zmin_ppm, wmin_ppm };
            Err(fault.at(place(form.class.as_ref())))
        }
        Some(_) => Ok(asked),
        None => Ok(Some(ClassForm(tenet.class()))),
    }
}

/// What a class leaves open must be given; what it says must not be contradicted.
pub(super) fn want(
    form: &RequestForm,
    tenet: Option<TenetWish>,
    marks: Option<Marks>,
) -> Result<Want, At> {
    let service = service(form, marks)?;
    let meaningless = |key, at: Option<usize>, has_meaning: bool| match at {
        Some(_) if !has_meaning => Err(RequestFault::Meaningless { key, service }.at(at)),
        _ => Ok(()),
    };
    let statistical = service == ServiceForm::Statistical;
    let bounded = service == ServiceForm::Bounded;
    let share = service == ServiceForm::Share;
    meaningless("priority", place(form.priority.as_ref()), share)?;
    meaningless("late_ppm", place(form.late_ppm.as_ref()), statistical)?;
    meaningless("jitter_ns", place(form.jitter_ns.as_ref()), bounded)?;
    meaningless("delay_ns", place(form.delay_ns.as_ref()), bounded || statistical)?;
    if let Some(wish) = tenet {
        let jmax = wish.jitter.and(place(form.tenet.as_ref()));
        meaningless("jmax_ns", jmax, bounded)?;
        for (key, at, of) in [
            ("delay_ns", place(form.delay_ns.as_ref()), "dmax_ns"),
            ("jitter_ns", place(form.jitter_ns.as_ref()), "jmax_ns"),
            ("late_ppm", place(form.late_ppm.as_ref()), "zmin_ppm and wmin_ppm"),
        ] {
            if at.is_some() {
                return Err(RequestFault::Twice { key, of }.at(at));
            }
        }
    }
    let missing = |key| RequestFault::Missing { key, service }.at(None);
    let ns = Duration::from_nanos;
    let delay = value(form.delay_ns.as_ref()).map(ns).or(tenet.map(|t| t.delay));
    Ok(match service {
        ServiceForm::Bounded => Want::Bounded {
            delay: delay.ok_or_else(|| missing("delay_ns"))?,
            jitter: value(form.jitter_ns.as_ref()).map(ns).or(tenet.and_then(|t| t.jitter)),
        },
        ServiceForm::Statistical => {
            let late_ppm = value(form.late_ppm.as_ref()).or(tenet.map(|t| t.late_ppm()));
            let late_ppm = late_ppm.ok_or_else(|| missing("late_ppm"))?;
            if late_ppm == 0 || late_ppm > 1_000_000 {
                let (what, value) = ("late_ppm", late_ppm.into());
                let fault = RequestFault::Range { what, value, least: 1, most: 1_000_000 };
                return Err(fault.at(place(form.late_ppm.as_ref())));
            }
            Want::Statistical { delay: delay.ok_or_else(|| missing("delay_ns"))?, late_ppm }
        }
        ServiceForm::Share => {
            let priority = value(form.priority.as_ref());
            Want::Share { priority: priority.or(marks.map(|m| 7 - m.priority.min(7))).unwrap_or(0) }
        }
        ServiceForm::BestEffort => Want::BestEffort,
    })
}

fn service(form: &RequestForm, marks: Option<Marks>) -> Result<ServiceForm, At> {
    let by_class = marks.map(|marks| service_of(marks.promise));
    match (value(form.service.as_ref()), by_class) {
        (Some(service), Some(class)) if service != class => {
            Err(RequestFault::Class { service, class }.at(place(form.service.as_ref())))
        }
        (Some(service), _) | (None, Some(service)) => Ok(service),
        (None, None) if form.late_ppm.is_some() => Ok(ServiceForm::Statistical),
        (None, None) if form.delay_ns.is_some() => Ok(ServiceForm::Bounded),
        (None, None) => Err(RequestFault::NoService.at(None)),
    }
}
