//! `panel`: what tasks show while they compute, seen and steered from outside.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use towpath::Task;
use towpath::task::Envelope;
use towpath::task::panel::{Counts, OverWhy, Panel, Parameter, Series, Told, View};

use crate::support::{Vm, built, text};

fn steered() -> PathBuf {
    built::built(&["examples/steered"], &["-p", "towpath", "--example", "steered"])
}

/// Three tasks on two hosts that compute until they are told to stop, and show a panel.
fn rod(vm: &Vm) -> Child {
    let program = steered();
    let run = ["run", "--spread", "-n", "3", "--", program.to_str().unwrap()];
    let run = vm.command(&run).stderr(Stdio::piped()).spawn().unwrap();
    while text(&vm.towpath(&["panel"]).stdout).is_empty() {
        std::thread::yield_now();
    }
    run
}

fn said(vm: &Vm, args: &[&str]) -> (Option<i32>, String, String) {
    let out = vm.towpath(args);
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_job_is_seen_steered_and_ended_from_outside() {
    let vm = Vm::up(2);
    let (code, told, why) = said(&vm, &["panel"]);
    assert!(code == Some(0) && told.is_empty() && why.contains("no panel is shown"), "{why}");
    let mut run = rod(&vm);
    let (code, told, _) = said(&vm, &["panel", "rod"]);
    assert!(code == Some(0) && told.starts_with("panel rod of task h"), "{told}");
    let heater = told.lines().find(|line| line.trim().starts_with("heater")).unwrap();
    assert!(heater.contains("400 K") && heater.contains("from 0 to 3000"), "{told}");

    let (code, told, why) = said(&vm, &["panel", "rod", "heater=9999", "heater=800"]);
    assert_eq!((code, &told[..]), (Some(1), "heater = 800\n"), "{why}");
    assert!(why.contains("heater: 9999 is not from 0 to 3000"), "{why}");
    let (code, told, why) = said(&vm, &["panel", "rod", "cooler=1", "heater=800"]);
    assert!(code == Some(1) && why.contains("hint: it has heater, running"), "{why}");
    assert_eq!(told, "heater = 800\n", "the others are set");
    let (code, _, why) = said(&vm, &["panel", "rod", "heater=1", "heater"]);
    assert!(code == Some(255) && why.contains("`heater` is no change"), "{why}");
    let (code, _, why) = said(&vm, &["panel", "pipe"]);
    assert!(code == Some(255) && why.contains("no panel `pipe`"), "{why}");

    // A refusal is not forgotten while it follows.
    let both = ["panel", "rod", "heater=9999", "--follow", "--points", "1"];
    let (code, told, why) = said(&vm, &both);
    assert!(code == Some(1) && told.starts_with("mean  round"), "{told}{why}");

    // What comes of it is told as it comes, and drawn.
    let page = vm.file("page.html");
    let follow = ["panel", "rod", "--follow", "--json", "--points", "40", "--html"];
    let (code, told, why) = said(&vm, &[&follow[..], &[page.to_str().unwrap()]].concat());
    assert_eq!(code, Some(0), "{why}");
    let points: Vec<Value> = told.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(points.len(), 40);
    let mean = |point: &Value| point["values"][0].as_f64().filter(|_| point["series"] == "mean");
    let means: Vec<f64> = points.iter().filter_map(mean).collect();
    assert!(means.is_sorted() && means.len() > 1, "it grows warmer: {means:?}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("heater = 800 K"), "{page}");

    // A follower hears of changes by others, and of the end.
    let follow = vm.command(&["panel", "rod", "--follow"]).stdout(Stdio::piped()).spawn();
    let mut follow = follow.unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.starts_with("ends ")), "it follows");
    assert_eq!(said(&vm, &["panel", "rod", "running=off"]).0, Some(0));
    assert!(lines.any(|line| line.starts_with("running = off  (by h")));
    assert_eq!(follow.wait().unwrap().code(), Some(0));
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert!(said(&vm, &["panel"]).1.is_empty());
}

#[test]
fn whoever_looks_on_may_be_killed_and_the_job_too() {
    let vm = Vm::up(2);
    let mut run = rod(&vm);
    // More of them than a panel has places for, one after another.
    for _ in 0..20 {
        let follow = vm.command(&["panel", "rod", "--follow"]).stdout(Stdio::piped()).spawn();
        let mut follow = follow.unwrap();
        let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
        assert!(lines.next().is_some_and(|line| line.is_ok()));
        follow.kill().unwrap();
        follow.wait().unwrap();
    }
    let follow = vm
        .command(&["panel", "rod", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut follow = follow.unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok()));
    Vm::signal(run.id(), "-KILL");
    run.wait().unwrap();
    // Its tasks end with it.
    lines.for_each(drop);
    let out = follow.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(255));
    assert!(
        text(&out.stderr).contains("which showed the panel, has ended"),
        "{}",
        text(&out.stderr)
    );
}

