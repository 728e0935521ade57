//! What a client may write to its daemon's socket, however it is cut: frames come out or an error
//! does, and memory is bounded by what was read.
//!
//! The parser's source is taken in as it stands, because the facade it belongs to would bring
//! the real cryptography's C code into every target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};

/// What the protocol's source calls the build.
const BUILD: &str = "fuzz";

#[path = "../../crates/towpath/src/protocol.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "only the reader is driven")]
mod protocol;

use protocol::{FrameReader, Reply, Request, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// As in the `message` target.
const FACTOR: usize = 512;
const FLOOR: usize = 2 << 20;

fn read<T: Serialize + DeserializeOwned + PartialEq>(bytes: &[u8], cut: usize) {
    let mut reader = FrameReader::default();
    for piece in bytes.chunks(cut) {
        reader.extend(piece);
        loop {
            match reader.next::<T>() {
                Ok(Some(body)) => {
                    let mut again = FrameReader::default();
                    again.extend(&encode(&body).expect("it was no longer than this"));
                    assert!(again.next::<T>().is_ok_and(|b| b == Some(body)));
                }
                Ok(None) => break,
                Err(e) => {
                    assert_eq!(reader.next::<T>().err(), Some(e), "an error stays");
                    return;
                }
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let cut = usize::from(*cut).max(1);
    let ((), heap) = allocation::during(|| {
        read::<Request>(bytes, cut);
        read::<Reply>(bytes, cut);
    });
    assert!(heap <= FACTOR * bytes.len() + FLOOR, "{heap} B for {} B", bytes.len());
});
