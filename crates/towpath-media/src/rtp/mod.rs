//! RTP and RTCP (RFC 3550) as far as transport streams need them (RFC 2250).
//!
//! | file | what is there |
//! |---|---|
//! | `header` | the header of a datagram, and who numbers them |
//! | `rtcp` | reports: read and written |
//! | `stats` | what a receiver reports: loss, jitter |

mod header;
mod rtcp;
mod stats;

pub use header::{Header, Numbering, PAYLOAD_TYPE, RTP_HEADER, RtpError};
pub use rtcp::{
    Block, FEEDBACK_NAME, RTCP_MAX, Report, RtcpError, Sent, feedback, goodbye, receiver_report,
    reports, sender_report,
};
pub use stats::Reception;
