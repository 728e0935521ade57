//! The admitted set as a network of servers and flows: the tests compare what the calculus finds
//! with what was promised. The command `bound` has a conversion of its own, which refuses the
//! schedulers that hold packets back; this one is for work-conserving ports only.
//!
//! A promise is a sum of fixed budgets; what the calculus finds for the set as it is now may be
//! less, and is nowhere promised. FCFS ports become FIFO servers, static priority keeps its
//! classes, every other discipline counts as blind (any order), which holds for it as far as it
//! is work-conserving. A cycle of ports is refused there although it is safe here: budgets are
//! fixed, bursts of the calculus are not.

use alloc::string::ToString;
use alloc::vec::Vec;

use towpath_bound::{
    self as bound, Envelope, Multiplexing, NetworkError, Rational, Server, TokenBucket,
};

use super::ledger::Admission;
use super::port::{Slot, SlotKind};
use super::request::ReservationId;
use crate::spec::Bucket;
use crate::topology::{Discipline, Port, PortId};

impl Admission {
    /// The bounded channels over the egress ports: server k is port k, and flow k belongs to the
    /// k-th id of the list. Units are bits, seconds and bit/s. Processors, switch latencies and
    /// propagation are left out; each hop forwards whole packets.
    pub(super) fn to_bound(&self) -> Result<(bound::Network, Vec<ReservationId>), NetworkError> {
        let ports = self.topology().ports().iter().enumerate();
        let servers = ports.map(|(id, port)| self.server(id as u32, port)).collect();
        let (mut flows, mut ids) = (Vec::new(), Vec::new());
        for (id, ask, slots) in self.reservations() {
            let bounded = slots.first().is_some_and(|slot| slot.kind == SlotKind::Bounded);
            let bucket = |b: Bucket| {
                TokenBucket::new(Rational::whole(b.rate_bps), Rational::whole(b.burst_bits))
            };
            let arrival = Envelope::min_of([bucket(ask.load.fast), bucket(ask.load.slow)].into());
            let (true, Some(arrival)) = (bounded, arrival) else { continue };
            let path = slots.iter().map(|slot: &Slot| slot.port as usize).collect();
            let mut flow = bound::Flow::new(&id.0.to_string(), arrival, path);
            flow.class = slots.iter().map(|slot| slot.level).max().unwrap_or(0);
            flow.frame = Rational::whole(ask.load.packet_bits);
            flows.push(flow);
            ids.push(id);
        }
        Ok((bound::Network::new(servers, flows)?, ids))
    }

    fn server(&self, id: u32, port: &Port) -> Server {
        let order = match port.discipline {
            Discipline::Fcfs(_) => Multiplexing::Fifo,
            Discipline::StaticPriority(_) => Multiplexing::StaticPriority,
            _ => Multiplexing::Blind,
        };
        let (rate, frame) = (Rational::whole(port.rate_bps), Rational::whole(port.packet_bits));
        // Something unreserved may be in transmission, but under FCFS.
        let blocked = match order {
            Multiplexing::Fifo => Rational::ZERO,
            _ => frame.checked_div(&rate).unwrap_or(Rational::ZERO),
        };
        let name = self.topology().port_name(PortId(id)).to_string();
        Server::new(&name, rate, blocked, order).store_and_forward(&frame)
    }
}
