//! Panels and views of them, over a ring.

use std::time::Duration;

use towpath_vm::panel::PANEL_VERSION;
use towpath_vm::talk::{
    Answer, Fault, MailRules, Mailbox, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask,
    WatchEvent,
};

use super::actors::{all, crowd, with_ring};
use super::stage::{Heard, Side};
use crate::panel::{OverWhy, Panel, PanelError, Parameter, Series, Told, View};
use crate::task::Task;

const PATIENCE: Duration = Duration::from_mins(1);

/// The next question about mailboxes.
fn asked(side: &mut Side) -> (u64, RegistryOp) {
    loop {
        let heard = side.hear();
        if let Heard::Control(ToDaemon::Ask { number, question: Question::Registry(op) }) = heard {
            return (number, op);
        }
    }
}

/// Answers it.
fn answer(side: &mut Side, answers: impl FnOnce(RegistryOp) -> RegistryAnswer) {
    let (number, op) = asked(side);
    side.say(&ToTask::Answer { number, answer: Ok(Answer::Registry(answers(op))) });
}

/// Says no to it.
fn fault(side: &mut Side, fault: Fault) {
    let (number, _) = asked(side);
    side.say(&ToTask::Answer { number, answer: Err(fault) });
}

/// A panel that is shown.
fn shown(task: &mut Task, side: &mut Side) -> Panel {
    let mut panel = Panel::new("heat").unwrap();
    panel.parameter(Parameter::real("power", 1.0).between(0.0, 10.0)).unwrap();
    panel.series(Series::curves("hottest", &["inside"]).keep(2)).unwrap();
    std::thread::scope(|scope| {
        let shows = scope.spawn(|| panel.show(task));
        fault(side, Fault::NotFound);
        answer(side, |op| {
            let RegistryOp::Put { name, content, rules, .. } = op else { panic!("{op:?}") };
            assert_eq!((&name[..], rules), ("panel.heat", MailRules::default()));
            assert_eq!(content, PANEL_VERSION.to_le_bytes());
            RegistryAnswer::Index(0)
        });
        shows.join().unwrap().unwrap();
    });
    panel
}

fn mail(owner: &Task) -> RegistryAnswer {
    RegistryAnswer::Mail {
        index: 0,
        owner: Some(owner.id()),
        rules: MailRules::default(),
        format: 0,
        content: PANEL_VERSION.to_le_bytes().to_vec(),
    }
}

/// The value of the first parameter, as people read it.
fn value_of(view: &View) -> String {
    let parameter = &view.parameters()[0];
    parameter.text_of(parameter.value())
}

#[test]
fn another_task_sees_steers_and_follows() {
    let (mut a, mut a_side, mut b, mut b_side) = with_ring();
    let mut panel = shown(&mut a, &mut a_side);
    let (power, hottest) = (panel.parameter_named("power").unwrap(), crate::panel::SeriesId(0));
    panel.push(&mut a, hottest, 0.0, &[300.0]).unwrap();
    assert_eq!((panel.name(), panel.parameters().len(), panel.all_series().len()), ("heat", 1, 1));
    let (found, found_at) = (mail(&a), a.id());
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut view = View::open_within(&mut b, "heat", PATIENCE).unwrap();
            assert_eq!(value_of(&view), "1");
            assert_eq!((view.name(), view.series().len(), view.panel()), ("heat", 1, found_at));
            assert!(!view.has_kept(), "one point is kept");
            assert_eq!(view.read("power", "2.5").unwrap().to_bits(), 2.5_f64.to_bits());
            view.read("power", "much").unwrap_err();
            view.read("force", "2.5").unwrap_err();
            let first = view.next(&mut b, Some(PATIENCE)).unwrap();
            let Some(Told::Point(point)) = first else { panic!("{first:?}") };
            assert_eq!((point.at, &point.values[..], point.lost), (0.0, &[300.0][..], 0));
            assert!(view.has_kept());
            let high = view.set(&mut b, "power", 11.0).unwrap_err();
            assert_eq!(high.to_string(), "power: 11 is not from 0 to 10");
            let none = view.set(&mut b, "force", 11.0).unwrap_err();
            assert!(none.to_string().contains("hint: it has power"), "{none}");
            view.set(&mut b, "power", 2.5).unwrap();
            assert_eq!(value_of(&view), "2.5");
            let mut last = None;
            loop {
                match view.next(&mut b, Some(PATIENCE)).unwrap().expect("in time") {
                    Told::Over(why) => {
                        assert_eq!(why, OverWhy::Ended);
                        break;
                    }
                    Told::Point(point) => last = Some(point),
                    told => assert!(matches!(told, Told::Changed { .. }), "{told:?}"),
                }
            }
            assert_eq!(last.unwrap().values, [2.5]);
            assert_eq!(view.next(&mut b, None).unwrap(), Some(Told::Over(OverWhy::Ended)));
            view.close(&mut b).unwrap();
        });
        scope.spawn(|| answer(&mut b_side, |_| found));
        while panel.serve(&mut a).unwrap() == 0 {
            std::thread::yield_now();
        }
        let value = panel.value(power).unwrap();
        panel.push(&mut a, hottest, 1.0, &[value]).unwrap();
        scope.spawn(|| answer(&mut a_side, |_| RegistryAnswer::Done));
        panel.finish_within(&mut a, PATIENCE).unwrap();
        looks.join().unwrap();
    });
    let counts = panel.counts();
    assert_eq!((counts.set, counts.refused, counts.lost, counts.malformed), (1, 0, 0, 0));
}

