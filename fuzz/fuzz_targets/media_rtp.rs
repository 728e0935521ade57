//! Any bytes are RTP and RTCP or are refused; a header that is read is written again as it was, and
//! a report tells nothing where it is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_media::rtp::{Header, RTCP_MAX, RTP_HEADER, reports};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, payload)) = Header::parse(bytes) {
        assert!(payload.len() + RTP_HEADER <= bytes.len());
        let again = header.emit();
        assert_eq!(again[1..], bytes[1..RTP_HEADER]);
        assert_eq!(Header::parse(&again), Ok((header, &[][..])));
    }
    let mut told = 0;
    let read = reports(bytes, |_| told += 1);
    assert!(told == 0 || read.is_ok());
    assert!(told <= RTCP_MAX / 4);
});
