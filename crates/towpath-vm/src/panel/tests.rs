//! Boards and views against each other, without anything between them.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::collections::VecDeque;

use proptest::prelude::*;
use towpath_wire::{HostId, TaskId};

use super::*;
use crate::talk::encode;

fn task(n: u32) -> TaskId {
    HostId::new(1, 1).unwrap().task(n).unwrap()
}

fn board() -> Board {
    let mut board = Board::new();
    board.parameter(Parameter::real("rate", 0.05).between(-0.1, 1.0)).unwrap();
    board.parameter(Parameter::whole("steps", 17).between(13.0, 20.0)).unwrap();
    board.parameter(Parameter::switch("paused", false)).unwrap();
    board.parameter(Parameter::choice("method", &["tree", "paths"])).unwrap();
    board.series(Series::curves("error", &["mean", "greatest"]).keep(3)).unwrap();
    board.series(Series::field("surface", 64, 64)).unwrap();
    board.show();
    board
}

/// A follower, what is on its way to it, and what it was told.
struct Follower {
    id: TaskId,
    view: Viewed,
    told: Vec<Told>,
    /// Messages that it has not read.
    way: VecDeque<Vec<u8>>,
}

impl Follower {
    fn new(n: u32, board: &mut Board, room: u64) -> Self {
        let (view, first) = Viewed::begin(n.into(), room);
        assert!(!board.handle(task(n), &first));
        board.let_in();
        Self { id: task(n), view, told: Vec::new(), way: VecDeque::new() }
    }

    /// Reads one message.
    fn read(&mut self, board: &mut Board) {
        let Some(bytes) = self.way.pop_front() else { return };
        self.told.extend(self.view.handle(&bytes).unwrap());
        if let Some(owed) = self.view.owed() {
            board.handle(self.id, &owed);
        }
    }

    fn read_all(&mut self, board: &mut Board) {
        deliver(board, &mut [self]);
        while !self.way.is_empty() {
            self.read(board);
            deliver(board, &mut [self]);
        }
    }

    fn points(&self, series: u16) -> Vec<&Point> {
        let mut points = Vec::new();
        for told in &self.told {
            if let Told::Point(point) = told
                && point.series == series
            {
                points.push(point);
            }
        }
        points
    }
}

fn deliver(board: &mut Board, followers: &mut [&mut Follower]) {
    for follower in followers {
        while let Some((to, words)) = board.next_words(|id| id == follower.id) {
            follower.way.push_back(words.to_vec());
            board.sent(to);
        }
    }
}

#[test]
fn a_follower_sees_what_there_is_and_what_changes_and_gets_answers() {
    let mut board = board();
    let [rate, error] = [board.parameter_named("rate").unwrap().0, 0];
    for step in 0..5 {
        board.push(SeriesId(error), step.into(), &[0.5, 1.0]).unwrap();
    }
    let mut ann = Follower::new(1, &mut board, ROOM);
    ann.read_all(&mut board);
    assert!(ann.view.is_shown());
    assert_eq!(ann.view.parameters(), board.parameters());
    let at: Vec<f64> = ann.points(0).iter().map(|point| point.at).collect();
    assert_eq!(at, [2.0, 3.0, 4.0], "the last three are kept");
    assert!(ann.view.has_kept());

    let mut bob = Follower::new(2, &mut board, ROOM);
    deliver(&mut board, &mut [&mut bob]);
    bob.read(&mut board);
    assert!(bob.view.is_shown() && !bob.view.has_kept());
    let (question, set) = ann.view.set(rate, 0.25);
    assert!(board.handle(ann.id, &set));
    assert_eq!(board.value(ParameterId(rate)), Ok(0.25));
    bob.read_all(&mut board);
    ann.way.clear();
    let (refused, set) = ann.view.set(rate, 7.0);
    assert!(!board.handle(ann.id, &set));
    ann.read_all(&mut board);
    let why = "rate: 7 is not from -0.1 to 1".to_string();
    let no = Told::Answer { question: refused, outcome: Err(why) };
    assert_eq!(ann.told.last(), Some(&no));
    assert_ne!(question, refused);
    // He came before the change, and is told who wanted it; his view has it, too.
    let changed = Told::Changed { parameter: rate, value: 0.25, by: Some(ann.id) };
    assert!(bob.told.contains(&changed), "{:?}", bob.told);
    assert_eq!(bob.view.parameters(), board.parameters());
    board.end();
    bob.read_all(&mut board);
    assert_eq!(bob.told.last(), Some(&Told::Over(OverWhy::Ended)));
    assert_eq!(board.followers().collect::<Vec<_>>(), [ann.id]);
    ann.read_all(&mut board);
    assert_eq!(board.followers().count(), 0);
}

