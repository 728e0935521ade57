//! The receiving side of streams.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use towpath_media::receive::{PlayoutConfig, ReceiveConfig};
use towpath_media::rtp::{Report, reports};

use super::super::{Ended, Outlet, Received, Reception, ReceptionError, Repeat, StreamControl};
use super::{CLIP, pacing, receiver, stream};

const LONG: Duration = Duration::from_mins(1);
/// Longer than anything of the clip waits.
const PATIENCE: Duration = Duration::from_millis(700);

fn listening(what: Received) -> (Reception, SocketAddr) {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let reception = Reception::listen(at, Ipv4Addr::LOCALHOST, None, what).unwrap();
    let at = reception.local_addr().unwrap();
    (reception, at)
}

#[test]
fn what_one_sender_sends_is_written_and_nothing_of_anybody_else() {
    for is_rtp in [false, true] {
        let (mut reception, at) = listening(Received::written(ReceiveConfig::default()));
        let (stranger, _) = receiver();
        stranger.send_to(b"no packets at all", at).unwrap();
        let pacing = pacing(1);
        let outlet = if is_rtp { Outlet::rtp(at).unwrap() } else { Outlet::udp(at) };
        let ticket = pacing.add(stream(outlet, Repeat::Once)).unwrap();
        pacing.control(ticket, StreamControl::Speed(8_000_000));
        let mut written = Vec::new();
        let mut meddled = false;
        let ended = reception.run((LONG, PATIENCE), None, &mut written, |reception| {
            if reception.peer().is_some() && !meddled {
                meddled = true;
                stranger.send_to(&CLIP[..188], at).unwrap();
            }
            false
        });
        assert_eq!(ended.unwrap(), Ended::Silent);
        assert!(written == CLIP, "{} bytes", written.len());
        assert_eq!(reception.peer(), Some(pacing.addresses()[0]));
        assert_eq!(reception.strangers(), 1 + u64::from(meddled));
    }
}

#[test]
fn a_reception_ends_when_it_is_asked_to_or_nothing_begins() {
    let (mut reception, _) = listening(Received::written(ReceiveConfig::default()));
    let short = Duration::from_millis(30);
    let ended = reception.run((short, LONG), None, &mut io::sink(), |_| false);
    assert_eq!(ended.unwrap(), Ended::Silent);
    let ended = reception.run((LONG, LONG), None, &mut io::sink(), |_| true);
    assert_eq!(ended.unwrap(), Ended::Asked);
    assert_eq!((reception.peer(), reception.strangers()), (None, 0));
}

/// A writer that fails.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_ends_a_reception() {
    let (mut reception, at) = listening(Received::written(ReceiveConfig::default()));
    let pacing = pacing(1);
    pacing.add(stream(Outlet::udp(at), Repeat::Forever)).unwrap();
    let ended = reception.run((LONG, LONG), None, &mut Full, |_| false);
    assert!(matches!(ended, Err(ReceptionError::Write(_))), "{ended:?}");
}

#[test]
fn what_is_sent_on_comes_whole_in_the_senders_rhythm() {
    let (player, to) = receiver();
    let config =
        PlayoutConfig { receive: ReceiveConfig::default(), delay: Duration::from_millis(100) };
    let (mut reception, at) = listening(Received::sent(config, to));
    let pacing = pacing(1);
    pacing.add(stream(Outlet::udp(at), Repeat::Once)).unwrap();
    let playing = std::thread::spawn(move || {
        let (mut came, mut datagram) = (Vec::new(), [0; 2000]);
        let begun = std::time::Instant::now();
        while came.len() < CLIP.len() {
            let n = player.recv(&mut datagram).unwrap();
            came.extend_from_slice(&datagram[..n]);
        }
        (came, begun.elapsed())
    });
    let ended = reception.run((LONG, PATIENCE), None, &mut io::sink(), |_| false);
    assert_eq!(ended.unwrap(), Ended::Silent);
    let (came, took) = playing.join().unwrap();
    assert!(came == CLIP);
    assert!(took > Duration::from_millis(1500), "two seconds of film in {took:?}");
}

/// A writer that takes nothing until it is let.
struct Held(std::sync::mpsc::Receiver<()>);

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_receiver_that_is_full_asks_its_sender_for_less() {
    // The ring is small, and the writer takes nothing until the sender was asked.
    let config = ReceiveConfig { capacity: 200 << 10, ..ReceiveConfig::default() };
    let (mut reception, at) = listening(Received::written(config));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.set_read_timeout(Some(LONG)).unwrap();
    let (release, held) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        for packet in CLIP.chunks(1316).cycle().take(1000) {
            sender.send_to(packet, at).unwrap();
            std::thread::yield_now();
        }
        let (mut said, mut datagram) = (Vec::new(), [0; 2000]);
        while !said.iter().any(|report| matches!(report, Report::Feedback { .. })) {
            let n = sender.recv(&mut datagram).unwrap();
            reports(&datagram[..n], |report| said.push(report)).unwrap();
        }
        drop(release);
    });
    let ended = reception.run((LONG, PATIENCE), None, &mut Held(held), |_| false);
    assert_eq!(ended.unwrap(), Ended::Silent);
    asking.join().unwrap();
}
