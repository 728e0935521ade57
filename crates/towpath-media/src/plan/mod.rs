//! The planner: two of rate, buffer and start-up delay give the third.
