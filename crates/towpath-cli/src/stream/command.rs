//! Arguments.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use towpath_media::receive::When;
use towpath_wire::{ByteSize, Rate};

use super::url::StreamUrl;
use super::{receive, send, serve};
use crate::units::{duration, rate, size};

#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    command: StreamCommand,
}

#[derive(Debug, Subcommand)]
enum StreamCommand {
    /// Send a transport stream to an address, each datagram at its instant
    Send(SendArgs),
    /// Offer the files of a directory to players (RTSP)
    Serve(ServeArgs),
    /// Receive a stream into a file or a pipe
    Record(RecordArgs),
    /// Receive a stream and send it on in its sender's rhythm
    Play(PlayArgs),
    /// Judge how well a stream that comes is paced
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The file is an MPEG transport stream; each datagram leaves at the instant that its clock (PCR) says,
and one begins with each clock reference. Standard input is live: what comes is held for --delay and
then leaves in the rhythm of its clock.

Examples:
  towpath stream send film.ts udp://127.0.0.1:5000
  towpath stream send film.ts rtp://239.1.2.3:5004 --loop --ttl 4 --interface 10.0.0.1
  towpath plan film.ts --pcr --scheme smooth --buffer 4MB --schedule film.sched
  towpath stream send film.ts udp://10.0.0.7:5000 --schedule film.sched
  ffmpeg -re -i cam -c copy -f mpegts - | towpath stream send - udp://10.0.0.7:5000

A receiver of ours may ask for less or more (SLOWDOWN, SPEEDUP, NORMAL); --deaf ignores it.
Real-time priority needs CAP_SYS_NICE; without it a busy machine makes datagrams some 30 ms late.

Exit status: 0 all was sent; 1 it was not all sent, or it tells no clock; 255 errors; 130
interrupted.")]
pub(super) struct SendArgs {
    /// A file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// udp://HOST:PORT or rtp://HOST:PORT
    #[arg(value_name = "URL")]
    pub(super) to: StreamUrl,
    /// Start anew when the file ends
    #[arg(long = "loop")]
    pub(super) again: bool,
    /// Follow a schedule that `towpath plan --pcr --schedule` wrote for this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pcbr", "pdcbr"])]
    pub(super) schedule: Option<PathBuf>,
    /// Send at a rate, held where the clock is ahead
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "pdcbr")]
    pub(super) pcbr: Option<Rate>,
    /// Send at the first rate while late, at the second while early
    #[arg(long, value_name = "RATE,RATE", value_delimiter = ',', num_args = 2, value_parser = rate)]
    pub(super) pdcbr: Vec<Rate>,
    /// Rate of a stream that tells no clock
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) rate: Option<Rate>,
    /// How long a live stream is held
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    pub(super) delay: Duration,
    /// Times as fast as its clock says, 0.1 to 16
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub(super) speed: f64,
    /// Do not do what receivers ask for
    #[arg(long)]
    pub(super) deaf: bool,
    /// Write a description for players (SDP) of an rtp:// stream
    #[arg(long, value_name = "FILE")]
    pub(super) sdp: Option<PathBuf>,
    #[command(flatten)]
    pub(super) way: Way,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

/// How datagrams leave.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Way {
    /// Hops of datagrams to a group; 1 keeps them in the sub-network
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(super) ttl: u32,
    /// Address of the interface for groups
    #[arg(long, value_name = "ADDR", default_value_t = Ipv4Addr::UNSPECIFIED)]
    pub(super) interface: Ipv4Addr,
    /// Leave the sending thread the priority of any other
    #[arg(long)]
    pub(super) ordinary: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Players open rtsp://HOST:PORT/PATH, with PATH below the directory; nothing outside of it can be
named, and no link is followed. Streams go to the address that the player connected from, and
nowhere else. Unless --listen says otherwise only this machine can connect: there is no
authentication.

Examples:
  towpath stream serve films
  ffplay rtsp://127.0.0.1:8554/film.ts
  towpath stream serve films --listen 10.0.0.1:8554 --loop

