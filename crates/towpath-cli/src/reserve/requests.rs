//! Requests from a file, checked: ends that exist, traffic that does not contradict itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail};
use towpath_qos::spec::TSpec;
use towpath_qos::spec::service::{self, AtmCells, Marks, Promise, TenetWish};
use towpath_qos::spec::wire::{Demand, Framing, Ip};
use towpath_qos::topology::{NodeId, Topology};
use towpath_wire::ByteSize;

use super::form::{Counts, FramingForm, IpForm, RequestForm, RequestsForm, ServiceForm};
use crate::topology::{at_line, host, line_of, read_text};

/// Channels of one file, `count` counted.
const CHANNELS_MAX: usize = 200_000;

/// A channel that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// Its traffic as it was given.
    pub(crate) spec: TSpec,
    /// Its traffic in wire bits.
    pub(crate) demand: Demand,
    pub(crate) want: Want,
    /// The class it was asked for by, and what that is here.
    pub(crate) class: Option<(String, Marks)>,
    pub(crate) set: Option<String>,
    pub(crate) owner: u64,
}

/// What it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Bounded { delay: Duration, jitter: Option<Duration> },
    Statistical { delay: Duration, late_ppm: u32 },
    Share { priority: u8 },
    BestEffort,
}

/// Reads requests for channels of `topology`.
pub(crate) fn read(path: &Path, topology: &Topology) -> anyhow::Result<Vec<Asked>> {
    let text = read_text(path)?;
    parse(path, &text, topology)
}

fn parse(path: &Path, text: &str, topology: &Topology) -> anyhow::Result<Vec<Asked>> {
    let fault = |offset: usize, e: &anyhow::Error| {
        let e = format!("{e:#}");
        let (what, hint) = e.split_once("\nhint: ").unwrap_or((&e, ""));
        anyhow!("{}", at_line(path, text, line_of(text, offset), what, hint))
    };
    let form: RequestsForm = toml::from_str(text).map_err(|e| {
        let what = anyhow!(
            "{}\nhint: `towpath reserve --help` has an example",
            e.message().split('\n').collect::<Vec<_>>().join("; ")
        );
        fault(e.span().map_or(0, |span| span.start), &what)
    })?;
    let framing = framing(&form.framing).map_err(|e| fault(0, &e))?;
    if form.request.is_empty() {
        bail!("{} holds no [[request]]", crate::files::shown(path));
    }
    let mut all: Vec<Asked> = Vec::new();
    for spanned in &form.request {
        let at = spanned.span().start;
        let request = spanned.get_ref();
        let asked = check(request, framing.as_ref(), topology)
            .map_err(|e| fault(at, &anyhow!("request {:?}: {e:#}", request.name)))?;
        if request.count == 0 || all.len() + request.count as usize > CHANNELS_MAX {
            let e =
                anyhow!("count is {}; a file holds 1 to {CHANNELS_MAX} channels", request.count);
            return Err(fault(at, &e));
        }
        if request.count == 1 {
            all.push(asked);
        } else {
            all.extend(
                (1..=request.count)
                    .map(|k| Asked { name: format!("{}.{k}", asked.name), ..asked.clone() }),
            );
        }
    }
    let mut names: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
    names.sort_unstable();
    if let Some([name, _]) = names.windows(2).find(|w| w[0] == w[1]) {
        bail!("{}: two requests are named {:?}", crate::files::shown(path), name);
    }
    Ok(all)
}

/// `None`: sizes count wire bytes already.
fn framing(form: &FramingForm) -> anyhow::Result<Option<Framing>> {
    if form.counts == Counts::Wire {
        return Ok(None);
    }
    let ip = match form.ip {
        IpForm::V4 => Ip::V4,
        IpForm::V6 => Ip::V6,
    };
    let mtu = ByteSize::from_bytes(form.mtu_bytes);
    let framing = Framing::new(ip, form.vlan, mtu, form.train_frames);
    Ok(Some(framing.map_err(|e| anyhow!("framing: {e}"))?))
}

