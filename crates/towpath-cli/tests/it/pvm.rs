//! `towpath pvm`, and programs written for PVM that nobody compiled anew.
//!
//! Needs Debian's packages pvm and pvm-examples; says so and skips where they are not.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Vm, text};
use towpath_skip::skip;

/// Our library, where `towpath` looks for it.
pub(crate) fn library() -> PathBuf {
    crate::support::built::built(&["libpvm3.so", "deps/libpvm3.so"], &["-p", "towpath-pvm3"])
}

/// Whether programs of PVM's can run here.
fn ready(program: &str) -> bool {
    library();
    let installed = Path::new(program).is_file();
    if !installed {
        skip(&format!("{program} is not installed"));
    }
    installed
}

/// A C program linked with PVM's own library; `false` where that cannot be had.
pub(crate) fn compiled(vm: &Vm, name: &str, source: &str) -> bool {
    if !(ready("/usr/bin/cc") && ready("/usr/include/pvm3.h")) {
        return false;
    }
    std::fs::write(vm.file("source.c"), source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-o", name, "source.c", "-lgpvm3", "-lpvm3"]).current_dir(vm.dir.path());
    let out = cc.output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    true
}

/// Runs the words for a shell as ssh would, with a home of its own for each host.
const SSH: &str = r#"#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1
case $host in refuse*) echo "Connection refused" >&2; exit 255 ;; esac
TOWPATH_HOME=$FAKE/$host; export TOWPATH_HOME
exec sh -c "$2"
"#;

/// With machines that are directories of a virtual machine's.
fn with_machines<'a>(vm: &Vm, command: &'a mut Command) -> &'a mut Command {
    let ssh = vm.file("ssh");
    if !ssh.is_file() {
        std::fs::write(&ssh, SSH).unwrap();
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let own = env!("CARGO_BIN_EXE_towpath");
    command.env("TOWPATH_SSH", ssh).env("TOWPATH_REMOTE", own).env("FAKE", vm.dir.path())
}

