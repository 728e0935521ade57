//! Pacers: state machines that say when to send how many bytes; and a player to test them.
