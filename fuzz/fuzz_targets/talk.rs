//! What a task may write to its daemon, and a daemon to another about tasks: headers, fronts of
//! frames, control frames, pieces. Any bytes decode or fail, what decodes comes back from its
//! encoding, and what is allocated on the way is bounded by the bytes' length. So for what tasks
//! say to panels and these to them, whose own sides take any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_vm::data::{self, Continued, Multicast};
use towpath_vm::panel::{Board, FromPanel, Parameter, ROOM, Series, ToPanel, Viewed};
use towpath_vm::talk::{ToDaemon, ToTask, decode, encode};
use towpath_wire::HostId;
use towpath_wire::talk::{ChannelFront, FrameHead, Header};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// As in the `message` target.
const FACTOR: usize = 512;
const FLOOR: usize = 2 << 20;

fn control<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(say) = decode::<T>(bytes) {
        assert_eq!(decode::<T>(&encode(&say, Vec::new())), Ok(say));
    }
}

/// Numbers need not be equal to themselves: what was encoded is.
fn panel<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(say) = decode::<T>(bytes) {
        let once = encode(&say, Vec::new());
        let again = decode::<T>(&once).expect("it was encoded");
        assert_eq!(encode(&again, Vec::new()), once);
    }
}

/// A board with a follower, and its view: both take what comes.
fn sides(bytes: &[u8]) {
    let mut board = Board::new();
    board.parameter(Parameter::choice("method", &["tree", "paths"])).expect("within limits");
    board.parameter(Parameter::real("rate", 0.5).between(0.0, 1.0)).expect("within limits");
    board.series(Series::curves("error", &["mean"]).keep(2)).expect("within limits");
    board.show();
    let follower = HostId::new(1, 1).and_then(|host| host.task(1)).expect("in range");
    let (mut view, first) = Viewed::begin(1, ROOM);
    board.handle(follower, &first);
    board.let_in();
    let (_, shown) = board.next_words(|_| true).expect("what there is");
    view.handle(&shown).expect("of this build");
    board.sent(follower);
    for part in bytes.split(|byte| *byte == 0xfe) {
        board.handle(follower, part);
        let _ = view.handle(part);
        for parameter in board.parameters() {
            assert!(parameter.check(parameter.value()).is_ok());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let ((), heap) = allocation::during(|| {
        control::<ToDaemon>(bytes);
        control::<ToTask>(bytes);
        panel::<ToPanel>(bytes);
        panel::<FromPanel>(bytes);
        sides(bytes);
        if let Some(Ok(piece)) = data::parse(bytes) {
            let front = piece.to.front();
            assert_eq!([&front[..], &piece.header.emit(), &bytes[piece.at..]].concat(), bytes);
        }
        if let Some(Ok(continued)) = Continued::parse(bytes) {
            assert_eq!(continued.front(), bytes[..Continued::LEN]);
        }
        if let Ok(Multicast { receivers, header, payload }) = Multicast::parse(bytes) {
            let front = data::front_several(&receivers);
            assert_eq!([&front[2..], header, payload].concat(), bytes);
        }
    });
    assert!(heap <= FACTOR * bytes.len() + FLOOR, "{heap} B for {} B", bytes.len());
    if let Some(Ok(header)) = bytes.first_chunk().map(Header::parse) {
        assert_eq!(Some(&header.emit()), bytes.first_chunk());
    }
    if let Some(Ok(front)) = bytes.first_chunk().map(ChannelFront::parse) {
        assert_eq!(Some(&front.emit()), bytes.first_chunk());
    }
    if let Some(Ok(head)) = bytes.first_chunk().map(FrameHead::parse) {
        assert_eq!(Some(&head.emit()), bytes.first_chunk());
    }
});
