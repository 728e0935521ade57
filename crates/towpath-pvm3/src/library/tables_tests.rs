//! What the library tells of itself: handlers, masks, groups by host, numbers of types and traces.

use super::{Function, Library, MASK, Wait, built_in, flags_of, size_of};
use crate::code::Code;
use crate::message::{Element, Encoding, Message};
use crate::strided::Strided;
use crate::tid;
use crate::trace_names::{DATUM, EVENT, datum, event, event_name, event_of};
use crate::vm::fake::World;

unsafe extern "C" fn nothing(_: i32) -> i32 {
    0
}

#[test]
fn handlers_of_a_task_are_listed_until_they_are_deleted() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    assert_eq!(library.handlers(), []);
    let number = library.add_handler(me, 77, 5, nothing).unwrap();
    let own = library.handlers().len() - 1;
    assert_eq!(library.handlers()[own..], [(number, me, 77, 5)]);
    let second = library.add_handler(-1, 78, -1, nothing).unwrap();
    assert_eq!(library.handlers()[own..], [(number, me, 77, 5), (second, -1, 78, -1)]);
    assert_eq!(library.delete_handler(number), Ok(0));
    assert_eq!(library.handlers()[own..], [(second, -1, 78, -1)]);
    assert_eq!(library.delete_handler(number), Err(Code::NotFound));
}

#[test]
fn masks_are_the_tasks_own_and_its_childrens() {
    let world = World::default();
    let library = world.library();
    library.my_tid().unwrap();
    let blank = library.trace_mask(0).unwrap();
    assert_eq!(
        (blank, library.trace_mask(1)),
        ([&[b'@'; MASK - 1][..], &[0]].concat()[..].try_into().unwrap(), Ok(blank))
    );
    let (mut own, mut child) = (blank, blank);
    (own[0], child[3]) = (b'A', b'B');
    assert_eq!((library.set_trace_mask(0, own), library.set_trace_mask(1, child)), (Ok(0), Ok(0)));
    assert_eq!((library.trace_mask(0), library.trace_mask(1)), (Ok(own), Ok(child)));
    assert_eq!(library.trace_mask(2), Err(Code::BadParam));
    assert_eq!(library.set_trace_mask(2, own), Err(Code::BadParam));
    // An option that is set is read, whoever may set it.
    assert_eq!((library.set_option(2, 9), library.option(2)), (Ok(0), Ok(9)));
    assert_eq!(library.set_option(23, 1), Err(Code::NotImpl));
    assert_eq!((library.set_option(25, 1), library.option(25)), (Ok(0), Ok(1)));
    assert_eq!((library.set_option(25, 0), library.option(25)), (Ok(1), Ok(0)));
    assert_eq!(library.set_option(10, 9000), Ok(4080));
}

#[test]
fn members_of_a_group_are_told_host_by_host() {
    let world = World::default();
    world.program("member", |library: &Library, _: &[String]| {
        library.join_group("g").unwrap();
        library.barrier("g", 4).unwrap();
        library.barrier("g", 4).unwrap();
    });
    let library = world.library();
    let me = library.my_tid().unwrap();
    library.join_group("g").unwrap();
    assert_eq!(library.others("g"), []);
    let here = library.spawn(b"member", &[], 1, b"one", 1).unwrap();
    let there = library.spawn(b"member", &[], 1, b"two", 2).unwrap();
    library.barrier("g", 4).unwrap();
    let (one, two) = (tid::host_of(me), 2 << 18);
    let first_there = *there.iter().min().expect("two of them");
    assert_eq!(library.group_hosts("g"), Ok(vec![(me.min(here[0]), 2), (first_there, 2)]));
    assert_eq!(library.group_on_host("g", one), Ok((me.min(here[0]), 2, 2)));
    assert_eq!(library.group_on_host("g", two), Ok((first_there, 2, 2)));
    assert_eq!(library.group_on_host("g", 3 << 18), Err(Code::NoGroup));
    assert_eq!(library.group_on_host("q", one), Err(Code::NoGroup));
    let mut others = library.others("g");
    others.sort_unstable();
    let mut expected = [here, there].concat();
    expected.sort_unstable();
    assert_eq!(others, expected);
    assert_eq!(library.others("q"), []);
    library.barrier("g", 4).unwrap();
    world.finish();
}

#[test]
fn whether_a_message_fits_is_told_of_any_buffer() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    library.init_send(0).unwrap();
    library.send(me, 4).unwrap();
    let id = library.receive(me, 4, Wait::No).unwrap();
    for (source, tag, fits) in
        [(me, 4, 1), (-1, 4, 1), (me, -1, 1), (-1, -1, 1), (me + 1, 4, 0), (me, 5, 0)]
    {
        assert_eq!(library.match_plainly(id, source, tag), fits, "{source:#x} {tag}");
    }
    library.set_context(9);
    assert_eq!(library.match_plainly(id, me, 4), 0, "another context");
    assert_eq!(library.match_plainly(id + 1000, me, 4), Code::NoSuchBuf.number());
}

