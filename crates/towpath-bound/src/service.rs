//! Service curves of the packet schedulers, each with its source, and the end-to-end formulas that
//! are published in closed form.
//!
//! Units are the caller's, but consistent (for example bits, bit/s and s). C: link rate; L: largest
//! frame on the link; Lᵢ: largest frame of the flow; g: the flow's reserved rate.
//!
//! | scheduler | curve for | function |
//! |---|---|---|
//! | FCFS | all flows together | β(C, 0): [`RateLatency::new`] and FIFO multiplexing |
//! | static priority | a class | [`static_priority`] |
//! | DRR | a flow | [`drr`] |
//! | WFQ, WF²Q+, Virtual Clock | a flow | [`fair_queueing`] |
//! | SCFQ | a flow | [`scfq`] |
//! | HFSC | a leaf | [`hfsc`] |
//! | EDF | a flow | its local delay d, if the schedulability test holds: delays add |
//! | CBS | class A | [`credit_based_shaper`] |
//! | TDMA | a slot | [`time_slots`] |

use alloc::boxed::Box;

use super::curve::{Curve, Piece};
use super::envelope::{RateLatency, TokenBucket};
use super::rational::Rational;

/// Why there is no curve or no delay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// A quantity that must be above zero is not.
    #[error("{what} is {value}; it must be above zero")]
    NotPositive {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: Box<Rational>,
    },
    /// One quantity must not be below another and is.
    #[error("{what} is {value}, below {than} ({limit})")]
    Below {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: Box<Rational>,
        /// What it must reach.
        than: &'static str,
        /// The value it must reach.
        limit: Box<Rational>,
    },
    /// The index names no flow of the list.
    #[error("flow {index} of {count}")]
    UnknownFlow {
        /// The index.
        index: usize,
        /// How many flows there are.
        count: usize,
    },
}

fn positive(what: &'static str, value: &Rational) -> Result<(), ServiceError> {
    if value.is_positive() {
        return Ok(());
    }
    Err(ServiceError::NotPositive { what, value: Box::new(value.clone()) })
}

fn reaches(
    what: &'static str,
    value: &Rational,
    than: &'static str,
    limit: &Rational,
) -> Result<(), ServiceError> {
    if value >= limit {
        return Ok(());
    }
    let (value, limit) = (Box::new(value.clone()), Box::new(limit.clone()));
    Err(ServiceError::Below { what, value, than, limit })
}

/// Static priority, non-preemptive: what classes `above` (their rates and bursts summed) and one
/// frame from below leave a class. R′ = R − Σr, T′ = (R T + Σb + L) / R′. The lowest class has no
/// frame below. Le Boudec and Thiran (2001), proposition 1.3.4 and its corollary.
pub fn static_priority(
    port: &RateLatency,
    above: &TokenBucket,
    frame_below: &Rational,
) -> Result<RateLatency, ServiceError> {
    let rate = &port.rate - &above.rate;
    positive("rate left by the classes above", &rate)?;
    let due = &(&(&port.rate * &port.latency) + &above.burst) + frame_below;
    let latency = &due / &rate;
    Ok(RateLatency { rate, latency })
}

/// A flow of a deficit round robin scheduler.
#[derive(Clone, Debug)]
pub struct DrrFlow {
    /// Quantum Q per round, at least the largest frame.
    pub quantum: Rational,
    /// Largest frame.
    pub frame: Rational,
}

/// The two published latencies of deficit round robin; both belong to the rate C Qᵢ / F, F = ΣQ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drr {
    /// (3 F − 2 Qᵢ) / C: Stiliadis and Varma, *Latency-rate servers* (1998).
    pub stiliadis_varma: RateLatency,
    /// [(F − Qᵢ)(1 + Lᵢ / Qᵢ) + Σ over j ≠ i of Lⱼ] / C: Boyer, Stea and Sofack, *Deficit round
    /// robin with network calculus* (2012).
    pub boyer: RateLatency,
}