#[test]
fn of_one_name_there_is_one() {
    let (mut a, mut a_side, _b, _b_side) = with_ring();
    let mut panel = Panel::new("heat").unwrap();
    let found = mail(&a);
    std::thread::scope(|scope| {
        let shows = scope.spawn(|| [panel.show(&mut a), panel.show(&mut a)]);
        // It is there; or another task was faster.
        answer(&mut a_side, |_| found);
        fault(&mut a_side, Fault::NotFound);
        fault(&mut a_side, Fault::Exists);
        for why in shows.join().unwrap() {
            assert!(matches!(why, Err(PanelError::Shown(_))), "{why:?}");
        }
    });
    assert_eq!(panel.serve(&mut a).unwrap(), 0, "nobody sees it");
}

#[test]
fn a_panel_that_never_answers_or_ends_is_said_to() {
    let (a, _a_side, mut b, mut b_side) = with_ring();
    let (found, panel) = (mail(&a), a.id());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let silent = View::open_within(&mut b, "heat", Duration::from_millis(1)).unwrap_err();
            assert!(matches!(silent, PanelError::Silent { .. }), "{silent}");
            View::open_within(&mut b, "heat", PATIENCE).unwrap_err()
        });
        answer(&mut b_side, |_| found.clone());
        answer(&mut b_side, |_| found);
        // It is watched from the first view on.
        b_side.say(&ToTask::Notice {
            watch: 0,
            event: WatchEvent::TaskEnded { task: panel, ending: None },
        });
        b_side.say(&ToTask::Gone { peer: panel });
        let ended = waits.join().unwrap();
        assert!(matches!(ended, PanelError::Ended(task) if task == panel), "{ended}");
    });
}

#[test]
fn names_versions_and_lists_are_checked() {
    let (a, _a_side, mut b, mut b_side) = with_ring();
    for name in ["", "a*b", &"n".repeat(65)] {
        assert!(matches!(Panel::new(name), Err(PanelError::Name { .. })));
        assert!(matches!(View::open(&mut b, name), Err(PanelError::None(_))));
    }
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let other = View::open(&mut b, "heat").unwrap_err();
            assert!(other.to_string().starts_with("panel `heat` speaks version 9, this program 1"));
            crate::panel::panels(&mut b).unwrap()
        });
        let RegistryAnswer::Mail { index, owner, rules, format, .. } = mail(&a) else { panic!() };
        let content = 9_u32.to_le_bytes().to_vec();
        let newer = RegistryAnswer::Mail { index, owner, rules, format, content };
        answer(&mut b_side, |_| newer);
        let entries = vec![(0, Some(a.id()), MailRules::default())];
        let one = |name: &str| Mailbox { name: name.into(), entries: entries.clone() };
        let all = vec![one("panel.heat"), one("panel.wave")];
        answer(&mut b_side, |op| {
            assert_eq!(op, RegistryOp::Mailboxes { pattern: "panel.*".into() });
            RegistryAnswer::Mailboxes(all)
        });
        let told = looks.join().unwrap();
        assert_eq!(told, [("heat".to_owned(), a.id()), ("wave".to_owned(), a.id())]);
    });
}

