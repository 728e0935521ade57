//! The exchange of tasks on one host: records and payloads in shared memory.
//!
//! Each shared page has exactly one writing process; the others map it read-only. There are no
//! pointers and no locks in it. A task has a *segment* ([`Home`]): a card that says whether it
//! sleeps, and an arena for long payloads. Each pair of tasks has two *halves*, one written by
//! each: the ring of its records to the other, how far it is in the other's ring, and the tickets
//! of the other's blocks that it gives back. The daemon makes and seals all of them ([`Segment`])
//! and hands out the descriptors.
//!
//! ```text
//!  A                                  B
//!  Outbound ── record ──────────────▶ Inbound        half of A (ring), half of B (taken)
//!  Arena    ◀─ payload, in place ──── View           segment of A
//!  reclaim  ◀─ ticket ─────────────── drop(View)     half of B (returns)
//!  wake     ── eventfd, if asleep ──▶ Waiter         segment of B (card)
//! ```
//!
//! **Trust.** What is read from a peer's pages is copied once, then checked: whatever they hold,
//! it can be a wrong message, or [`Corrupt`], and no more. A payload seen in place ([`View`]) is
//! one that its sender has given up for writing.
//!
//! **Fork.** A child has none of the shared mappings, or it would be a second writer; touching
//! what it inherits ends it. It asks [`Origin`] first, and enrols anew.
//!
//! | module | what it holds |
//! |---|---|
//! | `layout` | byte maps |
//! | `past` | copies past the caches |
//! | `memory`, `segment` | mapped pages; memory files, made, sealed and checked |
//! | `ledger` | what a task says of its direct routes |
//! | `card`, `bell`, `waiter` | who sleeps; what wakes; waiting for everything at once |
//! | `origin` | which process this is |
//! | `record`, `ring`, `returns` | one direction of a pair |
//! | `buddy`, `arena` | blocks for long payloads |
//! | `lender` | a task's arena as its daemon sees it |
//! | `pair`, `outbound`, `inbound` | the ends that a task holds |

mod arena;
mod bell;
mod buddy;
mod card;
mod error;
mod home;
mod inbound;
mod layout;
mod ledger;
mod lender;
mod memory;
mod origin;
mod outbound;
mod pair;
mod past;
mod record;
mod returns;
mod ring;
mod segment;
mod waiter;

pub use arena::{Arena, ArenaFull, Block, Frozen};
pub use bell::{Bell, aside};
pub use card::{OwnCard, Showing};
pub use error::Corrupt;
pub use home::Home;
pub use inbound::{Arrival, Inbound, Kind, View};
pub use layout::{EPOCHS, LEDGER_LINES, SHORT_MAX, SLOTS, TICKETS, TINY_MAX};
pub use ledger::{Ledger, read_ledger};
pub use lender::Lender;
pub use origin::Origin;
pub use outbound::{Outbound, PushError, Unsent};
pub use pair::{PairFds, PeerCard};
pub use record::Head;
pub use segment::{OpenError, Segment};
pub use waiter::{Event, Interest, Spin, Waiter, Woken};
