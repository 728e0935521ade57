//! One host's daemon: a guard process around the engine's process.
//!
//! The guard adopts whatever the engine's tasks leave behind (it is their *subreaper*) and, when
//! the engine ends, however it ends, it ends all of that. The engine in turn ends when the guard
//! does. Where this user may make control groups, the engine and its tasks are in one of their
//! own, which the guard ends as a whole; what even a guard killed at the same instant leaves
//! behind is ended by `towpath down` or the next start. Elsewhere those find what tasks left behind
//! by its environment ([`leftovers`]).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use towpath_io::udp::BindError;
use towpath_io::{Clock, RealCrypto, UdpLink};
use towpath_node::egress::LinkEgress;
use towpath_node::{Links, NodeConfig, Saved, SavedError};
use towpath_proto::coding::{Coding, CodingConfig, CodingError};
use towpath_proto::config::{Liveness, PathsConfig};
use towpath_proto::stripe::StripeKind;
use towpath_proto::{Config, Crypto, HostKey};
use towpath_task::place::SOCKET_NAME;
use towpath_wire::{LinkId, Rate};
use zeroize::Zeroizing;

use crate::config::{ConfigError, HOST_KEY, SOCK, key_file, make_dir, socket_path};
use crate::engine::{Engine, EngineError, EngineOptions, LINKS_MAX, Launch, TaskSocket, tokens};
use crate::journal::OpenError;
use crate::ledger::LookError;
use crate::lock::{Holder, Lock};
use crate::private::{Dir, peek};
use crate::pvm::library::Library;
use crate::start::cgroup::Group;
use crate::start::limits::{Descriptors, TooFew};
use crate::table::{TableError, TermError};
use crate::token::Token;
use crate::words::{Sheet, Telling};
use crate::{BUILD, beginning, leftovers, log};

/// A host that answers nothing for so long is lost, unless told otherwise, in milliseconds. It is
/// silent, which ends nothing, within 1.9 s: quiet hosts are asked after 0.4 s, and have 1.5 s to
/// answer.
pub const LOST_AFTER_MS: u32 = 10_000;

/// How a daemon comes to its virtual machine.
#[derive(Clone, Debug)]
pub enum Role {
    /// It founds and leads it, with this VM key.
    Found(Zeroizing<[u8; 32]>),
    /// It joins with a token.
    Join(Token),
}

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Name of the virtual machine.
    pub vm: String,
    /// The daemon's directory.
    pub dir: PathBuf,
    /// Where to receive, at one to [`LINKS_MAX`] addresses, of which other hosts are told the
    /// first; port 0: the kernel chooses.
    pub listen: Vec<SocketAddr>,
    /// Founder or newcomer.
    pub role: Role,
    /// The host's name.
    pub name: String,
    /// How fast it is beside others; 1000 is usual.
    pub speed: u32,
    /// Processors that it offers.
    pub cpus: u16,
    /// Jobs that it runs at once.
    pub slots: u16,
    /// A silent host is lost after so many milliseconds; [`LOST_AFTER_MS`] where nothing was said.
    /// The founder's counts for all hosts.
    pub lost_after_ms: Option<u32>,
    /// How many hosts keep the log of changes, and may come to lead, at most: one of
    /// [`towpath_node::VOTERS`]; as before, or one, where nothing was said. The founder's counts.
    pub voters: Option<u8>,
    /// A founder leads again alone, from what it kept, though others may lead by now.
    pub recover: bool,
    /// How fast each of its links sends at most; `None`: as fast as it can ([`check_link_rate`]).
    pub link_rate: Option<Rate>,
    /// Which of several paths carries the next packet; `None`: that by which it arrives first
    /// ([`stripe_named`]).
    pub stripe: Option<StripeKind>,
    /// How what it sends to other hosts is coded across paths; `None`: not at all.
    pub coding: Option<Coding>,
    /// Of the addresses that it receives at, those that it sends by only while it can by no other.
    pub standby: Vec<IpAddr>,
    /// What the guard passed on.
    pub engine: EngineArgs,
}

/// Whether links can be paced at a rate.
///
/// # Errors
/// Which rates they can be paced at.
pub fn check_link_rate(rate: Rate) -> Result<(), String> {
    LinkEgress::new(LinkId(0), Some(rate)).map(drop).map_err(|e| e.to_string())
}

