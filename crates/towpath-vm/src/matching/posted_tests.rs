use std::sync::{Arc, Weak};
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::{HostId, TaskId};

use super::{Key, Number, Pattern, Wanted};
use crate::endpoint::{Body, Endpoint, POSTED_MAX, Parcel};

fn task(number: u32) -> TaskId {
    HostId::new(1, 0).unwrap().task(number + 1).unwrap()
}

/// The rule, word for word: two lists, in the order of arrival and of posting.
#[derive(Default)]
struct Naive {
    waiting: Vec<(Key, u32)>,
    posted: Vec<(Pattern, u32)>,
    claimed: Vec<(u32, u32)>,
}

#[derive(Clone, Debug)]
enum Call {
    Arrive(Key),
    Post(Pattern),
    Cancel(usize),
    Take(Wanted),
    Claimed,
}

/// Few, so that they meet, some with nothing but their upper half between them.
fn tags() -> impl Strategy<Value = i64> {
    (0..4i64, 0..2i64).prop_map(|(low, high)| high << 40 | low)
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let source = proptest::option::of(0..3u32);
    let bits = (tags().prop_map(i64::cast_unsigned), 0..2u32);
    let mask = prop_oneof![
        4 => Just((u64::MAX, u32::MAX)),
        2 => Just((0, u32::MAX)),
        1 => Just((0, 0)),
        2 => (0..4u64, 0..2u32),
        1 => Just((u64::MAX << 32, u32::MAX)),
    ];
    (source, bits, mask).prop_map(|(s, (tag, context), (mask, contexts))| {
        Pattern::masked(s.map(task), tag, mask).contexts(context, contexts)
    })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = (0..3u32, tags(), 0..2u32).prop_map(|(source, tag, context)| Key {
        source: task(source),
        tag,
        context,
    });
    let wanted = (proptest::option::of(0..3u32), proptest::option::of(tags()), 0..2u32)
        .prop_map(|(s, tag, context)| Wanted { source: s.map(task), tag, context });
    let call = prop_oneof![
        6 => key.prop_map(Call::Arrive),
        6 => patterns().prop_map(Call::Post),
        1 => (0..8usize).prop_map(Call::Cancel),
        2 => wanted.prop_map(Call::Take),
        2 => Just(Call::Claimed),
    ];
    proptest::collection::vec(call, 0..200)
}

/// An endpoint beside the rule. Messages and receives are numbered as they come.
#[derive(Default)]
struct Pair {
    naive: Naive,
    numbers: Vec<(Option<Number>, u32)>,
    life: Arc<()>,
    next: u32,
}

impl Pair {
    fn arrive(&mut self, endpoint: &mut Endpoint<u32>, key: Key) {
        self.next += 1;
        let message = self.next;
        endpoint.post(key, 1, Parcel { format: message, body: Body::Route(message) });
        let naive = &mut self.naive;
        match naive.posted.iter().position(|(pattern, _)| pattern.matches(&key)) {
            Some(at) => {
                let (_, receive) = naive.posted.remove(at);
                naive.claimed.push((receive, message));
            }
            None => naive.waiting.push((key, message)),
        }
    }

    fn post(&mut self, endpoint: &mut Endpoint<u32>, pattern: Pattern) {
        self.next += 1;
        let receive = self.next;
        let number = endpoint.post_receive(pattern, receive, Arc::downgrade(&self.life)).unwrap();
        self.numbers.push((number, receive));
        let naive = &mut self.naive;
        match naive.waiting.iter().position(|(key, _)| pattern.matches(key)) {
            Some(at) => {
                let (_, message) = naive.waiting.remove(at);
                naive.claimed.push((receive, message));
            }
            None => naive.posted.push((pattern, receive)),
        }
    }

    /// Takes one receive back, also one whose message has come, or that was taken back before.
    fn cancel(&mut self, endpoint: &mut Endpoint<u32>, at: usize) -> (bool, bool) {
        let Some((number, receive)) = self.numbers.get(at) else { return (false, false) };
        let got = number.is_some_and(|number| endpoint.cancel(number));
        let before = self.naive.posted.len();
        self.naive.posted.retain(|(_, posted)| posted != receive);
        (got, self.naive.posted.len() < before)
    }

