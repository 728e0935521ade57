//! Streams over loopback.

mod players;
mod receivers;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use towpath_io::udp::Multicast;
use towpath_media::rtp::{Header, Report, feedback, receiver_report, reports};
use towpath_media::send::{Config, Feedback};

use super::{
    Kind, Outlet, Pacing, PacingError, PacingOptions, Priority, Repeat, Source, StreamControl,
    StreamOptions, Ticket,
};

const CLIP: &[u8] = include_bytes!("../../../towpath-media/data/mpeg2.ts");
const STEP: Duration = Duration::from_millis(20);

fn pacing(streams_max: usize) -> Pacing {
    let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let multicast = Multicast::default();
    let options = PacingOptions { from, multicast, priority: Priority::Ordinary, streams_max };
    Pacing::start(&options).expect("start")
}

fn stream(outlet: Outlet, repeat: Repeat) -> StreamOptions {
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(CLIP).expect("write");
    let source = Source::File { file, from: 0, repeat };
    let config = Config::stored();
    StreamOptions { source, config, outlet, receiver: None, paused: false, deaf: false }
}

fn receiver() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("option");
    let at = socket.local_addr().expect("address");
    (socket, at)
}

/// Waits until a stream is as it should be.
fn until(pacing: &Pacing, ticket: Ticket, what: &str, is: impl Fn(&super::Status) -> bool) {
    for _ in 0..1000 {
        if is(&pacing.status(ticket).expect("a status")) {
            return;
        }
        pacing.wait(ticket, STEP);
    }
    panic!("not {what}: {:?}", pacing.status(ticket));
}

#[test]
fn its_receiver_is_listened_to_and_nobody_else() {
    let pacing = pacing(2);
    let (socket, at) = receiver();
    let ticket = pacing.add(stream(Outlet::udp(at), Repeat::Forever)).expect("room");
    let ask = |from: &UdpSocket, what| {
        let mut packet = Vec::new();
        receiver_report(&mut packet, 1, None, "test");
        feedback(&mut packet, 1, what);
        from.send_to(&packet, pacing.addresses()[0]).expect("send");
    };
    let mut datagram = [0; 2000];
    let n = socket.recv(&mut datagram).expect("a datagram");
    assert_eq!(datagram[..n], CLIP[..n]);
    ask(&receiver().0, Feedback::SpeedUp);
    ask(&socket, Feedback::SlowDown);
    until(&pacing, ticket, "slowed down", |status| status.gap_ppm == 1_250_000);
    socket.send_to(&[0xFF; 100], pacing.addresses()[0]).expect("send");
    ask(&socket, Feedback::Normal);
    until(&pacing, ticket, "back", |status| status.gap_ppm == 1_000_000);
    let status = pacing.status(ticket).expect("a status");
    assert_eq!(status.feedback, [1, 0, 1], "the stranger was not heard");
    pacing.control(ticket, StreamControl::Stop);
    until(&pacing, ticket, "over", |status| status.kind == Kind::Over);
}

#[test]
fn streams_are_limited_and_a_place_becomes_free() {
    let pacing = pacing(1);
    let (_socket, at) = receiver();
    let ticket = pacing.add(stream(Outlet::udp(at), Repeat::Forever)).expect("room");
    let refused = pacing.add(stream(Outlet::udp(at), Repeat::Forever));
    assert!(matches!(refused, Err(PacingError::Full(1))));
    pacing.control(ticket, StreamControl::Stop);
    until(&pacing, ticket, "over", |status| status.kind == Kind::Over);
    pacing.forget(ticket);
    assert!(pacing.status(ticket).is_none());
    assert!(pacing.add(stream(Outlet::udp(at), Repeat::Once)).is_ok());
}

#[test]
fn rtp_is_numbered_and_ends_with_a_goodbye() {
    let pacing = pacing(1);
    let (socket, at) = receiver();
    let (ear, told) = receiver();
    let outlet = Outlet::rtp(at).expect("random numbers");
    let options = StreamOptions { receiver: Some(told), ..stream(outlet, Repeat::Once) };
    let ticket = pacing.add(options).expect("room");
    pacing.control(ticket, StreamControl::Speed(8_000_000));
    let (mut came, mut numbers, mut datagram) = (Vec::new(), Vec::new(), [0; 2000]);
    while came.len() < CLIP.len() {
        let n = socket.recv(&mut datagram).expect("a datagram");
        let (header, payload) = Header::parse(&datagram[..n]).expect("RTP");
        numbers.push((header.sequence, header.timestamp, header.ssrc));
        came.extend_from_slice(payload);
    }
    assert!(came == CLIP);
    let follow = |pair: &[(u16, u32, u32)]| {
        let later = pair[1].1.wrapping_sub(pair[0].1);
        pair[1].0 == pair[0].0.wrapping_add(1) && later < 90_000 && pair[0].2 == pair[1].2
    };
    assert!(numbers.windows(2).all(follow));
    let mut said = Vec::new();
    while !said.contains(&Report::Goodbye { ssrc: numbers[0].2 }) {
        let n = ear.recv(&mut datagram).expect("a report");
        reports(&datagram[..n], |report| said.push(report)).expect("RTCP");
    }
    let sent = said.iter().rev().find_map(|report| match report {
        Report::Sender(sent) => Some(*sent),
        _ => None,
    });
    let sent = sent.expect("a sender's report");
    assert_eq!((sent.packets as usize, sent.octets as usize), (numbers.len(), CLIP.len()));
}