/// What the console prints for commands.
fn console(vm: &Vm, args: &[&str], commands: &str) -> String {
    // So that the user's own commands and variables do not count.
    let mut args = [&["pvm"], args].concat();
    args.extend(["--start-timeout", "10s"]);
    let mut command = Command::new("timeout");
    with_machines(vm, &mut command);
    command.arg("60").arg(env!("CARGO_BIN_EXE_towpath")).args(args);
    command.env("TOWPATH_HOME", vm.dir.path()).env("HOME", vm.dir.path());
    command.env_remove("TOWPATH_VM").env_remove("PVM_EXPORT").current_dir(vm.dir.path());
    let file = vm.file("commands");
    std::fs::write(&file, commands).unwrap();
    let out = command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

fn lines_with(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn the_console_brings_the_machine_up_lists_it_and_halts_it() {
    let vm = Vm::new();
    let said = console(&vm, &["-n", "here"], "conf\nid\nps -ax\nquit\n");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "1 host, 1 data format");
    assert_eq!(lines[1], "                    HOST     DTID     ARCH   SPEED       DSIG");
    assert!(lines[2].starts_with("                    here    40000  LINUX"), "{said}");
    assert!(lines[3].starts_with("t4000"), "{said}");
    assert!(lines[5].contains("(cons)       4/c -"), "{said}");
    // It goes on until it is told to end.
    assert!(vm.towpath(&["hosts"]).status.success());
    console(&vm, &[], "halt\nconf\n");
    assert_eq!(vm.towpath(&["hosts"]).status.code(), Some(255));
}

#[test]
fn spawned_tasks_are_found_by_ep_and_what_they_say_comes_with_names() {
    let vm = Vm::new();
    let programs = vm.file("programs");
    std::fs::create_dir(&programs).unwrap();
    let script = "#!/bin/sh\necho \"$1 in $(pwd) with $COLOUR\"\n";
    let program = programs.join("say");
    std::fs::write(&program, script).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    let hostfile = vm.file("hosts.pvm");
    std::fs::write(&hostfile, "* ep=$HOME/programs:/x wd=/usr so=pw\nlocalhost\n&other\n").unwrap();
    let commands = "setenv COLOUR blue\nexport COLOUR\nspawn -2 -> say 'a b'\n\
                    spawn -:/tmp ->out say c\nspawn nothing\n";
    let said = console(&vm, &["hosts.pvm"], commands);
    assert_eq!(lines_with(&said, "] a b in /usr with blue"), 2, "{said}");
    assert_eq!(lines_with(&said, "EOF"), 2, "{said}");
    assert_eq!(lines_with(&said, "[1] finished"), 1, "{said}");
    assert!(said.contains("0 successful\nNo such file\n"), "{said}");
    let file = std::fs::read_to_string(vm.file("out")).unwrap();
    assert!(file.starts_with("[2:t4000") && file.contains("] c in /tmp with blue\n"), "{file}");
    assert!(file.ends_with("EOF\n[2] finished\n"), "{file}");
}

#[test]
fn tasks_are_listed_asked_after_and_killed() {
    let vm = Vm::up(2);
    let commands = "spawn -> sleep 1000\nspawn -h2 -> sleep 1000\njobs\nps -a\nmstat h2 nohost\n\
         pstat t40003 t40999\nnames\nput box 1\nnames box\nlookup box\nremove box\nlookup box\n\
         bogus\ntickle 0\nsig 15 t40999\nreset\n";
    let said = console(&vm, &[], commands);
    assert_eq!(lines_with(&said, "1 successful"), 2, "{said}");
    assert!(said.contains("t80001"), "{said}");
    assert_eq!(lines_with(&said, "2/f sleep"), 2, "{said}");
    assert!(said.contains("                      h2  ok\n"), "{said}");
    assert!(said.contains("                  nohost  No such host\n"), "{said}");
    assert!(said.contains("t   40999  No such task\n"), "{said}");
    assert!(said.contains("<box>:\n\tindex=0 owner=0x4000"), "{said}");
    assert_eq!(lines_with(&said, "Not found"), 1, "{said}");
    assert!(said.contains("bogus: not found\n"), "{said}");
    assert!(said.contains("tickle: no effect"), "{said}");
    // The end of input waits for jobs: they ended because `reset` killed them.
    assert_eq!(lines_with(&said, "finished"), 2, "{said}");
}

#[test]
fn pvms_programs_run_from_the_console() {
    if !ready("/usr/bin/hello.pvm") {
        return;
    }
    for hosts in [1, 3] {
        let vm = Vm::up(hosts);
        let commands = "spawn -> hello.pvm\nspawn -4 -> spmd\nspawn -> master1\n";
        let said = console(&vm, &[], &format!("setenv PVM_PATH /usr/bin\n{commands}"));
        assert_eq!(lines_with(&said, "hello, world from"), 1, "{said}");
        assert_eq!(lines_with(&said, "token ring done"), 1, "{said}");
        let got = said.lines().filter(|line| line.contains("I got")).collect::<Vec<_>>();
        assert_eq!(got.len(), 3 * hosts, "{said}");
        assert_eq!(lines_with(&said, "finished"), 3, "{said}");
        for line in got {
            // `I got X from N; (expecting X)`
            let number = |after: &str| {
                let rest = &line[line.find(after).unwrap() + after.len()..];
                rest.trim_start().split([' ', ')']).next().unwrap().parse::<f64>().unwrap()
            };
            let (got, expected) = (number("I got"), number("expecting"));
            assert!((got - expected).abs() < 1e-6 * expected.abs().max(1.0), "{line}");
        }
    }
}

#[test]
fn pvms_programs_run_without_a_console() {
    if !ready("/usr/bin/hello.pvm") {
        return;
    }
    let vm = Vm::up(3);
    let out = vm.towpath(&["run", "--timeout", "30s", "--", "hello.pvm"]);
    assert!(text(&out.stdout).contains("hello, world from"), "{}", text(&out.stderr));
    // A shell hands the library on.
    let out = vm.towpath(&["run", "--timeout", "30s", "--", "sh", "-c", "exec hello.pvm"]);
    assert!(text(&out.stdout).contains("hello, world from"), "{}", text(&out.stderr));
    // With PVM's own library it looks for a pvmd, and there is none.
    let own = ["run", "--no-pvm", "--timeout", "30s", "--env", "PVM_TMP=/nowhere", "--"];
    let out = vm.towpath(&[&own[..], &["hello.pvm"]].concat());
    assert!(!text(&out.stdout).contains("hello, world from"), "{}", text(&out.stdout));
}

#[test]
fn a_program_with_pvm_linked_in_is_refused_with_the_way_out() {
    if !ready("/usr/bin/cc") {
        return;
    }
    let vm = Vm::up(1);
    let source = "int pvm_mytid(void) { return 7; } int main(void) { return pvm_mytid(); }";
    std::fs::write(vm.file("old.c"), source).unwrap();
    let cc = Command::new("cc").args(["-o", "old", "old.c"]).current_dir(vm.dir.path()).status();
    assert!(cc.unwrap().success());
    let out = vm.towpath(&["run", "--", "./old"]);
    assert_eq!(out.status.code(), Some(126));
    assert!(text(&out.stderr).contains("cc -o old OBJECTS -lpvm3"), "{}", text(&out.stderr));
    let out = vm.towpath(&["run", "--no-pvm", "--", "./old"]);
    assert_eq!(out.status.code(), Some(7), "{}", text(&out.stderr));
}

#[test]
fn pvms_own_console_shows_our_hosts() {
    if !ready("/usr/bin/pvm") {
        return;
    }
    let vm = Vm::up(2);
    let out = vm.with_input(&["run", "--timeout", "30s", "--", "pvm"], b"conf\nps -a\nquit\n");
    let said = text(&out.stdout);
    assert!(said.contains("2 hosts, 1 data format"), "{said}{}", text(&out.stderr));
}

#[test]
fn hosts_are_added_as_the_host_file_says_and_deleted() {
    let vm = Vm::new();
    let hosts = "localhost\nalpha ip=127.0.0.2 sp=500\n&beta ip=127.0.0.3 wd=/usr\n";
    std::fs::write(vm.file("hosts.pvm"), hosts).unwrap();
    let commands = "conf\nadd beta refuse alpha\nadd 'gamma ip=127.0.0.4 sp=7'\nconf\n\
         spawn -beta -> pwd\ndelete alpha nobody localhost\nconf\n";
    let said = console(&vm, &["hosts.pvm"], commands);
    let row = |name: &str, rest: &str| lines_with(&said, &format!("{name:>24}{rest}"));
    assert_eq!(
        (lines_with(&said, "2 hosts, 1"), lines_with(&said, "4 hosts, 1")),
        (1, 1),
        "{said}"
    );
    assert_eq!(row("alpha", "    80000  LINUX64     500 0x00408c41"), 2, "{said}");
    assert_eq!(row("alpha", " Duplicate host"), 1, "{said}");
    assert_eq!(row("refuse", " Can't start pvmd: "), 1, "{said}");
    assert_eq!(row("beta", "    c0000\n".trim_end()), 3, "{said}");
    assert_eq!(row("gamma", "   100000  LINUX64       7 "), 2, "{said}");
    assert_eq!(lines_with(&said, "[1:tc0001] /usr"), 1, "{said}");
    assert_eq!(row("alpha", "  deleted") + row("nobody", "  No such host"), 2, "{said}");
    assert_eq!(row("localhost", "  Bad parameter"), 1, "{said}");
    assert_eq!(lines_with(&said, "3 hosts, 1"), 1, "{said}");
    console(&vm, &[], "halt\n");
    assert_eq!(vm.towpath(&["hosts"]).status.code(), Some(255));
}

#[test]
fn a_program_adds_and_deletes_hosts() {
    let vm = Vm::new();
    let source = r#"
#include <stdio.h>
#include <pvm3.h>
int main(void) {
    char *names[] = {"alpha ip=127.0.0.2", "refuse", "localhost"};
    char *gone[] = {"alpha", "nobody", "localhost"};
    int codes[3], hosts, added;
    pvm_setopt(PvmAutoErr, 0);
    added = pvm_addhosts(names, 3, codes);
    pvm_config(&hosts, 0, 0);
    printf("%d: %x %d %d, %d hosts\n", added, codes[0], codes[1], codes[2], hosts);
    added = pvm_delhosts(gone, 3, codes);
    pvm_config(&hosts, 0, 0);
    printf("%d: %d %d %d, %d hosts\n", added, codes[0], codes[1], codes[2], hosts);
    return pvm_exit();
}"#;
    if !compiled(&vm, "grow", source) {
        return;
    }
    console(&vm, &["-n", "localhost"], "quit\n");
    let out = vm.towpath(&["run", "--timeout", "60s", "--", "./grow"]);
    let expected = "1: 80000 -29 -28, 2 hosts\n1: 0 -6 -2, 1 hosts\n";
    assert_eq!(text(&out.stdout), expected, "{}", text(&out.stderr));
}

#[test]
fn a_program_starts_the_first_daemon() {
    let vm = Vm::new();
    let source = r#"
#include <stdio.h>
#include <pvm3.h>
int main(void) {
    char *args[] = {"-nfirst"};
    struct pvmhostinfo *hosts;
    int started, again, count;
    pvm_setopt(PvmAutoErr, 0);
    started = pvm_start_pvmd(1, args, 1);
    again = pvm_start_pvmd(0, 0, 1);
    pvm_config(&count, 0, &hosts);
    printf("%d %d %d %s\n", started, again, count, hosts[0].hi_name);
    return pvm_exit();
}"#;
    if !compiled(&vm, "begin", source) {
        return;
    }
    symlink(library(), vm.file("libpvm3.so.3")).unwrap();
    let mut program = Command::new("timeout");
    program.args(["60", "./begin"]).current_dir(vm.dir.path());
    program.env("LD_LIBRARY_PATH", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = program.env("TOWPATH_HOME", vm.dir.path()).output().unwrap();
    assert_eq!(text(&out.stdout), "0 -28 1 first\n", "{}", text(&out.stderr));
}

#[test]
fn output_that_nobody_takes_goes_to_the_daemons_log() {
    let vm = Vm::up(1);
    let script = "sh -c 'echo here it is; echo done >&2; kill -9 $$'";
    console(&vm, &[], &format!("spawn {script}\n"));
    let log = || text(&vm.towpath(&["logs"]).stdout) + &text(&vm.towpath(&["logs"]).stderr);
    let deadline = std::time::Instant::now() + crate::support::PROMPT;
    while !log().contains("[h1.1:t2] here it is") && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let log = log();
    assert_eq!(lines_with(&log, "[h1.1:t2] here it is"), 1, "{log}");
}

/// What Debian's PVM shows of the calls that can be traced is what this console shows.
#[test]
fn calls_to_be_traced_are_named_as_in_pvm() {
    if !ready("/usr/bin/pvm") {
        return;
    }
    let vm = Vm::up(1);
    let commands = "trace\ntrace - *\ntrace send recv nosuch\ntrace\ntrace + *\ntrace - pvm_send\n\
         trace\ntrace xpvm\ntrace\ntrace buf\ntrace buf 70\ntrace buf\ntrace opt\ntrace opt time\n\
         trace opt\ntrace opt nosuch\n";
    let ours = console(&vm, &[], commands);
    let pvm = |commands: &str| {
        let mut pvm = Command::new("timeout");
        pvm.args(["60", "/usr/bin/pvm"]).env("PVM_TMP", vm.dir.path()).env("PVM_ALLOW_ROOT", "1");
        pvm.env("PVM_VMID", "towpath-console").env("HOME", vm.dir.path()).env_remove("PVM_EXPORT");
        let file = vm.file("commands");
        std::fs::write(&file, commands).unwrap();
        pvm.stdin(std::fs::File::open(&file).unwrap()).output().unwrap()
    };
    let theirs = pvm(&format!("{commands}quit\n"));
    // At its end by `halt`, what it has not written yet is lost.
    pvm("halt\n");
    // It shows its prompts, and the commands behind them.
    let lines = |said: &str| -> Vec<String> {
        let own = said.lines().take_while(|line| *line != "pvm> quit");
        let own = own.filter(|line| !line.starts_with("pvm> ") && !line.is_empty());
        own.map(String::from).collect()
    };
    let theirs = lines(&text(&theirs.stdout));
    assert!(theirs.len() > 100, "{theirs:?}");
    assert_eq!(lines(&ours), theirs);
}

#[test]
fn a_trace_goes_to_a_file_or_to_the_console() {
    if !ready("/usr/bin/hello.pvm") {
        return;
    }
    let vm = Vm::up(3);
    let commands = "trace - *\ntrace send recv exit\nspawn -@trace.out -> hello.pvm\n\
         spawn -@ hello.pvm\n";
    let said = console(&vm, &[], commands);
    // The first one's output is shown, the second one's is a part of its trace.
    assert_eq!(lines_with(&said, ", world from"), 2, "{said}");
    assert_eq!(lines_with(&said, "[T2:t0] \"host_add(0)\" {"), 3, "{said}");
    assert_eq!(lines_with(&said, "\"recv(1.1)\" {"), 1, "{said}");
    let file = std::fs::read_to_string(vm.file("trace.out")).unwrap();
    for (record, count) in [
        ("\"host_add(0)\" {", 3),
        ("\"newtask(0)\" {", 2),
        ("\"endtask(0)\" {", 2),
        ("\"send(0.0)\" {", 1),
        ("\"send(1.1)\" {", 1),
        ("\"recv(0.0)\" {", 1),
        ("\"recv(1.1)\" {", 1),
        ("\"exit(0.0)\" {", 2),
        ("\"output(0)\" {", 2),
        (", world from", 1),
    ] {
        let found = file.lines().filter(|line| line.contains(record)).count();
        assert_eq!(found, count, "{record}\n{file}");
    }
    let table =
        text(&vm.towpath(&["pvm", "--trace", &vm.file("trace.out").display().to_string()]).stdout);
    assert!(table.contains("hello_other           send        1"), "{table}");
}

/// A program of PVM's kind: the first task ends when its input does, others at once and badly.
const LEAVES_EARLY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pvm3.h>
int main(void) {
    pvm_mytid();
    pvm_exit();
    if (strcmp(getenv("TOWPATH_RANK"), "0")) return 4;
    while (getchar() != EOF) {}
    puts("done");
    return 0;
}"#;

#[test]
fn a_task_of_pvms_that_ends_with_a_status_does_not_end_the_others() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    let vm = Vm::up(1);
    if !compiled(&vm, "early", LEAVES_EARLY) {
        return;
    }
    let mut command = vm.command(&["run", "-n", "2", "--no-tag", "--timeout", "60s", "./early"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The second has failed when this is read; only then may the first one end.
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("task 1") && line.contains("exit status 4"), "{line}");
    drop(child.stdin.take());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), child.wait().unwrap().code()), ("done\n", Some(4)));
    // Unless it is to be otherwise.
    let args = ["run", "-n", "2", "--on-failure", "end", "--timeout", "60s", "./early"];
    let mut child = vm.command(&args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{said}");
    assert!(said.contains("--on-failure go-on"), "{said}");
    drop(input);
}