/// How many hosts are to keep the log of changes.
///
/// # Errors
/// Which numbers there are.
pub fn voters(text: &str) -> Result<u8, String> {
    let known = text.parse().ok().filter(|n| towpath_node::VOTERS.contains(n));
    known.ok_or_else(|| "there are 1, 3 or 5".to_string())
}

/// The stripe scheduler of this name.
///
/// # Errors
/// Which there are.
pub fn stripe_named(name: &str) -> Result<StripeKind, String> {
    StripeKind::named(name).ok_or_else(|| {
        let all = StripeKind::ALL.map(StripeKind::name).join(", ");
        format!("no stripe scheduler {name:?}: there are {all}")
    })
}

/// How packets are coded, in words.
///
/// # Errors
/// What words there are, and the limits.
pub fn coding_of(text: &str) -> Result<Coding, String> {
    text.parse().map_err(|why: CodingError| why.to_string())
}

/// What a guard tells the engine that it starts, as arguments of the command line: a variable
/// would be seen by tasks, too.
#[derive(Clone, Debug, Default)]
pub struct EngineArgs {
    /// The guard's process; `None`: there is none, the engine runs on its own.
    pub guard: Option<u32>,
    /// The control group to be in.
    pub group: Option<PathBuf>,
    /// Where the guard reads what it is to say for an engine that was killed.
    pub words: Option<PathBuf>,
}

impl EngineArgs {
    /// The option that gives [`EngineArgs::guard`].
    pub const GUARD: &str = "--engine-of";
    /// The option that gives [`EngineArgs::group`].
    pub const GROUP: &str = "--group";
    /// The option that gives [`EngineArgs::words`].
    pub const WORDS: &str = "--words";

    fn enter_group(&self) {
        if let Some(group) = &self.group {
            // In vain only where somebody took the group away: then the guard does without.
            let _ = Group::enter(group);
        }
    }
}

/// Why a daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its files cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its address cannot be used.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// What it kept of its virtual machine cannot be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// What it had decided cannot be used.
    #[error(transparent)]
    Ledger(#[from] OpenError),
    /// The same, where others may lead.
    #[error(transparent)]
    Look(#[from] LookError),
    /// It cannot keep that it lives again.
    #[error(transparent)]
    Term(#[from] TermError),
    /// The same: it decodes, and is not this daemon's.
    #[error(
        "the table of hosts in {dir} cannot be used: {why}\n\
         hint: put back the host.key that belongs to it, or move both away: the virtual machine \
         then begins anew"
    )]
    Saved {
        /// The daemon's directory.
        dir: PathBuf,
        /// Why.
        why: SavedError,
    },
    /// It is told to join another virtual machine than the one that it was of.
    #[error(
        "{table} is of a virtual machine that this host may lead, and the token is of another one\n\
         hint: join under another name (`towpath --vm NAME join`), or remove that file, if that \
         virtual machine is over"
    )]
    Elsewhere {
        /// What it kept.
        table: PathBuf,
    },
    /// It may open too few descriptors.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// It should receive at an address twice.
    #[error("{0} is given twice\nhint: leave one out")]
    Twice(SocketAddr),
    /// It should receive at none, or too many.
    #[error("{0} addresses to receive at, limits 1 and {LINKS_MAX}")]
    Links(usize),
    /// An address is to be on standby that it does not receive at.
    #[error(
        "{0} is to be on standby, and this host does not listen there\nhint: add --listen {0}:0"
    )]
    Standby(IpAddr),
    /// The engine cannot go on.
    #[error("{why}{}", join_hint(.why))]
    Engine {
        /// Why.
        why: EngineError,
    },
    /// There is one already.
    #[error(
        "a daemon runs there already{}\n\
         hint: `towpath hosts` shows it, `towpath down` ends it",
        pid_text(*.0)
    )]
    Running(Option<u32>),
    /// The operating system refused something.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it says.
        why: io::Error,
    },
}

impl From<EngineError> for DaemonError {
    fn from(why: EngineError) -> Self {
        Self::Engine { why }
    }
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |p| format!(" (process {p})"))
}

const SAME_BUILD: &str = "\nhint: run the same build of Towpath on both machines";

