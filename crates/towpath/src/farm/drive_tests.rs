//! The driver against daemons that do as a script says.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use towpath_vm::{Ending, Fields, Host, HostState, Stream, TaskExit, TaskSpec};
use towpath_wire::HostId;

use super::end::{SIGKILL, SIGTERM};
use super::*;
use crate::farm::ItemDone;
use crate::farm::input::Items;
use crate::farm::template::Template;
use crate::protocol::{FrameReader, encode, greeting};

fn host(slot: u16) -> Host {
    Host {
        id: HostId::new(slot, 1).unwrap(),
        name: format!("n{slot}"),
        addr: "127.0.0.1:1".parse().unwrap(),
        key: [slot as u8; 32],
        arch: "x86_64-linux".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        state: HostState::Up,
        fields: Fields::default(),
    }
}

/// What a scripted daemon does with a request; `None` closes the connection.
type Script = Box<dyn FnMut(Request) -> Option<Vec<Reply>> + Send>;

/// Serves connections one after the other.
fn daemon(dir: &Path, name: &str, mut script: Script) -> PathBuf {
    let path = dir.join(name);
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = serve(stream, &mut script);
        }
    });
    path
}

fn serve(mut stream: UnixStream, script: &mut Script) -> io::Result<()> {
    let (hello, len) = greeting().emit();
    stream.write_all(&hello[..len])?;
    let mut frames = FrameReader::default();
    let mut buf = vec![0; 65_536];
    let mut greeted = false;
    loop {
        let n = stream.read(&mut buf)?;
        if n == 0 {
            return Ok(());
        }
        frames.extend(&buf[..n]);
        greeted = greeted || frames.greeted().unwrap();
        if !greeted {
            continue;
        }
        while let Some(request) = frames.next::<Request>().unwrap() {
            let replies = match request {
                Request::Watch => vec![],
                Request::Hosts => vec![Reply::Hosts((1..=3).map(host).collect())],
                other => match script(other) {
                    Some(replies) => replies,
                    None => return Ok(()),
                },
            };
            for reply in replies {
                stream.write_all(&encode(&reply).unwrap())?;
            }
        }
    }
}

fn task(tag: u64, event: TaskEvent) -> Reply {
    Reply::Task { tag, event }
}

fn output(tag: u64, bytes: &[u8]) -> Reply {
    task(tag, TaskEvent::Output { stream: Stream::Out, bytes: bytes.to_vec() })
}

fn started(tag: u64) -> Reply {
    let id = HostId::new(1, 1).unwrap().task(1).unwrap();
    task(tag, TaskEvent::Started { task: id, pid: 1 })
}

fn ended(tag: u64, ending: Ending) -> Reply {
    task(tag, TaskEvent::Ended(TaskExit { ending, wall_us: 1_000 }))
}

/// What `echo` does: its last argument and a line feed.
fn echo(tag: u64, spec: &TaskSpec) -> Vec<Reply> {
    let line = [spec.args.last().unwrap().as_slice(), b"\n"].concat();
    vec![output(tag, &line), ended(tag, Ending::Exited(0))]
}

fn echoing() -> Script {
    Box::new(|request| match request {
        Request::Spawn { tag, spec, .. } => Some(echo(tag, &spec)),
        _ => Some(vec![]),
    })
}

fn options(items: u32) -> FarmOptions {
    let mut list = Items::default();
    (0..items).for_each(|i| list.push(i.to_string().as_bytes()).unwrap());
    FarmOptions {
        template: Template::new(&[b"echo".to_vec()]).unwrap(),
        items: list,
        pipe: None,
        hosts: vec![],
        jobs: None,
        timeout: None,
        retries: 3,
        retry_failed: 0,
        delay: Duration::ZERO,
        halt: None,
        results: None,
        keep_order: true,
        joblog: None,
        resume: false,
        goes_on: None,
        rerun_changed: false,
        at_once: Arc::default(),
        env: vec![],
        workdir: vec![],
    }
}

#[derive(Default)]
struct Recorder {
    text: Vec<u8>,
    per_item: HashMap<u64, u32>,
    warnings: Vec<String>,
    /// Fails with this after so many items.
    fails: Option<(usize, io::ErrorKind)>,
}