#[test]
fn one_that_takes_nothing_loses_points_and_is_told_how_many() {
    let mut board = board();
    let mut slow = Follower::new(1, &mut board, 2 * ROOM_KEPT);
    let surface = vec![1.5; 64 * 64];
    let mut pushed = 0_u64;
    for step in 0..20 {
        board.push(SeriesId(1), f64::from(step), &surface).unwrap();
        pushed += 1;
    }
    let Counts { told, lost, .. } = board.counts();
    assert_eq!((told, told + lost), (1, pushed), "one field fits");
    assert!(board.waiting_bytes() < 2 * ROOM_KEPT as usize);
    slow.read_all(&mut board);
    board.push(SeriesId(1), 20.0, &surface).unwrap();
    slow.read_all(&mut board);
    let points = slow.points(1);
    assert_eq!(points.len(), 2);
    assert_eq!((points[1].at, points[1].lost), (20.0, lost));
    // What it must not miss it is told in the room that points leave; where that is over, it is
    // told nothing more.
    let mut deaf = Follower::new(2, &mut board, 2 * ROOM_KEPT);
    for step in 0..100_000 {
        board.set(ParameterId(0), f64::from(step % 2)).unwrap();
        slow.read_all(&mut board);
    }
    assert_eq!(board.counts().cut_off, 1);
    deaf.read_all(&mut board);
    assert_eq!(deaf.told.last(), None, "it was cut off before it read");
    assert_eq!(board.followers().collect::<Vec<_>>(), [slow.id]);
}

#[test]
fn limits_are_told_by_name() {
    let mut board = Board::new();
    let says = |outcome: Result<(), BoardError>| outcome.unwrap_err().to_string();
    let mut add = |parameter| says(board.parameter(parameter).map(drop));
    assert_eq!(add(Parameter::real("", 1.0)), "a parameter or series without a name");
    let nan = Parameter::real("x", f64::NAN);
    assert_eq!(add(nan), "x: NaN is not a number");
    let long = Parameter::real(&"n".repeat(65), 1.0);
    assert_eq!(add(long), "a parameter's name: 65, limit 64");
    let half = Parameter::whole("n", 1).between(2.0, 3.0);
    assert_eq!(add(half), "n: 1 is not a whole number from 2 to 3");
    let none = Parameter::choice("c", &[]);
    assert!(add(none).starts_with("c: 0 is not one of"));
    for n in 0..PARAMETERS_MAX {
        board.parameter(Parameter::switch(&n.to_string(), true)).unwrap();
    }
    let more = board.parameter(Parameter::switch("more", true)).unwrap_err();
    assert_eq!(more.to_string(), "parameters: 257, limit 256");
    let twice = board.series(Series::curves("7", &["a"])).unwrap_err();
    assert_eq!(twice.to_string(), "there are two things called `7`");
    let large = board.series(Series::field("f", 257, 256)).unwrap_err();
    assert_eq!(large.to_string(), "the values of a point: 65792, limit 65536");
    let kept = board.series(Series::field("f", 256, 256).keep(9)).unwrap_err();
    assert_eq!(kept.to_string(), "bytes of points that are kept: 4719024, limit 4194304");
    let empty = board.series(Series::field("f", u32::MAX, 0).keep(1)).unwrap_err();
    assert_eq!(empty.to_string(), "series `f` has points without values");
    board.series(Series::field("f", 2, 2)).unwrap();
    board.series(Series::curves("g", &["a"])).unwrap();
    let short = board.push(SeriesId(1), 0.0, &[]).unwrap_err();
    assert_eq!(short.to_string(), "a point of 0 values in series `g`, which has 1");
    board.show();
    let late = board.parameter(Parameter::real("late", 0.0)).unwrap_err();
    assert_eq!(late.to_string(), "`late` is added after the others were shown");
}

