use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::invitations::{INVITATIONS_MAX, Secret};
use crate::talk::{Fault, MailRules, RegistryAnswer};

fn founded() -> ControlState {
    let host = Host {
        id: HostId::new(1, 1).unwrap(),
        name: "one".into(),
        addr: ([127, 0, 0, 1], 7000).into(),
        key: [0; 32],
        arch: "any".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        state: HostState::Up,
        fields: Fields::default(),
    };
    ControlState::new(ControlLog::found(host, 2000))
}

fn join(key: u8, name: &str) -> Command {
    let addr = ([127, 0, 0, 1], 7000 + u16::from(key)).into();
    let (arch, name) = ("any".to_string(), name.to_string());
    let fields = Fields::try_from(vec![200, 1, key]).unwrap();
    let (key, speed, cpus, slots, token) = ([key; 32], 1000, 2, 2, None);
    Command::Join(Join { key, name, addr, arch, speed, cpus, slots, fields, token })
}

fn ask(asker: TaskId, op: RegistryOp<Body>) -> Command {
    Command::Ask(Ask { asker, number: 7, serial: <_>::default(), op })
}

fn put(asker: TaskId) -> Command {
    let (name, content) = ("m".into(), Body::Here(vec![1, 2, 3]));
    let rules = MailRules::default();
    ask(asker, RegistryOp::Put { name, index: None, rules, format: 0, content })
}

#[test]
fn ids_and_names_are_given_when_a_join_is_applied() {
    let mut state = founded();
    let [mut one, mut two] = [join(1, "one"), join(2, "one")].map(Some);
    let mut joined = |at: u64, command: &mut Option<Command>| {
        let effects = state.apply(at, command.take().expect("once"));
        let [Effect::Changed(entry), Effect::Joined(id)] = &effects[..] else {
            panic!("{effects:?}")
        };
        let Change::Added(host) = &entry.change else { panic!("{entry:?}") };
        assert_eq!((host.id, u64::from(id.incarnation())), (*id, entry.index));
        (id.slot(), id.incarnation(), host.name.clone())
    };
    // Both were asked for before either was applied.
    assert_eq!(joined(1, &mut two), (2, 2, "one~2".into()));
    assert_eq!(joined(2, &mut one), (3, 3, "one~3".into()));
}

