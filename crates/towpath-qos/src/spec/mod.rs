//! Traffic specifications: what a channel may send.
