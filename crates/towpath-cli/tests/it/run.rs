//! `towpath run -n`: placement, input, output, signals, ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use crate::support::{Vm, fifo, text};
use serde_json::Value;

fn run(vm: &Vm, args: &[&str]) -> Output {
    vm.towpath(&[&["run"], args].concat())
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn tasks_are_placed_by_slots_and_know_who_they_are() {
    let vm = Vm::new();
    let out = vm.towpath(&["up", "--hosts", "2", "--slots", "2"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let script = "echo $TOWPATH_RANK/$TOWPATH_SIZE ${TOWPATH_HOST##*/} ${#TOWPATH_JOB}";
    let placed = |args: &[&str]| {
        let out = run(&vm, &[args, &["--no-tag", "--", "sh", "-c", script]].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        sorted(&text(&out.stdout)).join(" | ")
    };
    assert_eq!(placed(&["-n", "3"]), "0/3 1 16 | 1/3 1 16 | 2/3 2 16");
    assert_eq!(placed(&["-n", "3", "--spread"]), "0/3 1 16 | 1/3 2 16 | 2/3 1 16");
    assert_eq!(placed(&["-n", "3", "--host", "h2:1,h1"]), "0/3 2 16 | 1/3 1 16 | 2/3 1 16");
    std::fs::write(vm.file("hosts"), "h[1-2] slots=1\n").unwrap();
    assert_eq!(placed(&["-n", "2", "--hostfile", "hosts"]), "0/2 1 16 | 1/2 2 16");
    let out = run(&vm, &["-n", "2", "--host", "h1,nobody", "--", "true"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("no host `nobody`"), "{}", text(&out.stderr));
    // A pipe is read once, though hosts are asked for again.
    let pipe = vm.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "h1\nnobody\n")
    });
    let out = run(&vm, &["--hostfile", "pipe", "--", "true"]);
    writer.join().unwrap().unwrap();
    assert!(text(&out.stderr).contains("no host `nobody`"), "{}", text(&out.stderr));
}

#[test]
fn what_pvm_exports_is_passed_on_and_variables_have_names() {
    let vm = Vm::up(1);
    let mut run = vm.command(&["run", "--env", "C=given", "--", "sh", "-c", "echo $A,$B,$C"]);
    run.env("PVM_EXPORT", "A:C").env("A", "1").env("B", "2").env("C", "3");
    assert_eq!(text(&run.output().unwrap().stdout), "1,,given\n");
    let out = vm.towpath(&["run", "--env", "=x", "--", "true"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("--env `=x`: a variable needs a name"));
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_no_panic() {
    let vm = Vm::up(1);
    for args in [&["hosts"][..], &["ps", "--json"], &["token"], &["unit"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let out = vm.command(args).stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(255), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).starts_with("error: cannot write output: "), "{args:?}");
        let mut closed = vm.command(args).stdout(Stdio::piped()).spawn().unwrap();
        drop(closed.stdout.take());
        let status = closed.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 141)), "{args:?}: {status}");
    }
}

#[test]
fn output_comes_line_by_line_with_the_tasks_names_or_into_files() {
    let vm = Vm::up(1);
    let script = "i=0; while [ $i -lt 500 ]; do printf $TOWPATH_RANK; printf 'x\\n'; \
        i=$((i+1)); done; echo oops >&2";
    let out = run(&vm, &["-n", "3", "--", "sh", "-c", script]);
    let (said, errors) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(said.lines().count(), 1500);
    let tag = said.lines().next().unwrap().split(']').next().unwrap().to_string();
    let name = tag.split(' ').nth(1).unwrap();
    for rank in 0..3 {
        let line = format!("[{rank} {name}] {rank}x");
        assert_eq!(said.lines().filter(|l| *l == line).count(), 500, "{said}");
        assert!(errors.contains(&format!("[{rank} {name}] oops\n")), "{errors}");
    }
    let out = run(&vm, &["-n", "3", "--output-dir", "out", "--", "sh", "-c", script]);
    assert_eq!((out.stdout.len(), out.stderr.len()), (0, 0));
    assert_eq!(std::fs::read_to_string(vm.file("out/2.out")).unwrap(), "2x\n".repeat(500));
    assert_eq!(std::fs::read_to_string(vm.file("out/0.err")).unwrap(), "oops\n");
}

