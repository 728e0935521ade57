//! Writes the seed corpus to `seeds/<target>/`: a few small inputs that reach the inside of each
//! target. Run in `fuzz/`: `cargo run --example seeds`.

mod coded;
mod commands;
mod elf;
mod job;
mod measured;
mod newcomer;
mod qos;
mod replicas;
mod script;
mod streams;
mod tap;

use std::fs;
use std::io;
use std::path::Path;

use towpath_fuzz::shared;
use towpath_media::plan::{Wish, plan};
use towpath_media::schedule::{self, Scheme};
use towpath_media::trace::{FrameRate, Trace};
use towpath_vm::data;
use towpath_vm::message::{Credit, Exited, Kill, List, Output, Spawn, Started, TaskList};
use towpath_vm::talk::{Question, SpawnTasks, ToDaemon, ToTask, encode};
use towpath_vm::{Ending, Message, Stream, TaskExit, TaskSpec};
use towpath_wire::bytes::Writer;
use towpath_wire::frame;
use towpath_wire::packet::{
    Cookie, DATA_HEADER, Data, INITIATION_HEADER, Initiation, RESPONSE_HEADER, Response, TAG,
    Versions,
};
use towpath_wire::talk::Header;
use towpath_wire::{
    Admission, ByteSize, ChannelId, ChannelOpen, Direction, HostId, LinkId, PathId, Rate,
    Reliability, TrafficSpec, VersionRange,
};

/// Some seeds are tried as they are made, which counts memory.
#[global_allocator]
static COUNTING: towpath_fuzz::allocation::PeakAlloc = towpath_fuzz::allocation::PeakAlloc;

fn main() -> io::Result<()> {
    write("packet", &packets())?;
    write("frame", &frames())?;
    write("coding", &coded::groups())?;
    write("hello", &hellos())?;
    write("node_hello", &newcomer::hellos())?;
    write("message", &[messages(), commands::all()].concat())?;
    write("client", &clients())?;
    write("talk", &talks())?;
    write("tasks", &hostile_tasks())?;
    write("metrics", &measured::deltas())?;
    write("consensus", &replicas::messages())?;
    write("journal", &replicas::journals())?;
    write("start_hosts", &host_lists())?;
    let pvm = "* ep=$A/bin:/x wd=$B\na lo=eve sp=5 ip=192.0.2.1\n&b so=ms id=1\n";
    write("pvm_hosts", &[("file", pvm.into()), ("fault", b"a\na sp=0".to_vec())])?;
    write("pvm_linkage", &elf::programs())?;
    write(
        "media_read",
        &clips(&[7], &["mpeg2.ts", "h264.ts", "mpeg2.m2ts", "mpeg1.mpg", "jpeg.avi"])?,
    )?;
    write("media_ts", &clips(&[7], &["mpeg2.ts", "h264.ts"])?)?;
    write("media_ps", &clips(&[7], &["mpeg1.mpg"])?)?;
    write("media_avi", &clips(&[7], &["jpeg.avi"])?)?;
    write("media_es", &elementary_clips()?)?;
    write("media_trace", &traces())?;
    write("media_schedule", &schedules())?;
    for (target, seeds) in streams::all(clips(&[], &["mpeg2.ts"])?) {
        write(target, &seeds)?;
    }
    write("operations", &script::scripts())?;
    write("collective", &collectives())?;
    write("shared_ring", &shared::seeds())?;
    write("direct_records", &direct_records())?;
    write("qos_spec", &qos::specifications())?;
    write("qos_topology", &qos::topologies()?)?;
    write("qos_requests", &qos::requests()?)?;
    write("qos_schedulers", &qos::calls())?;
    write("tap_script", &tap::scripts())?;
    write("job_record", &job::records())?;
    write("qos_admission", &qos::admissions())
}

/// A team and events as chance has them, for every operation.
fn collectives() -> Vec<(&'static str, Vec<u8>)> {
    let names = [
        "barrier",
        "broadcast",
        "reduce",
        "allreduce",
        "gather",
        "allgather",
        "scatter",
        "alltoall",
        "scan",
        "exclusive_scan",
    ];
    let seed = |(kind, name): (u64, &&'static str)| {
        // Knuth's 64-bit linear congruence, its upper half.
        let mut state = kind;
        let mut chance = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        // Hosts, each after a byte that says that one follows.
        let mut bytes: Vec<u8> = (0..6).flat_map(|_| [1, chance()]).collect();
        bytes.push(0);
        bytes.extend((0..7).map(|_| chance()));
        bytes.push(0);
        bytes.extend(variant(kind, 10));
        bytes.extend((0..300).map(|_| chance()));
        (*name, bytes)
    };
    (0..).zip(&names).map(seed).collect()
}

