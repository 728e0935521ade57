//! Collectives over a network that delivers in random order, first in first out for each pair.

mod counts;
mod deaths;
mod disagreement;
mod network;
mod order;
mod results;
mod work;