#[test]
fn input_goes_to_the_first_task_however_long_it_is() {
    let vm = Vm::up(2);
    let mut input = vec![0; 3_000_000];
    for (i, byte) in input.iter_mut().enumerate() {
        *byte = (i * 31 % 251) as u8;
    }
    let out = vm.with_input(&["run", "--host", "h2", "--", "cat"], &input);
    assert!(out.stdout == input, "{} bytes came back", out.stdout.len());
    let script = "echo $TOWPATH_RANK:$(wc -c)";
    let args = ["run", "-n", "2", "--no-tag", "--host", "h1:1,h2:1", "--", "sh", "-c", script];
    let out = vm.with_input(&args, b"seven!!");
    assert_eq!(sorted(&text(&out.stdout)), ["0:7", "1:0"]);
    let out = vm.with_input(&["run", "--no-stdin", "--", "wc", "-c"], b"seven!!");
    assert_eq!(text(&out.stdout), "0\n");
    // One that closes its input early does not hold us up.
    let out = vm.with_input(&["run", "--", "head", "-c", "5"], &input);
    assert_eq!((out.stdout.as_slice(), out.status.code()), (&input[..5], Some(0)));
    let script = "exec 0<&-; echo closed";
    let out = vm.with_input(&["run", "--", "sh", "-c", script], &input);
    assert_eq!(text(&out.stdout), "closed\n");
}

