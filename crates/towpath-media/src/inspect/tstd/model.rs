//! The buffers of one stream.

use super::delay::Delay;
use super::leak::Leak;
use super::server::TransportBuffer;
use crate::inspect::levels::{Behind, Buffers, Transfer};
use crate::inspect::report::{BufferReport, FillReport, Series};
use crate::read::CLOCK_HZ;

/// A packet as the model needs it.
#[derive(Clone, Copy, Debug)]
pub(in crate::inspect) struct Packet {
    /// Byte of the file.
    pub(in crate::inspect) offset: u64,
    /// Bytes of the elementary stream.
    pub(in crate::inspect) payload: u8,
    /// These with PES headers; all bytes of tables.
    pub(in crate::inspect) carried: u8,
}

/// A frame: bytes of the stream, and when it is decoded.
#[derive(Clone, Copy, Debug)]
pub(in crate::inspect) struct Unit {
    pub(in crate::inspect) start: u64,
    pub(in crate::inspect) end: u64,
    /// Decoding instant on the time axis, 27 MHz.
    pub(in crate::inspect) at: u64,
    /// Byte of the file near its end.
    pub(in crate::inspect) offset: u64,
    /// 90 kHz.
    pub(in crate::inspect) vbv_delay: Option<u16>,
    /// With it: bytes up to the end of the picture start code.
    pub(in crate::inspect) head: u32,
}

/// Buffers of one PID.
#[derive(Debug)]
pub(in crate::inspect) struct Model {
    pid: u16,
    buffers: Buffers,
    transport: TransportBuffer,
    behind: Next,
    /// Bytes of the stream so far.
    bytes: u64,
}

/// What lies behind the transport buffer.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all have something behind it")]
enum Next {
    /// Nothing is known of it.
    Unknown,
    Leak(Leak),
    Delay(Delay),
}

impl Next {
    fn new(buffers: Buffers) -> Self {
        match buffers.behind {
            None => Self::Unknown,
            Some(Behind::Sound { main }) => Self::Leak(Leak::sound(buffers.leak_bps, main)),
            Some(Behind::Video { transfer, multiplex, elementary }) => match transfer {
                Transfer::Leak(bps) => Self::Leak(Leak::video(bps, multiplex, elementary)),
                Transfer::VbvDelay => Self::Delay(Delay::new(multiplex, elementary)),
            },
        }
    }
}

impl Model {
    /// `bytes`: of the stream before the model starts.
    pub(in crate::inspect) fn new(pid: u16, buffers: Buffers, bytes: u64) -> Self {
        let transport = TransportBuffer::new(buffers.leak_bps);
        Self { pid, buffers, transport, behind: Next::new(buffers), bytes }
    }

    /// The stream told more of itself. What was judged by what it told before stays.
    pub(in crate::inspect) fn learn(&mut self, buffers: Buffers) {
        let judged = match &self.behind {
            Next::Unknown => false,
            Next::Leak(leak) => leak.frames() > 0,
            Next::Delay(delay) => delay.frames() > 0,
        };
        if buffers != self.buffers && !judged {
            *self = Self::new(self.pid, buffers, self.bytes);
        }
    }

    pub(in crate::inspect) fn packet(&mut self, at: u64, packet: &Packet) {
        let out = self.transport.packet(at, packet.offset);
        let before = self.bytes;
        self.bytes += u64::from(packet.payload);
        match &mut self.behind {
            Next::Unknown => {}
            Next::Leak(leak) => {
                leak.take_until(at, before);
                leak.arrive(out, packet, self.bytes);
            }
            Next::Delay(delay) => delay.arrive(out, packet, self.bytes),
        }
    }

    /// A frame ended.
    pub(in crate::inspect) fn frame(&mut self, unit: Unit) {
        match &mut self.behind {
            Next::Unknown => {}
            Next::Leak(leak) => leak.frame(unit, self.bytes),
            Next::Delay(delay) => delay.frame(unit),
        }
    }

    /// The time base changed: what waits is forgotten.
    pub(in crate::inspect) fn restart(&mut self) {
        self.transport.restart();
        match &mut self.behind {
            Next::Unknown => {}
            Next::Leak(leak) => leak.restart(),
            Next::Delay(delay) => delay.restart(),
        }
    }

    pub(in crate::inspect) fn report(self) -> BufferReport {
        let (fill, series) = self.transport.report();
        let mut report = BufferReport::new(self.pid, self.buffers.leak_bps, fill, series);
        match self.behind {
            Next::Unknown => {}
            Next::Leak(leak) => leak.report(self.bytes, &mut report),
            Next::Delay(delay) => delay.report(&mut report),
        }
        report
    }
}