#[test]
fn what_a_master_does_on_purpose_is_no_news() {
    let vm = Vm::up(1);
    let source = r#"
#include <stdio.h>
#include <unistd.h>
#include <pvm3.h>
int main(void) {
    int slaves[4], none, i, started;
    pvm_mytid();
    if (pvm_parent() > 0) { pvm_initsend(0); pvm_send(pvm_parent(), 1); for (;;) pause(); }
    pvm_setopt(PvmAutoErr, 0);
    started = pvm_spawn("./kills", 0, 0, "", 4, slaves);
    for (i = 0; i < 4; i++) pvm_recv(-1, 1);
    pvm_notify(PvmTaskExit, 2, 4, slaves);
    for (i = 0; i < 4; i++) pvm_kill(slaves[i]);
    for (i = 0; i < 4; i++) pvm_recv(-1, 2);
    printf("%d %d\n", started, pvm_spawn("./nothing-there", 0, 0, "", 1, &none));
    return pvm_exit();
}"#;
    if !compiled(&vm, "kills", source) {
        return;
    }
    let path = format!("PVM_PATH={}", vm.dir.path().display());
    let out = vm.towpath(&["run", "--env", &path, "--timeout", "60s", "./kills"]);
    assert_eq!((text(&out.stdout).as_str(), text(&out.stderr).as_str()), ("4 0\n", ""));
    assert_eq!(out.status.code(), Some(0));
}