#[test]
fn the_clock_of_a_host_is_told_beside_ones_own() {
    let world = World::default();
    let library = world.library();
    let me = library.my_tid().unwrap();
    let begun = std::time::Instant::now();
    let (there, ahead) = library.host_clock(tid::host_of(me)).unwrap();
    let took = begun.elapsed().as_micros() as u64 + 1_000_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let here = there.checked_add_signed(ahead).unwrap();
    assert!((now.as_micros() as u64).abs_diff(here) <= took, "{there} {ahead}");
    assert_eq!(library.host_clock(0), Err(Code::NoHost));
}

#[test]
fn types_have_the_numbers_and_sizes_of_pvm() {
    let sizes = [0, 1, 2, 4, 4, 8, 8, 16, 8, 2, 4, 8];
    for (number, size) in (0..).zip(sizes) {
        let element = Element::of_data_type(number);
        match number {
            0 => assert_eq!(element, Err(Code::NotImpl)),
            _ => assert_eq!(element.map(Element::size), Ok(size), "type {number}"),
        }
        let grouped = match number {
            0 => Ok(1),
            1..=8 => Ok(size as i32),
            _ => Err(Code::BadParam),
        };
        assert_eq!(size_of(number), grouped, "type {number} in groups");
    }
    assert_eq!(Element::of_data_type(12), Err(Code::BadParam));
    assert_eq!(Element::of_data_type(-1), Err(Code::BadParam));
}

#[test]
fn functions_combine_reals_one_by_one() {
    let of = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_ne_bytes()).collect() };
    for (function, expected) in [
        (Function::Max, [3.0, 2.0, -1.0]),
        (Function::Min, [1.5, -2.0, -1.0]),
        (Function::Sum, [4.5, 0.0, -2.0]),
        (Function::Product, [4.5, -4.0, 1.0]),
    ] {
        let mut data = of(&[1.5, 2.0, -1.0]);
        built_in(function, 4, &mut data, &of(&[3.0, -2.0, -1.0])).unwrap();
        assert_eq!(data, of(&expected), "{function:?}");
    }
    let of = |values: &[f64]| -> Vec<u8> { values.iter().flat_map(|v| v.to_ne_bytes()).collect() };
    let mut data = of(&[1.5, 2.0]);
    built_in(Function::Sum, 6, &mut data, &of(&[3.0, -2.0])).unwrap();
    assert_eq!(data, of(&[4.5, 0.0]));
    assert!(built_in(Function::Sum, 9, &mut data, &of(&[3.0, -2.0])).is_err());
}

#[test]
fn text_comes_back_out_of_a_message_and_says_when_it_is_cut() {
    let mut message = Message::new(Encoding::DEFAULT, Vec::new());
    message.pack_int(7).unwrap();
    message.pack_text(b"some text").unwrap();
    message.pack_text(b"").unwrap();
    message.pack_int(99).unwrap();
    assert_eq!(message.first_int(), Some(7));
    message.begin_unpacking();
    let all = message.rest();
    assert_eq!(message.unpack_int(), Ok(7));
    assert_eq!(message.rest(), all - 4);
    assert_eq!(message.unpack_text(), Ok(b"some text".to_vec()));
    assert_eq!(message.unpack_text(), Ok(Vec::new()));
    // A length beyond the end, and one below zero.
    assert_eq!(message.unpack_text(), Err(Code::NoData));
    let mut message = Message::new(Encoding::DEFAULT, Vec::new());
    message.pack_int(-3).unwrap();
    message.begin_unpacking();
    assert_eq!(message.unpack_text_len(), Ok(None));
    let mut message = Message::new(Encoding::DEFAULT, Vec::new());
    assert_eq!(message.first_int(), None);
    message.begin_unpacking();
    assert_eq!((message.rest(), message.unpack_int()), (0, Err(Code::NoData)));
}

#[test]
fn events_and_data_have_the_numbers_of_their_names() {
    for (number, name) in EVENT.iter().enumerate().take(60) {
        let name = name.to_str().unwrap();
        assert_eq!((event(name), event_of(&format!("pvm_{name}"))), (number, number));
        assert_eq!(event_name(number).to_str(), Ok(name));
    }
    for (number, (name, _)) in (0..).zip(DATUM) {
        let name = name.to_str().unwrap();
        if !name.is_empty() {
            let first = DATUM.iter().position(|(other, _)| other.to_str() == Ok(name));
            assert_eq!(Some(datum(name) as usize), first, "{number}");
        }
    }
}

