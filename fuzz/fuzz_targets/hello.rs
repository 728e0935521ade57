//! What stands behind the seal of a handshake: well-formed Initiations and Responses of a peer
//! that holds the keys, with any payload inside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::handshake;

fuzz_target!(|payload: &[u8]| {
    handshake::initiation(payload);
    handshake::response(payload);
});
