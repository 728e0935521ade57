use std::collections::BTreeSet;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::{HostId, TaskId};

use super::*;

fn task(number: u32) -> TaskId {
    HostId::new(1, 0).unwrap().task(number + 1).unwrap()
}

fn key(source: u32, tag: i64, context: u32) -> Key {
    Key { source: task(source), tag, context }
}

fn wanted(source: Option<u32>, tag: Option<i64>, context: u32) -> Wanted {
    Wanted { source: source.map(task), tag, context }
}

const LIMITS: Limits = Limits { messages: 60, bytes: 500 };

/// The rule, word for word: all in the order of arrival, the first that matches.
#[derive(Default)]
struct Naive {
    all: Vec<Waiting<u32>>,
}

impl Naive {
    fn bytes(&self) -> u64 {
        self.all.iter().map(|m| m.bytes).sum()
    }

    fn insert(&mut self, key: Key, bytes: u64, payload: u32) -> bool {
        let room = self.all.len() < 60 && self.bytes() + bytes <= 500;
        if room {
            self.all.push(Waiting { key, bytes, payload });
        }
        room
    }

    fn find(&self, wanted: &Wanted) -> Option<usize> {
        self.all.iter().position(|m| wanted.matches(&m.key))
    }

    /// Queues that a store with the same messages has.
    fn queues(&self) -> usize {
        let keys = || self.all.iter().map(|m| (m.key.context, m.key.source, m.key.tag));
        keys().collect::<BTreeSet<_>>().len()
            + keys().map(|k| (k.0, k.1)).collect::<BTreeSet<_>>().len()
            + keys().map(|k| (k.0, k.2)).collect::<BTreeSet<_>>().len()
            + keys().map(|k| k.0).collect::<BTreeSet<_>>().len()
    }
}

#[derive(Clone, Debug)]
enum Call {
    Insert(u32, i64, u32, u64),
    Take(Option<u32>, Option<i64>, u32),
    TakeOutOfTurn(usize),
    RemoveSource(u32),
    RemoveContext(u32),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let (source, tag, context) = (0..5u32, -1..4i64, 0..3u32);
    // Some have nothing but their upper half between them.
    let tag = (tag, 0..2i64).prop_map(|(low, high)| low ^ high << 40);
    let some = |s: std::ops::Range<u32>| proptest::option::of(s);
    let insert = (source.clone(), tag.clone(), context.clone(), 0..20u64);
    let take = (some(source), proptest::option::of(tag), context);
    let call = prop_oneof![
        12 => insert.prop_map(|(s, t, c, b)| Call::Insert(s, t, c, b)),
        8 => take.prop_map(|(s, t, c)| Call::Take(s, t, c)),
        2 => (0..60usize).prop_map(Call::TakeOutOfTurn),
        1 => (0..5u32).prop_map(Call::RemoveSource),
        1 => (0..3u32).prop_map(Call::RemoveContext),
    ];
    proptest::collection::vec(call, 0..300)
}

fn by_source(store: &mut Store<u32>, naive: &mut Naive, source: u32) -> (Vec<u32>, Vec<u32>) {
    let mut got = Vec::new();
    store.remove_source(task(source), |m| got.push(m.payload));
    let leaves = |m: &Waiting<u32>| m.key.source == task(source);
    let expected = naive.all.iter().filter(|m| leaves(m)).map(|m| m.payload).collect();
    naive.all.retain(|m| !leaves(m));
    got.sort_unstable();
    (got, expected)
}

