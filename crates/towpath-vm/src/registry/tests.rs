use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::{HostId, TaskId};

use super::groups::GROUPS_OF_TASK_MAX;
use super::mail::{
    BYTES_OF_TASK_MAX, ENTRIES_MAX, ENTRIES_OF_TASK_MAX, MAIL_BYTES_MAX, PERSISTENT_BYTES_MAX,
    PERSISTENT_MAX, WAITS_OF_TASK_MAX,
};
use super::{Body, Registry, Reply};
use crate::talk::{Fault, MailRules};

fn task(n: u32) -> TaskId {
    HostId::new(1, 1).unwrap().task(n).unwrap()
}

type RegistryOp = crate::talk::RegistryOp<Body>;
type RegistryAnswer = crate::talk::RegistryAnswer<Body>;
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
        let content = Body::Here(vec![who as u8]);
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
        let content = Body::Here(vec![]);
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
    let put = RegistryOp::Put {
        name: "m".into(),
        index: None,
        rules,
        format: 7,
        content: Body::Here(vec![1; 9]),
    };
    asked.registry.apply(task(51), 2, put);
    let replies: Vec<Reply> = core::iter::from_fn(|| asked.registry.poll()).collect();
    let shares: Vec<usize> = replies.iter().map(|r| r.askers.len()).collect();
    assert_eq!(shares.iter().filter(|n| **n == 50).count(), 2, "{shares:?}");
    assert_eq!(shares.iter().sum::<usize>(), 102);
}

fn fault(what: &str, limit: usize) -> Fault {
    Fault::Limit { what: what.into(), limit: limit as u64 }
}

fn put_in(name: &str, how: &str, len: usize) -> RegistryOp {
    let content = Body::Here(vec![0; len]);
    RegistryOp::Put { name: name.into(), index: None, rules: rules(how), format: 0, content }
}

/// Puts entries of `len` bytes into mailboxes of their own until one is refused; how many went in,
/// and why no more did.
fn fill(r: &mut Asked, who: u32, how: &str, len: usize) -> (usize, Fault) {
    for n in 0.. {
        if let Err(why) = r.one(who, put_in(&std::format!("{who} {how} {n}"), how, len)) {
            return (n, why);
        }
    }
    unreachable!("there is a limit")
}

#[test]
fn a_task_that_fills_mailboxes_leaves_room_for_the_others() {
    let mut r = Asked::new();
    let full = fault("mailbox entries of one task", ENTRIES_OF_TASK_MAX);
    assert_eq!(fill(&mut r, 1, "", 1), (ENTRIES_OF_TASK_MAX, full.clone()));
    assert_eq!(r.put(2, None, rules("")), Ok(0), "another task has room");
    // In the stead of an entry of its own there is room, and again where one is gone.
    assert!(r.one(1, put_in("1  7", "", 1)).is_ok());
    assert_eq!(r.one(1, put_in("more", "", 1)), Err(full));
    assert_eq!(r.one(1, RegistryOp::Delete { name: "1  7".into(), index: 0 }), DONE);
    assert!(r.one(1, put_in("more", "", 1)).is_ok());
    // What does not outlive its task makes room with its end.
    r.over(1);
    assert_eq!(r.registry.len(), (0, 1));
    assert_eq!(fill(&mut r, 1, "", 1).0, ENTRIES_OF_TASK_MAX);
    // All tasks together.
    for who in 3..5 {
        assert_eq!(fill(&mut r, who, "", 1).0, ENTRIES_OF_TASK_MAX);
    }
    let left = ENTRIES_MAX - 3 * ENTRIES_OF_TASK_MAX - 1;
    assert_eq!(fill(&mut r, 6, "", 1), (left, fault("mailbox entries", ENTRIES_MAX)));
}

#[test]
fn bytes_in_mailboxes_have_limits_of_a_task_and_in_all() {
    let (mut r, len) = (Asked::new(), 512 << 10);
    for who in 1..=4 {
        let why = if who == 4 {
            // The last quarter: both limits are reached, that of all is told.
            fault("bytes in mailboxes", MAIL_BYTES_MAX)
        } else {
            fault("bytes in mailboxes of one task", BYTES_OF_TASK_MAX)
        };
        assert_eq!(fill(&mut r, who, "", len), (BYTES_OF_TASK_MAX / len, why));
    }
    r.over(2);
    assert_eq!(fill(&mut r, 5, "", len).0, BYTES_OF_TASK_MAX / len);
}

