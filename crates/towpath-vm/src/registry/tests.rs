use std::collections::BTreeMap;
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::{HostId, TaskId};

use super::{Registry, Reply};
use crate::talk::{Fault, MailRules, RegistryAnswer, RegistryOp};

fn task(n: u32) -> TaskId {
    HostId::new(1, 1).unwrap().task(n).unwrap()
}

type Answers = Vec<(u32, Result<RegistryAnswer, Fault>)>;

struct Asked {
    registry: Registry,
    number: u64,
}

impl Asked {
    fn new() -> Self {
        Self { registry: Registry::default(), number: 0 }
    }

    fn answers(&mut self) -> Answers {
        let replies = core::iter::from_fn(|| self.registry.poll());
        let each =
            |r: Reply| r.askers.into_iter().map(move |(t, _)| (t.number(), r.answer.clone()));
        replies.flat_map(each).collect()
    }

    fn ask(&mut self, who: u32, op: RegistryOp) -> Answers {
        self.number += 1;
        self.registry.apply(task(who), self.number, op);
        self.answers()
    }

    fn one(&mut self, who: u32, op: RegistryOp) -> Result<RegistryAnswer, Fault> {
        let mut answers = self.ask(who, op);
        assert_eq!((answers.len(), answers[0].0), (1, who));
        answers.remove(0).1
    }

    fn join(&mut self, who: u32) -> Result<u32, Fault> {
        self.one(who, RegistryOp::Join("g".into())).map(|a| match a {
            RegistryAnswer::Instance(i) => i,
            other => panic!("{other:?}"),
        })
    }

    fn over(&mut self, who: u32) -> Answers {
        self.registry.task_over(task(who));
        self.answers()
    }