fn join_hint(e: &EngineError) -> &'static str {
    use towpath_node::JoinFailure;
    use towpath_node::config::refusal;
    if matches!(e, EngineError::Copied(_)) {
        return "\nhint: one of the two runs from a copy of the other's directory: end that one, \
                and let its machine join with a token, from a directory of its own";
    }
    let EngineError::Join { failure, .. } = e else { return "" };
    match failure {
        JoinFailure::NoAnswer(_) => {
            "\nhint: is the founder's daemon running, does a firewall stand between, and is the \
             token from its present life?"
        }
        JoinFailure::NoneOf { .. } => {
            "\nhint: get a token where the leader runs: `towpath hosts` on any host shows where \
             that is"
        }
        JoinFailure::WrongKey => {
            "\nhint: get a token from this virtual machine with `towpath token`"
        }
        JoinFailure::Version(_) => SAME_BUILD,
        // Before there was a greeting, a founder could not read ours.
        JoinFailure::Refused(r)
            if [refusal::BUILD, refusal::MALFORMED, refusal::KIND].contains(&r.code) =>
        {
            SAME_BUILD
        }
        JoinFailure::Refused(_) => "\nhint: get a fresh token with `towpath token`",
    }
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |why| DaemonError::System { what, why }
}

/// The guard: runs this program again as the engine of the daemon in `dir`, waits, and cleans up
/// behind it. SIGTERM and SIGINT are passed on to the engine.
pub fn guard(dir: &Path, name: &str) -> Result<ExitCode, DaemonError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| system("becoming the tasks' guardian")(e.into()))?;
    let own = Dir::make(dir).map_err(ConfigError::from)?;
    let group = prepare(dir, name);
    let program = std::env::current_exe().map_err(system("finding this program"))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    command.args([EngineArgs::GUARD, &std::process::id().to_string()]);
    if let Some(group) = &group {
        command.arg(EngineArgs::GROUP).arg(group.path());
    }
    let sheet = Sheet::make().map_err(system("memory for last words"))?;
    command.arg(EngineArgs::WORDS).arg(sheet.path());
    let engine = command.spawn().map_err(system("starting the engine"))?;
    let engine = i32::try_from(engine.id()).ok().and_then(Pid::from_raw);
    if let Some(engine) = engine {
        pass_signals_on(engine)?;
    }
    let mut code = ExitCode::FAILURE;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == engine => {
                if let Some(status) = status.exit_status() {
                    code = ExitCode::from(status as u8);
                }
                if let Some(signal) = status.terminating_signal() {
                    let pid = pid.as_raw_nonzero();
                    tracing::error!("the engine (process {pid}) was ended by signal {signal}");
                }
                break;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let telling = Telling::begin(&sheet, &own, HOST_KEY);
    if let Some(group) = group {
        // The next daemon may have written down its own already.
        if written_group(dir).is_some_and(|path| path == group.path()) {
            let _ = fs::remove_file(group_file(dir));
        }
        group.end();
    }
    end_children();
    telling.into_iter().for_each(Telling::tasks_have_ended);
    Ok(code)
}

/// Ends what an earlier daemon left, and makes the group of the one that starts. Where one runs,
/// neither: the engine says so.
fn prepare(dir: &Path, name: &str) -> Option<Group> {
    // Given back with the return: the engine takes it.
    let held = Lock::hold(dir).ok()??;
    clean(dir, &held);
    make_group(dir, name)
}

/// Has the engine end when we are told to: it ends its tasks politely.
fn pass_signals_on(engine: Pid) -> Result<(), DaemonError> {
    let signals = [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT];
    let mut signals =
        signal_hook::iterator::Signals::new(signals).map_err(system("handling signals"))?;
    std::thread::spawn(move || {
        for _ in &mut signals {
            let _ = rustix::process::kill_process(engine, Signal::TERM);
        }
    });
    Ok(())
}

/// Name of the file in which a daemon writes down its control group.
const GROUP_NAME: &str = "group";
/// Most of it that is read.
const GROUP_PATH_MAX: u64 = 4096;

/// Where a daemon writes down its control group.
fn group_file(dir: &Path) -> PathBuf {
    dir.join(GROUP_NAME)
}

