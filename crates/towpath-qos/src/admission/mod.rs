//! Admission of channels: what is promised, to whom, and what is left.
//!
//! [`Admission`] is the master of a sub-network: it holds every resource and every reservation,
//! and answers [`Request`]s with [`Admitted`] and the hop-by-hop [`Promise`], or a [`Refusal`]
//! that names the bottleneck, by how much, and the nearest request that passes.
//!
//! **Two phases, one transaction.** Source (processor, interface), destination (processor,
//! interface), then the whole route. In a closed sub-network the master knows all of it, so no
//! hop holds anything tentatively: a call changes all or nothing, a set is reserved together or
//! not at all.
//!
//! **Promises are local.** A promise is a sum of per-hop delay budgets, fixed when it is made. A
//! channel's burst at a hop is what the *budgets* before it allow, never what happens to be there,
//! so that a later admission changes no burst, and needs to test only the ports on its route. That
//! also makes cycles of switches safe: take the first packet in time that would miss a budget; all
//! that reached its port before came within its curve, so the port's own test contradicts it.
//! Budgets run from a packet's last bit in to its last bit out; switch latency and propagation are
//! added, and a fixed budget for the processor at each end. A sender's regulator sits behind its
//! processor, so that what the processor delays does not bunch up.
//!
//! | scheduler | what is fixed at the port | test of one more | cost |
//! |---|---|---|---|
//! | EDF | nothing | Σ demand + L ≤ C·t at each time (Liebeherr et al. 1996) | points, packets |
//! | jitter-EDF | nothing | as EDF; bursts as at the source, since packets are held | points |
//! | FCFS | one budget | as EDF with one deadline, nothing unreserved | points |
//! | static priority | budget per level | (Σ≤ b + L)/(C − Σ< r) ≤ d, here and below | levels |
//! | RCSP | budget per level | Σ≤ A(d) + L ≤ C·d, here and below (Zhang, Ferrari 1993) | levels |
//! | HFSC | nothing | Σ service curves ≤ C·t at each knee; budget = curve's delay + L/C | points |
//! | WFQ, WF²Q+, Virtual Clock | nothing | Σ g ≤ C, g the least for the run's delay | 50 steps |
//! | DRR | Σ weights | as WFQ, and Σ weights within it (Boyer et al. 2012) | 50 steps |
//! | SCFQ | number of channels | as WFQ, and their number (Golestani 1994) | 50 steps |
//! | CBQ | nothing | Σ rates ≤ C; **no bound on delay is promised** | 1 |
//!
//! L is the port's largest uninterrupted piece, a constant: larger packets or trains are refused.
//!
//! | a request | is |
//! |---|---|
//! | whose rate makes the sum exactly the link's | admitted, where bursts fit; not by DRR, RCSP |
//! | to its own host, or between nodes that are no hosts | refused: `ToItself`, `NoHost` |
//! | with a bound of zero or below propagation and processors | refused: `Unreachable` |
//! | with a packet above the port's largest piece | refused: `PacketBits` |
//! | with rates or bursts of any size | answered; nothing wraps |
//!
//! **No floats.** Every promise and every test here, in `spec` and in `topology` is in integers;
//! the floating-point routines that a purity check finds linked with this crate come from `toml`
//! (`fmod`).
//!
//! **Statistical channels** reserve their average; the probability of being late is Hoeffding's,
//! for independent sources, and no proof. Hard promises go before them and are never changed by
//! what [`Admission::observe`] measures.

#[cfg(test)]
mod calculus;
mod cpu;
mod crowd;
mod decide;
mod demand;
pub mod edf;
#[cfg(test)]
mod exact;
#[cfg(test)]
mod feedback;
pub mod file;
mod kept;
mod ledger;
mod levels;
mod lifetime;
pub mod load;
mod nearest;
mod plan;
mod port;
mod ports;
mod profile;
pub mod rate_based;
mod refusal;
mod request;
#[cfg(test)]
mod tests;
mod told;
mod turns;

pub use cpu::CpuLoad;
pub use kept::KeptHop;
pub use ledger::{Admission, Broken, CHANNELS_MAX, CollectiveRefusal};
pub use load::{Load, Shape};
pub use refusal::{ChangeError, Nearest, Phase, Refusal, Resource, Shortage};
pub use request::{Admitted, Promise, PromisedHop, Request, ReservationId, Wish};