fn check(
    form: &RequestForm,
    framing: Option<&Framing>,
    topology: &Topology,
) -> anyhow::Result<Asked> {
    if form.name.is_empty() || form.name.chars().any(char::is_control) {
        bail!("its name is empty or holds control characters");
    }
    let (spec, wish) = traffic(form)?;
    let least = ByteSize::from_bytes(form.message_min_bytes);
    let demand = match framing {
        Some(framing) => framing.demand(&spec, least),
        None => Demand::of_wire(spec.buckets(), spec.packet_counted(least), spec.packet_max()),
    };
    let class = form.class.and_then(|c| Some((c.name(), c.0.marks()?)));
    let class = class.or_else(|| {
        let class = wish?.class();
        Some((super::form::ClassForm(class).name(), class.marks()?))
    });
    Ok(Asked {
        name: form.name.clone(),
        from: host(topology, &form.from)?,
        to: host(topology, &form.to)?,
        want: want(form, wish, class.as_ref().map(|c| c.1))?,
        spec,
        demand,
        class,
        set: form.set.clone(),
        owner: form.owner,
    })
}

/// The specification, from the one model that is given.
fn traffic(form: &RequestForm) -> anyhow::Result<(TSpec, Option<TenetWish>)> {
    let ns = Duration::from_nanos;
    let mut found = Vec::new();
    if let Some(tspec) = &form.tspec {
        found.push((TSpec::try_from(tspec.clone()), None));
    }
    if let Some(r) = form.rsvp {
        let rates = (r.rate_bytes_per_s, r.burst_bytes, r.peak_bytes_per_s);
        found.push((service::rsvp(rates, r.min_bytes, r.max_bytes), None));
    }
    if let Some(a) = form.atm {
        let sustained = match (a.sustained_cells_per_s, a.burst_cells) {
            (Some(rate), Some(burst)) => Some((rate, burst)),
            (None, None) => None,
            _ => bail!("atm: sustained_cells_per_s and burst_cells go together"),
        };
        let (peak, tolerance) = (a.peak_cells_per_s, ns(a.tolerance_ns));
        found.push((service::atm(AtmCells { peak, tolerance, sustained }), None));
    }
    if let Some(t) = form.tenet {
        let spec = service::tenet(
            ns(t.xmin_ns),
            ns(t.xave_ns),
            ns(t.interval_ns),
            ByteSize::from_bytes(t.smax_bytes),
        );
        for (name, ppm) in [("zmin_ppm", t.zmin_ppm), ("wmin_ppm", t.wmin_ppm)] {
            if ppm > 1_000_000 {
                bail!("tenet: {name} is {ppm}, must be at most 1000000");
            }
        }
        let wish = TenetWish {
            delay: ns(t.dmax_ns),
            jitter: t.jmax_ns.map(ns),
            in_time_ppm: t.zmin_ppm,
            kept_ppm: t.wmin_ppm,
        };
        found.push((spec, Some(wish)));
    }
    match found.len() {
        1 => {
            let (spec, wish) = found.remove(0);
            Ok((spec.map_err(|e| anyhow!("its traffic: {e}"))?, wish))
        }
        0 => bail!("no traffic\nhint: give one of tspec, rsvp, atm and tenet"),
        n => bail!("{n} kinds of traffic\nhint: give one of tspec, rsvp, atm and tenet"),
    }
}