/// Makes a control group for a daemon and writes it down, where that is possible.
fn make_group(dir: &Path, name: &str) -> Option<Group> {
    let group = Group::make(&format!("{name}-{}", std::process::id()))?;
    let text = group.path().as_os_str().as_encoded_bytes();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = Dir::make(dir).and_then(|dir| dir.file(GROUP_NAME, flags));
    if !file.is_ok_and(|mut file| file.write_all(text).is_ok()) {
        group.end();
        return None;
    }
    Some(group)
}

fn written_group(dir: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    peek(&group_file(dir))?.take(GROUP_PATH_MAX).read_to_string(&mut text).ok()?;
    Some(text.into())
}

/// Ends whatever a daemon in `dir` left when it was killed together with its guard, which would
/// have done it. Nothing is done where a daemon runs, and none can start there meanwhile.
pub fn end_left_behind(dir: &Path) {
    if let Ok(Some(held)) = Lock::hold(dir) {
        clean(dir, &held);
    }
}

/// The same for who holds the directory's lock.
fn clean(dir: &Path, _held: &Lock) {
    end_group(dir);
    let ended = leftovers::end(dir);
    if ended > 0 {
        tracing::warn!("ended {ended} processes that an earlier daemon left behind");
    }
}

/// Ends whatever a daemon in `dir` left in its control group when it was killed together with its
/// guard. A guard that lives does that itself.
fn end_group(dir: &Path) {
    let Some(path) = written_group(dir) else { return };
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let guard = name.rsplit('-').next().unwrap_or_default();
    // A dead one that nobody has asked about yet has no command line, another process another.
    let command = fs::read(Path::new("/proc").join(guard).join("cmdline")).unwrap_or_default();
    if command.split(|b| *b == 0).any(|word| word == b"daemon") {
        return;
    }
    if let Some(group) = Group::found(&path) {
        group.end();
    }
    let _ = fs::remove_file(group_file(dir));
}

