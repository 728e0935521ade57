//! Messages that have arrived at a task and wait to be received, found without a search.
//!
//! A receive names a context and may name a sender and a tag; it gets the message that arrived
//! first of all that match (PVM's rule). Each waiting message is therefore linked, in the order
//! of arrival, into five queues at once:
//!
//! | queue | its first message answers a receive from |
//! |---|---|
//! | context, sender, tag | that sender with that tag |
//! | context, sender | that sender with any tag |
//! | context, tag | any sender with that tag |
//! | context | anyone with any tag |
//! | all | nobody: the order for a match function of the program's own (`pvm_recvf`) |
//!
//! The first four kinds are found by hashing, so that a receive costs the same however many
//! messages wait: one look-up, and one removal for each queue that becomes empty. Nothing is
//! allocated once the store has held as many messages, and as many different queues, as it does
//! now; it never gives memory back before it is dropped.
//!
//! The other side are receives that were posted before their message came ([`Posted`]): each
//! message that arrives goes to the earliest of those that match it, and waits only if there is
//! none.
//!
//! ```
//! use towpath_vm::matching::{Key, Limits, Store, Wanted};
//! use towpath_wire::HostId;
//!
//! let host = HostId::new(1, 0).unwrap();
//! let (ann, bob) = (host.task(1).unwrap(), host.task(2).unwrap());
//! let mut store = Store::new(Limits { messages: 100, bytes: 1 << 20 }, 0x5eed);
//! store.insert(Key { source: ann, tag: 7, context: 0 }, 5, "hello").unwrap();
//! store.insert(Key { source: bob, tag: 7, context: 0 }, 3, "hey").unwrap();
//! assert_eq!(store.take(&Wanted::any().from(bob).tag(7)).unwrap().payload, "hey");
//! assert_eq!(store.take(&Wanted::any().tag(7)).unwrap().payload, "hello");
//! assert!(store.take(&Wanted::any()).is_none());
//! ```

mod posted;
#[cfg(test)]
mod posted_tests;
mod queues;
mod store;
#[cfg(test)]
mod tests;

pub use posted::{Number, Pattern, Posted, PostedFull};
pub use store::{Counters, Full, Key, Limits, Store, StoreFull, Ticket, Waiting, Wanted};
