//! Players that ask for titles over RTSP.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use towpath_io::udp::Multicast;
use towpath_media::rtp::Header;
use towpath_media::rtsp::ServerLimits;

use super::super::{PacingOptions, Priority, Repeat, Serve, ServeOptions, Served};
use super::{CLIP, receiver};

const LONG: Duration = Duration::from_mins(1);

/// A library on offer, served by a thread.
struct Offer {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Served>>,
    _dir: tempfile::TempDir,
}

impl Offer {
    fn new(repeat: Repeat, connections: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.ts"), CLIP).unwrap();
        fs::write(dir.path().join("text.ts"), "no packets").unwrap();
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (multicast, priority) = (Multicast::default(), Priority::Ordinary);
        let pacing = PacingOptions { from, multicast, priority, streams_max: 2 };
        let limits = ServerLimits::default();
        let options = ServeOptions { at: from, pacing, limits, connections, repeat };
        let mut serve = Serve::open(dir.path(), &options).unwrap();
        let at = serve.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || serve.run(&is_over).unwrap()));
        Self { at, stop, thread, _dir: dir }
    }

    /// What was done until now, when it ends.
    fn end(mut self) -> Served {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().unwrap()
    }
}

/// What comes from the server.
enum Came {
    Answer { status: u16, head: String, body: String },
    Frame(u8, Vec<u8>),
}

struct Player {
    at: SocketAddr,
    stream: BufReader<TcpStream>,
    number: u32,
    session: Option<String>,
    /// Frames that came before an answer.
    early: VecDeque<(u8, Vec<u8>)>,
}

impl Player {
    fn new(offer: &Offer) -> Self {
        let stream = TcpStream::connect(offer.at).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self {
            at: offer.at,
            stream: BufReader::new(stream),
            number: 0,
            session: None,
            early: VecDeque::new(),
        }
    }

    fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn next(&mut self) -> Came {
        let first = self.stream.fill_buf().unwrap()[0];
        if first == b'$' {
            let mut front = [0; 4];
            self.stream.read_exact(&mut front).unwrap();
            let mut bytes = vec![0; usize::from(u16::from_be_bytes([front[2], front[3]]))];
            self.stream.read_exact(&mut bytes).unwrap();
            return Came::Frame(front[1], bytes);
        }
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.stream.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; len.map_or(0, |len| len.parse().unwrap())];
        self.stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        Came::Answer { status: status.expect("a status"), head, body }
    }

    /// Asks; what comes before the answer is kept.
    fn ask(&mut self, method: &str, title: &str, headers: &str) -> (u16, String, String) {
        self.number += 1;
        let session = self.session.as_ref().map(|id| format!("Session: {id}\r\n"));
        let session = session.unwrap_or_default();
        let (at, number) = (self.at, self.number);
        self.write(&format!(
            "{method} rtsp://{at}/{title} RTSP/1.0\r\nCSeq: {number}\r\n{session}{headers}\r\n"
        ));
        loop {
            let (status, head, body) = match self.next() {
                Came::Answer { status, head, body } => (status, head, body),
                Came::Frame(channel, frame) => {
                    self.early.push_back((channel, frame));
                    continue;
                }
            };
            assert!(head.contains(&format!("CSeq: {number}\r\n")), "{head}");
            return (status, head, body);
        }
    }

    fn set_up(&mut self, transport: &str) -> String {
        let transport = format!("Transport: {transport}\r\n");
        let (status, head, _) = self.ask("SETUP", "a.ts", &transport);
        assert_eq!(status, 200, "{head}");
        let id = head.lines().find_map(|line| line.strip_prefix("Session: ")).expect("a session");
        self.session = Some(id.split(';').next().unwrap_or_default().into());
        head
    }

    /// Payloads of RTP within the connection, until there are so many bytes.
    fn play_out(&mut self, bytes: usize) -> Vec<u8> {
        let mut came = Vec::new();
        let mut last: Option<u16> = None;
        while came.len() < bytes {
            let (channel, frame) = self.early.pop_front().unwrap_or_else(|| match self.next() {
                Came::Frame(channel, frame) => (channel, frame),
                Came::Answer { head, .. } => panic!("an answer to nothing: {head}"),
            });
            if channel != 4 {
                assert_eq!(channel, 5, "reports have the next channel");
                continue;
            }
            let (header, payload) = Header::parse(&frame).unwrap();
            assert!(last.is_none_or(|last| header.sequence == last.wrapping_add(1)));
            last = Some(header.sequence);
            came.extend_from_slice(payload);
        }
        came
    }
}

const WITHIN: &str = "RTP/AVP/TCP;unicast;interleaved=4-5";

