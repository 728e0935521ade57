//! Frame traces: how many bytes are consumed when.