    fn take(&mut self, endpoint: &mut Endpoint<u32>, wanted: &Wanted) -> [Option<u32>; 2] {
        let got = endpoint.take(wanted).map(|waiting| waiting.payload.format);
        let at = self.naive.waiting.iter().position(|(key, _)| wanted.matches(key));
        [got, at.map(|at| self.naive.waiting.remove(at).1)]
    }

    fn claimed(&mut self, endpoint: &mut Endpoint<u32>) -> [Option<(u32, u32)>; 2] {
        let got = endpoint.claimed().map(|(slot, waiting)| (slot, waiting.payload.format));
        let claimed = &mut self.naive.claimed;
        [got, (!claimed.is_empty()).then(|| claimed.remove(0))]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_order_of_posting_and_arriving_matches_as_two_lists_do(calls in calls()) {
        let (mut endpoint, mut pair) = (Endpoint::<u32>::new(7), Pair::default());
        for call in calls {
            match call {
                Call::Arrive(key) => pair.arrive(&mut endpoint, key),
                Call::Post(pattern) => pair.post(&mut endpoint, pattern),
                Call::Cancel(at) => {
                    let (got, expected) = pair.cancel(&mut endpoint, at);
                    prop_assert_eq!(got, expected);
                }
                Call::Take(wanted) => {
                    let [got, expected] = pair.take(&mut endpoint, &wanted);
                    prop_assert_eq!(got, expected);
                }
                Call::Claimed => {
                    let [got, expected] = pair.claimed(&mut endpoint);
                    prop_assert_eq!(got, expected);
                }
            }
            prop_assert_eq!(endpoint.posted(), pair.naive.posted.len());
            prop_assert_eq!(endpoint.store().len(), pair.naive.waiting.len());
        }
    }
}

#[test]
fn a_pattern_never_takes_what_is_the_librarys_own() {
    let all = Pattern::masked(None, u64::MAX, 0);
    let own = Key { source: task(0), tag: 1, context: 1 << 31 };
    assert!(!all.matches(&own));
    assert!(all.matches(&Key { context: 0, ..own }));
}

#[test]
fn a_pattern_is_a_wanted_where_it_says_no_more_and_no_less() {
    for wanted in [Wanted::any(), Wanted::any().tag(-7).context(3), Wanted::any().from(task(1))] {
        assert_eq!(Pattern::from(wanted).wanted(), Some(wanted));
    }
    assert_eq!(Pattern::masked(None, 6, !1).wanted(), None);
}

#[test]
fn posted_receives_have_a_limit() {
    let mut endpoint = Endpoint::<u32>::new(7);
    let pattern = Pattern::from(Wanted::any());
    let life = Arc::new(());
    let alive = || Arc::downgrade(&life);
    for slot in 0..POSTED_MAX as u32 {
        endpoint.post_receive(pattern, slot, alive()).unwrap().unwrap();
    }
    let full = endpoint.post_receive(pattern, 0, alive()).unwrap_err();
    assert_eq!(full.limit, POSTED_MAX);
    // One fewer, and there is room for another.
    endpoint.post(
        Key { source: task(0), tag: 0, context: 0 },
        0,
        Parcel { format: 0, body: Body::Route(0) },
    );
    assert_eq!(endpoint.claimed().unwrap().0, 0);
    endpoint.post_receive(pattern, 0, alive()).unwrap().unwrap();
}

#[test]
fn a_receive_that_nobody_has_any_more_takes_nothing() {
    let mut endpoint = Endpoint::<u32>::new(7);
    let life = Arc::new(());
    let pattern = Pattern::from(Wanted::any());
    endpoint.post_receive(pattern, 1, Weak::new()).unwrap();
    endpoint.post_receive(pattern, 2, Arc::downgrade(&life)).unwrap();
    let key = Key { source: task(0), tag: 0, context: 0 };
    endpoint.post(key, 0, Parcel { format: 0, body: Body::Route(0) });
    assert_eq!(endpoint.claimed().unwrap().0, 2);
    assert_eq!(endpoint.posted(), 0);
}
