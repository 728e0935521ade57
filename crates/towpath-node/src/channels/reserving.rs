//! What is reserved for a task's channel on the link that it goes out by.

use alloc::string::ToString;

use towpath_proto::{Association, AssociationId, Memory};
use towpath_qos::scheduler::RATE_MIN;
use towpath_qos::spec::wire::{Framing, FramingError, Ip, datagram_bytes};
use towpath_vm::channel::{Reserve, Until};
use towpath_vm::talk::Fault;
use towpath_wire::frame::OPEN_LEN_MAX;
use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, ChannelId, HostId, Instant, Rate, TaskId, TrafficSpec};

use super::table::Wire;
use crate::egress::{NotReserved, PACKET_BYTES_MIN, Reservation};
use crate::event::NodeEvent;
use crate::node::Node;

/// What the other side's host is told of it: in bytes of messages, without headers.
pub(super) fn traffic(wish: &Reserve) -> TrafficSpec {
    let rate = rate(wish.bytes.into(), wish);
    TrafficSpec {
        rate,
        peak: rate,
        burst: ByteSize::from_bytes(u64::from(wish.bytes) * u64::from(wish.burst)),
        unit_min_bytes: wish.bytes,
        unit_max_bytes: wish.bytes,
    }
}

/// So many bytes each time, rounded up.
fn rate(bytes: u64, wish: &Reserve) -> Rate {
    let bits = u128::from(bytes) * 8_000_000_000;
    let bps = bits.div_ceil(u128::from(nanos(wish.every)).max(1));
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

/// In wire bytes, on a connection's first path as it is known now. Longer datagrams than it takes
/// now are never asked for.
fn reservation(
    wire: Wire,
    task: TaskId,
    association: &Association,
    wish: &Reserve,
) -> Result<Reservation, FramingError> {
    let (ip, header) = if association.remote().is_ipv4() { (Ip::V4, 28) } else { (Ip::V6, 48) };
    let datagram = u64::from(association.datagram());
    let framing = Framing::new(ip, false, ByteSize::from_bytes(datagram + header), 1)?;
    let message = framing.wire_bytes(ByteSize::from_bytes(wish.bytes.into())).as_bytes();
    // The first datagram tells the peer of the channel, too.
    let burst = message * u64::from(wish.burst) + OPEN_LEN_MAX as u64;
    Ok(Reservation {
        link: association.link(),
        of: wire,
        task,
        ip,
        rate: rate(message, wish).max(RATE_MIN),
        burst: ByteSize::from_bytes(burst.max(PACKET_BYTES_MIN)),
        packet: ByteSize::from_bytes(datagram_bytes(ip, false, datagram)),
        within: wish.within,
        port: None,
    })
}

impl Node {
    /// Asks the egress of a channel's link for what its task wishes.
    pub(super) fn reserve_wire(
        &mut self,
        now: Instant,
        wire: Wire,
        (task, to): (TaskId, HostId),
        wish: &Reserve,
    ) {
        let association = self.endpoint.association(wire.0);
        let asked = association.map(|a| reservation(wire, task, a, wish));
        if let Some(carrier) = self.local.channels.carriers.get_mut(&wire) {
            carrier.unsaid = true;
        }
        let several = association.is_some_and(|a| a.paths().count() > 1);
        if several && wish.until == Until::Arrived {
            let why = "nothing is promised of several ways at once: this host has more than one \
                       path to that one\n\
                       hint: without Until::Arrived it is reserved on the first link";
            return self.reservation_refused(wire, Fault::NotReserved(why.into()));
        }
        match (asked, wish.until) {
            (Some(Ok(asked)), Until::Left) => self.reserve_own(wire, asked),
            (Some(Ok(asked)), Until::Arrived) => self.ask_promise(now, to, asked),
            (Some(Err(why)), _) => {
                self.reservation_refused(wire, Fault::NotReserved(why.to_string()));
            }
            // Its end follows.
            (None, _) => {}
        }
    }

    /// The link of this host is asked, too.
    pub(crate) fn reserve_own(&mut self, wire: Wire, asked: Reservation) {
        if let Some(carrier) = self.local.channels.carriers.get_mut(&wire) {
            carrier.reserved = Some(asked.link);
            self.events.push_back(NodeEvent::Reserve(asked));
        }
    }

    /// How [`NodeEvent::Reserve`] went. What was given up meanwhile has been released.
    pub fn reserved(
        &mut self,
        now: Instant,
        of: (AssociationId, ChannelId),
        outcome: Result<(), NotReserved>,
        memory: &mut dyn Memory,
    ) {
        let carrier = self.local.channels.carriers.get(&of);
        if let Some(link) = carrier.and_then(|c| c.reserved)
            && let Some(id) = carrier.and_then(|c| c.end)
        {
            match outcome {
                Ok(()) => {
                    self.endpoint.reserve_channel(of.0, of.1, Some(link));
                    if self.local.promising.bound(of).is_some() {
                        self.endpoint.mark_promised(of.0, of.1);
                    }
                    self.name_channel(id, of);
                }
                Err(why) => self.reservation_refused(of, Fault::NotReserved(why.to_string())),
            }
        }
        self.pump(now, memory);
    }

    pub(crate) fn reservation_refused(&mut self, wire: Wire, fault: Fault) {
        let Some(id) = self.local.channels.carriers.get(&wire).and_then(|c| c.end) else { return };
        self.local.channels.unreserve(wire);
        self.local.channels.remove(id);
        self.finish_wire(wire);
        self.channel_refused(id, fault);
    }

    /// A reserved channel is one no longer; what still waits goes as everything else does.
    pub(crate) fn end_reservation(&mut self, of: Wire) {
        self.local.promising.over(of);
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::ReservationKept {
            return;
        }
        if let Some(link) = self.local.channels.unreserve(of) {
            self.endpoint.reserve_channel(of.0, of.1, None);
            self.events.push_back(NodeEvent::Release { link, of });
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn the_other_side_is_told_what_comes_in_bytes_of_messages() {
        let every = Duration::from_millis(3);
        let within = Duration::from_secs(1);
        let wish = Reserve { bytes: 1000, every, burst: 4, within, until: Until::Left };
        let said = traffic(&wish);
        // 8000 bits each three milliseconds, rounded up.
        assert_eq!((said.rate, said.peak), (Rate::from_bps(2_666_667), Rate::from_bps(2_666_667)));
        assert_eq!(said.burst, ByteSize::from_bytes(4000));
        assert_eq!((said.unit_min_bytes, said.unit_max_bytes), (1000, 1000));
        let at_once = Reserve { every: Duration::ZERO, ..wish };
        assert_eq!(traffic(&at_once).rate, Rate::from_bps(8_000_000_000_000));
    }
}
