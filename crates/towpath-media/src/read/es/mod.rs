//! Elementary streams: where pictures begin and end, and what kind they are.
//!
//! | file | what is there |
//! |---|---|
//! | `stream` | [`Elementary`]: a stream of any codec, bytes and time stamps in, frames out |
//! | `access` | the access unit under way and the time stamps that wait for one |
//! | `units` | start codes and the first bytes after each, whatever the cut |
//! | `mpeg`, `h264`, `hevc`, `mjpeg` | a codec each: boundaries, types, headers |
//! | `audio`, `audio_headers` | frames of MPEG audio, ADTS and AC-3 |

mod access;
mod audio;
mod audio_headers;
#[cfg(test)]
mod audio_tables;
mod h264;
mod h264_headers;
mod hevc;
mod hevc_headers;
mod mjpeg;
mod mpeg;
#[cfg(test)]
mod parameters_tests;
mod stream;
mod units;

pub(super) use stream::Elementary;