#[test]
fn output_that_finds_no_room_is_told_and_ends_the_tasks() {
    let vm = Vm::up(1);
    let mut command = vm.command(&["run", "--", "sh", "-c", "while :; do echo line; done"]);
    let full = std::fs::File::create("/dev/full").unwrap();
    let out = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(out.status.code(), Some(255));
    let said = text(&out.stderr);
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn input_typed_bit_by_bit_is_answered_bit_by_bit() {
    let vm = Vm::up(2);
    let mut command = vm.command(&["run", "--host", "h2", "--", "sh"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for word in ["one", "two", "three"] {
        writeln!(input, "echo {word}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), word);
    }
    drop(input);
    assert!(lines.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_first_failure_counts_and_ends_the_others() {
    let vm = Vm::up(2);
    let go = vm.file("go");
    fifo(&go);
    // The third fails once the others wait; the second does not go politely.
    let script = format!(
        "case $TOWPATH_RANK in \
         2) read x < {0}; exit 7 ;; \
         1) trap '' TERM; echo x > {0}; while :; do tail -f /dev/null; done ;; \
         *) trap 'echo polite; exit 3' TERM; while :; do tail -f /dev/null & wait; done ;; esac",
        go.display()
    );
    let args = ["-n", "3", "--grace", "200ms", "--json", "--", "sh", "-c", &script];
    let out = run(&vm, &args);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{said}");
    assert!(said.contains("exit status 7") && said.contains("polite"), "{said}");
    let job: Value = serde_json::from_slice(&out.stdout).unwrap();
    let field = |name: &str| -> Vec<Value> {
        job["tasks"].as_array().unwrap().iter().map(|t| t[name].clone()).collect()
    };
    assert_eq!(field("status"), [3, 137, 7]);
    assert_eq!(field("rank"), [0, 1, 2]);
    assert_eq!((&job["status"], &job["size"]), (&7.into(), &3.into()));
    assert!(field("pid").iter().all(|p| p.as_u64().is_some_and(|p| p > 0)));
}

#[test]
fn what_is_no_option_is_refused_before_anything_runs() {
    let vm = Vm::up(1);
    for (option, hint) in [
        ("--bogus", "options of the command itself go behind it"),
        ("--map-by", "--spread"),
        ("--bind-to=core", "leave it out"),
        ("-genv", "-x NAME=VALUE"),
        ("-npernode", "--spread"),
    ] {
        let out = run(&vm, &[option, "touch", "ran"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(255), "{said}");
        let why = ["unexpected argument", "invalid value"].iter().any(|why| said.contains(why));
        assert!(why && said.contains("hint: ") && said.contains(hint), "{option}: {said}");
    }
    assert!(!vm.file("ran").exists());
    // Behind the command they are the command's.
    let out = run(&vm, &["echo", "--bogus", "-n", "3", "--"]);
    assert_eq!(text(&out.stdout), "--bogus -n 3 --\n");
}

#[test]
fn habits_of_mpirun_are_understood() {
    let vm = Vm::up(2);
    let args = ["-np", "2", "-x", "A=1", "-H", "h2:2", "-wdir", "/usr", "--no-tag"];
    let script = "echo $A $PWD $TOWPATH_SIZE ${TOWPATH_HOST##*/}";
    let out = run(&vm, &[&args[..], &["sh", "-c", script]].concat());
    assert_eq!(text(&out.stdout), "1 /usr 2 2\n".repeat(2), "{}", text(&out.stderr));
    std::fs::write(vm.file("hosts"), "h1 slots=1\n").unwrap();
    let out = run(&vm, &["-machinefile", "hosts", "sh", "-c", "echo ${TOWPATH_HOST##*/}"]);
    assert_eq!(text(&out.stdout), "1\n", "{}", text(&out.stderr));
}

#[test]
fn a_program_beside_us_is_offered_where_its_name_is_not_found() {
    let vm = Vm::up(1);
    let heat = vm.file("heat-of-ours");
    std::fs::write(&heat, "#!/bin/sh\n").unwrap();
    let run_it = || text(&run(&vm, &["-n", "2", "heat-of-ours"]).stderr);
    assert!(!run_it().contains("did you mean"), "it cannot be run");
    std::fs::set_permissions(&heat, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = run_it();
    assert_eq!(said.matches("hint: did you mean ./heat-of-ours").count(), 1, "{said}");
}

#[test]
fn equal_ends_are_told_on_one_line() {
    let vm = Vm::up(2);
    let out = run(&vm, &["-n", "12", "--on-failure", "go-on", "--", "sh", "-c", "exit 3"]);
    assert_eq!(out.status.code(), Some(3));
    let said = text(&out.stderr);
    // On a busy machine not all end within a tenth of a second.
    let told: usize = said
        .lines()
        .map(|line| match line.split_once(" tasks (") {
            Some((count, _)) => count.rsplit(' ').next().unwrap().parse().unwrap(),
            None => 1,
        })
        .sum();
    assert_eq!(told, 12, "{said}");
    assert!(said.lines().count() < 12 && said.contains(": exit status 3"), "{said}");
}

#[test]
fn what_programs_are_called_does_not_steer_the_terminal() {
    let vm = Vm::up(1);
    let odd = "evil\u{1b}[2J\u{9b}1m\nline";
    let ready = vm.file("ready");
    fifo(&ready);
    let script = format!("echo x > {}; exec tail -f /dev/null", ready.display());
    let mut child = vm.command(&["run", "--", "sh", "-c", &script, odd]).spawn().unwrap();
    let mut first = [0; 2];
    std::fs::File::open(&ready).unwrap().read_exact(&mut first).unwrap();
    for args in [&["ps"][..], &["ps", "--json"], &["top", "--once"], &["top", "--once", "--json"]] {
        let said = text(&vm.towpath(args).stdout);
        assert!(said.contains("evil\\u001b[2J"), "{args:?}: {said}");
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!said.contains(steers), "{args:?}: {said:?}");
    }
    Vm::signal(child.id(), "-TERM");
    child.wait().unwrap();
    let out = run(&vm, &["--", odd]);
    let said = text(&out.stderr);
    assert!(said.contains("evil\\u001b[2J") && !said.contains('\u{1b}'), "{said:?}");
    // What tasks print themselves stays as it is.
    let out = run(&vm, &["--", "printf", "\\033[1m"]);
    assert_eq!(out.stdout, b"\x1b[1m");
}

#[test]
fn the_others_go_on_if_they_are_to() {
    let vm = Vm::up(1);
    let script = "[ $TOWPATH_RANK = 1 ] && exit 4; cat > /dev/null; echo done";
    let mut command = vm.command(&["run", "-n", "2", "--keep-going", "--", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The second has failed when this is read; only then may the first one end.
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("task 1") && line.contains("exit status 4"), "{line}");
    drop(child.stdin.take());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("] done\n"), "{said}");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn an_interrupt_reaches_all_and_a_second_one_kills() {
    let vm = Vm::up(2);
    let script = "trap 'echo caught' INT; echo ready; while :; do tail -f /dev/null & wait; done";
    let args = ["run", "-n", "2", "--no-tag", "--spread", "--", "sh", "-c", script];
    let mut child = vm.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!([lines.next(), lines.next()], [Some("ready".into()), Some("ready".into())]);
    Vm::signal(child.id(), "-INT");
    assert_eq!([lines.next(), lines.next()], [Some("caught".into()), Some("caught".into())]);
    Vm::signal(child.id(), "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn a_time_limit_ends_them_all() {
    let vm = Vm::up(1);
    let out = run(&vm, &["-n", "2", "--timeout", "300ms", "--", "tail", "-f", "/dev/null"]);
    assert_eq!(out.status.code(), Some(124));
    assert!(text(&out.stderr).contains("timed out"), "{}", text(&out.stderr));
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let vm = Vm::up(1);
    let mut command = vm.command(&["run", "-n", "2", "--", "yes"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().ends_with("] y"));
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}