fn by_context(store: &mut Store<u32>, naive: &mut Naive, context: u32) -> (Vec<u32>, Vec<u32>) {
    let mut got = Vec::new();
    store.remove_context(context, |m| got.push(m.payload));
    let leaves = |m: &Waiting<u32>| m.key.context == context;
    let expected = naive.all.iter().filter(|m| leaves(m)).map(|m| m.payload).collect();
    naive.all.retain(|m| !leaves(m));
    (got, expected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn it_answers_as_a_list_searched_from_its_front(calls in calls(), seed: u64) {
        let (mut store, mut naive) = (Store::new(LIMITS, seed), Naive::default());
        let (mut refused, mut inserted) = (0, 0);
        for (number, call) in (0..).zip(calls) {
            match call {
                Call::Insert(source, tag, context, bytes) => {
                    let key = key(source, tag, context);
                    let kept = naive.insert(key, bytes, number);
                    match store.insert(key, bytes, number) {
                        Ok(ticket) => {
                            prop_assert!(kept);
                            prop_assert_eq!(store.waiting(ticket).unwrap().payload, number);
                            inserted += 1;
                        }
                        Err(full) => {
                            prop_assert!(!kept);
                            prop_assert_eq!(full.payload, number);
                            refused += 1;
                        }
                    }
                }
                Call::Take(source, tag, context) => {
                    let wanted = wanted(source, tag, context);
                    let expected = naive.find(&wanted).map(|at| naive.all.remove(at));
                    let shown = store.probe(&wanted).map(|(ticket, m)| (ticket, m.payload));
                    let got = store.take(&wanted);
                    prop_assert_eq!(shown.map(|s| s.1), got.as_ref().map(|m| m.payload));
                    prop_assert_eq!(got, expected);
                    if let Some((ticket, _)) = shown {
                        prop_assert_eq!(store.take_ticket(ticket), None);
                        prop_assert_eq!(store.payload_mut(ticket), None);
                    }
                }
                Call::TakeOutOfTurn(at) => {
                    let ticket = store.iter().nth(at).map(|(ticket, _)| ticket);
                    if let Some(ticket) = ticket {
                        *store.payload_mut(ticket).unwrap() ^= 1 << 31;
                        naive.all[at].payload ^= 1 << 31;
                        prop_assert_eq!(store.take_ticket(ticket).unwrap(), naive.all.remove(at));
                    }
                }
                Call::RemoveSource(source) => {
                    let (got, expected) = by_source(&mut store, &mut naive, source);
                    prop_assert_eq!(got, expected);
                }
                Call::RemoveContext(context) => {
                    let (got, expected) = by_context(&mut store, &mut naive, context);
                    prop_assert_eq!(got, expected);
                }
            }
            prop_assert!(store.iter().map(|(_, m)| m).eq(&naive.all));
            for context in 0..3 {
                let of = naive.all.iter().filter(|m| m.key.context == context);
                prop_assert!(store.iter_context(context).map(|(_, m)| m).eq(of));
            }
            prop_assert_eq!(store.bytes(), naive.bytes());
            prop_assert_eq!(store.len(), naive.all.len());
            prop_assert_eq!(store.open_queues(), naive.queues());
        }
        prop_assert_eq!(store.counters().refused, refused);
        prop_assert_eq!(store.counters().inserted, inserted);
    }
}

#[test]
fn each_kind_of_receive_gets_the_earliest_of_all_that_match() {
    let mut store = Store::new(LIMITS, 1);
    let keys = [key(1, 7, 0), key(2, 7, 0), key(1, 8, 0), key(2, 8, 9), key(1, 7, 0)];
    for (number, key) in keys.into_iter().enumerate() {
        store.insert(key, 1, number).unwrap();
    }
    let mut take = |s, t, c| store.take(&wanted(s, t, c)).map(|m| m.payload);
    assert_eq!(take(None, Some(8), 0), Some(2));
    assert_eq!(take(Some(2), None, 0), Some(1));
    assert_eq!(take(Some(1), Some(7), 0), Some(0));
    assert_eq!(take(Some(1), Some(7), 9), None);
    assert_eq!(take(None, None, 0), Some(4));
    assert_eq!(take(None, None, 0), None);
    assert_eq!(take(None, None, 9), Some(3));
    assert!(store.is_empty());
}

#[test]
fn a_full_store_says_what_is_full_and_gives_the_message_back() {
    let mut store = Store::new(Limits { messages: 2, bytes: 10 }, 1);
    store.insert(key(1, 1, 0), 8, 'a').unwrap();
    let full = store.insert(key(1, 1, 0), 3, 'b').unwrap_err();
    assert_eq!(full.payload, 'b');
    assert_eq!(
        full.error.to_string(),
        "8 bytes of messages wait to be received: with 3 more they pass the limit of 10 bytes"
    );
    store.insert(key(1, 1, 0), 2, 'c').unwrap();
    let full = store.insert(key(1, 1, 0), 0, 'd').unwrap_err();
    assert_eq!(full.error.to_string(), "2 messages wait to be received, and no more than 2 may");
    assert_eq!(store.counters().refused, 2);
    let peaks = (store.counters().messages_peak, store.counters().bytes_peak);
    assert_eq!(peaks, (2, 10));
    store.take(&wanted(None, None, 0)).unwrap();
    assert_eq!(store.room(8), Ok(()));
    let more = Err(StoreFull::Bytes { waiting: 2, bytes: u64::MAX, limit: 10 });
    assert_eq!(store.room(u64::MAX), more);
}

#[test]
fn a_ticket_names_its_message_and_none_that_came_after_it() {
    let mut store = Store::new(LIMITS, 1);
    let stale = store.insert(key(1, 1, 0), 1, 'a').unwrap();
    assert_eq!(store.take(&wanted(None, None, 0)).map(|m| m.payload), Some('a'));
    assert_eq!(store.waiting(stale), None);
    // Another one in the same place.
    let fresh = store.insert(key(2, 2, 0), 1, 'b').unwrap();
    assert_ne!(stale, fresh);
    assert_eq!(store.waiting(stale), None);
    assert_eq!(store.payload_mut(stale), None);
    assert_eq!(store.take_ticket(stale), None);
    assert_eq!(store.waiting(fresh).map(|m| m.payload), Some('b'));
    assert_eq!(store.take_ticket(fresh).map(|m| m.payload), Some('b'));
    assert!(store.is_empty());
}