#[test]
fn the_library_is_found_beside_the_program_or_missed_aloud() {
    let vm = Vm::new();
    if !compiled(&vm, "early", LEAVES_EARLY) {
        return;
    }
    for folder in ["opt/bin", "opt/lib", "links"] {
        std::fs::create_dir_all(vm.file(folder)).unwrap();
    }
    let own = vm.file("opt/bin/towpath");
    let built = env!("CARGO_BIN_EXE_towpath");
    if std::fs::hard_link(built, &own).is_err() {
        std::fs::copy(built, &own).unwrap();
    }
    symlink("../opt/bin/towpath", vm.file("links/towpath")).unwrap();
    let started = |program: &str| {
        let towpath = |args: &[&str]| {
            let mut command = Command::new(vm.file(program));
            command.args(args).env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_PVM_LIB");
            command.env_remove("TOWPATH_VM").env("HOME", vm.dir.path()).current_dir(vm.dir.path());
            command.stdin(std::process::Stdio::null()).output().unwrap()
        };
        let up = towpath(&["up"]);
        assert!(up.status.success(), "{}", text(&up.stderr));
        let out = towpath(&["run", "--env", "PVM_TMP=/nowhere", "--timeout", "30s", "./early"]);
        let console = towpath(&["pvm"]);
        assert!(towpath(&["down"]).status.success());
        (text(&out.stdout), [text(&out.stderr), text(&console.stderr)])
    };
    // What the console does: twice, and it says so once.
    std::fs::write(vm.file(".pvmrc"), "spawn ./early\nspawn ./early\n").unwrap();
    let (_, said) = started("opt/bin/towpath");
    for said in &said {
        assert!(said.starts_with("warning: ./early is written for PVM"), "{said}");
        assert!(said.contains("\nhint: ") && said.contains("../lib"), "{said}");
        assert_eq!(said.matches("warning: ").count(), 1, "{said}");
    }
    symlink(library(), vm.file("opt/lib/libpvm3.so.3")).unwrap();
    for program in ["opt/bin/towpath", "links/towpath"] {
        let nothing = [String::new(), String::new()];
        assert_eq!(started(program), ("done\n".into(), nothing), "{program}");
    }
}
