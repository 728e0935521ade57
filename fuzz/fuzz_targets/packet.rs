//! Any datagram parses or fails, and is shown on one line; what parses is emitted again as the
//! same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::emit;
use towpath_wire::Packet;
use towpath_wire::show::Shown;

fuzz_target!(|datagram: &[u8]| {
    for clear in [false, true] {
        let line = Shown { datagram, clear }.to_string();
        assert!(!line.is_empty() && line.chars().all(|c| !c.is_control()), "{line:?}");
    }
    let Ok(packet) = Packet::parse(datagram) else { return };
    let again = emit::packet(&packet, datagram);
    assert_eq!(Packet::parse(&again), Ok(packet));
});
