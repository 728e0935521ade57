//! Sessions: who may do what, and what is answered.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::IpAddr;
use core::time::Duration;

use serde::Serialize;
use towpath_wire::Instant;

use super::message::Request;
use super::range::range;
use super::transport::{Transport, TransportError, transport};

/// Names a connection; its owner chooses.
pub type ConnectionId = u64;

/// The way of a stream, as its owner needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To ports of the connection's other end, and nowhere else.
    Udp {
        /// Who asked.
        peer: IpAddr,
        /// Its ports.
        ports: (u16, u16),
    },
    /// Within a connection.
    Interleaved {
        /// Which.
        connection: ConnectionId,
        /// Of RTP.
        channel: u8,
    },
}

/// A title, as a description needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// How long it is; unknown for what has no end.
    pub duration: Option<Duration>,
}

/// A stream that was opened and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The owner's name of it.
    pub stream: u64,
    /// Whose numbers its datagrams have.
    pub ssrc: u32,
    /// The first of them.
    pub sequence: u16,
    /// Ports that datagrams and reports leave from.
    pub ports: (u16, u16),
}

/// What a server's owner does for it. An error is a status of RTSP.
pub trait Host {
    /// Looks into a title.
    fn describe(&mut self, path: &str) -> Result<Described, u16>;
    /// Opens a title for one player; it does not play yet.
    fn open(&mut self, path: &str, way: Way) -> Result<Opened, u16>;
    /// Plays from an instant, or on.
    fn play(&mut self, stream: u64, from: Option<Duration>, speed_ppm: u32) -> Result<(), u16>;
    /// Holds it.
    fn pause(&mut self, stream: u64);
    /// Ends it.
    fn close(&mut self, stream: u64);
    /// Bytes that nobody can guess.
    fn draw(&mut self) -> [u8; 16];
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Sessions at once.
    pub sessions: usize,
    /// Of them, of one connection.
    pub sessions_per_connection: usize,
    /// A session whose player says nothing for so long ends.
    pub silence: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { sessions: 1024, sessions_per_connection: 16, silence: Duration::from_mins(1) }
    }
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerCounters {
    /// Requests.
    pub requests: u64,
    /// Of them, refused.
    pub refused: u64,
    /// Sessions opened.
    pub opened: u64,
    /// Sessions that ended because their player was silent.
    pub expired: u64,
}

#[derive(Debug)]
struct Session {
    connection: ConnectionId,
    path: String,
    stream: u64,
    opened: Opened,
    played: bool,
    heard: Instant,
}

/// A response, and what becomes of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The player wants the connection closed.
    pub close: bool,
}

/// A server's sessions. A session belongs to the connection that opened it and ends with it: no
/// other can name it, and nothing is sent to whom nobody is connected from.
#[derive(Debug)]
pub struct Server {
    limits: ServerLimits,
    sessions: BTreeMap<String, Session>,
    counters: ServerCounters,
}

const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
/// Slowest and fastest play that a player may ask for, in millionths.
const SPEEDS: core::ops::RangeInclusive<f64> = 0.1..=16.0;

/// What a handler gives: headers and a body, or a status.
type Outcome = Result<(String, String), u16>;

impl Server {
    /// Without sessions.
    pub const fn new(limits: ServerLimits) -> Self {
        let counters = ServerCounters { requests: 0, refused: 0, opened: 0, expired: 0 };
        Self { limits, sessions: BTreeMap::new(), counters }
    }

    /// Answers a request of a connection from `peer`.
    pub fn handle(
        &mut self,
        now: Instant,
        (connection, peer): (ConnectionId, IpAddr),
        request: &Request<'_>,
        host: &mut dyn Host,
    ) -> Answer {
        self.counters.requests += 1;
        let outcome = self.outcome(now, (connection, peer), request, host);
        let number = request.header("CSeq").unwrap_or("0");
        // It comes back as it came: nothing else may be in it.
        let number = if number.bytes().all(|b| b.is_ascii_digit()) { number } else { "0" };
        let (status, headers, body) = match outcome {
            Ok((headers, body)) => (200, headers, body),
            Err(status) => {
                self.counters.refused += 1;
                let headers = if matches!(status, 405 | 501) {
                    format!("Allow: {METHODS}\r\n")
                } else {
                    String::new()
                };
                (status, headers, String::new())
            }
        };
        let mut text = format!("RTSP/1.0 {status} {}\r\nCSeq: {number}\r\n", reason(status));
        text.push_str(&headers);
        if !body.is_empty() {
            let _ = write!(text, "Content-Length: {}\r\n", body.len());
        }
        text.push_str("\r\n");
        text.push_str(&body);
        let close = request.header("Connection").is_some_and(|c| c.eq_ignore_ascii_case("close"));
        Answer { bytes: text.into_bytes(), close }
    }

