//! Any bytes of several connections, to a server with sessions: every stream that was opened is
//! closed once, answers are whole lines, and there are never more sessions than the limit.
#![no_main]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use towpath_media::rtsp::{Described, Host, Item, Opened, Server, ServerLimits, Way, item};
use towpath_wire::Instant;

#[derive(Default)]
struct Streams {
    drawn: u8,
    next: u64,
    open: BTreeSet<u64>,
}

impl Host for Streams {
    fn describe(&mut self, path: &str) -> Result<Described, u16> {
        if path.is_empty() { Err(404) } else { Ok(Described { duration: None }) }
    }
    fn open(&mut self, path: &str, way: Way) -> Result<Opened, u16> {
        self.describe(path)?;
        if let Way::Udp { peer, .. } = way {
            assert_eq!(peer, IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        self.next += 1;
        self.open.insert(self.next);
        Ok(Opened { stream: self.next, ssrc: 1, sequence: 2, ports: (3, 4) })
    }
    fn play(&mut self, stream: u64, _from: Option<Duration>, ppm: u32) -> Result<(), u16> {
        assert!(self.open.contains(&stream) && (100_000..=16_000_000).contains(&ppm));
        Ok(())
    }
    fn pause(&mut self, stream: u64) {
        assert!(self.open.contains(&stream));
    }
    fn close(&mut self, stream: u64) {
        assert!(self.open.remove(&stream), "closed once");
    }
    fn draw(&mut self) -> [u8; 16] {
        self.drawn = self.drawn.wrapping_add(1);
        [self.drawn; 16]
    }
}

fuzz_target!(|bytes: &[u8]| {
    let limits = ServerLimits { sessions: 4, sessions_per_connection: 3, ..Default::default() };
    let (mut server, mut streams) = (Server::new(limits), Streams::default());
    let mut now = Instant::ZERO;
    // A zero byte ends what one connection says; the next one goes on.
    for (connection, mut said) in bytes.split(|byte| *byte == 0).enumerate() {
        let connection = connection as u64 % 3;
        now += Duration::from_secs(7);
        while let Ok(Some((found, n))) = item(said) {
            assert!(n > 0 && n <= said.len());
            if let Item::Request(request) = found {
                let from = (connection, IpAddr::V4(Ipv4Addr::LOCALHOST));
                let answer = server.handle(now, from, &request, &mut streams);
                assert!(answer.bytes.starts_with(b"RTSP/1.0 "));
                assert!(answer.bytes.windows(4).any(|end| end == b"\r\n\r\n"));
            }
            said = &said[n..];
        }
        server.handle_timeout(now, &mut streams);
        assert!(server.sessions() <= 4 && server.sessions() == streams.open.len());
    }
    for connection in 0..3 {
        server.gone(connection, &mut streams);
    }
    assert!(streams.open.is_empty() && server.sessions() == 0);
});