/// Ends every child, and the children that it leaves us, until there is none.
fn end_children() {
    loop {
        let mut text = String::new();
        let path = "/proc/thread-self/children";
        let _ = File::open(path).and_then(|mut f| f.read_to_string(&mut text));
        for pid in text.split_whitespace().filter_map(|p| p.parse().ok()).filter_map(Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        if rustix::process::wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

/// How many keep the log where nobody says it: any one host may be lost, the founder too.
const VOTERS_DEFAULT: u8 = 3;

/// The engine's process: runs until told to end. What it has to say of its start goes to
/// `ready`, once.
pub fn run(options: &DaemonOptions, ready: &mut dyn FnMut(&Started)) -> Result<(), DaemonError> {
    die_with_guard(options.engine.guard)?;
    options.engine.enter_group();
    let descriptors = Descriptors::raise_for_daemon()?;
    make_dir(&options.dir)?;
    let mut lock = lock(&options.dir)?;
    log::log!("{}{BUILD}, process {}", log::FIRST, std::process::id());
    let socket = socket_path(&options.dir, SOCK)?;
    let clock = Clock::start();
    let crypto = RealCrypto::new(key_file(&options.dir.join(HOST_KEY))?);
    let (saved, keeper) = beginning::kept(options)?;
    let (udp, links) = open_links_again(&options.listen, saved.as_ref(), &crypto.public_key())?;
    let config = NodeConfig {
        name: options.name.clone(),
        build: BUILD.into(),
        links: links.clone(),
        arch: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        speed: options.speed,
        cpus: options.cpus,
        slots: options.slots,
        unix_us_at_zero: clock.unix_us_at_zero(),
        paced: options.link_rate.is_some(),
        voters: options.voters.or(saved.as_ref().map(Saved::voters)).unwrap_or(VOTERS_DEFAULT),
        keeps_table: true,
        life: u64::from_le_bytes(*RealCrypto::generate_secret().first_chunk().expect("32 bytes")),
        proto: proto_config(options, saved.as_ref(), standby(&options.listen, &options.standby)?),
    };
    let node = beginning::node(options, config, crypto, clock.now(), saved)?;
    let listener = listen(&socket)?;
    let task_socket = socket_path(&options.dir, SOCKET_NAME)?;
    let tasks = TaskSocket { listener: listen(&task_socket)?, path: task_socket.clone() };
    let engine_options = EngineOptions {
        vm: options.vm.clone(),
        listener,
        tasks,
        udp,
        link_rate: options.link_rate,
        clock,
        signals: signals()?,
        launch: Launch {
            environment: environment(&options.vm),
            library: Library::find(&options.dir),
        },
        descriptors,
        dir: options.dir.clone(),
        keeper,
        // In vain only where its guard has gone, which ends it, too.
        words: options.engine.words.as_deref().and_then(|path| Sheet::open(path).ok()),
    };
    let mut engine = Engine::new(node, engine_options)?;
    let result = engine.run(&mut |node| {
        if let Some(me) = node.me() {
            let pid = std::process::id();
            // Where the others reach it: the leader saw that.
            let known = node.hosts().find(|h| h.id == me).map(|h| (h.name.clone(), h.addr));
            let (name, addr) = known.unwrap_or_else(|| (String::new(), links.addr()));
            let host = me.to_string();
            // In vain only on a full disk: then nobody reads there which host it is.
            let _ = lock.write(Some(&host));
            let there = node.lost_after_ms();
            if let Some(here) = options.lost_after_ms.filter(|here| *here != there) {
                log!("--lost-after-ms {here} does not count: hosts here are lost after {there} ms");
            }
            ready(&Started { host, name, addr, pid, lost_after_ms: there });
        }
    });
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(&task_socket);
    if let Err(e) = &result {
        tracing::error!("ends: {e}");
    }
    Ok(result?)
}

/// What a daemon says once it is part of its virtual machine.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Started {
    /// Its host id.
    pub host: String,
    /// Its host's name.
    pub name: String,
    /// Where it receives.
    pub addr: SocketAddr,
    /// The engine's process.
    pub pid: u32,
    /// A silent host of its virtual machine is waited for so many milliseconds.
    #[serde(default)]
    pub lost_after_ms: u32,
}

fn open_links(addrs: &[SocketAddr]) -> Result<(Vec<UdpLink>, Links), DaemonError> {
    if !(1..=LINKS_MAX).contains(&addrs.len()) {
        return Err(DaemonError::Links(addrs.len()));
    }
    if let Some(addr) = twice(addrs) {
        return Err(DaemonError::Twice(addr));
    }
    let udp = UdpLink::bind_all(addrs)?;
    let addrs: io::Result<Vec<_>> = udp.iter().map(UdpLink::local_addr).collect();
    let addrs = addrs.map_err(system("reading our address"))?;
    // Others cannot send to every address.
    let told = tokens::told(addrs[0]);
    let ips: Vec<_> = addrs.iter().map(SocketAddr::ip).collect();
    let devices = towpath_io::interfaces::devices(&ips).map_err(system("listing interfaces"))?;
    Ok((udp, Links::new(addrs).told_as(told).on_devices(devices)))
}

/// The same for a founder that was here before: on any port, it takes the one where its hosts, and
/// tokens, look for it.
fn open_links_again(
    addrs: &[SocketAddr],
    saved: Option<&Saved>,
    key: &HostKey,
) -> Result<(Vec<UdpLink>, Links), DaemonError> {
    if let (Some(addr), [first, rest @ ..]) = (saved.and_then(|saved| saved.addr(key)), addrs)
        && first.port() == 0
    {
        let before = SocketAddr::new(first.ip(), addr.port());
        if let Ok(links) = open_links(&[&[before], rest].concat()) {
            return Ok(links);
        }
    }
    open_links(addrs)
}

/// An address that is among these twice. With port 0 they are two addresses.
fn twice(addrs: &[SocketAddr]) -> Option<SocketAddr> {
    let again = |(i, addr): (usize, &SocketAddr)| addr.port() != 0 && addrs[..i].contains(addr);
    addrs.iter().enumerate().find(|at| again(*at)).map(|(_, addr)| *addr)
}

/// Of these addresses, those of these hosts, as bits.
fn standby(listen: &[SocketAddr], standby: &[IpAddr]) -> Result<u16, DaemonError> {
    if let Some(none) = standby.iter().find(|ip| !listen.iter().any(|addr| addr.ip() == **ip)) {
        return Err(DaemonError::Standby(*none));
    }
    let links = listen.iter().enumerate().filter(|(_, addr)| standby.contains(&addr.ip()));
    Ok(links.fold(0, |bits, (link, _)| bits | 1 << link))
}

fn proto_config(options: &DaemonOptions, saved: Option<&Saved>, standby: u16) -> Config {
    let lost_after = lost_after_ms(options.lost_after_ms, saved.map(Saved::lost_after_ms));
    let lost_after = std::time::Duration::from_millis(lost_after.into());
    let datagram_max = towpath_io::udp::TRAIN_BYTES as u16;
    let paths = PathsConfig { stripe: options.stripe.unwrap_or_default(), standby };
    let coding =
        CodingConfig { usual: options.coding.unwrap_or_default(), ..CodingConfig::default() };
    let liveness = Liveness::after(lost_after);
    Config { liveness, datagram_max, paths, coding, ..Config::default() }
}

/// How long a silent host is waited for: as it is asked for, else as it was before.
fn lost_after_ms(asked: Option<u32>, before: Option<u32>) -> u32 {
    asked.or(before).unwrap_or(LOST_AFTER_MS)
}

fn die_with_guard(guard: Option<u32>) -> Result<(), DaemonError> {
    if guard.is_none() {
        return Ok(());
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| system("asking for the guard's end")(e.into()))?;
    let parent = rustix::process::getppid().map(|p| p.as_raw_nonzero().get().cast_unsigned());
    if parent != guard {
        return Err(system("the guard")(io::Error::other("it has gone already")));
    }
    Ok(())
}

/// Variables that every task sees.
fn environment(vm: &str) -> Vec<(OsString, OsString)> {
    vec![("TOWPATH_VM".into(), vm.into())]
}

/// Takes the directory's lock; it is given back with the value.
fn lock(dir: &Path) -> Result<Lock, DaemonError> {
    let lock = Lock::take(dir).map_err(ConfigError::from)?;
    lock.ok_or_else(|| DaemonError::Running(Holder::of(dir).map(|holder| holder.pid)))
}

fn listen(path: &Path) -> Result<UnixListener, DaemonError> {
    // We hold the lock, so a socket that is there is a dead daemon's.
    if fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        let _ = fs::remove_file(path);
    }
    let listener = UnixListener::bind(path).map_err(system("opening the daemon's socket"))?;
    let open = || {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)
    };
    open().map_err(system("opening the daemon's socket"))?;
    Ok(listener)
}

