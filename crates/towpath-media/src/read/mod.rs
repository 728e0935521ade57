//! Readers of containers and elementary streams. Streaming: bytes go in as they come.
