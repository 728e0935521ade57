//! Messages: what a buffer holds, and how numbers get into and out of it.
//!
//! | module | what is there |
//! |---|---|
//! | `element` | the types that can be packed |
//! | `encoding` | the encodings, and what the header's `format` says about them |
//! | `body` | the bytes: built here, lent by the program, or received |
//! | `pack`, `unpack` | numbers in, numbers out |
//! | `storage` | memory that a message is built in |
//! | `nested` | messages in messages |
//! | `trace` | what stands in front of and between the values of a trace message |

mod body;
mod element;
mod encoding;
mod nested;
mod pack;
mod storage;
#[cfg(test)]
mod tests;
mod trace;
mod unpack;

pub(crate) use body::{Info, Message, Received};
pub(crate) use element::Element;
pub(crate) use encoding::{DSIG, Encoding, WAITS};