impl BufferReport {
    /// Of a transport buffer with nothing known behind it.
    pub(super) fn new(
        pid: u16,
        leak_bps: u64,
        transport: FillReport,
        transport_series: Series,
    ) -> Self {
        Self {
            pid,
            transport,
            leak_bps,
            multiplex: None,
            elementary: None,
            main: None,
            underflows: 0,
            late_max_ticks: 0,
            underflow_offsets: alloc::vec::Vec::new(),
            starved: 0,
            frames: 0,
            delay_max_ticks: 0,
            transport_series,
            elementary_series: Series::new(CLOCK_HZ / 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = CLOCK_HZ;

    fn packet(payload: u8, carried: u8) -> Packet {
        Packet { offset: 0, payload, carried }
    }

    fn unit(start: u64, end: u64, at: u64) -> Unit {
        Unit { start, end, at, offset: 0, vbv_delay: None, head: 0 }
    }

    /// At 2 Mbit/s a byte takes 108 ticks. Three frames of 170, 184 and 170 bytes, each in a packet
    /// of its own, the first and the last behind a PES header of 14 bytes; all wait for a second.
    fn sound(main: u64) -> Model {
        let buffers = Buffers { leak_bps: 2_000_000, behind: Some(Behind::Sound { main }) };
        let mut model = Model::new(256, buffers, 0);
        let frames = [(0, 170, 184), (170, 354, 184), (354, 524, 184)];
        for (k, (start, end, carried)) in (0..).zip(frames) {
            model.packet(k * 188 * 108, &packet((end - start) as u8, carried));
            model.frame(unit(start, end, SECOND + k));
        }
        model
    }

    #[test]
    fn sound_waits_in_its_main_buffer() {
        let report = sound(3584).report();
        // The header before the first frame came before the buffer began to count.
        let main = report.main.expect("sound has one");
        assert_eq!((main.max_bytes, main.overflows), (524 + 14, 0));
        assert_eq!((report.frames, report.underflows), (3, 0));
        assert_eq!(report.delay_max_ticks, SECOND - 188 * 108);
        // When the second frame is taken 354 + 14 bytes are there: only the first is too much.
        assert_eq!(sound(500).report().main.map(|main| main.overflows), Some(1));
    }

    #[test]
    fn sound_that_comes_after_its_instant_is_late() {
        let mut model = sound(3584);
        model.packet(2 * SECOND, &packet(184, 184));
        model.frame(unit(524, 708, 2 * SECOND));
        let report = model.report();
        assert_eq!((report.frames, report.underflows), (4, 1));
        assert_eq!(report.late_max_ticks, 188 * 108);
    }

    /// Pictures end at bytes 1000, 1500, 1800 and 1980, each with a start code 10 bytes after its
    /// start, 10 ms apart, the first decoded at tick 450 000; `vbv_delay` 1200, which is 360 000
    /// ticks. So start codes pass at ticks 90 000, 360 000, 630 000 and 900 000 up to bytes 10,
    /// 1010, 1510 and 1810. Packets of 180 bytes come 9000 ticks apart from `first` on, and need
    /// 188 ticks through TB.
    fn pictures(first: u64) -> BufferReport {
        let behind =
            Behind::Video { transfer: Transfer::VbvDelay, multiplex: 1969, elementary: 1176 };
        let buffers = Buffers { leak_bps: 8 * CLOCK_HZ, behind: Some(behind) };
        let mut model = Model::new(256, buffers, 0);
        for k in 0..11 {
            model.packet(first + k * 9000, &packet(180, 180));
        }
        let ends = [0, 1000, 1500, 1800, 1980];
        for (k, pair) in (0..).zip(ends.windows(2)) {
            let at = 450_000 + k * 270_000;
            let frame = unit(pair[0], pair[1], at);
            model.frame(Unit { vbv_delay: Some(1200), head: 10, ..frame });
        }
        model.packet(2 * SECOND, &packet(0, 0));
        model.report()
    }

    #[test]
    fn pictures_pass_on_as_their_vbv_delay_tells() {
        let report = pictures(0);
        // Ten packets are there before the first start code passes: 1800 − 10. The eleventh comes
        // 188 ticks behind it, before another byte has passed (one in 270 ticks): 1980 − 10.
        let multiplex = report.multiplex.expect("video has one");
        assert_eq!((multiplex.max_bytes, multiplex.overflows), (1970, 1));
        // At tick 450 000, a third of the way from byte 1010 to 1510: 1010 + 166 bytes.
        // At tick 720 000, a third of the way from 1510 to 1810, without the first picture: 610.
        let elementary = report.elementary.expect("video has one");
        assert_eq!((elementary.max_bytes, elementary.overflows), (1176, 0));
        // The third is decoded behind the last start code that passed.
        assert_eq!((report.frames, report.underflows, report.starved), (2, 0, 0));
        // Byte 1500 passes 490 · 540 ticks after 360 000, and stays until 720 000.
        assert_eq!(report.delay_max_ticks, 720_000 - 360_000 - 490 * 540);
    }

    #[test]
    fn pictures_that_come_after_they_should_have_passed() {
        let report = pictures(700_000);
        // Bytes 10, 1010 and 1510 come at 700 188, 745 188 and 772 188, 1810 in time.
        assert_eq!((report.frames, report.underflows, report.starved), (2, 2, 3));
        // Byte 1000 comes with 1010, due at 450 000.
        assert_eq!(report.late_max_ticks, 745_188 - 450_000);
    }
}
