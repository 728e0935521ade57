//! A library to players.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use towpath::pacing::{PacingOptions, Priority, Repeat, Serve, ServeOptions};
use towpath::start::limits::Descriptors;
use towpath_io::udp::Multicast;
use towpath_media::rtsp::ServerLimits;

use super::command::ServeArgs;
use super::send::tell_priority;
use crate::files::shown;
use crate::interrupt::Interrupt;
use crate::words::counted;

/// Connections beside those that have sessions.
const SPARE_CONNECTIONS: usize = 64;

pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::heeded()?;
    // Each connection and each session has several.
    Descriptors::raise();
    let sessions = args.sessions as usize;
    let from = std::net::SocketAddr::new(args.listen.ip(), 0);
    let priority = if args.ordinary { Priority::Ordinary } else { Priority::RealTime };
    let options = ServeOptions {
        at: args.listen,
        pacing: PacingOptions {
            from,
            multicast: Multicast::default(),
            priority,
            streams_max: sessions,
        },
        limits: ServerLimits { sessions, ..ServerLimits::default() },
        connections: sessions + SPARE_CONNECTIONS,
        repeat: if args.again { Repeat::Forever } else { Repeat::Once },
    };
    let opened = Serve::open(&args.dir, &options);
    let mut serve = opened.with_context(|| format!("offering {}", shown(&args.dir)))?;
    tell_priority(serve.real_time(), args.ordinary);
    let at = serve.local_addr()?;
    eprintln!("serving {} at rtsp://{at}/", shown(&args.dir));
    if !at.ip().is_loopback() {
        eprintln!("warning: whoever can reach {at} can watch: there is no authentication");
    }
    let served = serve.run(interrupt.flag())?;
    if args.json {
        crate::files::print(&format!("{}\n", json!({ "schema": 1, "served": served })))?;
    } else {
        eprintln!(
            "{} in {}",
            counted(served.server.opened, "session"),
            counted(served.connections, "connection")
        );
    }
    Ok(ExitCode::SUCCESS)
}
