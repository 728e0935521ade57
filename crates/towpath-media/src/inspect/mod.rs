//! What a stream is made of and whether it keeps the rules: programs, clocks, frames, buffers.