impl Drr {
    /// The curve with the smaller latency (both are valid).
    pub fn best(&self) -> &RateLatency {
        if self.boyer.latency <= self.stiliadis_varma.latency {
            &self.boyer
        } else {
            &self.stiliadis_varma
        }
    }
}

/// Deficit round robin: what flow `index` gets of a link.
pub fn drr(link: &Rational, flows: &[DrrFlow], index: usize) -> Result<Drr, ServiceError> {
    positive("link rate", link)?;
    for flow in flows {
        positive("quantum", &flow.quantum)?;
        reaches("quantum", &flow.quantum, "the largest frame", &flow.frame)?;
    }
    let count = flows.len();
    let own = flows.get(index).ok_or(ServiceError::UnknownFlow { index, count })?;
    let round: Rational = flows.iter().map(|flow| &flow.quantum).sum();
    let frames: Rational = flows.iter().map(|flow| &flow.frame).sum();
    let rate = &(link * &own.quantum) / &round;
    let (two, three) = (Rational::integer(2), Rational::integer(3));
    let whole_rounds = &(&three * &round) - &(&two * &own.quantum);
    let others = &round - &own.quantum;
    let per_round = &Rational::ONE + &(&own.frame / &own.quantum);
    let exact = &(&others * &per_round) + &(&frames - &own.frame);
    Ok(Drr {
        stiliadis_varma: RateLatency::new(rate.clone(), &whole_rounds / link),
        boyer: RateLatency::new(rate, &exact / link),
    })
}

/// WFQ (PGPS), WF²Q+ and Virtual Clock: β(g, Lᵢ / g + L / C). Stiliadis and Varma (1998), table 1.
/// The Lᵢ / g is the packetiser behind the server; the last hop of a path does not need it
/// ([`pgps_end_to_end`]).
pub fn fair_queueing(
    reserved: &Rational,
    own_frame: &Rational,
    frame: &Rational,
    link: &Rational,
) -> Result<RateLatency, ServiceError> {
    positive("reserved rate", reserved)?;
    reaches("link rate", link, "the reserved rate", reserved)?;
    let latency = &(own_frame / reserved) + &(frame / link);
    Ok(RateLatency::new(reserved.clone(), latency))
}

/// SCFQ: β(g, Lᵢ / g + (V − 1) L / C) with V flows. Golestani (1994); Stiliadis and Varma (1998).
pub fn scfq(
    reserved: &Rational,
    own_frame: &Rational,
    frame: &Rational,
    link: &Rational,
    flows: u32,
) -> Result<RateLatency, ServiceError> {
    positive("reserved rate", reserved)?;
    reaches("link rate", link, "the reserved rate", reserved)?;
    let others = Rational::whole(u64::from(flows.saturating_sub(1)));
    let latency = &(own_frame / reserved) + &(&(&others * frame) / link);
    Ok(RateLatency::new(reserved.clone(), latency))
}

/// HFSC: a leaf's curve (slope m1 up to time d, m2 after) is missed by at most L / C if the leaves'
/// curves sum to no more than C t. Stoica, Zhang and Ng (1997), theorem 2.
pub fn hfsc(
    first: &Rational,
    knee: &Rational,
    second: &Rational,
    frame: &Rational,
    link: &Rational,
) -> Result<Curve, ServiceError> {
    positive("link rate", link)?;
    let wait = frame / link;
    reaches("first slope", first, "zero", &Rational::ZERO)?;
    reaches("second slope", second, "zero", &Rational::ZERO)?;
    let at_knee = first * knee;
    let part = |start: Rational, at: Rational, slope: &Rational| Piece {
        start,
        at: at.clone(),
        after: at,
        slope: slope.clone(),
    };
    let mut pieces = alloc::vec![part(Rational::ZERO, Rational::ZERO, &Rational::ZERO)];
    pieces.push(part(wait.clone(), Rational::ZERO, first));
    pieces.push(part(&wait + knee, at_knee, second));
    // A wait or a first part of no length leaves no piece behind.
    pieces.reverse();
    pieces.dedup_by(|earlier, later| earlier.start == later.start);
    pieces.reverse();
    Curve::new(pieces)
        .map_err(|_| ServiceError::NotPositive { what: "knee time", value: Box::new(knee.clone()) })
}