Exit status: 0 after an interrupt, 255 errors.")]
pub(super) struct ServeArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Where players connect
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8554")]
    pub(super) listen: SocketAddr,
    /// Titles start anew when they end
    #[arg(long = "loop")]
    pub(super) again: bool,
    /// Sessions at once
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(super) sessions: u32,
    /// Leave the sending thread the priority of any other
    #[arg(long)]
    pub(super) ordinary: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

/// Where a stream is received.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct From {
    /// udp://ADDR:PORT or rtp://ADDR:PORT: an address of this machine, or a group to join
    #[arg(value_name = "URL")]
    pub(super) at: StreamUrl,
    /// Address of the interface for groups
    #[arg(long, value_name = "ADDR", default_value_t = Ipv4Addr::UNSPECIFIED)]
    pub(super) interface: Ipv4Addr,
    /// Only what this host sends to the group (source-specific multicast)
    #[arg(long, value_name = "ADDR")]
    pub(super) source: Option<Ipv4Addr>,
    /// Wait so long for the first datagram
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(super) wait: Duration,
    /// It is over when nothing came for so long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3s")]
    pub(super) silence: Duration,
    /// Receive so long at most
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) time: Option<Duration>,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

/// When the sender is asked for less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FeedbackWhen {
    /// Never
    Off,
    /// When the buffer is full
    After,
    /// At three quarters, before it is full
    Before,
}

impl FeedbackWhen {
    pub(super) const fn when(self) -> When {
        match self {
            Self::Off => When::Off,
            Self::After => When::After,
            Self::Before => When::Before,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
What comes out is what was sent: whole packets, in order, none twice. A consumer that is slower than
the stream fills the buffer; a sender of ours is asked to slow down before it is full.

Examples:
  towpath stream record udp://127.0.0.1:5000 film.ts
  towpath stream record rtp://239.1.2.3:5004 - --time 10s | ffprobe -
  towpath stream record --verify udp://:5000 film.ts

Exit status: 0 all that came was written and none was lost; 1 datagrams were lost or dropped, or
with --verify a rule is broken; 255 nothing came, or it cannot be written; 130 interrupted.")]
pub(super) struct RecordArgs {
    #[command(flatten)]
    pub(super) from: From,
    /// A file, or - for standard output
    #[arg(value_name = "OUT")]
    pub(super) out: PathBuf,
    /// Bytes that wait for the consumer at most
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1MiB")]
    pub(super) buffer: ByteSize,
    /// Bytes that wait before the consumer gets the first
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0B")]
    pub(super) start: ByteSize,
    /// When the sender is asked for less
    #[arg(long, value_enum, default_value_t = FeedbackWhen::Before)]
    pub(super) feedback: FeedbackWhen,
    /// Check what came as `media info` does (TR 101 290, model decoder)
    #[arg(long)]
    pub(super) verify: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each packet is kept for --delay and then sent on at the instant that its sender's clock says: jitter
is taken out, the rhythm stays the sender's however long it runs.

Examples:
  towpath stream play rtp://239.1.2.3:5004 udp://127.0.0.1:6000
  ffplay udp://127.0.0.1:6000

Exit status: as `stream record`.")]
pub(super) struct PlayArgs {
    #[command(flatten)]
    pub(super) from: From,
    /// udp://HOST:PORT of a player
    #[arg(value_name = "TO")]
    pub(super) to: StreamUrl,
    /// How long each packet is kept
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    pub(super) delay: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Tells by the kernel's receive stamps how far datagrams are from the instants that their clock says,
about the median, and how they bunch.

Examples:
  towpath stream check udp://:5000 --time 60s
  towpath stream check rtp://239.1.2.3:5004 --json

Exit status: 0 something came; 255 nothing did, or errors; 130 interrupted.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) from: From,
}

pub(crate) fn run(args: &StreamArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        StreamCommand::Send(args) => send::run(args),
        StreamCommand::Serve(args) => serve::run(args),
        StreamCommand::Record(args) => receive::record(args),
        StreamCommand::Play(args) => receive::play(args),
        StreamCommand::Check(args) => receive::check(args),
    }
}
