//! One end of a pair in shared memory, whose peer writes anything into its pages at any time.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use arbitrary::Arbitrary;
use towpath_io::shared::{
    Bell, Head, Home, Inbound, Kind, Outbound, PairFds, PushError, SLOTS, Segment, View,
};

/// Length of the arenas, in bytes.
const ARENA: usize = 1 << 20;
/// Where records begin in a half, and their size.
const SLOT_ARRAY: u64 = 8192;
const LINE: u64 = 64;
/// Views that are kept at most.
const KEPT: usize = 16;

/// What the peer writes, and what this end does.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    /// The peer writes the next record, which bears the right number; for the rest anything.
    Record([u64; 8]),
    /// The peer writes a word into its half.
    Half(u16, u64),
    /// The peer writes a word into its task segment.
    Segment(u16, u64),
    /// This end takes the next message.
    Take,
    /// This end gives a block back.
    Drop(u8),
    /// This end sends so many bytes.
    Push(u16),
    /// This end sends so many bytes through a block.
    Copy(u16),
    /// This end sees which blocks came back.
    Reclaim,
}

fn copy(fd: impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().expect("a descriptor")
}

fn head(len: usize) -> Head {
    Head { tag: 0, context: 0, seq: 0, format: 0, total: len as u64, offset: 0 }
}

struct End {
    home: Home,
    out: Outbound,
    inbound: Inbound,
    views: Vec<View>,
    /// The pages make no sense, and this end knows.
    corrupt: bool,
}

impl End {
    fn sent(&mut self, sent: Result<(), PushError>) {
        match sent {
            Ok(()) | Err(PushError::Full | PushError::Arena(_)) => {}
            Err(PushError::Corrupt(_)) => self.corrupt = true,
            Err(other) => panic!("{other}"),
        }
        assert!(self.out.outstanding() * 4096 <= self.home.arena().used());
    }

    fn take(&mut self) {
        let Ok(arrival) = self.inbound.peek() else {
            self.corrupt = true;
            return;
        };
        let Some(arrival) = arrival else { return };
        assert!(arrival.head.offset + arrival.len as u64 <= arrival.head.total);
        assert!(arrival.len <= ARENA);
        if arrival.kind == Kind::Short {
            self.inbound.take_short(&mut vec![0; arrival.len]);
            return;
        }
        let view = self.inbound.take_block();
        assert_eq!(view.len(), arrival.len);
        let mut copy = vec![0; view.len().min(8192)];
        let read = view.read(view.len() - copy.len(), &mut copy);
        assert!(read <= copy.len() && view.filled() <= view.len());
        if let Some(bytes) = view.bytes() {
            assert_eq!(bytes.len(), arrival.len);
        }
        self.views.push(view);
        self.views.truncate(KEPT);
    }
}

/// Does all steps, or those until this end finds that the pages make no sense.
pub fn run(steps: &[Step]) {
    let bells = [0, 1].map(|_| Bell::new().expect("a bell"));
    let tasks = [0, 1].map(|_| Segment::task(ARENA).expect("a segment"));
    let halves = [0, 1].map(|_| Segment::half().expect("a half"));
    let home = Home::open(copy(&tasks[0].owner)).expect("own segment");
    let fds = PairFds {
        own_half: copy(&halves[0].owner),
        peer_half: copy(&halves[1].peers),
        peer_segment: copy(&tasks[1].peers),
        peer_bell: copy(&bells[1]),
    };
    let (out, inbound, _) = home.pair(fds).expect("a pair");
    let [half, segment] = [&halves[1].owner, &tasks[1].owner].map(|fd| File::from(copy(fd)));
    let mut end = End { home, out, inbound, views: Vec::new(), corrupt: false };
    let mut records = 0_u64;
    for step in steps {
        match *step {
            Step::Record(mut words) => {
                records += 1;
                words[0] = words[0] & !u64::from(u32::MAX) | records;
                let bytes = words.map(u64::to_le_bytes);
                let at = SLOT_ARRAY + (records - 1) % SLOTS as u64 * LINE;
                half.write_all_at(bytes.as_flattened(), at).expect("within the half");
            }
            // The stamp was read when the pages were mapped, and never again.
            Step::Half(at, word) => {
                half.write_all_at(&word.to_le_bytes(), u64::from(at) % 49_000).expect("within");
            }
            Step::Segment(at, word) => {
                segment.write_all_at(&word.to_le_bytes(), at.into()).expect("within");
            }
            Step::Take => end.take(),
            Step::Drop(which) if !end.views.is_empty() => {
                let which = usize::from(which) % end.views.len();
                end.views.swap_remove(which);
            }
            Step::Drop(_) => {}
            Step::Push(len) => {
                let data = vec![1; usize::from(len) % 4097];
                let sent = end.out.push(&head(data.len()), &data);
                end.sent(sent);
            }
            Step::Copy(len) => {
                let data = vec![1; usize::from(len) + 1];
                let sent = end.out.push_copy(&head(data.len()), &data);
                end.sent(sent);
            }
            Step::Reclaim => end.corrupt |= end.out.reclaim().is_err(),
        }
        if end.corrupt {
            break;
        }
    }
    let End { home, out, .. } = end;
    drop(out);
    assert_eq!(home.arena().used(), 0, "a peer that is gone holds nothing");
}

/// A step as `arbitrary` reads it: one more, which variant, its fields.
fn seed(variant: u64, fields: &[u8]) -> Vec<u8> {
    let variants = 8;
    let variant = ((variant << 32).div_ceil(variants) as u32).to_le_bytes();
    [&[1][..], &variant, fields].concat()
}

fn record_seed(kind: u64, small: u64, words: [u64; 4]) -> Vec<u8> {
    let [total, offset, place, len] = words;
    let words = [kind << 32 | small << 48, 7, 9, total, offset, place, len, 0];
    seed(0, words.map(u64::to_le_bytes).as_flattened())
}

fn half_seed(at: u16, word: u64) -> Vec<u8> {
    seed(1, &[&at.to_le_bytes()[..], &word.to_le_bytes()].concat())
}

/// Records of each kind, good and bad, taken one by one; blocks sent and given back.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (take, give, reclaim) = (seed(3, &[]), seed(4, &[0]), seed(7, &[]));
    let push = |len: u16| seed(5, &len.to_le_bytes());
    let copy = |len: u16| seed(6, &len.to_le_bytes());
    let records = [
        record_seed(1, 16, [5, 6, 0, 0]),
        record_seed(2, 0, [100, 50, 64 | 50 << 32, 0]),
        record_seed(3, 3, [9000, 0, 2, 9000]),
        record_seed(4, 4, [1 << 20, 0, 0, 1 << 20]),
        record_seed(1, 41, [0; 4]),
        record_seed(2, 0, [9, 0, 32_760 | 9 << 32, 0]),
    ];
    let taken: Vec<u8> = records.into_iter().flat_map(|r| [r, take.clone()].concat()).collect();
    let back = half_seed(4096, 1 << 32);
    let blocks = [copy(4000), copy(60_000), back.clone(), reclaim.clone(), push(4000)];
    let twice = [copy(1), back, half_seed(4104, 2 << 32), reclaim];
    vec![
        ("records", [taken, give].concat()),
        ("blocks", blocks.concat()),
        ("given_back_twice", twice.concat()),
        ("taken_too_much", [push(9), half_seed(64, 2), push(4096)].concat()),
    ]
}