impl Sink for Recorder {
    fn item(&mut self, done: &ItemDone<'_>) -> io::Result<()> {
        if let Some((after, kind)) = self.fails
            && self.per_item.len() >= after
        {
            return Err(kind.into());
        }
        *self.per_item.entry(done.seq).or_default() += 1;
        done.read(Stream::Out, &mut |piece| {
            self.text.extend_from_slice(piece);
            Ok(())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_string());
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        assert!(progress.done <= progress.total);
    }
}

fn farm(options: &FarmOptions, sockets: &[PathBuf], interrupt: &AtomicBool) -> (Outcome, Recorder) {
    let mut sink = Recorder::default();
    let outcome = crate::farm::run(options, sockets, &mut sink, interrupt);
    check(&outcome, &sink);
    (outcome, sink)
}

fn check(outcome: &Outcome, sink: &Recorder) {
    let r = &outcome.report;
    assert_eq!(r.items, r.skipped + r.succeeded + r.failed + r.not_run);
    assert!(sink.per_item.values().all(|n| *n == 1), "one result per item");
}

fn serial(items: u32) -> Vec<u8> {
    (0..items).flat_map(|i| format!("{i}\n").into_bytes()).collect()
}

#[test]
fn output_is_that_of_the_serial_run() {
    let dir = tempfile::tempdir().unwrap();
    let socket = daemon(dir.path(), "a", echoing());
    let (outcome, sink) = farm(&options(1000), &[socket], &AtomicBool::new(false));
    assert!(outcome.error.is_none());
    assert_eq!(outcome.report.succeeded, 1000);
    assert_eq!(outcome.report.exit_status(), 0);
    assert_eq!(sink.text, serial(1000));
}

#[test]
fn no_items_need_no_daemon() {
    let (outcome, _) = farm(&options(0), &[], &AtomicBool::new(false));
    assert!(outcome.error.is_none());
}

#[test]
fn another_daemon_takes_over_and_no_item_is_lost_or_doubled() {
    let dir = tempfile::tempdir().unwrap();
    let mut left = 100;
    let dying: Script = Box::new(move |request| match request {
        Request::Spawn { tag, spec, .. } => {
            left -= 1;
            match left {
                0 => None,
                1..20 => Some(vec![output(tag, b"partial")]),
                _ => Some(echo(tag, &spec)),
            }
        }
        _ => Some(vec![]),
    });
    let sockets = [daemon(dir.path(), "a", dying), daemon(dir.path(), "b", echoing())];
    let (outcome, sink) = farm(&options(500), &sockets, &AtomicBool::new(false));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(sink.text, serial(500));
    assert!(outcome.report.host_lost_reruns >= 1);
    assert!(sink.warnings.iter().any(|w| w.contains("went away")), "{:?}", sink.warnings);
}

#[test]
fn a_daemon_that_hangs_up_at_once_is_not_asked_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("a")).unwrap();
    thread::spawn(move || while listener.accept().is_ok() {});
    let (outcome, _) = farm(&options(3), &[dir.path().join("a")], &AtomicBool::new(false));
    assert!(matches!(outcome.error, Some(FarmError::Daemon(_))));
    assert_eq!((outcome.report.not_run, outcome.report.exit_status()), (3, 255));
}

#[test]
fn without_a_daemon_the_error_has_a_hint() {
    let (outcome, _) = farm(&options(3), &["/nonexistent/s".into()], &AtomicBool::new(false));
    let text = outcome.report.error.unwrap();
    assert!(text.contains("/nonexistent/s") && text.contains("hint:"), "{text}");
}

#[test]
fn items_of_a_lost_host_run_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut lost = false;
    let script: Script = Box::new(move |request| match request {
        Request::Spawn { tag, host: at, spec } if at == host(2).id => {
            assert!(!lost, "nothing more goes to a lost host");
            if spec.args.last().unwrap().len() < 2 {
                return Some(vec![output(tag, b"partial")]);
            }
            lost = true;
            // The news comes both ways, as from a daemon.
            Some(vec![Reply::HostEvent(HostEvent::Lost(at)), ended(tag, Ending::HostLost)])
        }
        Request::Spawn { tag, spec, .. } => Some(echo(tag, &spec)),
        _ => Some(vec![]),
    });
    // One job at a time: host 2 is not asked again before its loss is known.
    let options = FarmOptions { jobs: Some(1), ..options(300) };
    let mut list = Items::default();
    (100..400).for_each(|i| list.push(i.to_string().as_bytes()).unwrap());
    let options = FarmOptions { items: list, ..options };
    let socket = daemon(dir.path(), "a", script);
    let (outcome, sink) = farm(&options, &[socket], &AtomicBool::new(false));
    assert_eq!(outcome.report.succeeded, 300);
    assert_eq!(outcome.report.host_lost_reruns, 1);
    assert_eq!(
        sink.text,
        (100..400).flat_map(|i| format!("{i}\n").into_bytes()).collect::<Vec<_>>()
    );
    assert_eq!(outcome.report.hosts[1].standing, "lost");
}

