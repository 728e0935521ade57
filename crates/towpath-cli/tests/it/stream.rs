//! `towpath stream` over loopback: what is received is what was sent, also by players.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Two seconds of our own making.
fn clip() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../towpath-media/data/mpeg2.ts")
}

fn towpath(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command
}

/// A pair of ports that are free at the moment.
fn port() -> u16 {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
        let port = socket.local_addr().expect("address").port();
        if port.is_multiple_of(2) && UdpSocket::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// A command that has said on standard error where it is to be found.
struct Running {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Running {
    fn start(mut command: Command, word: &str) -> (Self, String) {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let mut said = BufReader::new(child.stderr.take().expect("standard error"));
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(said.read_line(&mut line).expect("read") > 0, "it ended without a {word}");
        }
        (Self { child, said }, line.trim().to_string())
    }

    /// Its status and standard output once it ends.
    fn end(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        self.child.stdout.take().expect("output").read_to_string(&mut out).expect("read");
        let status = self.child.wait().expect("wait");
        let mut rest = String::new();
        let _ = self.said.read_to_string(&mut rest);
        (status.code(), out)
    }

    fn interrupt(self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the clip with these arguments and receives it: what came, and what the receiver said.
fn through(scheme: &str, extra: &[&str]) -> (Vec<u8>, Value) {
    beside(scheme, extra, |_| {})
}

/// The same where a stranger was at the receiver's ports first.
fn beside(scheme: &str, extra: &[&str], stranger: impl FnOnce(&str)) -> (Vec<u8>, Value) {
    let dir = tempfile::tempdir().expect("directory");
    let url = format!("{scheme}://127.0.0.1:{}", port());
    let args = ["stream", "record", &url, "out.ts", "--silence", "1s", "--json", "--verify"];
    let (receiver, _) = Running::start(towpath(dir.path(), &args), "receiving");
    stranger(url.rsplit('/').next().expect("an address"));
    let clip = clip();
    let args = [&["stream", "send", clip.to_str().expect("path"), &url], extra].concat();
    let sent = towpath(dir.path(), &args).output().expect("send");
    assert_eq!(sent.status.code(), Some(0), "{}", String::from_utf8_lossy(&sent.stderr));
    let (_, said) = receiver.end();
    let came = std::fs::read(dir.path().join("out.ts")).expect("read");
    (came, serde_json::from_str(&said).expect("JSON"))
}

#[test]
fn what_is_sent_arrives_byte_for_byte() {
    let file = std::fs::read(clip()).expect("clip");
    for scheme in ["udp", "rtp"] {
        let (came, said) = through(scheme, &[]);
        assert!(came == file, "{scheme}: {} of {} bytes", came.len(), file.len());
        assert_eq!(said["received"]["lost"], 0, "{said}");
        assert_eq!(said["report"]["streams"][0]["frames"], 50, "{said}");
    }
    let (came, _) = through("udp", &["--pcbr", "2Mbit/s", "--speed", "4"]);
    assert!(came == file);
}

#[test]
fn whoever_sends_something_else_first_is_not_the_sender() {
    let file = std::fs::read(clip()).expect("clip");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
    for scheme in ["udp", "rtp"] {
        let (came, said) = beside(scheme, &[], |at| {
            for datagram in [&b"x"[..], &[0x80; 40], &[0; 1400]] {
                socket.send_to(datagram, at).expect("send");
            }
        });
        assert!(came == file, "{scheme}: {} of {} bytes", came.len(), file.len());
        assert_eq!(said["strangers"], 3, "{said}");
    }
}

#[test]
fn a_schedule_of_the_planner_is_followed_and_one_of_another_file_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let file = std::fs::read(clip()).expect("clip");
    let (clip, sched) = (clip(), dir.path().join("s.sched"));
    let (clip, sched) = (clip.to_str().expect("path"), sched.to_str().expect("path"));
    let plan =
        ["plan", clip, "--pcr", "--scheme", "smooth", "--buffer", "200kB", "--schedule", sched];
    let planned = towpath(dir.path(), &plan).output().expect("plan");
    assert_eq!(planned.status.code(), Some(0), "{}", String::from_utf8_lossy(&planned.stderr));
    let (came, _) = through("udp", &["--schedule", sched]);
    assert!(came == file);
    std::fs::write(dir.path().join("short.ts"), &file[..188 * 600]).expect("write");
    let args = ["stream", "send", "short.ts", "udp://127.0.0.1:9", "--schedule", sched];
    let refused = towpath(dir.path(), &args).output().expect("send");
    assert_eq!(refused.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is for 126148 bytes"));
}

#[test]
fn a_pipe_is_live() {
    let dir = tempfile::tempdir().expect("directory");
    let url = format!("udp://127.0.0.1:{}", port());
    let args = ["stream", "record", &url, "out.ts", "--silence", "1s"];
    let (receiver, _) = Running::start(towpath(dir.path(), &args), "receiving");
    let mut send = towpath(dir.path(), &["stream", "send", "-", &url]);
    let mut send = send.stdin(Stdio::piped()).spawn().expect("start");
    let file = std::fs::read(clip()).expect("clip");
    send.stdin.take().expect("input").write_all(&file).expect("write");
    assert!(send.wait().expect("wait").success());
    receiver.end();
    assert!(std::fs::read(dir.path().join("out.ts")).expect("read") == file);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = towpath(dir.path(), &["stream", "serve", "nowhere"]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(255), "{said}");
    assert!(said.starts_with("error: offering nowhere: cannot open the library: "), "{said}");
}

/// A server of the clip as `sub/a b.ts`, with a link that leads out beside it.
fn server(dir: &Path) -> (Running, String) {
    std::fs::create_dir_all(dir.join("lib/sub")).expect("directory");
    std::fs::copy(clip(), dir.join("lib/sub/a b.ts")).expect("copy");
    std::fs::copy(clip(), dir.join("secret.ts")).expect("copy");
    std::os::unix::fs::symlink("../secret.ts", dir.join("lib/out.ts")).expect("link");
    let args = ["stream", "serve", "lib", "--listen", "127.0.0.1:0", "--json"];
    let (server, line) = Running::start(towpath(dir, &args), "rtsp://");
    let at = line.split("rtsp://").nth(1).expect("address").trim_end_matches('/').to_string();
    (server, at)
}

fn frames(args: &[&str]) -> Vec<String> {
    let out = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin"])
        .args(args)
        .args(["-map", "0:v", "-f", "framemd5", "-"])
        .output()
        .expect("ffmpeg");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let hashes = text.lines().filter(|line| !line.starts_with('#'));
    hashes.filter_map(|line| Some(line.rsplit(',').next()?.trim().to_string())).collect()
}

#[test]
fn players_get_the_frames_of_the_file() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        return towpath_skip::skip("ffmpeg is not installed");
    }
    let wanted = frames(&["-i", clip().to_str().expect("path")]);
    assert_eq!(wanted.len(), 50);
    let dir = tempfile::tempdir().expect("directory");
    let (server, at) = server(dir.path());
    for transport in ["udp", "tcp"] {
        let url = format!("rtsp://{at}/sub/a%20b.ts");
        let got = frames(&["-rtsp_transport", transport, "-i", &url, "-t", "1.5"]);
        assert!(got.len() >= 35, "{transport}: {} frames", got.len());
        assert_eq!(got[..], wanted[..got.len()], "{transport}");
    }
    let (status, said) = server.interrupt();
    assert_eq!(status, Some(0));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["served"]["opened"], &said["served"]["sessions"]), (&2.into(), &0.into()));
}