    fn outcome(
        &mut self,
        now: Instant,
        from: (ConnectionId, IpAddr),
        request: &Request<'_>,
        host: &mut dyn Host,
    ) -> Outcome {
        if request.version != "RTSP/1.0" {
            return Err(505);
        }
        if request.header("Require").is_some() {
            return Err(551);
        }
        let known = match request.header("Session") {
            Some(id) => Some(self.session(now, from.0, id)?),
            None => None,
        };
        let need = || known.clone().ok_or(454u16);
        match request.method {
            "OPTIONS" => Ok((format!("Public: {METHODS}\r\n"), String::new())),
            "DESCRIBE" => describe(request, host),
            "SETUP" if known.is_some() => Err(455),
            "SETUP" => self.setup(now, from, request, host),
            "PLAY" => self.play(&need()?, request, host),
            "PAUSE" => {
                let id = need()?;
                host.pause(self.sessions[&id].stream);
                Ok((format!("Session: {id}\r\n"), String::new()))
            }
            "TEARDOWN" => {
                let id = need()?;
                if let Some(session) = self.sessions.remove(&id) {
                    host.close(session.stream);
                }
                Ok((format!("Session: {id}\r\n"), String::new()))
            }
            "GET_PARAMETER" | "SET_PARAMETER" if !request.body.is_empty() => Err(451),
            "GET_PARAMETER" | "SET_PARAMETER" => {
                Ok((known.map_or(String::new(), |id| format!("Session: {id}\r\n")), String::new()))
            }
            "ANNOUNCE" | "RECORD" | "REDIRECT" => Err(405),
            _ => Err(501),
        }
    }

    /// The session of a header, if it is this connection's; it was heard of.
    fn session(&mut self, now: Instant, connection: u64, header: &str) -> Result<String, u16> {
        let id = header.split(';').next().unwrap_or_default().trim();
        let session = self.sessions.get_mut(id).filter(|s| s.connection == connection);
        session.ok_or(454u16)?.heard = now;
        Ok(id.to_string())
    }

    fn setup(
        &mut self,
        now: Instant,
        (connection, peer): (ConnectionId, IpAddr),
        request: &Request<'_>,
        host: &mut dyn Host,
    ) -> Outcome {
        let path = request.path().ok_or(400u16)?;
        let offer = transport(request.header("Transport").ok_or(461u16)?, peer);
        let offer =
            offer.map_err(|e| if e == TransportError::ThirdParty { 403u16 } else { 461 })?;
        let mine = self.sessions.values().filter(|s| s.connection == connection).count();
        if self.sessions.len() >= self.limits.sessions
            || mine >= self.limits.sessions_per_connection
        {
            return Err(453);
        }
        let way = match offer {
            Transport::Udp { ports } => Way::Udp { peer, ports },
            Transport::Interleaved { channel } => Way::Interleaved { connection, channel },
        };
        let opened = host.open(&path, way)?;
        let mut id = String::new();
        for byte in host.draw() {
            let _ = write!(id, "{byte:02x}");
        }
        let silence = self.limits.silence.as_secs();
        let mut headers = format!("Session: {id};timeout={silence}\r\n");
        let ssrc = opened.ssrc;
        let _ = match offer {
            Transport::Udp { ports: (a, b) } => {
                let (c, d) = opened.ports;
                write!(
                    headers,
                    "Transport: RTP/AVP;unicast;client_port={a}-{b};server_port={c}-{d};\
                     ssrc={ssrc:08X}\r\n"
                )
            }
            Transport::Interleaved { channel } => {
                let next = channel + 1;
                write!(
                    headers,
                    "Transport: RTP/AVP/TCP;unicast;interleaved={channel}-{next};\
                     ssrc={ssrc:08X}\r\n"
                )
            }
        };
        self.counters.opened += 1;
        let (path, stream) = (path.into_owned(), opened.stream);
        let session = Session { connection, path, stream, opened, played: false, heard: now };
        self.sessions.insert(id, session);
        Ok((headers, String::new()))
    }