#[test]
fn a_key_that_is_up_is_lost_before_it_is_another_host_of_the_same_name() {
    let mut state = founded();
    state.apply(1, join(1, "two"));
    let old = state.table().by_key(&[1; 32]).unwrap().clone();
    let waits = RegistryOp::Join("g".into());
    state.apply(2, ask(old.id.task(1).unwrap(), waits));
    let effects = state.apply(3, join(1, "two"));
    let [Effect::Changed(lost), Effect::Changed(added), Effect::Joined(id)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((&lost.change, lost.index, added.index), (&Change::Lost(old.id), 3, 4));
    assert_eq!((id.slot(), id.incarnation()), (3, 4));
    assert_eq!(state.table().get(*id).unwrap().name, "two");
    assert!(state.registered().is_empty() && state.registry().is_empty(), "its tasks are over");
}

#[test]
fn a_deleted_host_is_named_once_and_what_its_tasks_asked_for_after_it_does_nothing() {
    let mut state = founded();
    state.apply(1, join(1, "two"));
    let two = state.table().by_key(&[1; 32]).unwrap().id;
    let leave = Command::Leave(Leave { host: two, deleted: true });
    let effects = state.apply(2, leave.clone());
    assert!(matches!(&effects[..], [Effect::Changed(e)] if e.change == Change::Left(two)));
    assert_eq!(state.deleted(), &[([1; 32], two)].into());
    assert_eq!(state.apply(3, leave), []);
    assert_eq!(state.apply(4, Command::Lost(two)), []);
    assert_eq!(state.apply(5, ask(two.task(1).unwrap(), RegistryOp::Join("g".into()))), []);
    assert!(state.registered().is_empty() && state.registry().is_empty());
}

#[test]
fn an_answer_is_an_effect_of_the_command_that_gave_it() {
    let mut state = founded();
    let [a, b] = [1, 2].map(|n| state.leader().task(n).unwrap());
    let get = RegistryOp::Get { name: "m".into(), index: None, from: 0, delete: false, wait: true };
    assert_eq!(state.apply(1, ask(a, get)), []);
    let effects = state.apply(2, put(b));
    let replies: Vec<_> = effects
        .into_iter()
        .map(|e| match e {
            Effect::Reply(reply) => (reply.askers, reply.answer.is_ok()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert!(replies.contains(&(vec![(a, 7)], true)) && replies.contains(&(vec![(b, 7)], true)));
    // Whose waits are forgotten is not answered any more.
    let barrier = |count| RegistryOp::Barrier { group: "g".into(), count };
    state.apply(3, ask(a, RegistryOp::Join("g".into())));
    state.apply(4, ask(b, RegistryOp::Join("g".into())));
    assert_eq!(state.apply(5, ask(a, barrier(2))), []);
    assert_eq!(state.apply(6, Command::ForgetWaits(a.host())), []);
    assert_eq!(state.apply(7, ask(b, barrier(2))), []);
    let answer = |e: &Effect| matches!(e, Effect::Reply(r) if r.answer == Err(Fault::Broken));
    assert!(state.apply(8, Command::TaskOver(a)).iter().any(answer), "b waits in vain");
}

#[test]
fn what_is_kept_for_an_entry_is_released_behind_the_last_answer_that_names_it() {
    let mut state = founded();
    let me = state.leader();
    let [a, b] = [1, 2].map(|n| me.task(n).unwrap());
    let kept = |number| Kept { holder: me, number, len: 300_000, crc: 0 };
    let put = |asker, number, many| {
        let rules = MailRules { many, ..MailRules::default() };
        let (name, content) = ("m".into(), Body::Kept(kept(number)));
        ask(asker, RegistryOp::Put { name, index: None, rules, format: 0, content })
    };
    let get = |delete| {
        let (name, wait) = ("m".into(), false);
        RegistryOp::Get { name, index: None, from: 0, delete, wait }
    };
    let released = |effects: Vec<Effect>| -> Vec<u64> {
        let first = effects.iter().position(|e| matches!(e, Effect::Released(_)));
        let replies = effects.iter().rposition(|e| matches!(e, Effect::Reply(_)));
        assert!(first.is_none() || replies < first, "{effects:?}");
        let number = |e: &Effect| match e {
            Effect::Released(kept) => Some(kept.number),
            _ => None,
        };
        effects.iter().filter_map(number).collect()
    };
    assert_eq!(released(state.apply(1, put(a, 1, false))), []);
    assert_eq!(released(state.apply(2, put(b, 2, false))), [2], "it may not");
    assert_eq!(released(state.apply(3, put(a, 3, false))), [1], "its own is overwritten");
    let size = state.encode().len();
    assert!(size < 1000, "{size} bytes for 300 000 in a mailbox");
    assert_eq!(released(state.apply(4, ask(b, get(false)))), []);
    let effects = state.apply(5, ask(a, get(true)));
    let names = matches!(&effects[0], Effect::Reply(Reply {
        answer: Ok(RegistryAnswer::Mail { content: Body::Kept(k), .. }), ..
    }) if k.number == 3);
    assert!(names, "{effects:?}");
    assert_eq!(released(effects), [3]);
    for number in 4..7 {
        assert_eq!(released(state.apply(number + 2, put(a, number, true))), []);
    }
    assert_eq!(released(state.apply(9, Command::TaskOver(a))), [4, 5, 6]);
    let gone = HostId::new(7, 7).unwrap().task(1).unwrap();
    assert_eq!(released(state.apply(10, put(gone, 7, true))), [7], "its host went before");
}

#[test]
fn what_was_taken_out_of_a_mailbox_is_kept_until_whoever_took_it_has_it() {
    let mut state = founded();
    let me = state.leader();
    let asker = me.task(1).unwrap();
    let kept = Kept { holder: me, number: 1, len: 300_000, crc: 0 };
    let by = |this, open, op| {
        let serial = Serial { this, open };
        Command::Ask(Ask { asker, number: this, serial, op })
    };
    let (rules, content) = (MailRules::default(), Body::Kept(kept));
    let put = RegistryOp::Put { name: "m".into(), index: None, rules, format: 0, content };
    let take = || {
        let (name, wait) = ("m".into(), false);
        by(2, 2, RegistryOp::Get { name, index: None, from: 0, delete: true, wait })
    };
    state.apply(1, by(1, 1, put));
    let first = state.apply(2, take());
    assert!(matches!(&first[..], [Effect::Reply(r)] if r.answer.is_ok()), "{first:?}");
    assert_eq!(state.kept(), BTreeSet::from([kept]));
    // Whoever leads next knows the same, and may have to say it again.
    let mut next = ControlState::decode(&state.encode()).expect("a state");
    assert_eq!(next, state);
    assert_eq!(next.apply(3, take()), first);
    let settled = next.apply(4, by(3, 3, RegistryOp::Groups));
    assert!(matches!(settled[..], [Effect::Reply(_), Effect::Released(k)] if k == kept));
    assert_eq!(
        (state.apply(3, Command::TaskOver(asker)), next.kept().len()),
        (vec![Effect::Released(kept)], 0)
    );
}

#[test]
fn what_only_an_answer_names_after_a_new_life_goes_with_the_answer() {
    let mut state = founded();
    let me = state.leader();
    let [owner, reader] = [1, 2].map(|n| me.task(n).unwrap());
    let kept = Kept { holder: me, number: 1, len: 300_000, crc: 0 };
    let by = |asker, op| {
        let serial = Serial { this: 1, open: 1 };
        Command::Ask(Ask { asker, number: 1, serial, op })
    };
    let (rules, content) = (MailRules::default(), Body::Kept(kept));
    let put = RegistryOp::Put { name: "m".into(), index: None, rules, format: 0, content };
    let (name, wait) = ("m".into(), false);
    let get = RegistryOp::Get { name, index: None, from: 0, delete: false, wait };
    state.apply(1, by(owner, put));
    state.apply(2, by(reader, get));
    // The owner has ended, its entry with it; the reader may still ask for its answer.
    let like = ControlState::from_snapshot(state.snapshot().clone());
    let mut next = like.with_tasks_of(state, |task| task == reader);
    assert_eq!(next.kept(), BTreeSet::from([kept]));
    assert_eq!(next.apply(3, Command::TaskOver(reader)), [Effect::Released(kept)]);
}

#[test]
fn the_latest_deleted_hosts_are_remembered_until_they_are_up_again() {
    let mut state = founded();
    let (mut at, mut ids) = (0, Vec::new());
    for n in 0..=DELETED_MAX as u32 {
        let mut key = [9; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        let Command::Join(join) = join(9, "two") else { unreachable!() };
        state.apply(at + 1, Command::Join(Join { key, ..join.clone() }));
        let host = state.table().by_key(&key).unwrap().id;
        state.apply(at + 2, Command::Leave(Leave { host, deleted: true }));
        ids.push((key, host));
        at += 2;
    }
    assert_eq!((state.deleted().len(), state.deleted().get(&ids[0].0)), (DELETED_MAX, None));
    assert_eq!(state.deleted().get(&ids[1].0), Some(&ids[1].1));
    // By a token: without one it is not let in.
    state.apply(at + 1, invite(7, None));
    let Command::Join(join) = by_token(9, 7, 50) else { unreachable!() };
    state.apply(at + 2, Command::Join(Join { key: ids[1].0, ..join }));
    assert_eq!(state.deleted().get(&ids[1].0), None, "it is a host again");
    let kept = state.deleted().clone();
    assert_eq!(founded().with_deleted(kept.clone()).deleted(), &kept);
    // Kept before it was up again, and not after.
    let key = ids[1].0;
    assert_eq!(state.with_deleted([(key, ids[1].1), ids[2]]).deleted(), &[ids[2]].into());
}

fn command(op: u8, key: u8, state: &ControlState) -> Command {
    let known = state.table().by_key(&[key; 32]).map(|h| h.id);
    match (op, known) {
        (1, Some(id)) if key > 0 => Command::Lost(id),
        (2, Some(host)) if key > 0 => {
            Command::Leave(Leave { host, deleted: key.is_multiple_of(2) })
        }
        (3, Some(id)) => ask(id.task(1).unwrap(), RegistryOp::Join("g".into())),
        (4, Some(id)) => put(id.task(2).unwrap()),
        (5, Some(id)) => Command::TaskOver(id.task(1).unwrap()),
        (6, Some(id)) => Command::ForgetWaits(id),
        (7, _) => invite(key % 2, Some(2)),
        (8, _) => Command::Revoke([key % 2; 16]),
        (9, _) => by_token(key.max(1), key % 2, 5),
        (10, Some(id)) => Command::Keeps(id),
        _ => join(key.max(1), "two"),
    }
}

proptest! {
    #[test]
    fn the_same_commands_make_the_same_state_however_often_each_comes(
        ops in proptest::collection::vec((0..11u8, 0..6u8), 0..60),
        from in 0..60usize,
    ) {
        let (mut one, mut other) = (founded(), founded());
        let mut all = Vec::new();
        for (i, (op, key)) in ops.into_iter().enumerate() {
            if i == from {
                other = ControlState::decode(&one.encode()).unwrap();
            }
            let command = command(op, key, &one);
            prop_assert_eq!(Command::decode(&command.encode()), Ok(command.clone()));
            let index = i as u64 + 1;
            let effects = one.apply(index, command.clone());
            prop_assert_eq!(&effects, &other.apply(index, command.clone()));
            all.push((index, command));
            for (index, command) in &all {
                prop_assert_eq!(other.apply(*index, command.clone()), [], "twice is once");
            }
            prop_assert_eq!(&one, &other);
        }
    }

    #[test]
    fn any_bytes_decode_or_fail_without_a_panic(bytes: Vec<u8>) {
        let _ = (Command::decode(&bytes), ControlState::decode(&bytes));
    }
}

fn issued(nonce: [u8; 16], expiry_unix_s: u64, uses_max: Option<u32>) -> Issued {
    Issued { nonce, secret: Secret([1; 32]), expiry_unix_s, uses_max, uses: 0, revoked: false }
}

fn invite(nonce: u8, uses_max: Option<u32>) -> Command {
    let issued = issued([nonce; 16], 100, uses_max);
    Command::Invite(Invite { issued, at_unix_s: 40 })
}

/// A newcomer with a token, at this time.
fn by_token(key: u8, nonce: u8, at_unix_s: u64) -> Command {
    let Command::Join(facts) = join(key, "n") else { unreachable!() };
    Command::Join(Join { token: Some(Shown { nonce: [nonce; 16], at_unix_s }), ..facts })
}

#[test]
fn a_token_counts_those_that_it_admits_whoever_leads() {
    let mut state = founded();
    assert_eq!(state.apply(1, invite(7, Some(2))), [Effect::Issued(true)]);
    let admits = |effects: Vec<Effect>| match &effects[..] {
        [.., Effect::Joined(_)] => Ok(()),
        [Effect::Uninvited(why)] => Err(*why),
        other => panic!("{other:?}"),
    };
    assert_eq!(admits(state.apply(2, by_token(1, 7, 50))), Ok(()));
    // Another one leads: what it has of the state is all that counts.
    let mut state = ControlState::decode(&state.encode()).unwrap();
    state.apply(3, Command::Lead(state.leader()));
    assert_eq!(admits(state.apply(4, by_token(2, 7, 99))), Ok(()));
    assert_eq!(admits(state.apply(5, by_token(3, 7, 50))), Err(NotGood::UsedUp));
    // Whoever is in the table comes back without.
    assert_eq!(admits(state.apply(6, by_token(2, 7, 50))), Ok(()));
    assert_eq!(state.invitations().iter().map(|i| i.uses).collect::<Vec<_>>(), [2]);
    assert_eq!(state.apply(7, invite(8, None)), [Effect::Issued(true)]);
    assert_eq!(admits(state.apply(8, by_token(3, 8, 100))), Err(NotGood::Expired));
    assert_eq!(admits(state.apply(9, by_token(3, 8, 99))), Ok(()));
    for revoked in [true, false] {
        let at = if revoked { 10 } else { 11 };
        assert_eq!(state.apply(at, Command::Revoke([8; 16])), [Effect::Revoked(revoked)]);
    }
    assert_eq!(admits(state.apply(12, by_token(4, 8, 50))), Err(NotGood::Revoked));
    assert_eq!(state.table().len(), 4, "nothing has come of those that were not admitted");
    // What other hosts are told has nothing of it.
    let told = ControlState::from_snapshot(state.snapshot().clone());
    assert_eq!(told.invitations().iter().count(), 0);
}

/// Who kept the log knows the secret of every token that was good then.
#[test]
fn tokens_are_revoked_with_a_host_that_is_deleted_and_may_know_them() {
    for (keeps, deleted) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut state = founded();
        for (index, key) in [(1, 1), (2, 2)] {
            state.apply(index, join(key, "n"));
        }
        state.apply(3, invite(7, None));
        let host = state.table().by_key(&[1; 32]).unwrap().id;
        if keeps {
            state.apply(4, Command::Keeps(host));
            assert_eq!(state.keepers().len(), 2, "it, and who leads");
        }
        assert_eq!(state.is_keeper(host), keeps);
        // Over lives: it is known by its key.
        state.apply(5, Command::Lost(host));
        state.apply(6, join(1, "n"));
        let host = state.table().by_key(&[1; 32]).unwrap().id;
        let effects = state.apply(7, Command::Leave(Leave { host, deleted }));
        let revoked = keeps && deleted;
        assert_eq!(effects.contains(&Effect::AllRevoked(host, 1)), revoked, "{effects:?}");
        assert_eq!(state.invitations().has(&[7; 16]), !revoked);
        let admitted = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Joined(_)));
        assert_eq!(admitted(&state.apply(8, by_token(3, 7, 50))), !revoked);
        // One that is issued from now on is none of these.
        state.apply(9, invite(8, None));
        assert!(admitted(&state.apply(10, by_token(4, 8, 50))));
    }
    // Who led knows them, too, though nobody asked it to keep the log.
    let mut state = founded();
    state.apply(1, join(1, "n"));
    let [founder, other] = [0, 1].map(|key| state.table().by_key(&[key; 32]).unwrap().id);
    state.apply(2, Command::Keeps(other));
    state.apply(3, invite(7, None));
    state.apply(4, Command::Lead(other));
    let effects = state.apply(5, Command::Leave(Leave { host: founder, deleted: true }));
    assert!(effects.contains(&Effect::AllRevoked(founder, 1)), "{effects:?}");
    assert!(!state.is_keeper(founder) && state.is_keeper(other));
}

#[test]
fn where_too_many_may_know_tokens_those_are_revoked() {
    let mut state = founded();
    let Command::Join(facts) = join(9, "n") else { unreachable!() };
    let mut at = 0;
    let mut apply = |state: &mut ControlState, command| {
        at += 1;
        state.apply(at, command)
    };
    for n in 1..KEEPERS_MAX as u32 {
        let mut key = [9; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        apply(&mut state, Command::Join(Join { key, ..facts.clone() }));
        let host = state.table().by_key(&key).unwrap().id;
        if n + 1 == KEEPERS_MAX as u32 {
            apply(&mut state, invite(7, None));
        }
        apply(&mut state, Command::Keeps(host));
        assert!(state.keepers().len() <= KEEPERS_MAX);
        apply(&mut state, Command::Leave(Leave { host, deleted: false }));
    }
    assert_eq!(state.keepers().len(), 2, "the last, and who leads");
    assert!(!state.invitations().has(&[7; 16]));
    assert_eq!(ControlState::decode(&state.encode()), Ok(state));
}

#[test]
fn so_many_tokens_are_good_at_once_and_those_that_are_over_make_room() {
    let mut state = founded();
    let invite = |n: u64, at_unix_s| {
        let nonce = u128::from(n).to_le_bytes();
        let issued = issued(nonce, 100, None);
        Command::Invite(Invite { issued, at_unix_s })
    };
    let most = INVITATIONS_MAX as u64;
    for n in 1..=most {
        assert_eq!(state.apply(n, invite(n, 5)), [Effect::Issued(true)]);
    }
    assert!(!state.invitations().has_room(99) && state.invitations().has_room(100));
    assert_eq!(state.apply(most + 1, invite(most + 1, 99)), [Effect::Issued(false)]);
    assert_eq!(state.apply(most + 2, invite(1, 99)), [Effect::Issued(true)], "the same again");
    let changes = state.invitations().changes();
    assert_eq!(changes, most + 1);
    assert_eq!(state.apply(most + 3, invite(most + 1, 100)), [Effect::Issued(true)]);
    // Others stay: a host that was let in by one is known by it.
    assert_eq!(state.invitations().iter().count(), INVITATIONS_MAX);
    assert_eq!(
        state.apply(most + 4, Command::Revoke(9_u128.to_le_bytes())),
        [Effect::Revoked(true)]
    );
    assert_eq!(state.apply(most + 5, invite(most + 2, 5)), [Effect::Issued(true)]);
    assert!(!state.invitations().iter().any(|i| i.nonce == 9_u128.to_le_bytes()), "it went first");
    // Of a list that was kept no more are taken.
    let more = (0..=most).map(|n| {
        let nonce = u128::from(n).to_le_bytes();
        issued(nonce, 1, None)
    });
    assert_eq!(Invitations::of(more).iter().count(), INVITATIONS_MAX);
}

#[test]
fn what_another_version_wrote_is_told_from_what_is_damaged() {
    let mut bytes = founded().encode();
    assert_eq!(ControlState::decode(&bytes[..bytes.len() - 1]), Err(StateError::Malformed));
    bytes[0] += 1;
    assert_eq!(ControlState::decode(&bytes), Err(StateError::Version(STATE_VERSION + 1)));
    assert!(matches!(Command::decode(&[255, 0, 1]), Err(crate::MessageError::Unknown(255))));
}

#[test]
fn all_fields_together_fit_into_a_message_to_a_newcomer() {
    let mut state = founded();
    let long =
        Fields::try_from([200, 126].into_iter().chain([7; 126]).collect::<Vec<u8>>()).unwrap();
    let joins = |index: u64| {
        let Command::Join(mut facts) = join(1, "n") else { unreachable!() };
        facts.key[..8].copy_from_slice(&(index + 1).to_le_bytes());
        facts.fields = long.clone();
        Command::Join(facts)
    };
    let most = (FIELDS_ALL_MAX / 128) as u64;
    for index in 1..=most {
        assert_ne!(state.apply(index, joins(index)), [Effect::Full]);
    }
    assert_eq!(state.apply(most + 1, joins(most + 1)), [Effect::Full]);
    // Whoever comes back has its own fields' room.
    assert_eq!(state.apply(most + 2, joins(most)).len(), 3);
}

#[test]
fn a_state_that_says_what_must_be_known_is_refused_by_name() {
    let mut state = founded();
    let Command::Join(mut facts) = join(1, "n") else { unreachable!() };
    facts.fields = Fields::try_from(vec![5, 0]).unwrap();
    let unknown = ParseError::Unknown { field: "a field of a host", value: 5 };
    let command = Command::Join(facts);
    let refused = crate::MessageError::Refused(1, unknown);
    assert_eq!(Command::decode(&command.encode()), Err(refused));
    state.apply(1, command);
    assert_eq!(ControlState::decode(&state.encode()), Err(StateError::Refused(unknown)));
}

#[test]
fn every_slot_taken_refuses_a_newcomer_and_changes_nothing() {
    let mut state = founded();
    for index in 0..4094_u64 {
        let Command::Join(mut facts) = join(1, "n") else { unreachable!() };
        facts.key[..8].copy_from_slice(&(index + 1).to_le_bytes());
        state.apply(index + 1, Command::Join(facts));
    }
    let before = state.snapshot().clone();
    assert_eq!(state.apply(5000, join(255, "late")), [Effect::Full]);
    assert_eq!(*state.snapshot(), before);
    let answer = state.apply(5001, ask(state.leader().task(1).unwrap(), RegistryOp::Groups));
    assert!(
        matches!(&answer[..], [Effect::Reply(r)] if r.answer == Ok(RegistryAnswer::Groups(vec![])))
    );
}

#[test]
fn a_name_with_a_slot_is_known_as_the_name_without() {
    let long = "a".repeat(NAME_MAX);
    assert_eq!(with_slot("node", 7), "node~7");
    assert_eq!(with_slot(&long, 4095).len(), NAME_MAX);
    for (name, plain, is) in [
        ("node", "node", true),
        ("node~7", "node", true),
        ("node~", "node", false),
        ("node~x", "node", false),
        ("node~07", "node", false),
        ("node~70000", "node", false),
        ("mode~7", "node", false),
        ("~7", "", false),
        ("a~1~2", "a~1", true),
        ("a~1~2", "a", false),
    ] {
        assert_eq!(is_with_slot(name, plain), is, "{name} of {plain}");
    }
    assert!(is_with_slot(&with_slot(&long, 12), &long));
}

#[test]
fn a_host_that_is_deleted_while_it_asks_to_come_back_is_not_let_in() {
    let mut state = founded();
    state.apply(1, join(1, "two"));
    let two = state.table().by_key(&[1; 32]).unwrap().id;
    // It was in the table when it asked, so that it needed no token.
    let again = join(1, "two");
    state.apply(2, Command::Leave(Leave { host: two, deleted: true }));
    let refused = [Effect::Uninvited(NotGood::Revoked)];
    assert_eq!(state.apply(3, again), refused);
    assert!(state.table().by_key(&[1; 32]).is_none());
    assert_eq!(state.deleted(), &[([1; 32], two)].into(), "it is to hear of that");
}

#[test]
fn a_host_drains_until_it_is_told_otherwise_or_comes_back() {
    let mut state = founded();
    state.apply(1, join(1, "two"));
    let two = state.table().by_key(&[1; 32]).unwrap().id;
    let drain = |on| Command::Drain(Drain { host: two, on });
    let drains = |state: &ControlState| state.table().by_key(&[1; 32]).unwrap().drains();
    let mut member = ControlState::from_snapshot(state.snapshot().clone());
    let effects = state.apply(2, drain(true));
    let [Effect::Changed(entry)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(entry.change, Change::Drains(two, true));
    member.follow(entry).unwrap();
    assert!(drains(&state) && drains(&member));
    assert_eq!(member.snapshot(), state.snapshot());
    assert_eq!(state.apply(3, drain(true)), [], "it does");
    // What it says of itself stays as it came.
    let said = |state: &ControlState| {
        state.table().by_key(&[1; 32]).unwrap().fields.get(200).map(<[u8]>::to_vec)
    };
    assert_eq!(said(&state), Some(vec![1]));
    let Ok(read) = ControlState::decode(&state.encode()) else { panic!("it decodes") };
    assert!(drains(&read));
    state.apply(4, drain(false));
    assert!(!drains(&state));
    assert_eq!(said(&state), Some(vec![1]));
    state.apply(5, drain(true));
    state.apply(6, join(1, "two"));
    assert!(drains(&state), "it was lost, and is back");
    assert_eq!(state.apply(7, drain(false)), [], "who it was is gone");
    let again = state.table().by_key(&[1; 32]).unwrap().id;
    state.apply(9, Command::Leave(Leave { host: again, deleted: false }));
    state.apply(10, join(1, "two"));
    assert!(!drains(&state), "it was taken out");
    let nobody = Command::Drain(Drain { host: HostId::new(9, 9).unwrap(), on: true });
    assert_eq!(state.apply(11, nobody), []);
}

#[test]
fn one_that_asks_nobody_gives_each_command_a_ticket_and_the_next_place() {
    let mut alone = Alone::default();
    let commands = [join(1, "a"), join(2, "b"), join(3, "c")];
    let tickets = commands.clone().map(|command| alone.propose(command));
    assert_eq!(tickets, [1, 2, 3].map(Ticket));
    for (at, command) in (1..).zip(commands) {
        let decided = Outcome::Committed(at, Ticket(at), command);
        assert_eq!(alone.poll(), Some(decided));
    }
    assert_eq!(alone.poll(), None);
}

#[test]
fn only_a_host_that_is_up_comes_to_lead() {
    let mut state = founded();
    state.apply(1, join(1, "two"));
    let two = state.table().by_key(&[1; 32]).expect("it joined").id;
    let stranger = HostId::new(9, 9).expect("a host");
    assert!(state.apply(2, Command::Lead(stranger)).is_empty());
    assert_ne!(state.leader(), stranger);
    let effects = state.apply(3, Command::Lead(two));
    assert!(matches!(&effects[..], [Effect::Changed(e)] if e.change == Change::Leads(two)));
    assert_eq!(state.leader(), two);
    let one = HostId::new(1, 1).expect("a host");
    state.apply(4, Command::Lost(one));
    assert!(state.apply(5, Command::Lead(one)).is_empty());
    assert_eq!(state.leader(), two);
}

#[test]
fn a_host_that_goes_on_alone_begins_a_log_anew_with_all_there_is() {
    let mut state = founded();
    state.apply(1, join(1, "two"));
    let two = state.table().by_key(&[1; 32]).expect("it joined").id;
    state.apply(7, ask(two.task(1).expect("a task"), RegistryOp::Join("g".into())));
    let (index, groups) = (state.snapshot().index, state.registry().len());
    assert_eq!(groups.0, 1);
    let mut state = state.go_on(9, two);
    assert_eq!((state.leader(), state.snapshot().term, state.registry().len()), (two, 9, groups));
    assert!(state.snapshot().index > index + 1, "with a gap");
    assert_eq!(state.snapshot().voters, [two]);
    let drains = Command::Drain(Drain { host: two, on: true });
    assert!(!state.apply(1, drains).is_empty(), "the first command of the new log counts");
    let state = state.without_tasks();
    assert!(state.registry().is_empty() && state.table().len() == 2);
}
