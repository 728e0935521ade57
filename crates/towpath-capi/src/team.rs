//! Teams and what their members do together.