    fn play(&mut self, id: &str, request: &Request<'_>, host: &mut dyn Host) -> Outcome {
        let session = self.sessions.get_mut(id).ok_or(454u16)?;
        if request.path().is_some_and(|path| path != session.path) {
            return Err(404);
        }
        let wanted = match request.header("Range") {
            Some(text) => range(text).ok_or(457u16)?,
            None => super::Range { from: None, to: None },
        };
        let speed = match request.header("Scale").or_else(|| request.header("Speed")) {
            Some(text) => text.parse::<f64>().ok().filter(|s| SPEEDS.contains(s)).ok_or(457u16)?,
            None => 1.0,
        };
        host.play(session.stream, wanted.from, (speed * 1e6) as u32)?;
        let mut headers = format!("Session: {id}\r\n");
        let from = wanted.from.or((!session.played).then_some(Duration::ZERO));
        if let Some(from) = from {
            let _ = write!(headers, "Range: npt={:.3}-\r\n", from.as_secs_f64());
        }
        if !core::mem::replace(&mut session.played, true) {
            let (url, number) = (request.uri.trim_end_matches('/'), session.opened.sequence);
            let track = if url.ends_with("trackID=0") { "" } else { "/trackID=0" };
            let _ = write!(headers, "RTP-Info: url={url}{track};seq={number}\r\n");
        }
        if (speed - 1.0).abs() > f64::EPSILON {
            let _ = write!(headers, "Scale: {speed}\r\n");
        }
        Ok((headers, String::new()))
    }

    /// A connection is gone: so are its sessions.
    pub fn gone(&mut self, connection: ConnectionId, host: &mut dyn Host) {
        self.sessions.retain(|_, session| {
            let mine = session.connection == connection;
            if mine {
                host.close(session.stream);
            }
            !mine
        });
    }

    /// The player of a stream was heard of otherwise, as by a report.
    pub fn heard(&mut self, now: Instant, connection: ConnectionId) {
        for session in self.sessions.values_mut().filter(|s| s.connection == connection) {
            session.heard = now;
        }
    }

    /// Ends sessions whose players are silent.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut dyn Host) {
        let silence = self.limits.silence;
        let before = self.sessions.len();
        self.sessions.retain(|_, session| {
            let silent = now.since(session.heard) > silence;
            if silent {
                host.close(session.stream);
            }
            !silent
        });
        self.counters.expired += (before - self.sessions.len()) as u64;
    }

    /// Sessions at the moment.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// What it counted.
    pub const fn counters(&self) -> &ServerCounters {
        &self.counters
    }
}

fn describe(request: &Request<'_>, host: &mut dyn Host) -> Outcome {
    let path = request.path().ok_or(400u16)?;
    if request
        .header("Accept")
        .is_some_and(|a| !a.contains("application/sdp") && !a.contains("*/*"))
    {
        return Err(406);
    }
    let described = host.describe(&path)?;
    // What came as an address goes back as one: no line ends can be in it.
    let base = request.uri.trim_end_matches('/');
    let headers = format!("Content-Base: {base}/\r\nContent-Type: application/sdp\r\n");
    Ok((headers, sdp(&path, None, described.duration)))
}

/// A session description (RFC 4566) of a transport stream: for players to ask for, or, with an
/// address and a port, to listen at.
pub fn sdp(name: &str, at: Option<(IpAddr, u16)>, duration: Option<Duration>) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let (addr, port) = at.unwrap_or((IpAddr::from([0, 0, 0, 0]), 0));
    let family = if addr.is_ipv4() { "IP4" } else { "IP6" };
    // A group over IPv4 is named with its reach (RFC 4566 §5.7).
    let reach = if addr.is_multicast() && addr.is_ipv4() { "/1" } else { "" };
    let range =
        duration.map_or(String::from("npt=0-"), |d| format!("npt=0-{:.3}", d.as_secs_f64()));
    let control =
        |what: &str| if at.is_none() { format!("a=control:{what}\r\n") } else { String::new() };
    format!(
        "v=0\r\no=- 0 0 IN {family} {addr}\r\ns={}\r\nc=IN {family} {addr}{reach}\r\nt=0 0\r\n\
         {}a=range:{range}\r\nm=video {port} RTP/AVP 33\r\na=rtpmap:33 MP2T/90000\r\n{}",
        if name.is_empty() { " " } else { &name },
        control("*"),
        control("trackID=0"),
    )
}

