//! A transport stream of numbered frames: what is needed to see which of them arrive.

/// Bytes of a packet.
pub(super) const PACKET: usize = 188;
const PID: u16 = 256;

/// Frames of a rhythm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// Frames in a second.
    pub frames_per_s: u32,
    /// Packets of each frame of a group; the first of a group needs no other, and every other
    /// needs those before it in its group that others need.
    pub packets: Vec<u16>,
    /// Which frames of a group others need.
    pub needed: Vec<bool>,
}

impl Clip {
    /// Motion JPEG of the third source: 18 frames a second of 10 KB, each by itself.
    pub fn mjpeg() -> Self {
        Self { frames_per_s: 18, packets: vec![54], needed: vec![false] }
    }

    /// MPEG-1 of the third source: 9 frames a second in groups of I, P and B.
    pub fn mpeg1() -> Self {
        Self { frames_per_s: 9, packets: vec![88, 44, 22], needed: vec![true, true, false] }
    }

    /// The frame's packets.
    pub(super) fn packets_of(&self, frame: u32) -> usize {
        usize::from(self.packets[frame as usize % self.packets.len()])
    }

    /// Mean bytes of a frame.
    pub fn frame_bytes(&self) -> f64 {
        let packets: usize = self.packets.iter().map(|p| usize::from(*p)).sum();
        (packets * PACKET) as f64 / self.packets.len() as f64
    }

    /// The bytes of a frame: its number stands behind the clock reference of its first packet.
    pub(super) fn frame(&self, frame: u32) -> Vec<u8> {
        let packets = self.packets_of(frame);
        let mut bytes = vec![0xFF; packets * PACKET];
        let ticks = u64::from(frame) * 27_000_000 / u64::from(self.frames_per_s);
        let (base, extension) = (ticks / 300 % (1 << 33), ticks % 300);
        for (k, packet) in bytes.chunks_exact_mut(PACKET).enumerate() {
            packet[0] = 0x47;
            packet[1..3].copy_from_slice(&PID.to_be_bytes());
            packet[3] = 0x10;
            if k == 0 {
                packet[3] |= 0x20;
                packet[4..6].copy_from_slice(&[7, 0x10]);
                packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
                packet[10] = ((base & 1) << 7) as u8 | 0x7E | (extension >> 8) as u8;
                packet[11] = extension as u8;
                packet[12..16].copy_from_slice(&frame.to_be_bytes());
            }
        }
        bytes
    }
}

/// The number of the frame that begins with a packet.
pub(super) fn frame_of(packet: &[u8]) -> Option<u32> {
    let begins = packet.len() >= 16 && packet[3] & 0x20 != 0;
    begins.then(|| u32::from_be_bytes([packet[12], packet[13], packet[14], packet[15]]))
}
