//! The header and the adaptation field of a transport packet (§2.4.3.2, §2.4.3.4).

/// Bytes of a packet.
pub(crate) const PACKET: usize = 188;
/// First byte of each packet.
pub(crate) const SYNC: u8 = 0x47;
/// PID of packets that only fill the rate.
pub(crate) const NULL_PID: u16 = 0x1FFF;

/// A view of a packet. The byte map: sync 8, error 1, start 1, priority 1, PID 13, scrambling 2,
/// adaptation field 1, payload 1, continuity 4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) bytes: &'a [u8; PACKET],
}

/// What an adaptation field tells, as far as it is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adaptation {
    pub(crate) discontinuity: bool,
    /// 27 MHz ticks.
    pub(crate) clock: Option<u64>,
    /// The clock's extension is not below 300: no clock.
    pub(crate) bad_clock: bool,
}

impl<'a> Packet<'a> {
    pub(crate) const fn error(self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    pub(crate) const fn starts_unit(self) -> bool {
        self.bytes[1] & 0x40 != 0
    }

    pub(crate) const fn pid(self) -> u16 {
        u16::from_be_bytes([self.bytes[1] & 0x1F, self.bytes[2]])
    }

    pub(crate) const fn scrambled(self) -> bool {
        self.bytes[3] & 0xC0 != 0
    }

    pub(crate) const fn has_adaptation(self) -> bool {
        self.bytes[3] & 0x20 != 0
    }

    pub(crate) const fn has_payload(self) -> bool {
        self.bytes[3] & 0x10 != 0
    }

    pub(crate) const fn continuity(self) -> u8 {
        self.bytes[3] & 0x0F
    }

    /// `None` if the adaptation field is longer than the packet.
    pub(crate) fn payload(self) -> Option<&'a [u8]> {
        let start = if self.has_adaptation() { 5 + usize::from(self.bytes[4]) } else { 4 };
        if self.has_payload() { self.bytes.get(start..) } else { (start <= PACKET).then_some(&[]) }
    }

    pub(crate) fn adaptation(self) -> Adaptation {
        let b = self.bytes;
        if !self.has_adaptation() || b[4] == 0 {
            return Adaptation::default();
        }
        let mut adaptation =
            Adaptation { discontinuity: b[5] & 0x80 != 0, ..Adaptation::default() };
        if b[5] & 0x10 != 0 && b[4] >= 7 {
            let base = u64::from(u32::from_be_bytes([b[6], b[7], b[8], b[9]])) << 1;
            let base = base | u64::from(b[10] >> 7);
            let extension = u64::from(b[10] & 1) << 8 | u64::from(b[11]);
            adaptation.bad_clock = extension >= 300;
            adaptation.clock = (extension < 300).then_some(base * 300 + extension);
        }
        adaptation
    }

    /// A sum over all bytes in their places but those of a clock reference, which a packet that is
    /// sent again may tell anew (§2.4.3.3): packets that differ in a byte differ in it.
    pub(crate) fn print(self) -> u64 {
        let word = |at: usize| {
            let bytes = self.bytes[at..].first_chunk().copied();
            bytes.map_or(0, u64::from_le_bytes)
        };
        let mut sum = word(PACKET - 8);
        for (k, at) in (0..PACKET - 8).step_by(8).enumerate() {
            sum = sum.wrapping_add(word(at).rotate_left(7 * k as u32 + 3));
        }
        if self.has_adaptation() && self.bytes[4] >= 7 && self.bytes[5] & 0x10 != 0 {
            let (first, second) = (word(0) & !0 << 48, word(8) & 0xFFFF_FFFF);
            sum = sum.wrapping_sub(word(0).rotate_left(3)).wrapping_sub(word(8).rotate_left(10));
            sum = sum.wrapping_add((word(0) ^ first).rotate_left(3));
            sum = sum.wrapping_add((word(8) ^ second).rotate_left(10));
        }
        sum
    }
}

/// Byte of a packet that holds the last bit of its clock's base.
pub(crate) const CLOCK_BYTE: u64 = 10;