/// IEEE 802.1Qav credit-based shaper, class A (nothing shaped above it): β(I, L / C) with idle
/// slope I; the highest credit I L / C is what one frame from below costs. Azua and Boyer,
/// *Complete modelling of AVB in network calculus framework* (2014).
pub fn credit_based_shaper(
    idle_slope: &Rational,
    frame: &Rational,
    link: &Rational,
) -> Result<RateLatency, ServiceError> {
    positive("idle slope", idle_slope)?;
    reaches("link rate", link, "the idle slope", idle_slope)?;
    Ok(RateLatency::new(idle_slope.clone(), frame / link))
}

/// A slot of length s in every cycle c of a link: β(C s / c, c − s). Le Boudec and Thiran (2001),
/// section 1.3 (the rate-latency curve below the staircase).
pub fn time_slots(
    slot: &Rational,
    cycle: &Rational,
    link: &Rational,
) -> Result<RateLatency, ServiceError> {
    positive("slot", slot)?;
    positive("link rate", link)?;
    reaches("cycle", cycle, "the slot", slot)?;
    Ok(RateLatency::new(&(link * slot) / cycle, cycle - slot))
}

/// An RSVP token bucket: rate r, burst b, peak p, largest packet M (RFC 2212, section 3).
#[derive(Clone, Debug)]
pub struct RsvpBucket {
    /// Token rate r.
    pub rate: Rational,
    /// Bucket depth b.
    pub burst: Rational,
    /// Peak rate p.
    pub peak: Rational,
    /// Largest packet M.
    pub packet: Rational,
}

/// End-to-end queueing delay of guaranteed service at reserved rate R ≥ r with error terms Ctot and
/// Dtot: RFC 2212, section 3 (equations 1 and 2).
pub fn rfc2212_delay(
    bucket: &RsvpBucket,
    reserved: &Rational,
    error_rate: &Rational,
    error_delay: &Rational,
) -> Result<Rational, ServiceError> {
    positive("reserved rate", reserved)?;
    reaches("reserved rate", reserved, "the token rate", &bucket.rate)?;
    reaches("peak rate", &bucket.peak, "the token rate", &bucket.rate)?;
    reaches("bucket depth", &bucket.burst, "the largest packet", &bucket.packet)?;
    let fixed = &(&(&bucket.packet + error_rate) / reserved) + error_delay;
    if *reserved >= bucket.peak {
        return Ok(fixed);
    }
    // p > R ≥ r, so the divisor is above zero.
    let burst = &(&bucket.burst - &bucket.packet) / reserved;
    let share = &(&bucket.peak - reserved) / &(&bucket.peak - &bucket.rate);
    Ok(&(&burst * &share) + &fixed)
}

/// A hop of a path for [`pgps_end_to_end`].
#[derive(Clone, Debug)]
pub struct Hop {
    /// Link rate C.
    pub link: Rational,
    /// Propagation delay of the link behind it.
    pub propagation: Rational,
}

/// PGPS (WFQ) along K hops with rate g at each: (σ + (K − 1) Lᵢ) / g + Σ L / Cₖ + propagation.
/// Parekh and Gallager, *the multiple node case* (1994), for a locally stable session.
pub fn pgps_end_to_end(
    burst: &Rational,
    reserved: &Rational,
    own_frame: &Rational,
    frame: &Rational,
    hops: &[Hop],
) -> Result<Rational, ServiceError> {
    positive("reserved rate", reserved)?;
    let between = Rational::whole(hops.len().saturating_sub(1) as u64);
    let mut delay = &(burst + &(&between * own_frame)) / reserved;
    for hop in hops {
        reaches("link rate", &hop.link, "the reserved rate", reserved)?;
        delay += &(&(frame / &hop.link) + &hop.propagation);
    }
    Ok(delay)
}