/// Pieces of both sides, long and short, there and taken; and the same with a byte changed, a
/// stranger's bytes between, a close in the middle.
fn direct_records() -> Vec<(&'static str, Vec<u8>)> {
    let then = |bytes: &mut Vec<u8>, operation: u64, fields: &[u8]| {
        bytes.push(1);
        bytes.extend(variant(operation, 7));
        bytes.extend(fields);
    };
    let exchange = |bytes: &mut Vec<u8>, second: u8| {
        for (len, small) in [(40_u16, 1), (3000, 0), (0, 1), (60_000, 0)] {
            let [a, b] = len.to_le_bytes();
            then(bytes, 0, &[second, a, b, small]);
        }
        for _ in 0..4 {
            then(bytes, 1, &[second]);
            then(bytes, 2, &[second, 255, 255]);
            then(bytes, 5, &[1 - second, 255]);
        }
    };
    let with = |between: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        exchange(&mut bytes, 0);
        between(&mut bytes);
        exchange(&mut bytes, 1);
        bytes
    };
    vec![
        ("both_ways", with(&|_| {})),
        ("changed", {
            with(&|bytes| {
                then(bytes, 0, &[0, 9, 0, 1]);
                then(bytes, 1, &[0]);
                then(bytes, 3, &[0, 2, 0, 77]);
                then(bytes, 2, &[0, 255, 255]);
                then(bytes, 5, &[1, 9]);
            })
        }),
        ("closed", with(&|bytes| then(bytes, 6, &[1]))),
        // A list of bytes is read as the operations are: 1 before each, 0 after the last.
        ("inserted", with(&|bytes| then(bytes, 4, &[1, 1, 9, 1, 9, 1, 9, 0]))),
    ]
}

/// A variant of an enum of `all`, as `arbitrary` chooses it.
fn variant(index: u64, all: u64) -> [u8; 4] {
    ((index << 32).div_ceil(all) as u32).to_le_bytes()
}

/// The first few KiB of a clip that comes with the media crate, after some bytes for the target.
fn clip(head: &[u8], name: &str) -> io::Result<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/towpath-media/data");
    let bytes = fs::read(data.join(name))?;
    Ok([head, &bytes[..bytes.len().min(8 * 1024)]].concat())
}

fn clips(head: &[u8], names: &[&'static str]) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    names.iter().map(|name| Ok((*name, clip(head, name)?))).collect()
}

/// The first byte is the format's number in the target.
fn elementary_clips() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let named = [(0, "mpeg1.m1v"), (2, "hevc.h265"), (3, "jpeg.mjpeg")];
    named.iter().map(|&(format, name)| Ok((name, clip(&[format, 7], name)?))).collect()
}

fn write(target: &str, seeds: &[(&str, Vec<u8>)]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    fs::create_dir_all(&folder)?;
    seeds.iter().try_for_each(|(name, bytes)| fs::write(folder.join(name), bytes))
}

fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let mut data = vec![0; DATA_HEADER + TAG + 4];
    Data { epoch: 0, path: PathId(0), receiver: 7, number: 42 }.emit(&mut data);
    let versions = VersionRange { min: 1, max: 3 };
    let initiation = |admission| {
        let mut bytes = vec![0; INITIATION_HEADER + 96 + 2 * TAG];
        Initiation::emit_header(&mut bytes, versions, &admission, 7);
        bytes
    };
    let mut response = vec![0; RESPONSE_HEADER + 48 + TAG];
    Response::emit_header(&mut response, 1, 7, 9);
    let token = Admission::Token { expiry_unix_s: 1 << 31, nonce: [5; 16] };
    vec![
        ("data", data),
        ("initiation_member", initiation(Admission::Member)),
        ("initiation_token", initiation(token)),
        ("response", response),
        ("cookie", Cookie { receiver: 7, cookie: [1; TAG], mac1: [2; TAG] }.emit().to_vec()),
        ("versions", Versions { versions, receiver: 7 }.emit().to_vec()),
    ]
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let mut w = Writer::new(&mut bytes);
    write(&mut w);
    let used = w.used();
    bytes.truncate(used);
    bytes
}

fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let channel = ChannelId(2);
    let tspec = TrafficSpec {
        rate: Rate::from_mbps(5),
        peak: Rate::from_mbps(10),
        burst: ByteSize::from_kib(8),
        unit_min_bytes: 64,
        unit_max_bytes: 1400,
    };
    let plain = ChannelOpen::new(channel, Direction::Both, Reliability::ReliableOrdered, 1 << 20);
    let open = |tspec| ChannelOpen { priority: 3, label: 7, tspec, ..plain };
    let reserved =
        ChannelOpen { reservation: Some(9), one_to_many: true, duplex: true, ..open(Some(tspec)) };
    vec![
        (
            "acknowledgements",
            written(|w| {
                frame::emit_ack(w, PathId(0), 2000, 90, &[u64::MAX, 5]);
                frame::emit_ping(w);
            }),
        ),
        (
            "open_and_data",
            written(|w| {
                frame::emit_open(w, &open(None));
                frame::emit_data_header(w, channel, 0, 9, 4, 5);
                w.put(b"piece");
            }),
        ),
        ("open_with_tspec", written(|w| frame::emit_open(w, &open(Some(tspec))))),
        ("open_with_parameters", written(|w| frame::emit_open(w, &reserved))),
        (
            "credit_and_end",
            written(|w| {
                frame::emit_limit(w, channel, 1 << 21);
                frame::emit_close_channel(w, channel, 1, 12);
                frame::emit_close(w, 300, b"maintenance");
            }),
        ),
        ("skip", written(|w| frame::emit_skip(w, channel, 5, 1064))),
        (
            "tokens_and_extension",
            written(|w| {
                frame::emit_path_response(w, 77);
                w.u64(8);
                w.u64(78);
                w.put(&[200, 0, 3, 0, 1, 2, 3]);
            }),
        ),
        (
            "paths",
            written(|w| {
                let remote = ([192, 0, 2, 1], 7000).into();
                frame::emit_path_add(w, PathId(1), LinkId(2), remote);
                frame::emit_path_retire(w, PathId(0), 3);
            }),
        ),
        (
            "marks_and_ack_rate",
            written(|w| {
                frame::emit_marks(w, PathId(0), 9);
                frame::emit_ack_rate(w, PathId(0), 16, 2000);
            }),
        ),
    ]
}

/// Parameters (id, length, value), then the owner's bytes: see towpath-proto's `hello` module.
fn hellos() -> Vec<(&'static str, Vec<u8>)> {
    let hello = |params: &[&[u8]], owner: &[u8]| {
        let params = params.concat();
        let mut bytes = (params.len() as u16).to_le_bytes().to_vec();
        bytes.extend(params);
        bytes.extend_from_slice(owner);
        bytes
    };
    let window: &[u8] = &[1, 8, 0, 0, 16, 0, 0, 0, 0, 0];
    vec![
        ("accepted", hello(&[window, &[2, 1, 1]], b"host")),
        ("refused", hello(&[window, &[2, 1, 1], &[3, 2, 44, 1]], b"no room")),
        ("unknown_parameter", hello(&[&[199, 2, 1, 1], window], b"")),
        ("unknown_critical_parameter", hello(&[&[99, 2, 1, 1], window], b"")),
        ("paths", hello(&[window, &[128, 2, 16, 0]], b"host")),
        ("truncated", vec![200, 0, 1, 8]),
    ]
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let spec =
        TaskSpec { program: b"gzip".to_vec(), args: vec![b"-9".to_vec()], ..TaskSpec::default() };
    let task = HostId::new(3, 1).and_then(|h| h.task(5)).expect("in range");
    let exit = TaskExit { ending: Ending::Exited(3), wall_us: 7 };
    vec![
        ("spawn", Message::Spawn(Spawn { request: 1, spec, family: None }).encode()),
        ("started", Message::Started(Started { request: 1, task, pid: 99 }).encode()),
        ("output", {
            let bytes = b"hello\n".to_vec();
            Message::Output(Output { request: 1, stream: Stream::Out, bytes }).encode()
        }),
        ("exited", Message::Exited(Exited { request: 1, exit, output_bytes: 6 }).encode()),
        ("kill", Message::Kill(Kill { request: 1, signal: 15 }).encode()),
        ("credit", Message::Credit(Credit { request: 1, bytes: 4096 }).encode()),
        ("list", Message::List(List { request: 2 }).encode()),
        ("tasks", Message::Tasks(TaskList { request: 2, tasks: Vec::new(), more: false }).encode()),
        ("welcome_empty", vec![1, 0, 0]),
        ("entry_empty", vec![2, 0, 0]),
    ]
}