#[test]
fn the_seventeenth_is_told_that_there_is_no_place() {
    let mut board = board();
    let mut all: Vec<Follower> = (1..=18).map(|n| Follower::new(n, &mut board, ROOM)).collect();
    // Each of them.
    for mut late in all.split_off(16) {
        deliver(&mut board, &mut [&mut late]);
        let why = late.view.handle(&late.way.pop_front().unwrap()).unwrap_err();
        assert_eq!(why.to_string(), "it has 16 followers already, which is the limit");
    }
    assert_eq!(board.followers().count(), FOLLOWERS_MAX);
    let mut next = Follower::new(3, &mut board, 7);
    deliver(&mut board, &mut [&mut next]);
    let why = next.view.handle(&next.way.pop_front().unwrap()).unwrap_err();
    assert!(why.to_string().starts_with("room of 7 bytes: from 131072 to"), "{why}");
    board.forget(task(5));
    let mut now = Follower::new(18, &mut board, ROOM);
    now.read_all(&mut board);
    assert!(now.view.is_shown());
}

#[test]
fn who_comes_later_is_told_the_newest_of_each_series() {
    let mut board = Board::new();
    board.series(Series::curves("long", &["a"]).keep(20_000)).unwrap();
    board.series(Series::curves("short", &["b"]).keep(5)).unwrap();
    board.show();
    for step in 0..30_000 {
        board.push(SeriesId(0), step.into(), &[0.0]).unwrap();
    }
    for step in 0..3 {
        board.push(SeriesId(1), step.into(), &[0.0]).unwrap();
    }
    let mut ann = Follower::new(1, &mut board, 2 * ROOM_KEPT);
    ann.read_all(&mut board);
    assert!(ann.view.has_kept());
    let at: Vec<f64> = ann.points(0).iter().map(|point| point.at).collect();
    assert!(at.len() > 1000 && at.is_sorted() && at.last() == Some(&29_999.0));
    assert!(at.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() <= 0.0), "without a gap");
    assert_eq!(ann.points(1).len(), 3);
    assert!(ann.points(0).iter().all(|point| point.lost == 0), "they were never to be told");
}

#[test]
fn many_that_want_to_follow_cost_no_more_than_their_questions() {
    let mut board = board();
    for n in 0..10_000 {
        let (_, first) = Viewed::begin(n, ROOM);
        board.handle(task(1 + n as u32 % 500), &first);
    }
    assert_eq!(board.waiting_bytes(), 0, "nothing is written before somebody is let in");
    assert!(board.counts().turned_away > 0, "{:?}", board.counts());
    for _ in 0..ASKING_MAX {
        board.let_in();
    }
    let mut told = 0;
    while let Some((to, _)) = board.next_words(|_| true) {
        board.sent(to);
        told += 1;
    }
    assert_eq!(told, ASKING_MAX, "a picture or a refusal each");
}

#[test]
fn what_was_not_sent_does_not_count_as_taken() {
    let mut board = board();
    let mut liar = Follower::new(1, &mut board, 2 * ROOM_KEPT);
    let surface = vec![1.5; 64 * 64];
    let lie = encode(&ToPanel::Taken { bytes: u64::MAX }, Vec::new());
    for step in 0..1000 {
        board.push(SeriesId(1), step.into(), &surface).unwrap();
        board.handle(liar.id, &lie);
        assert!(board.waiting_bytes() <= 2 * ROOM_KEPT as usize + 2048);
    }
    liar.read_all(&mut board);
}

#[test]
fn an_end_says_why_and_nobody_follows_after_it() {
    let mut board = board();
    let mut asked = Follower::new(1, &mut board, ROOM);
    let leave = asked.view.close();
    asked.read_all(&mut board);
    board.handle(asked.id, &leave);
    asked.read_all(&mut board);
    assert_eq!(asked.told.last(), Some(&Told::Over(OverWhy::Asked)));
    let mut slow = Follower::new(2, &mut board, ROOM);
    deliver(&mut board, &mut [&mut slow]);
    board.push(SeriesId(1), 0.0, &vec![0.0; 4096]).unwrap();
    board.end();
    board.end_now();
    slow.read_all(&mut board);
    assert_eq!(slow.told.last(), Some(&Told::Over(OverWhy::Ended)));
    let mut late = Follower::new(3, &mut board, ROOM);
    deliver(&mut board, &mut [&mut late]);
    let why = late.view.handle(&late.way.pop_front().unwrap()).unwrap_err();
    assert_eq!(why, Misfit::Refused(Refusal::Ended));
    // It may be shown again.
    board.show();
    let mut again = Follower::new(3, &mut board, ROOM);
    again.read_all(&mut board);
    assert!(again.view.is_shown());
    // Who gives up before it was let in is not.
    let (view, first) = Viewed::begin(4, ROOM);
    board.handle(task(4), &first);
    board.handle(task(4), &view.close());
    board.let_in();
    assert_eq!(board.followers().collect::<Vec<_>>(), [again.id]);
}