/// What a class leaves open must be given; what it says must not be contradicted.
fn want(
    form: &RequestForm,
    tenet: Option<TenetWish>,
    marks: Option<Marks>,
) -> anyhow::Result<Want> {
    let by_class = marks.map(|m| match m.promise {
        Promise::Bounded => ServiceForm::Bounded,
        Promise::Statistical => ServiceForm::Statistical,
        Promise::Share => ServiceForm::Share,
        Promise::BestEffort => ServiceForm::BestEffort,
    });
    let service = match (form.service, by_class) {
        (Some(a), Some(b)) if a != b => {
            bail!("service is {a:?}, but its class stands for {b:?}\nhint: leave one of them out")
        }
        (Some(service), _) | (None, Some(service)) => service,
        (None, None) if form.late_ppm.is_some() => ServiceForm::Statistical,
        (None, None) if form.delay_ns.is_some() => ServiceForm::Bounded,
        (None, None) => {
            bail!(
                "neither service, class nor delay_ns\nhint: service = \"share\" asks for no bound"
            )
        }
    };
    let ns = Duration::from_nanos;
    let delay = form.delay_ns.map(ns).or(tenet.map(|t| t.delay));
    let bound = || delay.ok_or_else(|| anyhow!("no delay_ns, which {service:?} service needs"));
    let unused = |what: &str, given: bool| {
        if given { Err(anyhow!("{what} has no meaning with {service:?} service")) } else { Ok(()) }
    };
    unused("priority", form.priority.is_some() && service != ServiceForm::Share)?;
    unused("late_ppm", form.late_ppm.is_some() && service != ServiceForm::Statistical)?;
    unused("jitter_ns", form.jitter_ns.is_some() && service != ServiceForm::Bounded)?;
    let no_bound = matches!(service, ServiceForm::Share | ServiceForm::BestEffort);
    unused("delay_ns", form.delay_ns.is_some() && no_bound)?;
    Ok(match service {
        ServiceForm::Bounded => Want::Bounded {
            delay: bound()?,
            jitter: form.jitter_ns.map(ns).or(tenet.and_then(|t| t.jitter)),
        },
        ServiceForm::Statistical => {
            let late_ppm = form.late_ppm.or(tenet.map(|t| t.late_ppm()));
            let late_ppm = late_ppm.ok_or_else(|| {
                anyhow!("no late_ppm\nhint: late_ppm = 1000 is one of a thousand")
            })?;
            if late_ppm == 0 || late_ppm > 1_000_000 {
                bail!("late_ppm is {late_ppm}, must be 1 to 1000000");
            }
            Want::Statistical { delay: bound()?, late_ppm }
        }
        ServiceForm::Share => {
            let priority = form.priority.or(marks.map(|m| 7 - m.priority.min(7)));
            Want::Share { priority: priority.unwrap_or(0) }
        }
        ServiceForm::BestEffort => Want::BestEffort,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: &str = "\
        [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
        [[link]]\nends = [\"a\", \"b\"]\nrate_bps = 1000000\n";

    fn of(text: &str) -> anyhow::Result<Vec<Asked>> {
        parse(Path::new("r.toml"), text, &Topology::parse(NET).unwrap())
    }

    /// A request from a to b with these lines.
    fn one(lines: &str) -> anyhow::Result<Asked> {
        let text = format!("[[request]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n{lines}\n");
        Ok(of(&text)?.remove(0))
    }

    fn fault(lines: &str) -> String {
        one(lines).unwrap_err().to_string()
    }

    const SIGMA: &str = "tspec = { kind = \"sigma_rho\", sigma_bytes = 1000, rho_bps = 8000 }";

    #[test]
    fn the_service_follows_from_what_is_asked() {
        let ms = Duration::from_millis;
        let want = |lines: &str| one(&format!("{SIGMA}\n{lines}")).unwrap().want;
        let bounded = Want::Bounded { delay: ms(5), jitter: None };
        assert_eq!(want("delay_ns = 5000000"), bounded);
        assert_eq!(want("delay_ns = 5000000\nclass = \"atm_cbr\""), bounded);
        assert_eq!(want("delay_ns = 5000000\nclass = \"8021p_5\""), bounded);
        let late = Want::Statistical { delay: ms(5), late_ppm: 10 };
        assert_eq!(want("delay_ns = 5000000\nlate_ppm = 10"), late);
        assert_eq!(want("class = \"8021p_6\""), Want::Share { priority: 1 });
        assert_eq!(want("class = \"atm_ubr\""), Want::BestEffort);
        assert_eq!(want("service = \"share\"\npriority = 3"), Want::Share { priority: 3 });
    }

    #[test]
    fn every_model_becomes_wire_bits() {
        let bits = |lines: &str| {
            let asked = one(&format!("{lines}\ndelay_ns = 9")).unwrap();
            let first = asked.demand.buckets.as_slice()[0];
            (first.burst_bits, asked.demand.buckets.sustained_bps())
        };
        // 1000 B messages of 1138 wire bytes, one each millisecond.
        let rsvp = "rsvp = { rate_bytes_per_s = 1000000, burst_bytes = 1000, \
                    peak_bytes_per_s = 1000000, min_bytes = 1000, max_bytes = 1000 }";
        assert_eq!(bits(rsvp), (9104, 9_104_000));
        let spaced = "tspec = { kind = \"spaced\", xmin_ns = 1000000, smax_bytes = 1000 }";
        assert_eq!(bits(spaced), (9104, 9_104_000));
        let tenet = "tenet = { xmin_ns = 1000000, xave_ns = 1000000, interval_ns = 1000000, \
                     smax_bytes = 1000, dmax_ns = 5 }";
        assert_eq!(bits(tenet), (9104, 9_104_000));
        // 53 B cells of 191 wire bytes.
        assert_eq!(bits("atm = { peak_cells_per_s = 1000 }"), (1528, 1_528_000));
        let text = format!(
            "[framing]\ncounts = \"wire\"\n[[request]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n\
             {spaced}\ndelay_ns = 9\ncount = 3"
        );
        let wire = of(&text).unwrap();
        assert_eq!(wire[2].demand.buckets.slowest().rate_bps, 8_000_000);
        assert_eq!(wire.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["x.1", "x.2", "x.3"]);
    }

    #[test]
    fn a_tenet_request_is_statistical_where_it_may_be_late() {
        let tenet = |wishes: &str| {
            one(&format!(
                "tenet = {{ xmin_ns = 1000, xave_ns = 2000, interval_ns = 9000, smax_bytes = 9, \
                 dmax_ns = 77{wishes} }}"
            ))
        };
        let delay = Duration::from_nanos(77);
        assert_eq!(tenet("").unwrap().want, Want::Bounded { delay, jitter: None });
        let late = tenet(", zmin_ppm = 999000, wmin_ppm = 999900").unwrap();
        assert_eq!(late.want, Want::Statistical { delay, late_ppm: 1100 });
        assert_eq!(late.class.unwrap().0, "tenet_statistical");
    }

    #[test]
    fn faults_name_request_line_and_value() {
        let zero = fault(
            "tspec = { kind = \"sigma_rho\", sigma_bytes = 1000, rho_bps = 0 }\ndelay_ns = 1",
        );
        assert!(
            zero.starts_with("r.toml, line 1: request \"x\": its traffic: rho_bps is zero"),
            "{zero}"
        );
        for (lines, part) in [
            ("delay_ns = 5", "no traffic\n"),
            (SIGMA, "neither service, class nor delay_ns"),
            (&*format!("{SIGMA}\nservice = \"bounded\""), "no delay_ns, which Bounded"),
            (&*format!("{SIGMA}\ndelay_ns = -1"), "line 6: invalid value: integer `-1`"),
            (&*format!("{SIGMA}\ndelay_ns = 99999999999999999999"), "line 6"),
            (&*format!("{SIGMA}\nclass = \"gold\"\ndelay_ns = 1"), "unknown class \"gold\""),
            (
                &*format!("{SIGMA}\nclass = \"atm_cbr\"\nservice = \"share\""),
                "its class stands for",
            ),
            (&*format!("{SIGMA}\ndelay_ns = 1\npriority = 1"), "priority has no meaning"),
            (&*format!("{SIGMA}\ndelay_ns = 1\nlate_ppm = 0"), "late_ppm is 0"),
            (&*format!("{SIGMA}\ndelay_ns = 1\ncount = 0"), "count is 0"),
            (&*format!("{SIGMA}\nspeed = 1"), "unknown field `speed`"),
            (
                "tspec = { kind = \"token_bucket\", rate_bps = 9, burst_bytes = 9, peak_bps = 8, \
              min_bytes = 1, max_bytes = 1 }",
                "peak_bps is 8, must be at least rate_bps = 9",
            ),
        ] {
            let text = fault(lines);
            assert!(text.contains(part), "{part} in {text}");
        }
        let unknown = of("[[request]]\nname = \"x\"\nfrom = \"a\"\nto = \"c\"\ndelay_ns = 1\n\
                          tspec = { kind = \"sigma_rho\", sigma_bytes = 1, rho_bps = 8 }");
        assert!(unknown.unwrap_err().to_string().contains("unknown host \"c\""));
        assert!(of("").unwrap_err().to_string().contains("no [[request]]"));
    }
}