#[test]
fn what_outlives_its_tasks_never_takes_more_than_half() {
    let (mut r, len) = (Asked::new(), 512 << 10);
    let mut stayed = 0;
    let why = loop {
        let who = 1 + stayed as u32;
        let (count, why) = fill(&mut r, who, "p", len);
        stayed += count;
        r.over(who);
        if count == 0 {
            break why;
        }
    };
    let what = "bytes in mailboxes that outlive their owners";
    assert_eq!(why, fault(what, PERSISTENT_BYTES_MAX));
    assert_eq!(stayed, PERSISTENT_BYTES_MAX / len);
    assert_eq!(fill(&mut r, 500, "", len).0, BYTES_OF_TASK_MAX / len, "room for the living");
    // Somebody who takes one away makes room for another.
    r.over(500);
    assert!(r.one(501, put_in("late", "p", len)).is_err());
    let first = "1 p 0".to_string();
    let take = RegistryOp::Get { name: first, index: None, from: 0, delete: true, wait: false };
    assert_eq!(r.one(501, take), Err(Fault::Denied), "it was not overwritable");
    assert!(r.one(501, put_in("late", "po", 1)).is_err());
}

#[test]
fn persistent_entries_have_a_limit_by_number() {
    let mut r = Asked::new();
    for who in [1, 2] {
        assert_eq!(fill(&mut r, who, "po", 0).0, PERSISTENT_MAX / 2);
        r.over(who);
    }
    let what = "mailbox entries that outlive their owners";
    assert_eq!(fill(&mut r, 3, "po", 0), (0, fault(what, PERSISTENT_MAX)));
    let name = "1 po 0".to_string();
    let take = RegistryOp::Get { name, index: None, from: 0, delete: true, wait: false };
    assert!(r.one(3, take).is_ok());
    assert_eq!(fill(&mut r, 3, "po", 0).0, 1);
}

#[test]
fn waits_for_mail_have_a_limit_of_a_task_and_served_ones_do_not_count() {
    let mut r = Asked::new();
    for round in 0..3 {
        for _ in 0..WAITS_OF_TASK_MAX {
            assert_eq!(r.ask(1, get(None, 0, "w")), [], "round {round}");
        }
        let full = fault("waits for mail of one task", WAITS_OF_TASK_MAX);
        assert_eq!(r.one(1, get(None, 0, "w")), Err(full));
        assert_eq!(r.ask(2, get(None, 0, "w")), [], "another task may wait");
        match round {
            0 => r.registry.forget_waits(task(1)),
            1 => drop(r.over(1)),
            _ => {
                let served = r.ask(3, put_in("m", "", 1));
                assert!(served.len() > WAITS_OF_TASK_MAX, "{}", served.len());
                assert_eq!(r.one(3, RegistryOp::Delete { name: "m".into(), index: 0 }), DONE);
                assert_eq!(r.ask(1, get(None, 0, "w")), [], "it waits for none any more");
            }
        }
    }
}

#[test]
fn a_task_is_in_so_many_groups_and_not_more() {
    let mut r = Asked::new();
    let join = |n: usize| RegistryOp::Join(std::format!("g{n}"));
    for n in 0..GROUPS_OF_TASK_MAX {
        assert!(r.one(1, join(n)).is_ok());
    }
    let full = fault("groups of one task", GROUPS_OF_TASK_MAX);
    assert_eq!(r.one(1, join(GROUPS_OF_TASK_MAX)), Err(full.clone()));
    let wait = RegistryOp::Freeze { group: "other".into(), count: 2 };
    assert_eq!(r.one(1, wait), Err(full));
    assert!(r.one(2, join(GROUPS_OF_TASK_MAX)).is_ok(), "another task may");
    // One that it is in already may fill.
    assert_eq!(r.ask(1, RegistryOp::Freeze { group: "g0".into(), count: 2 }), []);
    assert_eq!(r.one(1, RegistryOp::Leave("g1".into())), DONE);
    assert!(r.one(1, join(GROUPS_OF_TASK_MAX)).is_ok());
    r.over(1);
    assert_eq!(r.registry.len().0, 1, "its groups end with it");
}

#[test]
fn a_mailbox_has_so_many_places() {
    let mut r = Asked::new();
    let op = RegistryOp::Put {
        name: "m".into(),
        index: Some(1 << 20),
        rules: rules("o"),
        format: 0,
        content: Body::Here(vec![]),
    };
    assert_eq!(r.one(1, op), Err(fault("places in a mailbox", 1 << 20)));
}

#[test]
fn a_frozen_group_meets_with_as_many_as_are_left() {
    let mut r = Asked::new();
    for n in 1..=3 {
        r.join(n).unwrap();
    }
    r.ask(1, freeze(3));
    assert_eq!(r.over(3), []);
    assert_eq!(r.one(1, barrier(3)), Err(Fault::Broken), "the third never comes");
    assert_eq!(r.ask(1, barrier(2)), []);
    assert_eq!(r.ask(2, barrier(2)), [(1, DONE), (2, DONE)]);
    assert_eq!(r.one(2, barrier(1)), DONE);
}