/// A task of this test that shows a panel and serves it until somebody wants it to stop.
fn serve(vm: &Vm, host: usize) -> std::thread::JoinHandle<Counts> {
    let mut task = Task::enrol_at(&vm.vm_dir().host(host).join("task.sock"), None).unwrap();
    let mut panel = Panel::new("clock").unwrap();
    let running = panel.parameter(Parameter::switch("running", true)).unwrap();
    let ticks = panel.series(Series::curves("ticks", &["n"]).keep(10)).unwrap();
    panel.show(&mut task).unwrap();
    std::thread::spawn(move || {
        for n in 0_u32.. {
            panel.serve(&mut task).unwrap();
            panel.push(&mut task, ticks, n.into(), &[n.into()]).unwrap();
            if panel.value(running).unwrap() < 1.0 {
                break;
            }
            task.wait(Some(Duration::from_millis(1))).unwrap();
        }
        // There may be nobody who takes the name away.
        panel.finish(&mut task).unwrap();
        panel.counts()
    })
}

#[test]
fn a_panel_outlives_the_founder_and_is_followed_meanwhile() {
    let vm = Vm::up(2);
    let shows = serve(&vm, 2);
    // It is a task of host 2, too: that of host 1 ends with its daemon.
    let mut follows = Task::enrol_at(&vm.vm_dir().host(2).join("task.sock"), None).unwrap();
    let mut view = View::open(&mut follows, "clock").unwrap();
    Vm::signal(vm.pid(1), "-KILL");
    let (code, _, why) = said(&vm, &["panel", "clock"]);
    assert!(code == Some(255), "nobody leads: {why}");
    for _ in 0..100 {
        let told = view.next(&mut follows, Some(Duration::from_mins(1))).unwrap();
        assert!(matches!(told, Some(Told::Point(_))), "{told:?}");
    }
    assert_eq!(said(&vm, &["up"]).0, Some(0));
    let (code, told, why) = said(&vm, &["panel", "clock"]);
    assert!(code == Some(0) && told.contains("ticks  step "), "{told}{why}");
    // Ended while nobody leads again: followers are told so.
    Vm::signal(vm.pid(1), "-KILL");
    view.set(&mut follows, "running", 0.0).unwrap();
    let end = loop {
        match view.next(&mut follows, Some(Duration::from_mins(1))).unwrap() {
            Some(Told::Over(why)) => break why,
            told => assert!(told.is_some(), "in time"),
        }
    };
    assert_eq!(end, OverWhy::Ended);
    shows.join().unwrap();
}

#[test]
fn what_a_stranger_sends_there_is_counted_and_holds_nobody_up() {
    let vm = Vm::up(2);
    let shows = serve(&vm, 2);
    let mut task = Task::enrol_at(&vm.vm_dir().host(1).join("task.sock"), None).unwrap();
    let mut view = View::open(&mut task, "clock").unwrap();
    // As the library writes to it: in its context, with its tag; only what is said makes no sense.
    let mut stranger = Task::enrol_at(&vm.vm_dir().host(1).join("task.sock"), None).unwrap();
    let tag = "clock".bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let envelope = Envelope { tag: tag.cast_signed(), context: (1 << 31) + 3, format: 0 };
    for n in 0..5000_u32 {
        stranger.send_with(view.panel(), envelope, &n.to_le_bytes()[..n as usize % 5]).unwrap();
    }
    let begun = Instant::now();
    view.set(&mut task, "running", 1.0).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    // It ends it itself: that comes behind all else that it said, another one's word need not.
    let mut last = View::open(&mut stranger, "clock").unwrap();
    last.set(&mut stranger, "running", 0.0).unwrap();
    let counts = shows.join().unwrap();
    // A few happen to be something that it passes over.
    assert!(counts.malformed > 4900 && counts.set == 2, "{counts:?}");
}

#[test]
fn an_application_is_steered_while_it_computes() {
    let vm = Vm::up(2);
    let apps = built::built(&["towpath-apps"], &["-p", "towpath-apps", "--bin", "towpath-apps"]);
    let apps = apps.to_str().unwrap();
    for (of, change, bad, series) in [
        ("prices", "volatility=0.4", "volatility=-1", "price"),
        ("slots", "angle=90", "network=none", "power"),
    ] {
        let steer = ["run", "--spread", "-n", "3", "--no-tag", "--", apps, "steer", "--of", of];
        let steer = [&steer[..], &["--rounds", "1000000000"]].concat();
        let run = vm.command(&steer).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while text(&vm.towpath(&["panel"]).stdout).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(said(&vm, &["panel", of, change]).0, Some(0));
        let (code, _, why) = said(&vm, &["panel", of, bad]);
        assert!(code == Some(1) && why.contains(" is not "), "{why}");
        let (code, told, _) = said(&vm, &["panel", of, "--follow", "--points", "30"]);
        assert!(code == Some(0) && told.contains(&format!("{series}  round ")), "{told}");
        assert_eq!(said(&vm, &["panel", of, "running=off"]).0, Some(0));
        let out = run.wait_with_output().unwrap();
        let told = text(&out.stdout);
        assert!(out.status.success(), "{told}{}", text(&out.stderr));
        assert!(told.contains(&change.replace('=', " = ")), "{told}");
        assert!(told.contains("running = off"), "{told}");
    }
}
