//! The product in virtual time.

mod association;
mod chain;
mod classes;
mod crowd;
mod ecn;
mod fairness;
mod handshake;
mod hostile_peer;
mod hosts;
mod liveness;
mod mtu;
mod network;
mod newcomers;
mod nodes;
mod qos_compare;
mod qos_proof;
mod qos_source;
mod qos_statistical;
mod recovery;
mod rekey;
mod survival;
mod swarm;
mod tasks;
mod transfer;
mod trusted;
mod vm;
