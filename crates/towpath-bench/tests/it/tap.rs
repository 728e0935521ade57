//! Taps between network namespaces: that what is said of a link is what its hosts see. How late
//! the machine is at the moment decides how exact that is; nothing here asks for less than a
//! busy one keeps.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use towpath_bench::tap::{Bed, Direction, Script, Setting, Ways};
use towpath_skip::skip;

/// Two hosts, or the test says that it did not run.
fn bed() -> Option<Bed> {
    let tunnel = std::path::Path::new("/dev/net/tun").exists();
    match Bed::new(&["a", "b"]) {
        Ok(bed) if tunnel => Some(bed),
        Ok(_) => {
            skip("no /dev/net/tun here");
            None
        }
        Err(e) => {
            skip(&format!("no network namespaces here: {e:#}"));
            None
        }
    }
}

fn socket(bed: &Bed, host: &str, link: usize) -> UdpSocket {
    let address = SocketAddr::new(bed.address(link, host).unwrap(), 0);
    let socket = bed.on(host, || Ok(UdpSocket::bind(address)?)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Sends one datagram and waits for it; how long it took.
fn trip(from: &UdpSocket, to: &UdpSocket) -> Option<Duration> {
    let begun = Instant::now();
    from.send_to(&[7; 100], to.local_addr().unwrap()).unwrap();
    loop {
        // With a time limit, any signal to another test of this process ends the call.
        return match to.recv(&mut [0; 200]) {
            Ok(100) => Some(begun.elapsed()),
            Ok(len) => panic!("{len} bytes"),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == ErrorKind::WouldBlock => None,
            Err(e) => panic!("{e}"),
        };
    }
}

#[test]
fn two_hosts_with_two_links_of_which_one_dies_silently_and_returns() {
    let Some(mut bed) = bed() else { return };
    let slow = Script::parse("[link.there]\ndelay_us = 30_000\n[link.back]\ndelay_us = 1000");
    let links = [
        bed.link("a", "b", &slow.unwrap()).unwrap(),
        bed.link("a", "b", &Script::default()).unwrap(),
    ];
    let [first, second] = links.map(|link| ["a", "b"].map(|host| socket(&bed, host, link)));
    assert!(trip(&first[0], &first[1]).unwrap() >= Duration::from_millis(30));
    assert!(trip(&second[0], &second[1]).is_some());
    // Each datagram took the tap of its link.
    let passed = |link| bed.tap(links[link]).read().unwrap().there.device.udp_frames;
    assert_eq!((passed(0), passed(1)), (1, 1));
    bed.tap(links[1]).kill().unwrap();
    second[1].set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(trip(&second[0], &second[1]), None);
    assert!(trip(&first[1], &first[0]).is_some());
    let reading = bed.tap(links[1]).read().unwrap();
    assert_eq!((reading.there.stats.cut, reading.failed()), (1, 0));
    bed.tap(links[1]).revive().unwrap();
    second[1].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(trip(&second[0], &second[1]).is_some());
}

#[test]
fn a_rate_is_kept_and_what_is_too_much_is_counted() {
    let Some(mut bed) = bed() else { return };
    // 1000 datagrams of 1028 bytes at 8 Mbit/s take 1028 ms; no queue holds them all.
    let script = "[link.there]\nrate_bps = 8_000_000\nqueue_bytes = 200_000";
    let link = bed.link("a", "b", &Script::parse(script).unwrap()).unwrap();
    let [a, b] = ["a", "b"].map(|host| socket(&bed, host, link));
    let to = b.local_addr().unwrap();
    let counter = std::thread::spawn(move || {
        b.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        std::iter::repeat_with(|| b.recv(&mut [0; 2000])).take_while(Result::is_ok).count() as u64
    });
    let begun = Instant::now();
    for _ in 0..1000 {
        a.send_to(&[1; 1000], to).unwrap();
    }
    let came = counter.join().unwrap();
    let reading = bed.tap(link).read().unwrap();
    let stats = reading.there.stats;
    assert_eq!(stats.frames_in, stats.frames_out + stats.overflowed, "{stats:?}");
    assert!(stats.overflowed > 0 && came <= stats.frames_out, "{came} of {stats:?}");
    // A queue of a fifth of a second, and what the rate passes meanwhile.
    let most = 195 + (begun.elapsed().as_micros() * 8 / 8224) as u64;
    assert!(stats.frames_out <= most, "{stats:?}");
    assert!(reading.lateness.samples >= stats.frames_out, "{reading:?}");
}

#[test]
fn the_same_datagrams_are_lost_in_every_run() {
    let Some(mut bed) = bed() else { return };
    let script = Script::parse("seed = 9\n[link.there]\nloss_ppm = 300_000").unwrap();
    let link = bed.link("a", "b", &script).unwrap();
    let [a, b] = ["a", "b"].map(|host| socket(&bed, host, link));
    b.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut runs = Vec::new();
    for _ in 0..2 {
        bed.tap(link).restart(&script).unwrap();
        for n in 0..100u8 {
            a.send_to(&[n], b.local_addr().unwrap()).unwrap();
        }
        let mut byte = [0];
        let came: Vec<u8> =
            std::iter::from_fn(|| b.recv(&mut byte).ok().map(|_| byte[0])).collect();
        assert_eq!(bed.tap(link).read().unwrap().there.stats.lost, 100 - came.len() as u64);
        assert!((40..95).contains(&came.len()), "{came:?}");
        runs.push(came);
    }
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn a_script_kills_one_direction_at_its_time() {
    let Some(mut bed) = bed() else { return };
    let script = "[[change]]\nat_ms = 300\nlink = 'back'\nup = false";
    let link = bed.link("a", "b", &Script::parse(script).unwrap()).unwrap();
    let [a, b] = ["a", "b"].map(|host| socket(&bed, host, link));
    a.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let begun = Instant::now();
    while trip(&b, &a).is_some() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not dead");
    }
    assert_eq!(trip(&b, &a), None);
    assert!(trip(&a, &b).is_some());
    let reading = bed.tap(link).read().unwrap();
    assert_eq!((reading.changes_left, reading.way(Direction::Back).stats.cut), (0, 2));
}

#[test]
fn a_change_from_outside_has_happened_when_the_call_is_back() {
    let Some(mut bed) = bed() else { return };
    let link = bed.link("a", "b", &Script::default()).unwrap();
    let tap = bed.tap(link);
    tap.change(Ways::One(Direction::There), &[Setting::Number("delay_us", 50_000)]).unwrap();
    let [a, b] = ["a", "b"].map(|host| socket(&bed, host, link));
    assert!(trip(&a, &b).unwrap() >= Duration::from_millis(50));
    assert_eq!(tap.read().unwrap().back.state.link.delay_us, 0);
    bed.plug(link, "b", false).unwrap();
    b.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(trip(&a, &b), None);
}
