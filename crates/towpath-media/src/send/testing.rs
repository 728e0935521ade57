//! Transport streams made for tests.

use alloc::vec;
use alloc::vec::Vec;

use crate::pace::PCR_WRAP;
use crate::read::PACKET;

/// A packet that tells nothing but its number in its last bytes.
pub(crate) fn plain(pid: u16, number: u32) -> [u8; PACKET] {
    let mut packet = [0xA5; PACKET];
    packet[0] = 0x47;
    packet[1..3].copy_from_slice(&pid.to_be_bytes());
    packet[3] = 0x10 | (number & 15) as u8;
    packet[PACKET - 4..].copy_from_slice(&number.to_be_bytes());
    packet
}

/// A packet with a clock reference.
pub(crate) fn clocked(pid: u16, number: u32, ticks: u64, announced: bool) -> [u8; PACKET] {
    let ticks = ticks % PCR_WRAP;
    let (base, extension) = (ticks / 300, ticks % 300);
    let mut packet = plain(pid, number);
    packet[3] |= 0x20;
    packet[4] = 7;
    packet[5] = 0x10 | if announced { 0x80 } else { 0 };
    packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
    packet[10] = ((base & 1) << 7) as u8 | 0x7E | (extension >> 8) as u8;
    packet[11] = extension as u8;
    packet
}

/// A stream of groups: `(reference, packets from it on)`.
pub(crate) fn stream(groups: &[(u64, usize)]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut number = 0;
    for &(ticks, packets) in groups {
        for k in 0..packets {
            let packet =
                if k == 0 { clocked(256, number, ticks, false) } else { plain(256, number) };
            bytes.extend_from_slice(&packet);
            number += 1;
        }
    }
    bytes
}