#[test]
fn a_host_that_starts_again_is_known_by_its_new_id_and_no_more_by_its_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = false;
    let again = Host { id: HostId::new(2, 9).unwrap(), ..host(2) };
    let script: Script = Box::new(move |request| match request {
        Request::Spawn { tag, host: at, .. } if at == host(2).id => {
            // The news comes first; nobody has ever heard that the old one was lost.
            let news = (!told).then(|| Reply::HostEvent(HostEvent::Added(again.clone())));
            told = true;
            let refused = Ending::Refused("no host h2.1 in the host table".into());
            Some(news.into_iter().chain([ended(tag, refused)]).collect())
        }
        Request::Spawn { tag, spec, .. } => Some(echo(tag, &spec)),
        _ => Some(vec![]),
    });
    let options = FarmOptions { retries: 1, ..options(300) };
    let socket = daemon(dir.path(), "a", script);
    let (outcome, sink) = farm(&options, &[socket], &AtomicBool::new(false));
    assert_eq!((outcome.report.succeeded, sink.text), (300, serial(300)));
    let standing: Vec<_> = outcome.report.hosts.iter().map(|h| h.standing).collect();
    assert_eq!(standing.iter().filter(|standing| **standing == "lost").count(), 1);
    assert_eq!(standing.len(), 4);
}

