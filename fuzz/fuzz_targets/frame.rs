//! Any packet content is walked to its end or to the first malformed frame; every frame is
//! emitted again and parses to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::emit;
use towpath_wire::frame::Frames;

fuzz_target!(|content: &[u8]| {
    let mut failed = false;
    for (n, frame) in Frames::new(content).enumerate() {
        assert!(!failed, "the walk stops after a malformed frame");
        assert!(n < content.len(), "every frame takes at least a byte");
        let Ok(frame) = frame else {
            failed = true;
            continue;
        };
        let Some(bytes) = emit::frame(&frame) else { continue };
        let mut again = Frames::new(&bytes);
        assert_eq!(again.next(), Some(Ok(frame)));
        assert_eq!(again.next(), None);
    }
});
