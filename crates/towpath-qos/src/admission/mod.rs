//! Admission of channels: what is promised, to whom, and what is left.