#[test]
fn an_interrupt_kills_what_runs_and_reports_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let interrupt = Arc::new(AtomicBool::new(false));
    let killed = Arc::new(Mutex::new(0));
    let (flag, count) = (interrupt.clone(), killed.clone());
    let script: Script = Box::new(move |request| match request {
        Request::Spawn { tag, spec, .. } if spec.args.last().unwrap().len() == 1 => {
            Some(echo(tag, &spec))
        }
        Request::Spawn { .. } => {
            flag.store(true, Ordering::Relaxed);
            Some(vec![])
        }
        Request::Kill { tag, signal } => {
            *count.lock().unwrap() += 1;
            Some(vec![ended(tag, Ending::Signalled(signal))])
        }
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let (outcome, sink) = farm(&options(100), &[socket], &interrupt);
    assert!(outcome.report.interrupted && outcome.error.is_none());
    assert_eq!(outcome.report.exit_status(), 130);
    assert_eq!((outcome.report.succeeded, outcome.report.failed), (10, 0));
    assert_eq!(sink.text, serial(10));
    assert!(*killed.lock().unwrap() > 0);
}

#[test]
fn enough_failures_end_the_farm() {
    let dir = tempfile::tempdir().unwrap();
    for (rule, waited_for) in [("now,fail=1", false), ("soon,fail=1", true)] {
        // Item 5 fails while others of its host run; these end when they are told to, or else
        // when the host is asked for something more.
        let mut running: Vec<u64> = vec![];
        let script: Script = Box::new(move |request| match request {
            Request::Spawn { tag, spec, .. } if spec.args == [b"5"] => {
                let started = running.iter().map(|tag| started(*tag));
                let mut replies: Vec<Reply> = started.collect();
                replies.push(ended(tag, Ending::Exited(3)));
                if waited_for {
                    replies.extend(running.iter().map(|tag| ended(*tag, Ending::Exited(0))));
                }
                Some(replies)
            }
            Request::Spawn { tag, spec, .. } if spec.args[0] < b"3".to_vec() => {
                Some(echo(tag, &spec))
            }
            Request::Spawn { tag, .. } => {
                running.push(tag);
                Some(vec![])
            }
            Request::Kill { tag, signal } => Some(vec![ended(tag, Ending::Signalled(signal))]),
            _ => Some(vec![]),
        });
        let socket = daemon(dir.path(), rule, script);
        let halt = Some(rule.parse().unwrap());
        let options = FarmOptions { halt, jobs: Some(2), ..options(100) };
        let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
        let report = outcome.report;
        assert!(outcome.error.is_none() && !report.interrupted, "{rule}");
        assert_eq!((report.failed, report.exit_status()), (1, 1), "{rule}: {report:?}");
        assert_eq!(report.halted.as_deref(), Some(rule));
        assert_eq!(report.succeeded, if waited_for { 5 } else { 3 }, "{rule}: {report:?}");
        assert_eq!(report.retried, 0, "{rule}: {report:?}");
    }
}

#[test]
fn enough_successes_end_the_farm_well() {
    let dir = tempfile::tempdir().unwrap();
    let script: Script = Box::new(|request| match request {
        Request::Spawn { tag, spec, .. } if spec.args == [b"7"] => Some(echo(tag, &spec)),
        Request::Spawn { tag, .. } => Some(vec![ended(tag, Ending::Exited(1))]),
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let halt = Some("now,success=1".parse().unwrap());
    let options = FarmOptions { halt, jobs: Some(1), ..options(1000) };
    let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
    assert_eq!((outcome.report.succeeded, outcome.report.exit_status()), (1, 0));
    assert!(outcome.report.not_run > 900);
}

#[test]
fn starts_are_a_delay_apart() {
    let dir = tempfile::tempdir().unwrap();
    let starts = Arc::new(Mutex::new(vec![]));
    let seen = starts.clone();
    let script: Script = Box::new(move |request| match request {
        Request::Spawn { tag, spec, .. } => {
            seen.lock().unwrap().push(std::time::Instant::now());
            Some(echo(tag, &spec))
        }
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let delay = Duration::from_millis(30);
    let (outcome, _) =
        farm(&FarmOptions { delay, ..options(6) }, &[socket], &AtomicBool::new(false));
    assert_eq!(outcome.report.succeeded, 6);
    let starts = starts.lock().unwrap();
    // From the first to the last: single requests may be read late.
    assert!(starts[5] - starts[0] >= 4 * delay, "{starts:?}");
}

#[test]
fn results_are_put_into_files_before_anything_else_is_done_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let socket = daemon(dir.path(), "a", echoing());
    let results = dir.path().join("r");
    let options = FarmOptions { results: Some(results.clone()), ..options(3) };
    let (outcome, sink) = farm(&options, std::slice::from_ref(&socket), &AtomicBool::new(false));
    assert_eq!((outcome.report.succeeded, sink.text), (3, serial(3)));
    for item in 0..3 {
        let said = std::fs::read_to_string(results.join(format!("1/{item}/stdout"))).unwrap();
        assert_eq!(said, format!("{item}\n"));
    }
    let options = FarmOptions { results: Some("/dev/null/r".into()), ..options };
    let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
    assert!(matches!(outcome.error, Some(FarmError::Results(_))), "{:?}", outcome.error);
    assert_eq!(outcome.report.not_run, 3);
}

#[test]
fn who_expects_a_shell_is_told_that_there_is_none_even_for_one_item() {
    let dir = tempfile::tempdir().unwrap();
    let script: Script = Box::new(|request| match request {
        Request::Spawn { tag, .. } => {
            let text = "echo 0: No such file or directory".to_string();
            Some(vec![ended(tag, Ending::NotStarted { errno: 2, text })])
        }
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let template = Template::new(&[b"echo {}".to_vec()]).unwrap();
    let options = FarmOptions { template, ..options(1) };
    let (_, sink) = farm(&options, &[socket], &AtomicBool::new(false));
    let said = sink.warnings.join("\n");
    assert!(said.contains("hint: no shell is involved") && said.contains("sh -c"), "{said}");
}

#[test]
fn an_absent_program_ends_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let script: Script = Box::new(|request| match request {
        Request::Spawn { tag, .. } => {
            let text = "No such file or directory".to_string();
            Some(vec![ended(tag, Ending::NotStarted { errno: 2, text })])
        }
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let template = Template::new(&[b"gzip -k {}".to_vec()]).unwrap();
    let options = FarmOptions { template, ..options(1000) };
    let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
    let text = outcome.error.unwrap().to_string();
    assert!(text.contains("No such file") && text.contains("sh -c"), "{text}");
    assert!(outcome.report.not_run > 900, "{}", outcome.report.not_run);
}

#[test]
fn a_host_that_is_not_there_is_named_with_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let socket = daemon(dir.path(), "a", echoing());
    let options = FarmOptions { hosts: vec!["n2".into(), "nX".into()], ..options(5) };
    let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
    let text = outcome.error.unwrap().to_string();
    assert!(text.contains("\"nX\"") && text.contains("n1, n2, n3"), "{text}");
}

#[test]
fn only_the_hosts_asked_for_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let socket = daemon(dir.path(), "a", echoing());
    let options = FarmOptions { hosts: vec!["n2".into(), "h3.1".into()], ..options(50) };
    let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
    let names: Vec<&str> = outcome.report.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!((names.as_slice(), outcome.report.succeeded), (&["n2", "n3"][..], 50));
}

#[test]
fn long_output_comes_whole_as_credit_is_given() {
    const TOTAL: usize = 1 << 20;
    struct Flow {
        room: usize,
        left: usize,
    }
    fn write(tag: u64, flow: &mut Flow) -> Vec<Reply> {
        let n = flow.room.min(flow.left);
        flow.room -= n;
        flow.left -= n;
        let mut replies: Vec<Reply> =
            vec![b'x'; n].chunks(4096).map(|piece| output(tag, piece)).collect();
        if flow.left == 0 && n > 0 {
            replies.push(ended(tag, Ending::Exited(0)));
        }
        replies
    }
    let dir = tempfile::tempdir().unwrap();
    let mut flows: HashMap<u64, Flow> = HashMap::new();
    let script: Script = Box::new(move |request| match request {
        Request::Spawn { tag, spec, .. } => {
            assert!(spec.output_window <= WINDOW_MAX);
            let flow = Flow { room: spec.output_window as usize, left: TOTAL };
            Some(write(tag, flows.entry(tag).or_insert(flow)))
        }
        Request::Credit { tag, bytes } => {
            let flow = flows.get_mut(&tag).unwrap();
            flow.room += bytes as usize;
            Some(write(tag, flow))
        }
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let (outcome, sink) = farm(&options(20), &[socket], &AtomicBool::new(false));
    assert_eq!(outcome.report.succeeded, 20);
    assert_eq!(sink.text.len(), 20 * TOTAL);
}

#[test]
fn a_log_that_cannot_be_written_stops_before_anything_runs() {
    let options = FarmOptions { joblog: Some("/dev/full".into()), ..options(5) };
    let (outcome, _) = farm(&options, &[], &AtomicBool::new(false));
    assert!(matches!(outcome.error, Some(FarmError::Log(_))));
    assert_eq!(outcome.report.not_run, 5);
}

#[test]
fn a_log_that_breaks_on_the_way_stops_the_farm() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("log");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Opened for both, so that neither side waits for the other to open.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let reader = Mutex::new(Some(reader));
    let script: Script = Box::new(move |request| match request {
        Request::Spawn { tag, spec, .. } => {
            reader.lock().unwrap().take();
            Some(echo(tag, &spec))
        }
        _ => Some(vec![]),
    });
    let socket = daemon(dir.path(), "a", script);
    let options = FarmOptions { joblog: Some(fifo.clone()), ..options(2_000_000) };
    let (outcome, _) = farm(&options, &[socket], &AtomicBool::new(false));
    let text = outcome.error.expect("the log broke").to_string();
    assert!(text.contains(&fifo.display().to_string()) && text.contains("hint:"), "{text}");
    assert!(outcome.report.not_run > 0);
    assert_eq!(outcome.report.exit_status(), 255);
}

#[test]
fn a_reader_that_leaves_ends_the_farm() {
    let dir = tempfile::tempdir().unwrap();
    let socket = daemon(dir.path(), "a", echoing());
    let mut sink = Recorder { fails: Some((10, io::ErrorKind::BrokenPipe)), ..Recorder::default() };
    let interrupt = AtomicBool::new(false);
    let outcome = crate::farm::run(&options(5000), &[socket], &mut sink, &interrupt);
    check(&outcome, &sink);
    assert!(matches!(outcome.error, Some(FarmError::OutputClosed)));
    assert_eq!(sink.per_item.len(), 10);
}

#[test]
fn an_interrupt_ends_a_farm_whose_output_nobody_reads() {
    let dir = tempfile::tempdir().unwrap();
    let socket = daemon(dir.path(), "a", echoing());
    let mut sink = Recorder { fails: Some((3, io::ErrorKind::TimedOut)), ..Recorder::default() };
    let interrupt = AtomicBool::new(false);
    let outcome = crate::farm::run(&options(5000), &[socket], &mut sink, &interrupt);
    check(&outcome, &sink);
    assert!(outcome.error.is_none() && outcome.report.interrupted);
}

#[test]
fn resuming_runs_only_what_did_not_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let half: Script = Box::new(|request| match request {
        Request::Spawn { tag, spec, .. } => {
            let odd = spec.args.last().unwrap().last().unwrap() % 2 == 1;
            Some(if odd { vec![ended(tag, Ending::Exited(1))] } else { echo(tag, &spec) })
        }
        _ => Some(vec![]),
    });
    let sockets = [daemon(dir.path(), "a", half), daemon(dir.path(), "b", echoing())];
    let joblog = Some(dir.path().join("log"));
    let options = FarmOptions { joblog, resume: true, ..options(40) };
    let interrupt = AtomicBool::new(false);
    let (first, _) = farm(&options, &sockets[..1], &interrupt);
    assert_eq!((first.report.succeeded, first.report.failed), (20, 20));
    let (second, sink) = farm(&options, &sockets[1..], &interrupt);
    assert_eq!((second.report.skipped, second.report.succeeded), (20, 20));
    let odd: Vec<u8> =
        (0..40).filter(|i| i % 2 == 1).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    assert_eq!(sink.text, odd);
    let (third, _) = farm(&options, &[], &interrupt);
    assert_eq!(third.report.skipped, 40);
}

#[test]
fn going_on_takes_failures_for_results_and_counts_all() {
    let dir = tempfile::tempdir().unwrap();
    let fails_odd = || -> Script {
        Box::new(|request| match request {
            Request::Spawn { tag, spec, .. } => {
                let odd = spec.args.last().unwrap().last().unwrap() % 2 == 1;
                Some(if odd { vec![ended(tag, Ending::Exited(1))] } else { echo(tag, &spec) })
            }
            _ => Some(vec![]),
        })
    };
    let sockets = [daemon(dir.path(), "a", fails_odd())];
    let joblog = Some(dir.path().join("log"));
    let interrupt = AtomicBool::new(false);
    // Ten of forty were done when it was interrupted.
    let first = FarmOptions { joblog, ..options(10) };
    assert_eq!(farm(&first, &sockets, &interrupt).0.report.failed, 5);
    let whole = options(40);
    let on = FarmOptions { resume: true, goes_on: Some(0), items: whole.items, ..first };
    let (second, sink) = farm(&on, &sockets, &interrupt);
    let report = &second.report;
    assert_eq!((report.succeeded, report.failed, report.skipped, report.not_run), (20, 20, 0, 0));
    assert_eq!(report.exit_status(), 20);
    let text: Vec<u8> =
        (10..40).filter(|i| i % 2 == 0).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    assert_eq!(sink.text, text);
    // Nothing is left to do, and the status stays what it is; a rule counts what was before.
    let (third, _) = farm(&on, &[], &interrupt);
    assert_eq!((third.report.exit_status(), third.report.not_run), (20, 0));
    let rule = Some("now,fail=3".parse().unwrap());
    let (fourth, _) = farm(&FarmOptions { halt: rule, ..on }, &[], &interrupt);
    assert_eq!(fourth.report.halted.as_deref(), Some("now,fail=3"));
}

/// Takes so many items and passes nothing on: its disk is full then.
struct Full(u32);

impl Sink for Full {
    fn item(&mut self, _: &ItemDone<'_>) -> io::Result<()> {
        self.0 = self.0.saturating_sub(1);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.0 == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn warn(&mut self, _: &str) {}

    fn progress(&mut self, _: &Progress<'_>) {}
}

#[test]
fn the_job_log_tells_of_no_item_whose_output_was_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let socket = [daemon(dir.path(), "a", echoing())];
    let path = dir.path().join("log");
    let options =
        FarmOptions { joblog: Some(path.clone()), keep_order: false, jobs: Some(1), ..options(20) };
    let outcome = crate::farm::run(&options, &socket, &mut Full(5), &AtomicBool::new(false));
    assert!(matches!(outcome.error, Some(FarmError::Output(_))), "{:?}", outcome.error);
    let logged = std::fs::read_to_string(path).unwrap().lines().count() - 1;
    assert!(logged < 5, "{logged} lines: the fifth item's output, at least, is lost");
}

#[test]
fn resuming_with_another_command_is_refused_unless_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let socket = [daemon(dir.path(), "a", echoing())];
    let joblog = Some(dir.path().join("log"));
    let first = FarmOptions { joblog, resume: true, ..options(10) };
    let interrupt = AtomicBool::new(false);
    assert_eq!(farm(&first, &socket, &interrupt).0.report.succeeded, 10);
    // An item more in front: each has the number of the one before it.
    let mut items = Items::default();
    items.push(b"new").unwrap();
    (0..10).for_each(|i| items.push(i.to_string().as_bytes()).unwrap());
    let moved = FarmOptions { items, ..first };
    let (refused, _) = farm(&moved, &socket, &interrupt);
    let said = refused.error.expect("it is refused").to_string();
    assert!(
        said.contains("10 items with another command") && said.contains("`echo new`"),
        "{said}"
    );
    assert!(said.contains("\nhint: "), "{said}");
    assert_eq!((refused.report.succeeded, refused.report.not_run), (0, 11));
    let (again, sink) = farm(&FarmOptions { rerun_changed: true, ..moved }, &socket, &interrupt);
    assert_eq!((again.report.succeeded, again.report.skipped), (11, 0));
    assert!(sink.warnings.iter().any(|w| w.contains("10 items of job log")), "{:?}", sink.warnings);
}

/// A daemon whose tasks end at a signal of this number only; it tells of each signal. Once it has
/// one, these are set.
fn stubborn(
    ends: i32,
    told: std::sync::mpsc::Sender<i32>,
    interrupts: Vec<Arc<AtomicBool>>,
) -> Script {
    Box::new(move |request| match request {
        Request::Spawn { tag, .. } => {
            for flag in &interrupts {
                flag.store(true, Ordering::Relaxed);
            }
            Some(vec![started(tag)])
        }
        Request::Kill { tag, signal } => {
            let _ = told.send(signal);
            let over = ended(tag, Ending::Signalled(signal));
            Some(if signal == ends { vec![over] } else { vec![] })
        }
        _ => Some(vec![]),
    })
}

#[test]
fn what_ignores_a_polite_signal_is_killed_after_a_while_or_at_once() {
    for at_once in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (tell, signals) = std::sync::mpsc::channel();
        let (options, interrupt) = (options(1), Arc::new(AtomicBool::new(false)));
        let mut flags = vec![Arc::clone(&interrupt)];
        if at_once {
            flags.insert(0, Arc::clone(&options.at_once));
        }
        let socket = [daemon(dir.path(), "a", stubborn(SIGKILL, tell, flags))];
        let begin = std::time::Instant::now();
        let (outcome, sink) = farm(&options, &socket, &interrupt);
        let took = begin.elapsed();
        assert!(outcome.error.is_none() && outcome.report.interrupted);
        assert!(sink.warnings[0].contains("SIGKILL after 2 s"), "{:?}", sink.warnings);
        let heard: Vec<i32> = signals.try_iter().collect();
        if at_once {
            assert!(took < GRACE, "{took:?}");
        } else {
            assert!(took >= GRACE && heard == [SIGTERM, SIGKILL], "{took:?}, {heard:?}");
        }
    }
}

#[test]
fn a_host_without_room_is_named_and_its_items_run_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let script: Script = Box::new(|request| match request {
        Request::Spawn { tag, host, .. } if host.slot() == 1 => {
            let text = "sh: Too many open files".to_string();
            Some(vec![ended(tag, Ending::NotStarted { errno: 24, text })])
        }
        Request::Spawn { tag, spec, .. } => Some(echo(tag, &spec)),
        _ => Some(vec![]),
    });
    let socket = [daemon(dir.path(), "a", script)];
    let (outcome, sink) = farm(&options(50), &socket, &AtomicBool::new(false));
    assert_eq!((outcome.report.succeeded, outcome.report.failed), (50, 0));
    assert_eq!(sink.text, serial(50));
    let named = "host n1 has no room at the moment: ";
    let told: Vec<&String> = sink.warnings.iter().filter(|w| w.starts_with(named)).collect();
    assert_eq!(told.len(), 1, "{:?}", sink.warnings);
    assert!(told[0].contains("Too many open files"), "{told:?}");
}