#[test]
fn a_title_is_described_played_held_and_played_from_elsewhere() {
    let offer = Offer::new(Repeat::Once, 8);
    let mut player = Player::new(&offer);
    let (status, head, body) = player.ask("DESCRIBE", "a.ts", "");
    assert_eq!(status, 200, "{head}");
    assert!(body.contains("a=range:npt=0-1.") || body.contains("a=range:npt=0-2."), "{body}");
    player.set_up(WITHIN);
    let (status, head, _) = player.ask("PLAY", "a.ts", "Scale: 16\r\n");
    assert_eq!(status, 200, "{head}");
    assert!(player.play_out(CLIP.len()) == CLIP);
    assert_eq!(player.ask("TEARDOWN", "a.ts", "").0, 200);
    player.session = None;
    player.early.clear();
    player.set_up(WITHIN);
    let (status, head, _) = player.ask("PLAY", "a.ts", "Range: npt=1-\r\nScale: 16\r\n");
    assert_eq!(status, 200, "{head}");
    let rest = player.play_out(CLIP.len() / 4);
    // What was read before may go out until the reader has turned to the new place.
    let rest = &rest[rest.len() - 10 * 1316..];
    let at = CLIP.windows(rest.len()).position(|part| part == rest).expect("a part of it");
    assert!(at % 188 == 0 && (0.3..0.9).contains(&(at as f64 / CLIP.len() as f64)), "{at}");
    assert_eq!(player.ask("PAUSE", "a.ts", "").0, 200);
    assert_eq!(player.ask("PLAY", "a.ts", "Range: npt=600-\r\n").0, 457);
    let served = offer.end();
    assert_eq!((served.connections, served.sessions, served.server.opened), (1, 1, 2));
    assert_eq!((served.garbled, served.refused_connections), (0, 0));
}

#[test]
fn a_player_gets_its_datagrams_at_the_ports_that_it_names() {
    let offer = Offer::new(Repeat::Forever, 8);
    let mut player = Player::new(&offer);
    let (_, _, body) = player.ask("DESCRIBE", "a.ts", "");
    assert!(!body.contains("npt=0-1") && !body.contains("npt=0-2"), "it has no end: {body}");
    let (media, at) = receiver();
    let (reports, reports_at) = receiver();
    let (rtp, rtcp) = (at.port(), reports_at.port());
    let head = player.set_up(&format!("RTP/AVP;unicast;client_port={rtp}-{rtcp}"));
    let line = head.lines().find(|line| line.starts_with("Transport:")).expect("a transport");
    let ssrc = line.split("ssrc=").nth(1).map(|text| &text[..8]).expect("its number");
    let ssrc = u32::from_str_radix(ssrc, 16).unwrap();
    assert_eq!(player.ask("PLAY", "a.ts", "Scale: 16\r\n").0, 200);
    let (mut came, mut datagram) = (Vec::new(), [0; 2000]);
    // Beyond its end it begins anew.
    while came.len() < CLIP.len() + 1880 {
        let n = media.recv(&mut datagram).unwrap();
        let (header, payload) = Header::parse(&datagram[..n]).unwrap();
        assert_eq!(header.ssrc, ssrc);
        came.extend_from_slice(payload);
    }
    assert!(came[..CLIP.len()] == *CLIP && came[CLIP.len()..] == CLIP[..came.len() - CLIP.len()]);
    assert!(reports.recv(&mut datagram).unwrap() > 20, "the sender's own report");
    // Its sessions end with its connection.
    drop(player);
    let mut other = Player::new(&offer);
    for _ in 0..2 {
        other.session = None;
        while other.ask("SETUP", "a.ts", &format!("Transport: {WITHIN}\r\n")).0 == 453 {}
    }
    let full = other.ask("SETUP", "a.ts", &format!("Transport: {WITHIN}\r\n"));
    assert_eq!(full.0, 453, "two streams are the limit");
}

#[test]
fn what_cannot_be_played_is_refused_by_its_number() {
    let offer = Offer::new(Repeat::Once, 2);
    let mut player = Player::new(&offer);
    for (title, status) in [("none.ts", 404), ("text.ts", 415), ("%2e%2e/secret.ts", 403)] {
        assert_eq!(player.ask("DESCRIBE", title, "").0, status, "{title}");
        let setup = player.ask("SETUP", title, &format!("Transport: {WITHIN}\r\n"));
        assert_eq!(setup.0, status, "{title}");
    }
    player.session = Some("0123".into());
    assert_eq!(player.ask("PLAY", "a.ts", "").0, 454);
    // Many at once are all answered.
    player.session = None;
    let asked: Vec<String> =
        (0..100).map(|n| format!("OPTIONS * RTSP/1.0\r\nCSeq: {n}\r\n\r\n")).collect();
    player.write(&asked.concat());
    for n in 0..100 {
        let Came::Answer { status: 200, head, .. } = player.next() else { panic!("no answer") };
        assert!(head.contains(&format!("CSeq: {n}\r\n")), "{head}");
    }
    // Whoever does not speak RTSP is not spoken to; whoever asks for too much at once neither.
    let mut stranger = Player::new(&offer);
    stranger.write("GET / HTTP/1.1\r\nnothing of the kind\r\n\r\n");
    let mut said = Vec::new();
    let _ = stranger.stream.read_to_end(&mut said);
    let mut long = Player::new(&offer);
    let begun = format!("OPTIONS * RTSP/1.0\r\nX: {}", "y".repeat(80 << 10));
    let _ = long.stream.get_mut().write_all(begun.as_bytes());
    let _ = long.stream.read_to_end(&mut said);
    // One more than there may be is closed at once.
    let mut second = Player::new(&offer);
    assert_eq!(second.ask("OPTIONS", "a.ts", "").0, 200);
    let mut third = Player::new(&offer);
    assert_eq!(third.stream.read_to_end(&mut said).unwrap_or(0), 0);
    let _ = second.stream.get_mut().shutdown(Shutdown::Both);
    let served = offer.end();
    assert_eq!((served.garbled, served.refused_connections), (2, 1));
    assert_eq!((served.connections, served.server.opened), (4, 0));
    assert_eq!(served.server.refused, 7);
}
