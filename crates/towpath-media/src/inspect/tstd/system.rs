//! The buffers of a program's tables: association, access and map go through one TB and one Bsys.

use super::model::Packet;
use super::server::TransportBuffer;
use crate::inspect::report::{BufferReport, FillReport};
use crate::read::CLOCK_HZ;

/// Leak of the transport buffer, bit/s (§2.4.2.3).
const LEAK_BPS: u64 = 1_000_000;
/// Size of Bsys, bytes.
const MAIN_BYTES: u64 = 1536;
/// Least rate at which Bsys is emptied, bit/s (equation 2-7).
const RATE_MIN_BPS: u64 = 80_000;
/// The same as a part of the transport rate.
const RATE_PART: u64 = 500;

/// Buffers of one program's tables.
#[derive(Debug)]
pub(in crate::inspect) struct System {
    map_pid: u16,
    transport: TransportBuffer,
    main: FillReport,
    /// Bytes in Bsys, 16 bits behind the point, at a time.
    held: u64,
    held_at: u64,
}

impl System {
    pub(in crate::inspect) fn new(map_pid: u16) -> Self {
        Self {
            map_pid,
            transport: TransportBuffer::new(LEAK_BPS),
            main: FillReport::new(MAIN_BYTES),
            held: 0,
            held_at: 0,
        }
    }

    pub(in crate::inspect) const fn map_pid(&self) -> u16 {
        self.map_pid
    }

    /// A packet arrives in a stream of so many bit/s.
    pub(in crate::inspect) fn packet(&mut self, at: u64, packet: &Packet, transport_bps: u64) {
        let out = self.transport.packet(at, packet.offset);
        let rate_bps = (transport_bps / RATE_PART).max(RATE_MIN_BPS);
        let ticks = out.saturating_sub(self.held_at);
        let gone = ((u128::from(ticks) * u128::from(rate_bps)) << 16) / u128::from(8 * CLOCK_HZ);
        self.held = self.held.saturating_sub(u64::try_from(gone).unwrap_or(u64::MAX));
        self.held += u64::from(packet.carried) << 16;
        self.held_at = out;
        self.main.note(self.held.div_ceil(1 << 16), packet.offset);
    }

    pub(in crate::inspect) const fn restart(&mut self) {
        self.transport.restart();
        (self.held, self.held_at) = (0, 0);
    }

    pub(in crate::inspect) fn report(self) -> BufferReport {
        let (fill, series) = self.transport.report();
        let report = BufferReport::new(self.map_pid, LEAK_BPS, fill, series);
        BufferReport { main: Some(self.main), ..report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Packet = Packet { offset: 0, payload: 0, carried: 184 };

    /// At 1 Mbit/s a packet takes 40 608 ticks through `TBsys`; in between 80 kbit/s take 15.04
    /// bytes out of Bsys.
    #[test]
    fn tables_in_a_heap_fill_bsys() {
        let mut system = System::new(256);
        system.packet(0, &PACKET, 10_000_000);
        system.packet(0, &PACKET, 10_000_000);
        let report = system.report();
        assert_eq!((report.transport.max_bytes, report.transport.overflows), (376, 0));
        // 184 + 184 − 15.04.
        assert_eq!(report.main.map(|main| main.max_bytes), Some(353));
        let mut system = System::new(256);
        for _ in 0..9 {
            system.packet(0, &PACKET, 10_000_000);
        }
        let report = system.report();
        // 2 · 188, 3 · 188 > 512, …; 9 · 184 − 8 · 15.04 = 1535.68.
        assert_eq!(report.transport.overflows, 7);
        assert_eq!(report.main.map(|main| (main.max_bytes, main.overflows)), Some((1536, 0)));
    }

    /// 100 Mbit/s: 200 kbit/s take 37.6 bytes out between packets.
    #[test]
    fn a_fast_stream_empties_bsys_faster() {
        let mut system = System::new(256);
        system.packet(0, &PACKET, 100_000_000);
        system.packet(0, &PACKET, 100_000_000);
        assert_eq!(system.report().main.map(|main| main.max_bytes), Some(331));
    }
}