#[test]
fn hosts_are_named_in_reasonable_numbers_and_clocks_are_compared() {
    let world = World::default();
    let library = world.library();
    let names = |count: usize| vec!["x".to_owned(); count];
    assert_eq!(library.add_hosts(&names(4096)), Err(Code::BadParam));
    assert_eq!(library.add_hosts(&names(4095)).map(|codes| codes.len()), Ok(4095));
    assert_eq!(library.delete_hosts(&names(4096)), Err(Code::BadParam));
    assert_eq!(library.delete_hosts(&names(4095)), Ok(vec![Code::NoHost.number(); 4095]));
    assert_eq!(library.delete_hosts(&[]), Err(Code::BadParam));
    assert_eq!(library.add_hosts(&["two".into(), "x".into()]), Ok(vec![2 << 18, -29]));
    let now = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        i64::try_from(since.as_micros()).unwrap()
    };
    let before = now();
    let (there, ahead) = library.host_clock(2 << 18 | 5).unwrap();
    assert_eq!(there, 1_000_000);
    assert!((before - 1_000_000..=now() - 1_000_000).contains(&ahead));
    for numbers in [1, 10] {
        assert_eq!(library.tickle(numbers), Ok(0));
    }
    assert_eq!(library.tickle(11), Err(Code::BadParam));
    assert_eq!((library.host_status("two"), library.host_status(".")), (Ok(0), Ok(0)));
    assert_eq!(library.arch_code("LINUX64"), Ok(crate::message::DSIG));
    assert_eq!((library.free_context(0x7_fff6), library.halt()), (Err(Code::NotFound), Ok(0)));
}

#[test]
fn an_old_entry_is_looked_up_at_its_place_or_anywhere() {
    let world = World::default();
    let library = world.library();
    assert_eq!(library.insert("old", 3, 7), Ok(3));
    assert_eq!(library.look_up("old", 0), Err(Code::NotFound));
    assert_eq!(
        (library.look_up("old", 3), library.look_up("old", -1)),
        (Ok((3, Some(7))), Ok((3, Some(7))))
    );
    for index in [-2, i32::MIN] {
        assert_eq!(library.look_up("old", index), Err(Code::BadParam));
        assert_eq!(library.insert("old", index, 1), Err(Code::BadParam));
    }
    for (name, failed) in [("", Code::BadParam), ("q", Code::NotFound)] {
        assert_eq!(library.look_up(name, -1), Err(failed));
    }
    assert_eq!(library.insert("", 0, 1), Err(Code::BadParam));
    assert_eq!(library.delete_info("old", -1), Err(Code::BadParam));
    assert_eq!(library.delete_info("old", 0), Err(Code::NotFound));
}

#[test]
fn a_reset_deletes_what_outlived_its_owner() {
    let world = World::default();
    let (library, gone) = (world.library(), world.library());
    let me = library.my_tid().unwrap();
    for owner in [&library, &gone] {
        owner.init_send(0).unwrap();
        owner.pack(Element::Byte, Strided::bytes(&[1])).unwrap();
    }
    let put = |owner: &Library, name: &str, flags| owner.put_info(name, owner.send_buffer(), flags);
    // Persistent, several in a mailbox, and anybody may delete them.
    for name in ["a", "b"] {
        assert_eq!(
            (put(&gone, name, 7), put(&gone, name, 7), put(&library, name, 7)),
            (Ok(0), Ok(1), Ok(2))
        );
    }
    gone.exit().unwrap();
    let left = || -> Vec<(String, Vec<i32>)> {
        let boxes = library.mailboxes("").unwrap();
        boxes.into_iter().map(|(name, all)| (name, all.iter().map(|one| one.0).collect())).collect()
    };
    let expect =
        |a: &[i32], b: &[i32]| vec![("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())];
    assert_eq!(left(), expect(&[0, 1, 2], &[0, 1, 2]));
    library.reset(me, false, "a", 1).unwrap();
    assert_eq!(left(), expect(&[0, 2], &[0, 1, 2]));
    library.reset(me, false, "", 0).unwrap();
    assert_eq!(left(), expect(&[2], &[1, 2]));
    library.reset(me, false, "b", -1).unwrap();
    assert_eq!(left(), expect(&[2], &[2]), "what has an owner stays");
    assert_eq!(world.signals(), []);
    for (flags, rules) in [(0, 0), (1, 1), (2, 2), (4, 4), (7, 7), (5, 5)] {
        library.delete_info("r", 0).unwrap_or_default();
        put(&library, "r", flags).unwrap();
        let boxes = library.mailboxes("r").unwrap();
        assert_eq!(flags_of(boxes[0].1[0].2), rules);
    }
}