#[test]
fn what_a_panel_shows_is_checked() {
    let shown = |parameters: Vec<Parameter>, series: Vec<Series>| {
        let (mut view, _) = Viewed::begin(1, ROOM);
        let say = FromPanel::Shown { nonce: 1, kept: 0, parameters, series };
        view.handle(&encode(&say, Vec::new()))
    };
    assert!(shown(vec![Parameter::switch("a", true)], Vec::new()).is_ok());
    assert!(shown(vec![Parameter::real("a", f64::NAN)], Vec::new()).is_err());
    assert!(shown(vec![Parameter::real(&"n".repeat(65), 0.0)], Vec::new()).is_err());
    assert!(shown(vec![Parameter::switch("a", true); PARAMETERS_MAX + 1], Vec::new()).is_err());
    assert!(shown(Vec::new(), vec![Series::field("f", u32::MAX, u32::MAX)]).is_err());
    assert!(shown(Vec::new(), vec![Series::field("f", 0, 7)]).is_err());
}

#[test]
fn values_are_read_as_people_write_them() {
    let method = Parameter::choice("method", &["tree", "paths"]);
    assert_eq!(method.read(" paths "), Ok(1.0));
    assert_eq!(method.text_of(1.0), "paths");
    let why = method.read("guess").unwrap_err().to_string();
    assert_eq!(why, "method: guess is not one of tree, paths");
    let paused = Parameter::switch("paused", true);
    assert_eq!((paused.read("off"), paused.text_of(1.0)), (Ok(0.0), "on".into()));
    assert!(paused.read("2").is_err() && paused.check(0.5).is_err());
    let steps = Parameter::whole("steps", 1);
    assert!(steps.read("1.5").is_err() && steps.read("1e300").is_err());
    assert_eq!(steps.read("1e3"), Ok(1000.0));
    assert!(steps.check(f64::INFINITY).is_err() && method.check(2.0).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Push(u16, u8),
    Set(u16, f64),
    Ask(usize, u16, f64),
    Read(usize, u8),
    Deliver,
    Again(usize),
    Leave(usize),
    Garbage(usize, Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = prop_oneof![Just(0.0), Just(1.0), Just(15.0), any::<f64>()];
    let step = prop_oneof![
        4 => (0..3_u16, 1..30_u8).prop_map(|(series, n)| Step::Push(series, n)),
        2 => (0..5_u16, value.clone()).prop_map(|(p, v)| Step::Set(p, v)),
        3 => (0..3_usize, 0..5_u16, value).prop_map(|(f, p, v)| Step::Ask(f, p, v)),
        4 => (0..3_usize, any::<u8>()).prop_map(|(f, n)| Step::Read(f, n)),
        4 => Just(Step::Deliver),
        1 => (0..3_usize).prop_map(Step::Again),
        1 => (0..3_usize).prop_map(Step::Leave),
        1 => (0..3_usize, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(f, bytes)| Step::Garbage(f, bytes)),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    /// Whatever followers do: what waits is bounded by their rooms, each point is told or counted
    /// as lost, and a follower that reads everything has the values that the board has.
    #[test]
    fn what_is_told_is_bounded_and_nothing_is_lost_uncounted(steps in steps()) {
        let mut board = board();
        let mut followers: Vec<Follower> =
            (1..4).map(|n| Follower::new(n, &mut board, 2 * ROOM_KEPT)).collect();
        let surface = vec![0.25; 64 * 64];
        // Of each series, since the follower began: never more than that is told and lost.
        let mut pushed = [[0_u64; 2]; 3];
        for step in steps {
            match step {
                Step::Push(series, times) => for n in 0..times {
                    let values = if series == 0 { &surface[..2] } else { &surface[..] };
                    let outcome = board.push(SeriesId(series), n.into(), values);
                    prop_assert_eq!(outcome.is_ok(), series < 2);
                    if series < 2 {
                        for p in &mut pushed {
                            p[usize::from(series)] += 1;
                        }
                    }
                },
                Step::Set(parameter, value) => {
                    let _ = board.set(ParameterId(parameter), value);
                }
                Step::Ask(f, parameter, value) => {
                    let follower = &mut followers[f];
                    let (_, set) = follower.view.set(parameter, value);
                    board.handle(follower.id, &set);
                }
                Step::Read(f, times) => for _ in 0..times {
                    followers[f].read(&mut board);
                },
                Step::Deliver => {
                    let mut all: Vec<&mut Follower> = followers.iter_mut().collect();
                    deliver(&mut board, &mut all);
                }
                Step::Again(f) => {
                    // What was on its way is dropped with the old view.
                    followers[f] = Follower::new(f as u32 + 1, &mut board, 2 * ROOM_KEPT);
                    pushed[f] = [0; 2];
                    pushed[f][0] = 3;
                }
                Step::Leave(f) => {
                    let leave = followers[f].view.close();
                    board.handle(followers[f].id, &leave);
                }
                Step::Garbage(f, bytes) => {
                    // Three bytes could be a question of its own; that is as well.
                    board.handle(task(f as u32 + 7), &bytes);
                    let _ = followers[f].view.clone().handle(&bytes);
                }
            }
            prop_assert!(board.waiting_bytes() <= 17 * (2 * ROOM_KEPT as usize + 2048));
            for parameter in board.parameters() {
                prop_assert!(parameter.check(parameter.value()).is_ok());
            }
        }
        for (f, follower) in followers.iter_mut().enumerate() {
            follower.read_all(&mut board);
            for series in 0..2 {
                let points = follower.points(series);
                let told = points.len() as u64 + points.iter().map(|p| p.lost).sum::<u64>();
                prop_assert!(told <= pushed[f][usize::from(series)]);
            }
            let follows = board.followers().any(|id| id == follower.id);
            if follows && !follower.told.iter().any(|told| matches!(told, Told::Over(_))) {
                let told: Vec<u64> =
                    follower.view.parameters().iter().map(|p| p.value().to_bits()).collect();
                let is: Vec<u64> = board.parameters().iter().map(|p| p.value().to_bits()).collect();
                prop_assert_eq!(told, is);
            }
        }
    }
}

#[test]
fn names_and_choices_may_be_so_long_and_so_many() {
    let text = |len: usize| "n".repeat(len);
    let of = |n: usize| -> Vec<String> { (0..n).map(|n| n.to_string()).collect() };
    let parameter = |parameter| Board::new().parameter(parameter).map(drop).err();
    let series = |series| Board::new().series(series).map(drop).err();
    let (fits, long) = (text(TEXT_MAX), text(TEXT_MAX + 1));
    let many = of(CHOICES_MAX + 1);
    let choices: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(parameter(Parameter::choice(&fits, &[&fits]).unit(&fits)), None);
    assert_eq!(parameter(Parameter::choice("a", &choices[..CHOICES_MAX])), None);
    for refused in [
        Parameter::choice("a", &choices),
        Parameter::choice("a", &[&fits, &long]),
        Parameter::real("a", 0.0).unit(&long),
    ] {
        assert!(matches!(parameter(refused), Some(BoardError::Limit { .. })));
    }
    let many = of(SERIES_MAX + 1);
    let curves: Vec<&str> = many.iter().map(String::as_str).collect();
    let short = Series::curves(&fits, &[&fits]).unit(&fits).over(&fits);
    assert_eq!((short.unit_text(), short.over_text()), (fits.as_str(), fits.as_str()));
    assert_eq!(series(short), None);
    assert_eq!(series(Series::curves("a", &curves[..SERIES_MAX])), None);
    assert_eq!(series(Series::field("a", 256, 256)), None);
    for refused in [
        Series::curves("a", &curves),
        Series::curves("a", &[&fits, &long]),
        Series::curves("a", &["b"]).unit(&long),
        Series::curves("a", &["b"]).over(&long),
        Series::field("a", 256, 257),
    ] {
        assert!(matches!(series(refused), Some(BoardError::Limit { .. })));
    }
    // Points that are kept, to the last byte.
    let point = 8 + POINT_COST;
    let most = (KEPT_MAX / point) as u32;
    let mut board = Board::new();
    assert!(board.series(Series::curves("a", &["b"]).keep(most - 1)).is_ok());
    assert!(board.series(Series::curves("c", &["d"]).keep(2)).is_err());
    assert!(board.series(Series::curves("c", &["d"]).keep(1)).is_ok());
}

#[test]
fn a_view_takes_what_answers_its_own_question_and_makes_sense() {
    let shown = |nonce, parameters: Vec<Parameter>, series: Vec<Series>| {
        encode(&FromPanel::Shown { nonce, kept: 2, parameters, series }, Vec::new())
    };
    let good = || (vec![Parameter::real("x", 0.5)], vec![Series::curves("s", &["a"])]);
    let (mut view, _) = Viewed::begin(7, 400);
    let (parameters, series) = good();
    assert_eq!(view.handle(&shown(8, parameters.clone(), series.clone())), Ok(None));
    let refused = |nonce| encode(&FromPanel::Refused { nonce, why: Refusal::Ended }, Vec::new());
    assert_eq!(view.handle(&refused(8)), Ok(None));
    assert!(!view.is_shown() && !view.has_kept(), "that is of another view");
    assert_eq!(view.clone().handle(&refused(7)), Err(Misfit::Refused(Refusal::Ended)));
    let many = vec![Parameter::switch("p", true); PARAMETERS_MAX + 1];
    let more = vec![Series::curves("s", &["a"]); SERIES_MAX + 1];
    let long = "n".repeat(TEXT_MAX + 1);
    for (parameters, series) in [
        (many.clone(), series.clone()),
        (parameters.clone(), more.clone()),
        (vec![Parameter::real(&long, 0.0)], series.clone()),
        (vec![Parameter::real("x", f64::NAN)], series.clone()),
        (parameters.clone(), vec![Series::curves(&long, &["a"])]),
        (parameters, vec![Series::curves("s", &[])]),
    ] {
        let bytes = shown(7, parameters, series);
        assert_eq!(view.clone().handle(&bytes), Err(Misfit::Malformed(bytes.len())));
    }
    let bytes = shown(7, many[1..].to_vec(), more[1..].to_vec());
    assert_eq!(view.clone().handle(&bytes), Ok(None), "as many as there may be");
    let (parameters, series) = good();
    assert_eq!(view.handle(&shown(7, parameters, series)), Ok(None));
    assert!(view.is_shown() && !view.has_kept());
    assert_eq!((view.parameter_named("x"), view.parameter_named("y")), (Some(0), None));
    assert_eq!((view.parameters().len(), view.series().len()), (1, 1));
}

#[test]
fn a_view_says_what_it_took_when_that_is_a_quarter_of_its_room() {
    let (mut view, _) = Viewed::begin(7, 400);
    let (parameters, series) = (vec![Parameter::real("x", 0.5)], vec![Series::curves("s", &["a"])]);
    let shown = FromPanel::Shown { nonce: 7, kept: 2, parameters, series };
    view.handle(&encode(&shown, Vec::new())).unwrap();
    let point = |series, values: Vec<f64>| {
        let point = Point { series, at: 1.0, lost: 0, values };
        encode(&FromPanel::Point(point), Vec::new())
    };
    let mut taken = 0;
    for n in 0.. {
        let bytes = point(0, vec![1.5]);
        assert!(matches!(view.handle(&bytes), Ok(Some(Told::Point(_)))));
        taken += bytes.len() as u64;
        assert_eq!(view.has_kept(), n > 0, "two were kept");
        let owed = view.owed();
        assert_eq!(owed.is_some(), taken >= 100, "{taken}");
        if let Some(owed) = owed {
            assert_eq!(owed, encode(&ToPanel::Taken { bytes: taken }, Vec::new()));
            break;
        }
    }
    assert_eq!(view.owed(), None);
    for bad in [
        point(1, vec![1.0]),
        point(0, vec![]),
        point(0, vec![1.0, 2.0]),
        encode(&FromPanel::Changed { parameter: 1, value: 0.0, by: None }, Vec::new()),
        encode(&FromPanel::Changed { parameter: 0, value: f64::NAN, by: None }, Vec::new()),
        encode(&FromPanel::Refused { nonce: 7, why: Refusal::Ended }, Vec::new()),
        encode(&shown, Vec::new()),
    ] {
        assert_eq!(view.handle(&bad), Err(Misfit::Malformed(bad.len())));
    }
    assert_eq!(view.parameters()[0].text_of(0.5), "0.5");
    let changed = FromPanel::Changed { parameter: 0, value: 0.25, by: None };
    assert!(view.handle(&encode(&changed, Vec::new())).is_ok());
    let answer = FromPanel::Answer { question: 3, outcome: Ok(()) };
    let told = Told::Answer { question: 3, outcome: Ok(()) };
    assert_eq!(view.handle(&encode(&answer, Vec::new())), Ok(Some(told)));
    let over = encode(&FromPanel::Over(OverWhy::Asked), Vec::new());
    assert_eq!(view.handle(&over), Ok(Some(Told::Over(OverWhy::Asked))));
    assert_eq!([view.set(0, 1.0).0, view.set(0, 1.0).0], [1, 2]);
}