/// RFC 2326 §11.
const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        415 => "Unsupported Media Type",
        451 => "Parameter Not Understood",
        453 => "Not Enough Bandwidth",
        454 => "Session Not Found",
        455 => "Method Not Valid in This State",
        457 => "Invalid Range",
        461 => "Unsupported Transport",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "RTSP Version Not Supported",
        551 => "Option not supported",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Item, item};
    use super::*;

    #[test]
    fn statuses_are_said_in_the_words_of_the_standard() {
        // RFC 2326, section 7.1.1.
        let words = [
            (200, "OK"),
            (400, "Bad Request"),
            (403, "Forbidden"),
            (404, "Not Found"),
            (405, "Method Not Allowed"),
            (406, "Not Acceptable"),
            (415, "Unsupported Media Type"),
            (451, "Parameter Not Understood"),
            (453, "Not Enough Bandwidth"),
            (454, "Session Not Found"),
            (455, "Method Not Valid in This State"),
            (457, "Invalid Range"),
            (461, "Unsupported Transport"),
            (500, "Internal Server Error"),
            (501, "Not Implemented"),
            (503, "Service Unavailable"),
            (505, "RTSP Version Not Supported"),
            (551, "Option not supported"),
            (599, "Internal Server Error"),
        ];
        for (status, word) in words {
            assert_eq!(reason(status), word, "{status}");
        }
    }

    #[derive(Default)]
    struct Fake {
        drawn: u8,
        open: Vec<u64>,
        log: Vec<String>,
    }

    impl Host for Fake {
        fn describe(&mut self, path: &str) -> Result<Described, u16> {
            let duration = Some(Duration::from_millis(2500));
            if path == "a.ts" { Ok(Described { duration }) } else { Err(404) }
        }
        fn open(&mut self, path: &str, way: Way) -> Result<Opened, u16> {
            self.describe(path)?;
            self.log.push(format!("{way:?}"));
            let stream = self.open.iter().max().map_or(1, |s| s + 1);
            self.open.push(stream);
            Ok(Opened { stream, ssrc: 0xABCD, sequence: 77, ports: (8000, 8001) })
        }
        fn play(&mut self, stream: u64, from: Option<Duration>, ppm: u32) -> Result<(), u16> {
            self.log.push(format!("play {stream} {from:?} {ppm}"));
            Ok(())
        }
        fn pause(&mut self, stream: u64) {
            self.log.push(format!("pause {stream}"));
        }
        fn close(&mut self, stream: u64) {
            self.open.retain(|s| *s != stream);
        }
        fn draw(&mut self) -> [u8; 16] {
            self.drawn += 1;
            [self.drawn; 16]
        }
    }

    const PEER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

    struct Talk {
        server: Server,
        host: Fake,
        now: Instant,
    }

    impl Talk {
        fn new(limits: ServerLimits) -> Self {
            Self { server: Server::new(limits), host: Fake::default(), now: Instant::ZERO }
        }

        fn ask(&mut self, connection: u64, line: &str, headers: &str) -> String {
            let text = format!("{line} RTSP/1.0\r\nCSeq: 9\r\n{headers}\r\n");
            let Ok(Some((Item::Request(request), _))) = item(text.as_bytes()) else {
                panic!("{text}")
            };
            let from = (connection, PEER);
            let answer = self.server.handle(self.now, from, &request, &mut self.host);
            String::from_utf8(answer.bytes).expect("text")
        }
    }

    const URL: &str = "rtsp://127.0.0.1:8554/a.ts";
    const UDP: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
    const ID: &str = "01010101010101010101010101010101";

    #[test]
    fn a_player_describes_sets_up_plays_pauses_and_ends() {
        let mut talk = Talk::new(ServerLimits::default());
        let said = talk.ask(1, "OPTIONS *", "");
        assert!(said.starts_with("RTSP/1.0 200 OK\r\nCSeq: 9\r\nPublic: OPTIONS, DESCRIBE"));
        let said = talk.ask(1, &format!("DESCRIBE {URL}"), "Accept: application/sdp\r\n");
        let (head, body) = said.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{said}");
        for line in ["m=video 0 RTP/AVP 33", "a=control:trackID=0", "a=range:npt=0-2.500"] {
            assert!(body.contains(line), "{body}");
        }
        let said = talk.ask(1, &format!("SETUP {URL}/trackID=0"), UDP);
        assert!(said.contains(&format!("Session: {ID};timeout=60\r\n")), "{said}");
        assert!(said.contains("client_port=5000-5001;server_port=8000-8001;ssrc=0000ABCD"));
        let session = format!("Session: {ID}\r\n");
        let said = talk.ask(1, &format!("PLAY {URL}"), &format!("{session}Range: npt=1.5-\r\n"));
        assert!(
            said.contains("RTP-Info: url=rtsp://127.0.0.1:8554/a.ts/trackID=0;seq=77"),
            "{said}"
        );
        talk.ask(1, &format!("PAUSE {URL}"), &session);
        talk.ask(1, &format!("PLAY {URL}"), &format!("{session}Scale: 2\r\n"));
        let log: Vec<&str> = talk.host.log.iter().skip(1).map(String::as_str).collect();
        assert_eq!(log, ["play 1 Some(1.5s) 1000000", "pause 1", "play 1 None 2000000"]);
        assert!(talk.ask(1, &format!("GET_PARAMETER {URL}"), &session).contains("200 OK"));
        assert!(talk.ask(1, &format!("TEARDOWN {URL}"), &session).contains("200 OK"));
        assert_eq!((talk.server.sessions(), talk.host.open.len()), (0, 0));
    }

    #[test]
    fn what_is_not_allowed_is_refused_with_its_status() {
        let mut talk = Talk::new(ServerLimits::default());
        let status = |said: String| said[9..12].parse::<u16>().expect("status");
        let third = "Transport: RTP/AVP;unicast;destination=10.1.1.1;client_port=5000-5001\r\n";
        let cases = [
            ("DESCRIBE rtsp://h/b.ts", "", 404),
            ("DESCRIBE *", "", 400),
            ("DESCRIBE rtsp://h/a.ts", "Accept: text/html\r\n", 406),
            ("SETUP rtsp://h/a.ts", "", 461),
            ("SETUP rtsp://h/a.ts", third, 403),
            ("SETUP rtsp://h/b.ts", UDP, 404),
            ("PLAY rtsp://h/a.ts", "", 454),
            ("PLAY rtsp://h/a.ts", "Session: 00\r\n", 454),
            ("RECORD rtsp://h/a.ts", "", 405),
            ("BREW rtsp://h/a.ts", "", 501),
            ("OPTIONS *", "Require: play.scale\r\n", 551),
        ];
        for (line, headers, expected) in cases {
            assert_eq!(status(talk.ask(1, line, headers)), expected, "{line} {headers}");
        }
        talk.ask(1, &format!("SETUP {URL}"), UDP);
        let session = format!("Session: {ID}\r\n");
        for method in ["PLAY", "PAUSE", "TEARDOWN", "GET_PARAMETER"] {
            let said = talk.ask(2, &format!("{method} {URL}"), &session);
            assert_eq!(status(said), 454, "another's session: {method}");
        }
        let bad = format!("{session}Range: smpte=1-\r\n");
        assert_eq!(status(talk.ask(1, &format!("PLAY {URL}"), &bad)), 457);
        assert_eq!(status(talk.ask(1, "PLAY rtsp://h/other.ts", &session)), 404);
        assert_eq!(talk.server.sessions(), 1);
    }

    #[test]
    fn sessions_are_limited_and_end_with_silence_or_their_connection() {
        let limits = ServerLimits { sessions: 3, sessions_per_connection: 2, ..Default::default() };
        let mut talk = Talk::new(limits);
        let setup = |talk: &mut Talk, connection| {
            talk.ask(connection, &format!("SETUP {URL}"), UDP)[9..12].to_string()
        };
        let said: Vec<String> =
            [1, 1, 1, 2, 2].iter().map(|connection| setup(&mut talk, *connection)).collect();
        assert_eq!(said, ["200", "200", "453", "200", "453"]);
        talk.server.gone(1, &mut talk.host);
        assert_eq!((talk.server.sessions(), talk.host.open.len()), (1, 1));
        talk.now = Instant::from_nanos(59_000_000_000);
        talk.server.heard(talk.now, 2);
        talk.server.handle_timeout(Instant::from_nanos(119_000_000_000), &mut talk.host);
        assert_eq!(talk.server.sessions(), 1);
        talk.server.handle_timeout(Instant::from_nanos(119_000_000_001), &mut talk.host);
        assert_eq!((talk.server.sessions(), talk.server.counters().expired), (0, 1));
        assert!(talk.host.open.is_empty());
    }

    #[test]
    fn what_is_sent_back_cannot_split_an_answer() {
        let mut talk = Talk::new(ServerLimits::default());
        let text = "OPTIONS * RTSP/1.0\r\nCSeq: 1 x\r\n\r\n";
        let Ok(Some((Item::Request(request), _))) = item(text.as_bytes()) else { panic!() };
        let answer = talk.server.handle(Instant::ZERO, (1, PEER), &request, &mut talk.host);
        assert!(answer.bytes.starts_with(b"RTSP/1.0 200 OK\r\nCSeq: 0\r\n"));
        assert!(!sdp("a\r\nm=audio", None, None).contains("\r\nm=audio"));
    }
}