/// Control frames' bodies, a header, a piece for two.
fn talks() -> Vec<(&'static str, Vec<u8>)> {
    let task = HostId::new(3, 1).and_then(|h| h.task(5)).expect("in range");
    let spawn = SpawnTasks { program: b"gzip".to_vec(), count: 3, ..SpawnTasks::default() };
    let ask = ToDaemon::Ask { number: 2, question: Question::Spawn(spawn) };
    let (src, dst) = (task, task);
    let header = Header { src, dst, tag: -1, context: 0, seq: 7, format: 1, total: 9, offset: 3 };
    let several = data::front_several(&[(task, 1), (task, 2)]);
    vec![
        ("ask", encode(&ask, Vec::new())),
        ("blocked", encode(&ToDaemon::Blocked { peer: task, need: 64 }, Vec::new())),
        ("gone", encode(&ToTask::Gone { peer: task }, Vec::new())),
        ("header", header.emit().to_vec()),
        ("header_wide", Header { tag: i64::MIN + 7, ..header }.emit().to_vec()),
        ("piece", [&data::FRONT_ONE[..], &header.emit(), b"abcdef"].concat()),
        ("several", [&several[..], &header.emit(), b"abc"].concat()),
    ]
}

/// See `towpath_sim::vm::hostile`: two enrol, then each byte decides a step.
fn hostile_tasks() -> Vec<(&'static str, Vec<u8>)> {
    let mixed = (0..=255u8).map(|b| b.wrapping_mul(37)).collect();
    vec![("enrol", vec![0; 64]), ("count", (0..=255).collect()), ("mixed", mixed)]
}

/// A cut size, then frames: length (u32), kind and fields as postcard writes them.
fn clients() -> Vec<(&'static str, Vec<u8>)> {
    let frames = |cut: u8, bodies: &[&[u8]]| {
        let mut bytes = vec![cut];
        for body in bodies {
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
    };
    vec![
        ("info_hosts_watch", frames(3, &[&[0], &[1], &[9]])),
        ("kill_and_credit", frames(255, &[&[4, 9, 30], &[6, 9, 128, 32]])),
        ("too_long", vec![9, 255, 255, 255, 255, 0]),
        ("task_output", frames(7, &[&[3, 1, 1, 0, 3, b'a', b'b', b'c']])),
    ]
}

/// Lists of hosts in Slurm's form, and files of hosts.
fn host_lists() -> Vec<(&'static str, Vec<u8>)> {
    let file = "* slots=4 towpath=/opt/towpath # defaults\n\
        eve@n[01-03,7]-ib addr=192.0.2.1 home=/scratch\nlast addr=192.0.2.9:7077\n";
    vec![
        ("ranges", b"n[01-04,7],r[1-2]n[8-11],login".to_vec()),
        ("file", file.as_bytes().to_vec()),
        ("too_many", b"n[1-64]m[1-64]".to_vec()),
        ("no_partner", b"n[1-2".to_vec()),
    ]
}

/// Each format of [`towpath_media::trace::TraceFormat`].
fn traces() -> Vec<(&'static str, Vec<u8>)> {
    let texts = [
        ("csv", "frame,type,bytes\n0,I,4000\n1,B,300\n2,B,0\n3,P,1200\n"),
        ("columns", "# number type ms bytes\n1 I 0 4000\n2 P 40 1200\n3 B 80 300\n"),
        ("gdf", "25.000 [frames/second]\n0 [frames] delay\n32000 0 I\n9600 1 P\n2401 2 B\n"),
        ("typed", "I 32000\nB 2401\nP 9600\n"),
        ("bare", "27791\n2021\n0\n1099511627776\n"),
    ];
    texts.map(|(name, text)| (name, text.as_bytes().to_vec())).to_vec()
}

fn schedules() -> Vec<(&'static str, Vec<u8>)> {
    let trace = Trace::uniform([5_000, 400, 400, 1_500, 9_000, 20], FrameRate::TWENTY_FIVE);
    let trace = trace.expect("within limits");
    let delay = 2 * trace.slot().expect("even");
    let mut seeds = Vec::new();
    for (name, scheme) in [("cbr", Scheme::Cbr), ("pcbr", Scheme::Pcbr), ("pdcbr", Scheme::Pdcbr)] {
        let plan = plan(&trace, scheme, Wish::Delay(delay)).expect("a plan");
        let schedule = plan.schedule(&trace).expect("a schedule");
        seeds.push((name, schedule::emit(&schedule).into_bytes()));
    }
    seeds
}