#[test]
fn members_agree_on_what_the_first_of_them_has() {
    let (mut tasks, _sides) = crowd(3);
    let members: Vec<_> = tasks.iter().map(Task::id).collect();
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let mut panel = Panel::new("heat").unwrap();
        let power = panel.parameter(Parameter::real("power", 1.0).between(0.0, 10.0)).unwrap();
        let force = panel.parameter(Parameter::real("force", 3.0)).unwrap();
        let mut agree = |panel: &mut Panel| {
            let is_new = panel.agree(task, &mut team).unwrap();
            (is_new, panel.value(power).unwrap(), panel.value(force).unwrap())
        };
        assert_eq!(agree(&mut panel), (false, 1.0, 3.0));
        panel.set(force, 4.0 + n as f64).unwrap();
        assert_eq!(agree(&mut panel), (true, 1.0, 4.0), "what the others set is theirs");
        assert_eq!(agree(&mut panel), (false, 1.0, 4.0));
        panel.set(power, 11.0).unwrap_err();
        assert_eq!(agree(&mut panel), (false, 1.0, 4.0));
    });
}

/// A panel of the first task, and a view of it of the second.
fn followed(a: &mut Task, a_side: &mut Side, b: &mut Task, b_side: &mut Side) -> (Panel, View) {
    let mut panel = shown(a, a_side);
    let found = mail(a);
    let view = std::thread::scope(|scope| {
        let opens = scope.spawn(|| View::open_within(b, "heat", PATIENCE).unwrap());
        answer(b_side, |_| found);
        while !opens.is_finished() {
            panel.serve(a).unwrap();
            std::thread::yield_now();
        }
        opens.join().unwrap()
    });
    assert_eq!(panel.followers().collect::<Vec<_>>(), [b.id()]);
    (panel, view)
}

#[test]
fn who_closes_its_view_is_told_no_more() {
    let (mut a, mut a_side, mut b, mut b_side) = with_ring();
    let (mut panel, view) = followed(&mut a, &mut a_side, &mut b, &mut b_side);
    std::thread::scope(|scope| {
        let closes = scope.spawn(|| view.close(&mut b).unwrap());
        while panel.followers().count() > 0 {
            panel.serve(&mut a).unwrap();
            std::thread::yield_now();
        }
        closes.join().unwrap();
    });
    std::thread::scope(|scope| {
        let takes_away = scope.spawn(|| {
            answer(&mut a_side, |op| {
                assert!(matches!(op, RegistryOp::Delete { .. }), "{op:?}");
                RegistryAnswer::Done
            });
        });
        panel.finish(&mut a).unwrap();
        takes_away.join().unwrap();
    });
}

#[test]
fn a_follower_that_takes_nothing_is_told_the_end_alone() {
    let (mut a, mut a_side, mut b, mut b_side) = with_ring();
    let (mut panel, mut view) = followed(&mut a, &mut a_side, &mut b, &mut b_side);
    let to = b.id();
    while a.try_send(to, 1, b"something else").unwrap() {}
    panel.push(&mut a, crate::panel::SeriesId(0), 0.0, &[300.0]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&mut a_side, |_| RegistryAnswer::Done));
        panel.finish_within(&mut a, Duration::from_millis(1)).unwrap();
    });
    while b.try_recv(&super::actors::ANY.tag(1)).unwrap().is_some() {}
    b.poll().unwrap();
    a.poll().unwrap();
    let told = view.next(&mut b, Some(PATIENCE)).unwrap();
    assert_eq!(told, Some(Told::Over(OverWhy::Ended)));
    panel.finish(&mut a).unwrap();
}