/// Any latency-rate servers in a row (PGPS, Virtual Clock, SCFQ, DRR mixed): D ≤ b / r + ΣΘ, and at
/// hop k no more than b + r (Θ₁ + … + Θₖ) waits. Stiliadis and Varma (1998), theorems 1 and 2.
/// Returns the delay and the buffer of every hop.
pub fn latency_rate_path(
    bucket: &TokenBucket,
    latencies: &[Rational],
) -> Result<(Rational, alloc::vec::Vec<Rational>), ServiceError> {
    positive("rate", &bucket.rate)?;
    let mut sum = Rational::ZERO;
    let buffers = latencies
        .iter()
        .map(|latency| {
            sum += latency;
            bucket.at(&sum)
        })
        .collect();
    Ok((&(&bucket.burst / &bucket.rate) + &sum, buffers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(text: &str) -> Rational {
        text.parse().unwrap()
    }

    #[test]
    fn a_leaf_with_a_steep_start_delays_less() {
        // 100 now, then 10 per time: a burst of 50 is done after 0.5 + 1 of waiting for a frame.
        let leaf = hfsc(&r("100"), &r("1"), &r("10"), &r("10"), &r("10")).unwrap();
        let source = Curve::token_bucket(r("10"), r("50"));
        assert_eq!(source.horizontal_deviation(&leaf), Some(r("3/2")));
        let flat = hfsc(&r("0"), &r("0"), &r("10"), &r("0"), &r("10")).unwrap();
        assert_eq!(flat, Curve::rate_latency(r("10"), r("0")));
        assert!(hfsc(&r("1"), &r("-1"), &r("1"), &r("0"), &r("1")).is_err());
    }

    #[test]
    fn slots_and_shapers_by_hand() {
        assert_eq!(
            time_slots(&r("2"), &r("10"), &r("100")).unwrap(),
            RateLatency::new(r("20"), r("8"))
        );
        assert!(time_slots(&r("11"), &r("10"), &r("100")).is_err());
        assert_eq!(
            credit_based_shaper(&r("75"), &r("12000"), &r("100")).unwrap(),
            RateLatency::new(r("75"), r("120"))
        );
        let scfq = scfq(&r("10"), &r("100"), &r("200"), &r("100"), 5).unwrap();
        assert_eq!(scfq, RateLatency::new(r("10"), r("18")), "100/10 + 4 · 200/100");
    }

    #[test]
    fn contradictions_are_named() {
        let bucket = RsvpBucket { rate: r("10"), burst: r("5"), peak: r("9"), packet: r("1") };
        let error = rfc2212_delay(&bucket, &r("10"), &r("0"), &r("0")).unwrap_err();
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "peak rate is 9, below the token rate (10)"
        );
        let zero = fair_queueing(&r("0"), &r("1"), &r("1"), &r("1"));
        assert!(matches!(zero, Err(ServiceError::NotPositive { .. })));
        let small = [DrrFlow { quantum: r("100"), frame: r("200") }];
        assert!(matches!(drr(&r("1"), &small, 0), Err(ServiceError::Below { .. })));
        let fine = [DrrFlow { quantum: r("200"), frame: r("200") }];
        assert!(matches!(drr(&r("1"), &fine, 1), Err(ServiceError::UnknownFlow { .. })));
    }

    #[test]
    fn latency_rate_servers_add_up() {
        let bucket = TokenBucket::new(r("10"), r("100"));
        let (delay, buffers) = latency_rate_path(&bucket, &[r("1"), r("2")]).unwrap();
        assert_eq!((delay, buffers), (r("13"), alloc::vec![r("110"), r("130")]));
    }
}