/// What a connection is told, up to an empty line.
fn ask(connection: &mut BufReader<TcpStream>, text: &str) -> String {
    connection.get_mut().write_all(text.as_bytes()).expect("write");
    let mut said = String::new();
    // Datagrams may come before the answer to the request that began them.
    while connection.fill_buf().expect("read").first() == Some(&b'$') {
        let mut front = [0; 4];
        connection.read_exact(&mut front).expect("data");
        let mut datagram = vec![0; usize::from(u16::from_be_bytes([front[2], front[3]]))];
        connection.read_exact(&mut datagram).expect("data");
    }
    while !said.ends_with("\r\n\r\n") {
        if connection.read_line(&mut said).expect("read") == 0 {
            break;
        }
    }
    said
}

#[test]
fn strangers_get_nothing_and_disturb_nobody() {
    let dir = tempfile::tempdir().expect("directory");
    let (server, at) = server(dir.path());
    let connect = || {
        let stream = TcpStream::connect(&at).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("option");
        BufReader::new(stream)
    };
    let mut player = connect();
    let within = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let said = ask(
        &mut player,
        &format!("SETUP rtsp://{at}/sub/a%20b.ts RTSP/1.0\r\nCSeq: 1\r\n{within}\r\n"),
    );
    assert!(said.starts_with("RTSP/1.0 200 OK"), "{said}");
    let session = said.lines().find_map(|line| line.strip_prefix("Session: ")).expect("session");
    let session = session.split(';').next().expect("id").to_string();
    assert_eq!(session.len(), 32);
    let mut other = connect();
    let third = "Transport: RTP/AVP;unicast;destination=192.0.2.1;client_port=5000-5001\r\n";
    let cases = [
        (format!("TEARDOWN rtsp://{at}/sub/a%20b.ts"), format!("Session: {session}\r\n"), "454"),
        (format!("SETUP rtsp://{at}/sub/a%20b.ts"), third.to_string(), "403"),
        (format!("DESCRIBE rtsp://{at}/out.ts"), String::new(), "404"),
        (format!("DESCRIBE rtsp://{at}/../secret.ts"), String::new(), "403"),
        (format!("DESCRIBE rtsp://{at}/%2e%2e/secret.ts"), String::new(), "403"),
        (format!("DESCRIBE rtsp://{at}//etc/passwd"), String::new(), "403"),
    ];
    for (line, headers, status) in cases {
        let said = ask(&mut other, &format!("{line} RTSP/1.0\r\nCSeq: 2\r\n{headers}\r\n"));
        assert_eq!(said.get(9..12), Some(status), "{line}: {said}");
    }
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for garbage in [http, vec![0xFF; 20_000], vec![b'x'; 70_000]] {
        let mut connection = connect();
        // It may be closed before all is written.
        let _ = connection.get_mut().write_all(&garbage);
        let mut left = Vec::new();
        let _ = connection.read_to_end(&mut left);
        assert!(left.is_empty());
    }
    let play =
        format!("PLAY rtsp://{at}/sub/a%20b.ts RTSP/1.0\r\nCSeq: 3\r\nSession: {session}\r\n\r\n");
    assert!(ask(&mut player, &play).starts_with("RTSP/1.0 200 OK"));
    // Its first datagrams: channel 0, RTP of payload type 33, packets.
    let mut front = [0; 4];
    player.read_exact(&mut front).expect("data");
    let mut datagram = vec![0; usize::from(u16::from_be_bytes([front[2], front[3]]))];
    player.read_exact(&mut datagram).expect("data");
    assert_eq!((front[0], front[1], datagram[1] & 0x7F, datagram[12]), (b'$', 0, 33, 0x47));
    drop(player);
    let (_, said) = server.interrupt();
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["served"]["garbled"], 3, "{said}");
}

#[test]
fn the_simulated_client_is_as_the_source_has_it() {
    let dir = tempfile::tempdir().expect("directory");
    let args = ["sim", "stream", "--json", "--svg", "out"];
    let out = towpath(dir.path(), &args).output().expect("run");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let rows: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let collapse = rows[0]["outcome"]["collapse_s"].as_u64().expect("it collapses");
    assert!((110..=150).contains(&collapse), "{collapse}");
    assert_eq!(rows[2]["outcome"]["collapse_s"], Value::Null);
    for mode in ["off", "after", "before"] {
        assert!(dir.path().join(format!("out/stream-{mode}.svg")).exists());
    }
}
