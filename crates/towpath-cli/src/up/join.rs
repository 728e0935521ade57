//! `join`: a host of this machine for another machine's virtual machine.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use towpath::config::LOCAL_HOSTS_MAX;
use towpath::lock::is_locked;
use towpath::{Client, Token, VmDir, kept};

use super::command::report;
use super::local::{Leading, Start, Tuning};
use super::remote::towards_any;
use crate::{control, interrupt};

const ANY_V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const ANY_V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
/// How long word that nobody receives may take; a handshake without answer takes longer.
const ASK_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath token                     on the first machine; then, on this one:
  towpath join tow2-…               join with the token it printed
  towpath join - < token.txt        the same, with the token kept off the command line")]
pub(crate) struct JoinArgs {
    /// The token; `-` reads it from standard input
    token: String,
    /// Where this host receives, the address for other hosts first; may be given up to eight times
    /// (default: any port of the address that leads to the founder)
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// The host's name (default: this machine's, and a number)
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    name: Option<String>,
    /// Stay until the host ends (for launchers that end what is left behind, such as srun)
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    tuning: Tuning,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

fn host_name(text: &str) -> Result<String, String> {
    let max = towpath_vm::host::NAME_MAX;
    if text.is_empty() || text.len() > max || text.chars().any(char::is_control) {
        return Err(format!("a name has 1 to {max} bytes"));
    }
    Ok(text.into())
}

pub(crate) fn join(vm: &VmDir, args: &JoinArgs) -> anyhow::Result<ExitCode> {
    let mut text = args.token.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().take(4096).read_to_string(&mut text)?;
    }
    let token: Token = text.parse()?;
    let turn = vm.turn()?;
    let interrupt = interrupt::flag()?;
    check_same(vm, &token)?;
    let free = (1..=LOCAL_HOSTS_MAX as u16).find(|n| !is_locked(&vm.host((*n).into())));
    let number = free.with_context(|| {
        format!("{LOCAL_HOSTS_MAX} daemons of `{}` run here, the limit", vm.name)
    })?;
    let (addrs, mut listen) = (token.addrs(), args.listen.clone());
    if listen.is_empty() {
        listen.push(SocketAddr::new(towards_any(&addrs)?, 0));
    }
    let tuning = args.tuning.for_hosts(1);
    let (token, name) = (token.to_string(), args.name.as_deref());
    let (tuning, token) = (&tuning, Some(token.as_str()));
    let leading = Leading::default();
    let (listen, returns) = (&listen[..], false);
    let start = Start { vm, number, listen, tuning, leading, returns, token, name, env: &[] };
    let asked = ask(&addrs);
    let starting = start.start()?;
    let (started, mut child) = starting.wait_unless(&interrupt, move || refused(&asked))?;
    drop(turn);
    // From here on it is up, whoever interrupts this.
    drop(interrupt);
    tuning.tell_lost_after(&started);
    report(vm, &[started], &[], args.json)?;
    if args.foreground {
        child.wait()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a token of another virtual machine than the one that this name stands for here.
fn check_same(vm: &VmDir, token: &Token) -> anyhow::Result<()> {
    let other = |what: &str, end: &str| {
        bail!(
            "virtual machine `{}` {what} on this machine, and the token is of another one\n\
             hint: give that another name here: `towpath --vm NAME join TOKEN`; or {end}",
            vm.name
        )
    };
    for socket in control::sockets(vm).unwrap_or_default() {
        let Ok(mut client) = Client::connect(&socket) else { continue };
        let Ok(hosts) = control::host_table(&mut client) else { continue };
        let is_named = |key: &[u8; 32]| token.leaders.iter().any(|leader| leader.key.0 == *key);
        if !hosts.iter().any(|host| is_named(&host.key)) {
            return other("runs", "end this one first with `towpath down`");
        }
        return Ok(());
    }
    if let Some(kept) = kept::is_of_another(vm, token) {
        let kept = format!("remove {}, if it is never to run again", kept.display());
        return other("was founded, does not run now and is kept", &kept);
    }
    Ok(())
}

/// Sends something to each of the addresses, by sockets that learn of it where nobody receives
/// there and the machine, or a firewall, says so. A daemon drops what it gets.
fn ask(addrs: &[SocketAddr]) -> Vec<(SocketAddr, UdpSocket)> {
    let ask = |addr: &SocketAddr| {
        let any: SocketAddr = if addr.is_ipv4() { ANY_V4 } else { ANY_V6 };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(addr).ok()?;
        socket.set_read_timeout(Some(ASK_WAIT)).ok()?;
        socket.send(&[0]).ok()?;
        Some((*addr, socket))
    };
    addrs.iter().filter_map(ask).collect()
}

/// Why nobody can answer, if that is known of every address; waits for it.
fn refused(asked: &[(SocketAddr, UdpSocket)]) -> Option<String> {
    let is_refused = |socket: &UdpSocket| {
        socket.recv(&mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    };
    if asked.is_empty() || !asked.iter().all(|(_, socket)| is_refused(socket)) {
        return None;
    }
    let addrs: Vec<String> = asked.iter().map(|(addr, _)| addr.to_string()).collect();
    Some(format!(
        "nobody receives at {}\nhint: is the daemon running that issued the token, and is the \
         token from its present life?",
        addrs.join(", ")
    ))
}
