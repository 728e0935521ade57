//! What a newcomer says of itself behind the handshake's own parameters: any bytes, of one that
//! holds a token.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::newcomer;

fuzz_target!(|hello: &[u8]| newcomer::join(hello));