    fn put(&mut self, who: u32, index: Option<u32>, rules: MailRules) -> Result<u32, Fault> {
        let content = vec![who as u8];
        let put = RegistryOp::Put { name: "m".into(), index, rules, format: 7, content };
        let mut answers = self.ask(who, put);
        match answers.remove(0).1? {
            RegistryAnswer::Index(i) => Ok(i),
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, who: u32, index: Option<u32>, from: u32, delete: bool) -> Result<u32, Fault> {
        match self.one(who, get(index, from, if delete { "d" } else { "" }))? {
            RegistryAnswer::Mail { index, .. } => Ok(index),
            other => panic!("{other:?}"),
        }
    }
}

/// `how`: `d` to take it out, `w` to wait for it.
fn get(index: Option<u32>, from: u32, how: &str) -> RegistryOp {
    let (delete, wait) = (how.contains('d'), how.contains('w'));
    RegistryOp::Get { name: "m".into(), index, from, delete, wait }
}

fn barrier(count: u32) -> RegistryOp {
    RegistryOp::Barrier { group: "g".into(), count }
}

fn freeze(count: u32) -> RegistryOp {
    RegistryOp::Freeze { group: "g".into(), count }
}

const DONE: Result<RegistryAnswer, Fault> = Ok(RegistryAnswer::Done);

/// `how`: the rules' first letters.
fn rules(how: &str) -> MailRules {
    let has = |letter| how.contains(letter);
    MailRules { persistent: has('p'), many: has('m'), overwritable: has('o') }
}

#[test]
fn a_barrier_lets_everyone_go_at_once_or_nobody() {
    let mut r = Asked::new();
    for n in 1..=4 {
        assert_eq!(r.join(n), Ok(n - 1));
    }
    assert_eq!(r.one(9, barrier(2)), Err(Fault::NotInGroup));
    assert_eq!(r.ask(1, barrier(3)), []);
    assert!(matches!(r.one(2, barrier(2)), Err(Fault::Bad(_))), "another count");
    assert_eq!(r.ask(2, barrier(3)), []);
    assert!(matches!(r.one(2, barrier(3)), Err(Fault::Bad(_))), "it waits already");
    // One that waits ends: three are left, it can still fill.
    assert_eq!(r.over(1), []);
    assert_eq!(r.ask(3, barrier(3)), []);
    assert_eq!(r.ask(4, barrier(3)), [(2, DONE), (3, DONE), (4, DONE)]);
    // It cannot fill any more: those who wait are told.
    assert_eq!(r.ask(2, barrier(3)), []);
    assert_eq!(r.over(3), [(2, Err(Fault::Broken))]);
    // As many as there are members, whoever ends meanwhile.
    assert_eq!(r.ask(2, barrier(0)), []);
    assert_eq!(r.over(4), [(2, DONE)]);
    assert_eq!(r.over(2), []);
    assert!(r.registry.is_empty());
}

#[test]
fn a_group_that_fills_is_frozen_once_and_the_same_for_all() {
    let mut r = Asked::new();
    assert_eq!(r.ask(1, freeze(2)), []);
    assert_eq!(r.join(1), Ok(0));
    let frozen = r.ask(2, RegistryOp::Join("g".into()));
    let [(1, Ok(RegistryAnswer::Members { members, context, version: 2 })), (2, Ok(_))] =
        &frozen[..]
    else {
        panic!("{frozen:?}")
    };
    assert_eq!(members[..], [Some(task(1)), Some(task(2))]);
    assert!(*context >= super::CONTEXT_FIRST);
    assert_eq!(r.join(3), Err(Fault::GroupFrozen));
    assert_eq!(r.one(2, freeze(2)), frozen[0].1, "the same list and context");
    assert_eq!(r.one(2, freeze(3)), Err(Fault::GroupFrozen));
    r.over(1);
    assert_eq!(r.one(2, freeze(0)), frozen[0].1, "though one has ended");
    assert_eq!(r.one(2, barrier(2)), Err(Fault::Broken));
    r.over(2);
    assert!(r.registry.is_empty());
    // The next group of that name has another context.
    r.join(1).unwrap();
    let Ok(RegistryAnswer::Members { context: other, .. }) = r.one(1, freeze(1)) else { panic!() };
    assert_ne!(other, *context);
}

#[test]
fn a_frozen_group_is_gone_with_the_last_who_leaves() {
    let mut r = Asked::new();
    let leave = |r: &mut Asked, n| r.one(n, RegistryOp::Leave("g".into()));
    r.join(1).unwrap();
    r.join(2).unwrap();
    let frozen = r.one(1, freeze(2));
    assert_eq!(leave(&mut r, 1), DONE);
    assert_eq!(leave(&mut r, 1), Err(Fault::NotInGroup));
    assert_eq!(r.join(1), Err(Fault::GroupFrozen));
    assert_eq!(r.one(2, RegistryOp::Members("g".into())), frozen, "the list stays");
    assert_eq!(r.one(2, barrier(0)), DONE);
    assert_eq!(leave(&mut r, 2), DONE);
    assert!(r.registry.is_empty());
    assert_eq!(leave(&mut r, 2), Err(Fault::NoGroup));
}

#[test]
fn a_group_that_was_to_fill_breaks_when_a_member_ends() {
    let mut r = Asked::new();
    assert_eq!(r.join(1), Ok(0));
    assert_eq!(r.join(2), Ok(1));
    assert_eq!(r.ask(1, freeze(3)), []);
    assert_eq!(r.over(2), [(1, Err(Fault::Broken))]);
    assert_eq!(r.ask(1, freeze(3)), []);
    assert_eq!(r.over(1), []);
    assert!(r.registry.is_empty());
}

#[test]
fn mail_follows_its_rules() {
    let mut r = Asked::new();
    let (plain, many, over) = (rules(""), rules("m"), rules("o"));
    assert_eq!(r.put(1, None, plain), Ok(0));
    assert_eq!(r.put(2, None, plain), Err(Fault::Denied));
    assert_eq!(r.put(2, None, over), Err(Fault::Denied));
    assert_eq!(r.put(2, None, many), Ok(1), "one of many finds a place");
    assert_eq!(r.put(2, Some(7), plain), Ok(7), "another goes where it is to go");
    assert_eq!(r.put(3, Some(7), many), Ok(8), "the first free place from there");
    assert_eq!(r.over(3), []);
    assert_eq!(r.over(2), []);
    assert_eq!(r.put(1, Some(0), plain), Ok(0), "the owner may");
    let delete = |index| RegistryOp::Delete { name: "m".into(), index };
    assert_eq!(r.one(2, delete(0)), Err(Fault::Denied));
    assert_eq!(r.get(2, None, 0, true), Err(Fault::Denied));
    assert_eq!(r.get(2, Some(0), 0, false), Ok(0));
    assert_eq!(r.over(1), []);
    assert_eq!(r.get(2, None, 0, false), Err(Fault::NotFound), "it went with its owner");
    // Several.
    for (n, index) in [(1, 0), (2, 1), (3, 2)] {
        assert_eq!(r.put(n, None, many), Ok(index));
    }
    r.over(2);
    assert_eq!(r.get(1, None, 1, false), Ok(2), "the first from there on");
    assert_eq!(r.get(1, Some(1), 0, false), Err(Fault::NotFound));
    assert_eq!(r.put(4, None, many), Ok(1), "the lowest free place");
    for n in [1, 3, 4] {
        r.over(n);
    }
    // Overwritable, and one that outlives its owner.
    assert_eq!(r.put(1, None, over), Ok(0));
    assert_eq!(r.put(2, None, rules("po")), Ok(0));
    r.over(2);
    let Ok(RegistryAnswer::Mail { owner: None, .. }) = r.one(3, get(Some(0), 0, "")) else {
        panic!()
    };
    assert_eq!(r.get(3, Some(0), 0, true), Ok(0));
    assert!(r.registry.is_empty());
}

#[test]
fn those_who_wait_for_mail_get_it_in_turn() {
    let mut r = Asked::new();
    assert_eq!(r.ask(1, get(None, 0, "dw")), []);
    assert_eq!(r.ask(2, get(None, 0, "dw")), []);
    assert_eq!(r.ask(3, get(None, 0, "w")), []);
    r.over(1);
    let over = rules("pmo");
    let served = |r: &mut Asked| -> Vec<u32> {
        let content = vec![];
        let put =
            RegistryOp::Put { name: "m".into(), index: None, rules: over, format: 0, content };
        r.ask(9, put).iter().map(|(who, _)| *who).collect()
    };
    assert_eq!(served(&mut r), [2, 9], "taken away before the third");
    assert_eq!(served(&mut r), [3, 9]);
    assert_eq!(r.registry.len(), (0, 1));
    r.get(4, None, 0, true).unwrap();
    r.registry.forget_waits(task(4));
    assert!(r.registry.is_empty());
}

#[derive(Clone, Debug)]
enum Do {
    Join(u32),
    Leave(u32),
    Over(u32),
}

proptest! {
    /// Against a list that is searched from its front.
    #[test]
    fn instances_are_the_lowest_free_ones(
        ops in proptest::collection::vec(
            prop_oneof![
                (1..8u32).prop_map(Do::Join), (1..8u32).prop_map(Do::Leave),
                (1..8u32).prop_map(Do::Over),
            ], 0..60),
    ) {
        let mut r = Asked::new();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for op in ops {
            match op {
                Do::Join(n) => {
                    let free = (0..9).find(|i| !model.values().any(|v| v == i)).unwrap();
                    let want = if model.contains_key(&n) { Err(Fault::InGroup) } else { Ok(free) };
                    prop_assert_eq!(r.join(n), want);
                    model.entry(n).or_insert(free);
                }
                Do::Leave(n) => {
                    let want = match model.remove(&n) {
                        Some(_) => Ok(RegistryAnswer::Done),
                        None if model.is_empty() => Err(Fault::NoGroup),
                        None => Err(Fault::NotInGroup),
                    };
                    prop_assert_eq!(r.one(n, RegistryOp::Leave("g".into())), want);
                }
                Do::Over(n) => {
                    r.over(n);
                    model.remove(&n);
                }
            }
            let last = model.values().max().map_or(0, |i| i + 1);
            let mut list = vec![None; last as usize];
            for (n, i) in &model {
                list[*i as usize] = Some(task(*n));
            }
            match r.one(1, RegistryOp::Members(String::from("g"))) {
                Ok(RegistryAnswer::Members { members, .. }) => prop_assert_eq!(members, list),
                other => {
                    prop_assert_eq!(other, Err(Fault::NoGroup));
                    prop_assert!(model.is_empty());
                }
            }
        }
    }
}

/// What is kept for those who wait does not grow with their number times the answer's length.
#[test]
fn all_who_wait_for_the_same_share_one_answer() {
    let mut asked = Asked::new();
    for who in 1..=50 {
        asked.join(who).unwrap();
        let freeze = RegistryOp::Freeze { group: "g".into(), count: 51 };
        asked.registry.apply(task(who), 100, freeze);
        let get =
            RegistryOp::Get { name: "m".into(), index: None, from: 0, delete: false, wait: true };
        asked.registry.apply(task(who), 101, get);
    }
    asked.registry.apply(task(51), 1, RegistryOp::Join("g".into()));
    let rules = MailRules::default();
    let put =
        RegistryOp::Put { name: "m".into(), index: None, rules, format: 7, content: vec![1; 9] };
    asked.registry.apply(task(51), 2, put);
    let replies: Vec<Reply> = core::iter::from_fn(|| asked.registry.poll()).collect();
    let shares: Vec<usize> = replies.iter().map(|r| r.askers.len()).collect();
    assert_eq!(shares.iter().filter(|n| **n == 50).count(), 2, "{shares:?}");
    assert_eq!(shares.iter().sum::<usize>(), 102);
}

#[test]
fn waits_that_were_served_or_given_up_do_not_count_as_waiting() {
    let mut r = Asked::new();
    let over = rules("mo");
    let waits = |r: &mut Asked, who| r.ask(who, get(None, 0, "dw"));
    for n in 0..70_000 {
        assert_eq!(waits(&mut r, 1), [], "wait {n}");
        let content = vec![];
        let put =
            RegistryOp::Put { name: "m".into(), index: None, rules: over, format: 0, content };
        assert_eq!(r.ask(9, put).len(), 2, "served");
    }
    // As many as may wait at once, and one more.
    for n in 0..65_536 {
        assert_eq!(waits(&mut r, 2 + n % 2), []);
    }
    let limit = Fault::Limit { what: "waits for mail".into(), limit: 65_536 };
    assert_eq!(waits(&mut r, 4), [(4, Err(limit))]);
    r.over(2);
    assert_eq!(waits(&mut r, 4), [], "half of them are gone");
    r.registry.forget_waits(task(3));
    r.over(4);
    assert!(r.registry.is_empty());
}

#[test]
fn mailboxes_hold_so_many_entries_and_bytes_and_no_more() {
    let mut r = Asked::new();
    let put = |r: &mut Asked, index, bytes| {
        let op = RegistryOp::Put {
            name: "m".into(),
            index,
            rules: rules("o"),
            format: 0,
            content: vec![0; bytes],
        };
        r.one(1, op)
    };
    let limit = |what: &str, limit| Err(Fault::Limit { what: what.into(), limit });
    for index in 0..128 {
        assert_eq!(put(&mut r, Some(index), 512 << 10), Ok(RegistryAnswer::Index(index)));
    }
    assert_eq!(put(&mut r, Some(128), 1), limit("bytes in mailboxes", 64 << 20));
    assert_eq!(put(&mut r, Some(128), 0), Ok(RegistryAnswer::Index(128)));
    // What it takes the place of counts no more.
    assert_eq!(put(&mut r, Some(0), 512 << 10), Ok(RegistryAnswer::Index(0)));
    assert_eq!(put(&mut r, Some(1 << 20), 0), limit("places in a mailbox", 1 << 20));
    for index in 129..65_536 {
        assert_eq!(put(&mut r, Some(index), 0), Ok(RegistryAnswer::Index(index)));
    }
    assert_eq!(put(&mut r, Some(65_536), 0), limit("mailbox entries", 65_536));
    assert_eq!(put(&mut r, Some(65_535), 0), Ok(RegistryAnswer::Index(65_535)));
    assert_eq!(r.registry.len(), (0, 65_536));
    let list = RegistryOp::Mailboxes { pattern: "*".into() };
    assert_eq!(r.one(1, list), limit("bytes of mailboxes listed", 512 << 10));
    r.over(1);
    assert!(r.registry.is_empty());
}