/// A stream that becomes readable when SIGTERM, SIGINT or SIGHUP comes.
fn signals() -> Result<UnixStream, DaemonError> {
    let (read, write) = UnixStream::pair().map_err(system("signal pipe"))?;
    read.set_nonblocking(true).map_err(system("signal pipe"))?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let write = write.try_clone().map_err(system("signal pipe"))?;
        signal_hook::low_level::pipe::register(signal, write).map_err(system("signal handler"))?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_left_behind_is_ended_only_while_none_runs() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let socket = dir.join(SOCK);
        let mut task = leftovers::tests::start(&dir.join(SOCKET_NAME));
        fs::write(&socket, "").unwrap();
        // It was not there a moment ago.
        let daemon = Lock::take(dir).unwrap().unwrap();
        end_left_behind(dir);
        assert!(task.try_wait().unwrap().is_none() && socket.exists(), "they are a live daemon's");
        drop(daemon);
        // It is this process, and lives; so the lock alone says that it does not run. A process
        // that another test starts has its descriptor until it runs its program.
        while socket.exists() {
            end_left_behind(dir);
        }
        assert!(!task.wait().unwrap().success());
        assert!(!socket.exists());
    }

    #[test]
    fn links_on_standby_are_those_of_an_address_that_is_listened_at() {
        let listen: Vec<SocketAddr> = ["10.0.0.1:1", "10.1.0.1:1", "[fd00::1]:1", "10.1.0.1:2"]
            .map(|a| a.parse().unwrap())
            .into();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(standby(&listen, &[]).unwrap(), 0);
        assert_eq!(standby(&listen, &[ip("10.1.0.1"), ip("fd00::1")]).unwrap(), 0b1110);
        let none = standby(&listen, &[ip("10.2.0.1")]).unwrap_err().to_string();
        assert!(none.starts_with("10.2.0.1 is to be on standby"), "{none}");
    }

    #[test]
    fn a_founder_that_starts_again_waits_for_silent_hosts_as_long_as_before() {
        assert_eq!(lost_after_ms(None, Some(10_000)), 10_000);
        assert_eq!(lost_after_ms(Some(3000), Some(10_000)), 3000);
        assert_eq!(lost_after_ms(None, None), LOST_AFTER_MS);
    }
}
