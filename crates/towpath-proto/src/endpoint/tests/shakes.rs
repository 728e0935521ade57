//! Handshakes of which something goes wrong, cookies, and how late a host is.

use towpath_wire::Packet;

use super::super::cookie::{CookieJar, cookie_key};
use super::*;
use crate::config::Handshakes;

/// [`Open`], but what is random comes once.
struct Dice(u8);

impl Crypto for Dice {
    fn public_key(&self) -> HostKey {
        HostKey([0; 32])
    }
    fn initiate(&mut self, _: &HostKey, _: &Psk, _: &[u8]) -> Box<dyn Handshake> {
        unreachable!("cookies need no handshake")
    }
    fn respond(&mut self, _: &[u8]) -> Box<dyn Handshake> {
        unreachable!("cookies need no handshake")
    }
    fn packet_key(&self, _: &[u8; 32]) -> Box<dyn PacketKey> {
        unreachable!("nothing is sealed")
    }
    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        Open(0).mac(key, data)
    }
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        Open(0).derive(secret, label)
    }
    fn random(&mut self) -> [u8; 32] {
        self.0 += 1;
        [self.0; 32]
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

#[test]
fn a_jar_is_busy_beyond_so_many_a_second() {
    let mut jar = CookieJar::new(&mut Dice(0));
    let mut busy = |ms| jar.busy(at(ms), 3);
    assert_eq!([busy(1000), busy(1400), busy(1998), busy(1999)], [false, false, false, true]);
    assert_eq!([busy(2000), busy(2000), busy(2999), busy(2999)], [false, false, false, true]);
    assert!(jar.busy(at(9000), 0), "none is welcome without");
}

#[test]
fn a_cookie_is_of_one_address_and_good_for_a_minute_or_two() {
    let mut crypto = Dice(0);
    let mut jar = CookieJar::new(&mut crypto);
    let (one, other) = (([10, 0, 0, 1], 7077).into(), ([10, 0, 0, 1], 7078).into());
    let six: ::core::net::SocketAddr = "[2001:db8::1]:7077".parse().expect("an address");
    let cookie = jar.bake(at(1), one, &mut crypto);
    assert_eq!(jar.bake(at(59_999), one, &mut crypto), cookie, "within a minute");
    let [b, c] = [other, six].map(|remote| jar.bake(at(2), remote, &mut crypto));
    assert!(cookie != b && cookie != c && b != c);
    let mac2 = crypto.mac(&cookie_key(&cookie), b"covered");
    let proves = |jar: &CookieJar, remote| jar.proves(remote, b"covered", &mac2, &Dice(0));
    assert!(proves(&jar, one) && !proves(&jar, other) && !proves(&jar, six));
    assert!(!jar.proves(one, b"other words", &mac2, &Dice(0)));
    assert_ne!(jar.bake(at(60_000), one, &mut crypto), cookie);
    assert!(proves(&jar, one), "the one before is good still");
    jar.bake(at(119_999), one, &mut crypto);
    assert!(proves(&jar, one));
    jar.bake(at(120_000), one, &mut crypto);
    assert!(!proves(&jar, one));
}

#[test]
fn who_proved_an_address_is_read_so_often_and_no_network_keeps_the_others_out() {
    let mut proved = crate::endpoint::cookie::Proved::default();
    let of = |n: u8| ::core::net::IpAddr::from([10, 0, 0, n]);
    // 100 in a tenth of a second, 25 of them of one network.
    let mut takes = |ms, n| (0..60).filter(|_| proved.takes(at(ms), of(n), 1000)).count();
    assert_eq!([takes(1000, 1), takes(1050, 1), takes(1099, 2)], [25, 0, 25]);
    assert_eq!([takes(1099, 3), takes(1099, 4), takes(1099, 5)], [25, 25, 0]);
    assert_eq!([takes(1100, 1), takes(1100, 5)], [25, 25]);
    // However few: one in each span.
    assert!(proved.takes(at(9000), of(1), 0) && !proved.takes(at(9000), of(2), 0));
}

fn connected(net: &Net, n: usize) -> bool {
    net.events[n].iter().any(|e| matches!(e, EndpointEvent::Connected { .. }))
}

#[test]
fn whoever_is_asked_for_a_cookie_comes_again_with_it() {
    for (per_s, asked) in [(0, true), (1, false)] {
        let handshakes = Handshakes { per_s, ..Handshakes::default() };
        let mut net = Net::new(&Config { handshakes, ..Config::default() });
        net.connect(b"hello").expect("a place");
        net.transmit(0);
        for (n, link, datagram) in ::core::mem::take(&mut net.coming) {
            net.arrive(n, link, &datagram);
        }
        net.transmit(1);
        let (_, _, answer) = net.coming.front().cloned().unwrap_or((0, LINK, vec![]));
        let cookie = matches!(Packet::parse(&answer), Ok(Packet::Cookie(_)));
        assert_eq!(cookie, asked, "{per_s} a second without");
        net.run(3000);
        assert!(connected(&net, 0) && connected(&net, 1));
        assert_eq!(net.ends[1].0.half_open(), 0);
    }
}

#[test]
fn a_handshake_that_nobody_answers_is_repeated_and_given_up_in_time() {
    let mut net = Net::new(&Config::default());
    net.cut = Some(LINK);
    let id = net.connect(b"hello").expect("a place");
    net.run(4900);
    let failed = |net: &Net| {
        net.events[0]
            .iter()
            .any(|e| matches!(e, EndpointEvent::ConnectFailed { id: of, .. } if *of == id))
    };
    assert!(!failed(&net) && net.taken[0] > 2, "{} times", net.taken[0]);
    net.run(1200);
    assert!(failed(&net) && !connected(&net, 0));
    assert_eq!(net.ends[0].0.associations().count(), 0);
    // Its place is free, and the next one is heard.
    net.cut = None;
    net.connect(b"again").expect("a place");
    net.run(50);
    assert!(connected(&net, 0) && connected(&net, 1));
}

#[test]
fn there_are_so_many_associations_and_no_more() {
    let mut net = Net::new(&Config { associations_max: 2, ..Config::default() });
    net.cut = Some(LINK);
    assert!(net.connect(b"").is_ok());
    let other = |net: &mut Net, n: u8| {
        let connect = Connect {
            link: LINK,
            remote: addr(1),
            key: HostKey([n; 32]),
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello: b"",
        };
        net.ends[0].0.connect(net.now, &connect).is_ok()
    };
    assert!(other(&mut net, 2));
    assert!(!other(&mut net, 3), "two at most");
    net.run(6500);
    assert!(other(&mut net, 3), "the others were given up");
}

#[test]
fn lateness_is_averaged_over_sixteen_times_and_one_long_sleep_says_little() {
    let mut net = Net::new(&Config::default());
    let endpoint = &mut net.ends[0].0;
    assert_eq!(endpoint.lag(), Duration::ZERO);
    let ms = Duration::from_millis;
    endpoint.note_lag(ms(160));
    assert_eq!(endpoint.lag(), ms(10));
    endpoint.note_lag(ms(0));
    assert_eq!(endpoint.lag(), ms(10) * 15 / 16);
    (0..200).for_each(|_| endpoint.note_lag(ms(32)));
    assert!(endpoint.lag() > ms(31) && endpoint.lag() <= ms(32), "{:?}", endpoint.lag());
    (0..400).for_each(|_| endpoint.note_lag(ms(0)));
    assert!(endpoint.lag() < ms(1));
    let before = endpoint.lag();
    endpoint.note_lag(Duration::from_hours(1));
    assert!(endpoint.lag() <= before + ms(1000) / 16, "half of `silent_after` at most");
    assert!(endpoint.lag() > ms(60));
}
