//! Any datagram parses or fails; what parses is emitted again as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::emit;
use towpath_wire::Packet;

fuzz_target!(|datagram: &[u8]| {
    let Ok(packet) = Packet::parse(datagram) else { return };
    let again = emit::packet(&packet, datagram);
    assert_eq!(Packet::parse(&again), Ok(packet));
});
