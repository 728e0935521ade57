//! What other users, other builds and too many clients can do to a virtual machine, and what a
//! daemon leaves behind and writes down.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use rustix::process::{Uid, geteuid};
use towpath::Client;
use towpath::protocol::{PROTOCOL, Request, encode};
use towpath_wire::Greeting;

use crate::support::{PROMPT, Vm, fifo, processes_with, text};

const NOBODY: u32 = 65_534;

/// False, and loudly, where this process cannot play another user.
fn can_be_others() -> bool {
    if !geteuid().is_root() {
        towpath_skip::skip("only root can play another user");
    }
    geteuid().is_root()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn up_at(vm: &Vm, home: &Path) -> Output {
    vm.command(&["up"]).env("TOWPATH_HOME", home).output().unwrap()
}

/// `up` says all of this, and starts nothing.
#[track_caller]
fn refused(out: &Output, words: &[&str]) {
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(255), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

#[test]
fn a_home_that_another_user_made_is_not_used() {
    if !can_be_others() {
        return;
    }
    let vm = Vm::new();
    set_mode(vm.dir.path(), 0o1777);
    let home = vm.file("home");
    let key = home.join("default/vm.key");
    fs::create_dir_all(home.join("default")).unwrap();
    fs::write(&key, [7; 32]).unwrap();
    for path in [&home, &home.join("default"), &key] {
        chown(path, Some(NOBODY), None).unwrap();
    }
    let words = ["home (owner 65534, mode 0755) belongs to another user", "hint: set TOWPATH_HOME"];
    refused(&up_at(&vm, &home), &words);
    for args in [&["hosts"][..], &["run", "--", "true"], &["token"], &["down"]] {
        let out = vm.command(args).env("TOWPATH_HOME", &home).output().unwrap();
        refused(&out, &words);
    }
    // Only the virtual machine's directory, or only the key, is theirs.
    chown(&home, Some(0), None).unwrap();
    refused(&up_at(&vm, &home), &["default (owner 65534", "belongs to another user"]);
    chown(home.join("default"), Some(0), None).unwrap();
    refused(&up_at(&vm, &home), &["vm.key (owner 65534", "belongs to another user", "hint: `rm"]);
    // What was put there while they could: a table of hosts whose keys they know.
    fs::remove_file(&key).unwrap();
    let table = home.join("default/hosts/1/table");
    fs::create_dir_all(table.parent().unwrap()).unwrap();
    fs::write(&table, "planted").unwrap();
    chown(&table, Some(NOBODY), None).unwrap();
    refused(&up_at(&vm, &home), &["table", "belongs to another user"]);
    assert_eq!(processes_with(home.to_str().unwrap()), []);
}

#[test]
fn two_users_share_a_scratch_directory_and_nothing_else() {
    if !can_be_others() {
        return;
    }
    let scratch = Vm::new();
    set_mode(scratch.dir.path(), 0o1777);
    let theirs = |args: &[&str], home: &Path| {
        let mut command = scratch.command(args);
        command.env("TOWPATH_HOME", home).env("HOME", "/nonexistent").uid(NOBODY).gid(NOBODY);
        command.current_dir("/").output().unwrap()
    };
    let (our_home, their_home) = (scratch.file("root"), scratch.file("nobody"));
    assert!(up_at(&scratch, &our_home).status.success());
    let out = theirs(&["up"], &their_home);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(text(&theirs(&["run", "--", "id", "-u"], &their_home).stdout), "65534\n");
    // Neither gets to the other's.
    refused(&theirs(&["hosts"], &our_home), &["root"]);
    let out = scratch.command(&["hosts"]).env("TOWPATH_HOME", &their_home).output().unwrap();
    refused(&out, &["nobody (owner 65534", "belongs to another user"]);
    assert!(theirs(&["down"], &their_home).status.success());
    let down = scratch.command(&["down"]).env("TOWPATH_HOME", &our_home).status();
    assert!(down.unwrap().success());
}

#[test]
fn what_others_can_write_into_or_read_is_not_used() {
    let vm = Vm::new();
    assert!(vm.towpath(&["init"]).status.success());
    let (home, key) = (vm.dir.path(), vm.vm_dir().path.join("vm.key"));
    let vm_path = vm.vm_dir().path;
    for (path, mode, back, words) in [
        (home, 0o777, 0o700, ["mode 0777) can be written by others", "hint: `chmod go-w"]),
        (vm_path.as_path(), 0o770, 0o700, ["mode 0770) can be written by others", "chmod go-w"]),
        (key.as_path(), 0o644, 0o600, ["vm.key (owner", "hint: `chmod 600"]),
        (key.as_path(), 0o602, 0o600, ["vm.key (owner", "hint: `chmod go-w"]),
    ] {
        set_mode(path, mode);
        refused(&vm.towpath(&["up"]), &words);
        set_mode(path, back);
    }
    // A directory above: of those that all may write into only sticky ones will do.
    let above = Vm::new();
    let home = above.file("home");
    set_mode(above.dir.path(), 0o777);
    refused(&up_at(&above, &home), &["mode 0777) can be written by others, who could replace"]);
    set_mode(above.dir.path(), 0o1777);
    assert!(up_at(&above, &home).status.success());
    let down = above.command(&["down"]).env("TOWPATH_HOME", &home).status();
    assert!(down.unwrap().success());
}

#[test]
fn links_in_a_daemons_directory_lead_nowhere() {
    let vm = Vm::new();
    let victim = vm.file("victim");
    fs::write(&victim, "precious").unwrap();
    let dir = vm.vm_dir().host(1);
    fs::create_dir_all(&dir).unwrap();
    for name in ["daemon.log", "lock", "host.key", "tokens"] {
        // A start that was refused may have made it.
        let _ = fs::remove_file(dir.join(name));
        symlink(&victim, dir.join(name)).unwrap();
        let named = format!("{name} (owner");
        refused(&vm.towpath(&["up"]), &[named.as_str(), "is a symbolic link", "`rm "]);
        fs::remove_file(dir.join(name)).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
    }
    let _ = fs::remove_file(dir.join("daemon.log"));
    fs::hard_link(&victim, dir.join("daemon.log")).unwrap();
    refused(&vm.towpath(&["up"]), &["daemon.log (owner", "as a hard link", "`rm "]);
    fs::remove_file(dir.join("daemon.log")).unwrap();
    // Where it cannot write its control group down it does without one.
    for name in ["group", "daemon.log.1", "tokens.new"] {
        let _ = fs::remove_file(dir.join(name));
        symlink(&victim, dir.join(name)).unwrap();
    }
    assert!(vm.towpath(&["up"]).status.success());
    assert!(vm.towpath(&["token"]).status.success());
    assert!(vm.towpath(&["down"]).status.success());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_socket_that_another_user_listens_at_is_not_talked_to() {
    if !can_be_others() {
        return;
    }
    let vm = Vm::new();
    let path = vm.file("sock");
    let bind = path.clone();
    set_mode(vm.dir.path(), 0o777);
    // Only this thread becomes somebody else.
    let listen = move || {
        let nobody = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        UnixListener::bind(&bind).unwrap()
    };
    let listener = std::thread::spawn(listen).join().unwrap();
    set_mode(&path, 0o777);
    let said = Client::connect(&path).unwrap_err().to_string();
    assert!(said.contains("belongs to another user (user id 65534)"), "{said}");
    let said = towpath::Task::enrol_at(&path, None).err().unwrap().to_string();
    assert!(said.contains("belongs to another user (user id 65534)"), "{said}");
    drop(listener);
}

#[test]
fn results_are_not_written_through_links_of_others() {
    if !can_be_others() {
        return;
    }
    let vm = Vm::up(1);
    let (shared, victim) = (vm.file("shared"), vm.file("victim"));
    fs::create_dir(&shared).unwrap();
    // Not sticky: there the kernel refuses it, too (fs.protected_symlinks).
    set_mode(&shared, 0o777);
    fs::write(&victim, "precious").unwrap();
    let of_nobody = |target: &Path, link: &Path| {
        symlink(target, link).unwrap();
        std::os::unix::fs::lchown(link, Some(NOBODY), None).unwrap();
    };
    let (link, chain) = (shared.join("log"), shared.join("chain"));
    of_nobody(&victim, &link);
    // One of ours that leads to theirs.
    symlink("log", &chain).unwrap();
    let (path, chain) = (link.to_str().unwrap(), chain.to_str().unwrap());
    for (option, path) in [("--joblog", path), ("--report", path), ("--joblog", chain)] {
        let out = vm.towpath(&["farm", option, path, "true", ":::", "1"]);
        refused(&out, &["a symbolic link of another user (owner 65534)"]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
    // What stands for a process's output leads nowhere else.
    let out = vm.towpath(&["farm", "--joblog", "/dev/stdout", "true", ":::", "1"]);
    assert!(text(&out.stdout).starts_with("Seq\t"), "{}", text(&out.stderr));
    // Nor into directories.
    let (home, results) = (vm.file("precious"), shared.join("results"));
    fs::create_dir(&home).unwrap();
    of_nobody(&home, &results);
    for slash in ["", "/"] {
        let dir = format!("{}{slash}", results.display());
        let out = vm.towpath(&["farm", "--results", &dir, "true", ":::", "1"]);
        let words = ["results (owner 65534", "is a symbolic link of another user", "--results"];
        refused(&out, &words);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    }
    // A link of one's own may lead where one likes.
    std::os::unix::fs::lchown(&link, Some(0), None).unwrap();
    assert!(vm.towpath(&["farm", "--joblog", path, "true", ":::", "1"]).status.success());
    assert!(fs::read_to_string(&victim).unwrap().starts_with("Seq\t"));
}

/// What the daemon says to one of another build: its own greeting, and nothing else.
fn said_to(vm: &Vm, first: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(vm.vm_dir().host(1).join("sock")).unwrap();
    stream.set_read_timeout(Some(PROMPT)).unwrap();
    stream.write_all(first).unwrap();
    let mut said = Vec::new();
    // Its end may be a reset, since it has not read everything.
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn a_client_of_another_build_is_told_and_nothing_it_says_is_done() {
    let vm = Vm::up(1);
    let shutdown = encode(&Request::Shutdown).unwrap();
    for (protocol, build) in [(PROTOCOL, "0.0.9 (other)"), (PROTOCOL + 1, towpath::BUILD)] {
        let (bytes, len) = Greeting { protocol, build }.emit();
        let said = said_to(&vm, &[&bytes[..len], &shutdown].concat());
        let (theirs, len) = Greeting::parse(&said).unwrap().expect("a whole greeting");
        assert_eq!((theirs.protocol, theirs.build), (PROTOCOL, towpath::BUILD));
        assert_eq!(len, said.len(), "nothing follows");
    }
    // One that knows of no greeting.
    said_to(&vm, &shutdown);
    assert!(vm.client(1).info().is_ok(), "it has not ended");
    let log = fs::read_to_string(vm.vm_dir().host(1).join("daemon.log")).unwrap();
    assert!(log.contains("towpath 0.0.9 (other), protocol"), "{log}");
}

/// A process that holds the lock of a daemon's directory as its daemon would.
fn holder(dir: &Path) -> Child {
    let lock = dir.join("lock");
    fs::write(&lock, "").unwrap();
    let mut flock = Command::new("flock");
    let child = flock.args(["--no-fork", "-x"]).arg(&lock).args(["sleep", "600"]).spawn().unwrap();
    let begin = Instant::now();
    while !towpath::lock::is_locked(dir) {
        assert!(begin.elapsed() < PROMPT);
        std::thread::yield_now();
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    fs::write(&lock, format!("{}\nh1.1\n{started}\n", child.id())).unwrap();
    child
}

#[test]
fn a_daemon_of_another_build_is_named_and_can_be_ended() {
    let vm = Vm::new();
    assert!(vm.towpath(&["init"]).status.success());
    let dir = vm.vm_dir().host(1);
    fs::create_dir_all(&dir).unwrap();
    let listener = UnixListener::bind(dir.join("sock")).unwrap();
    std::thread::spawn(move || {
        let (bytes, len) = Greeting { protocol: 9, build: "9.9 (later)" }.emit();
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(&bytes[..len]));
        }
    });
    let mut daemon = holder(&dir);
    let out = vm.towpath(&["run", "--", "true"]);
    let ours = format!("this program is towpath {}, protocol {PROTOCOL}", towpath::BUILD);
    refused(&out, &[ours.as_str(), "the other one is towpath 9.9 (later), protocol 9", "hint: "]);
    let reaper = std::thread::spawn(move || daemon.wait().unwrap());
    let out = vm.towpath(&["down"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // Politely.
    let status = reaper.join().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
}

#[test]
fn the_command_line_has_places_that_a_crowd_does_not_take() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if limit.is_some_and(|limit| limit < 2000) {
        return towpath_skip::skip(&format!("this process may open {limit:?} descriptors"));
    }
    let vm = Vm::up(1);
    let path = vm.vm_dir().host(1).join("sock");
    let crowd: Vec<UnixStream> = (0..1200).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let out = vm.towpath(&["hosts"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(vm.towpath(&["token"]).status.success());
    let out = vm.towpath(&["run", "--", "true"]);
    let said = text(&out.stderr);
    assert_ne!(out.status.code(), Some(0));
    assert!(said.contains("1024 clients are connected") && said.contains("hint:"), "{said}");
    // The last of the crowd has made room, and knows why.
    let mut said = Vec::new();
    let mut late = &crowd[1024];
    late.set_read_timeout(Some(PROMPT)).unwrap();
    late.read_to_end(&mut said).unwrap();
    assert!(text(&said).contains("clients are connected"), "{said:?}");
    drop(crowd);
    let begin = Instant::now();
    while !vm.towpath(&["run", "--", "true"]).status.success() {
        assert!(begin.elapsed() < PROMPT, "they have gone");
    }
}

#[test]
fn what_a_daemon_killed_with_its_guard_left_behind_ends_with_the_next_start() {
    let vm = Vm::up(1);
    let dir = vm.vm_dir().host(1);
    // As where no control groups can be made. (`tail` ends by itself where nobody reads a pipe that
    // it writes to.)
    let group = fs::read_to_string(dir.join("group"));
    let _ = fs::remove_file(dir.join("group"));
    let (started, mark) = (vm.file("started"), vm.file("mark"));
    fifo(&started);
    fs::write(&mark, "").unwrap();
    let script = format!(
        "trap '' TERM HUP; setsid -f sh -c 'trap \"\" TERM HUP; tail -f {0} >/dev/null'; \
         echo > {1}; exec tail -f {0}",
        mark.display(),
        started.display()
    );
    let mut run = vm.command(&["run", "--", "sh", "-c", &script]).spawn().unwrap();
    fs::read_to_string(&started).unwrap();
    let engine = vm.pid(1);
    let stat = fs::read_to_string(format!("/proc/{engine}/stat")).unwrap();
    let guard = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_string();
    // At once: neither is to see the other's end.
    for signal in ["-STOP", "-KILL"] {
        let status = Command::new("kill").args([signal, &guard, &engine.to_string()]).status();
        assert!(status.unwrap().success());
    }
    run.wait().unwrap();
    let begin = Instant::now();
    while towpath::lock::is_locked(&dir) {
        assert!(begin.elapsed() < PROMPT, "the daemon still runs");
        std::thread::yield_now();
    }
    let orphan = format!("tail -f {}", mark.display());
    assert!(!processes_with(&orphan).is_empty(), "they live on");
    assert!(vm.towpath(&["up"]).status.success());
    assert_eq!(processes_with(&orphan), []);
    let log = fs::read_to_string(dir.join("daemon.log")).unwrap();
    assert!(log.contains("processes that an earlier daemon left behind"), "{log}");
    let _ = group.map(fs::remove_dir);
}

#[test]
fn a_log_goes_on_over_restarts_and_has_a_crashs_last_words() {
    let vm = Vm::up(1);
    let path = vm.vm_dir().host(1).join("daemon.log");
    let first = fs::read_to_string(&path).unwrap();
    assert!(first.contains("  INFO starts: towpath "), "{first}");
    assert!(first.lines().all(|l| l.starts_with("20") && l[10..].starts_with('T')), "{first}");
    Vm::signal(vm.pid(1), "-KILL");
    let begin = Instant::now();
    while towpath::lock::is_locked(&vm.vm_dir().host(1))
        || !fs::read_to_string(&path).unwrap().contains("was ended by signal 9")
    {
        assert!(begin.elapsed() < PROMPT);
        std::thread::yield_now();
    }
    let mut up = vm.command(&["up"]);
    let up = up.env("TOWPATH_LOG", "warn").output().unwrap();
    assert!(up.status.success(), "{}", text(&up.stderr));
    assert!(vm.towpath(&["down"]).status.success());
    let quiet = fs::read_to_string(&path).unwrap();
    assert_eq!(quiet.matches("starts: towpath").count(), 1, "only what is worth a warning");
    assert!(vm.towpath(&["up"]).status.success());
    let all = fs::read_to_string(&path).unwrap();
    assert!(all.starts_with(&first), "{all}");
    assert_eq!(all.matches("starts: towpath").count(), 2);
    // People are shown the present life.
    let shown = text(&vm.towpath(&["logs"]).stdout);
    assert_eq!(shown.matches("starts: towpath").count(), 1, "{shown}");
    assert!(shown.contains("joined as h1") && !shown.contains("signal 9"), "{shown}");
    let shown = text(&vm.towpath(&["logs", "--all"]).stdout);
    assert!(shown.contains("signal 9"), "{shown}");
}

#[test]
fn logs_hold_neither_tokens_nor_commands() {
    let vm = Vm::up(2);
    let token = text(&vm.towpath(&["token"]).stdout);
    assert!(vm.towpath(&["run", "--", "sh", "-c", ": hush-hush"]).status.success());
    assert!(!vm.towpath(&["run", "--", "/no/hush-hush"]).status.success());
    let mut command = vm.command(&["farm", "echo", "hush-hush", "{}", ":::", "1", "2"]);
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    assert!(vm.towpath(&["down"]).status.success());
    for host in [1, 2] {
        let log = fs::read_to_string(vm.vm_dir().host(host).join("daemon.log")).unwrap();
        assert!(log.contains(" INFO ended"), "{log}");
        assert!(!log.contains("hush-hush") && !log.contains(token.trim()), "{log}");
        assert!(!log.contains("tow2-"), "{log}");
    }
}