#[test]
fn every_change_of_a_group_is_a_version_of_it() {
    let mut r = Asked::new();
    let seen = |r: &mut Asked| match r.one(9, RegistryOp::Members("g".into())) {
        Ok(RegistryAnswer::Members { members, version, context: 0 }) => {
            (members.iter().map(|one| one.map_or(0, TaskId::number)).collect::<Vec<_>>(), version)
        }
        other => panic!("{other:?}"),
    };
    for (n, version) in (1..=3).zip(1..) {
        r.join(n).unwrap();
        assert_eq!(seen(&mut r).1, version);
    }
    assert_eq!(r.over(2), []);
    assert_eq!(seen(&mut r), (vec![1, 0, 3], 4));
    assert_eq!(r.one(3, RegistryOp::Leave("g".into())), DONE);
    assert_eq!(seen(&mut r), (vec![1], 5), "holes at the end are none");
    assert_eq!(r.join(4), Ok(1), "the lowest that is free");
    assert_eq!(seen(&mut r), (vec![1, 4], 6));
}

#[test]
fn mailboxes_are_listed_by_pattern_with_what_is_in_them_within_a_limit() {
    let mut asked = Asked::new();
    let rules = MailRules { many: true, persistent: true, overwritable: false };
    let put = |asked: &mut Asked, name: &str, rules| {
        let (name, content) = (name.to_string(), Body::Here(vec![1]));
        let put = RegistryOp::Put { name, index: None, rules, format: 0, content };
        assert!(matches!(asked.one(5, put), Ok(RegistryAnswer::Index(_))));
    };
    put(&mut asked, "sums", rules);
    put(&mut asked, "sums", rules);
    put(&mut asked, "other", MailRules::default());
    let list = |asked: &mut Asked, pattern: &str| {
        asked.one(6, RegistryOp::Mailboxes { pattern: pattern.into() }).map(|answer| match answer {
            RegistryAnswer::Mailboxes(boxes) => boxes,
            other => panic!("{other:?}"),
        })
    };
    let names = |boxes: &[crate::talk::Mailbox]| -> Vec<String> {
        boxes.iter().map(|b| b.name.clone()).collect()
    };
    let sums = list(&mut asked, "sums").unwrap();
    assert_eq!(names(&sums), ["sums"]);
    let owner = Some(task(5));
    assert_eq!(sums[0].entries, [(0, owner, rules), (1, owner, rules)]);
    assert_eq!(names(&list(&mut asked, "*").unwrap()), ["other", "sums"]);
    assert_eq!(names(&list(&mut asked, "none").unwrap()), [""; 0]);
    // A box whose entries are gone is none.
    let gone = RegistryOp::Delete { name: "other".into(), index: 0 };
    asked.one(5, gone).unwrap();
    assert_eq!(names(&list(&mut asked, "*").unwrap()), ["sums"]);
    // Half a MiB of them, each of 4 bytes, its name and 20 for each entry, and no more.
    let longest = 200;
    let (each, limit) = (longest + 4 + 20, 512 << 10);
    let others = "sums".len() + 4 + 2 * 20;
    let fit = (limit - others) / each;
    for n in 0..fit {
        put(&mut asked, &std::format!("{n:0>longest$}"), rules);
    }
    assert_eq!(list(&mut asked, "*").unwrap().len(), fit + 1);
    put(&mut asked, &std::format!("{fit:0>longest$}"), rules);
    let told = list(&mut asked, "*");
    let expected = Fault::Limit { what: "bytes of mailboxes listed".into(), limit: limit as u64 };
    assert_eq!(told.unwrap_err(), expected);
}

#[test]
fn another_life_gives_other_contexts_to_groups() {
    let context = |life: u64| {
        let mut r = Asked { registry: Registry::of_life(life), number: 0 };
        r.one(1, RegistryOp::Join("g".into())).unwrap();
        match r.one(1, RegistryOp::Freeze { group: "g".into(), count: 1 }) {
            Ok(RegistryAnswer::Members { context, .. }) => context,
            other => panic!("{other:?}"),
        }
    };
    let first: Vec<u32> = (0..1000).chain([u64::MAX]).map(context).collect();
    assert!(first.iter().all(|c| (super::CONTEXT_FIRST..1 << 31 | 1 << 30).contains(c)));
    let mut apart = first[..1000].to_vec();
    apart.sort_unstable();
    assert!(apart.windows(2).all(|two| two[1] - two[0] >= 1 << 20), "a million groups in each");
}
