//! What a discipline costs per packet when many queues are backlogged.

use serde::{Deserialize, Serialize};
use towpath_qos::scheduler::{Discipline, Packet, PortConfig, QueueConfig, QueueId};
use towpath_wire::{Instant, Rate};

use super::load::LoadError;
use crate::qos::network::NetworkError;

/// A scalability run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Churn {
    /// Queues, each with a packet waiting at all times.
    pub queues: u32,
    /// Packets taken out and put back.
    pub packets: u64,
    /// Time per packet, enqueue and dequeue.
    pub ns_per_packet: u64,
}

/// Time after which a run ends, whatever it has done: one discipline looks at every queue.
const TIME_NS_MAX: u64 = 200_000_000;

/// Every queue holds a packet; up to `packets` times the next one is taken out and its queue gets
/// another. `clock` tells nanoseconds.
pub fn churn(
    discipline: Discipline,
    queues: u32,
    packets: u64,
    clock: &mut dyn FnMut() -> u64,
) -> Result<Churn, LoadError> {
    let name = discipline.facts().name;
    let fail = |error| LoadError::Scheduler {
        discipline: name,
        error: NetworkError::Port { port: "churn".into(), error },
    };
    let rate = Rate::from_mbps(100_000);
    let config =
        PortConfig { rate, packet_bytes_max: 1538, queues_max: queues, packets_max: 2 * queues };
    let mut port = discipline.build(&config).map_err(fail)?;
    for q in 0..queues {
        let queue = QueueConfig {
            rate: Rate::from_bps((rate.as_bps() / u64::from(queues)).max(1000)),
            priority: (q % 8) as u8,
            packets_max: 2,
            ..QueueConfig::default()
        };
        port.add_queue(QueueId(q), &queue).map_err(fail)?;
    }
    let mut now = 0;
    for q in 0..queues {
        // A scheduler that refuses a packet here would be broken; the count below would show it.
        let _ = port.enqueue(Instant::from_nanos(now), Packet::new(QueueId(q), 1000, 0));
    }
    let began = clock();
    let mut served = 0;
    for i in 0..packets {
        now += 80;
        let at = Instant::from_nanos(now);
        let Some(packet) = port.dequeue(at) else {
            let Some(ready) = port.next_ready() else { break };
            now = now.max(ready.as_nanos());
            continue;
        };
        served += 1;
        let _ = port.enqueue(at, Packet::new(packet.queue, 1000, 0));
        if i % 64 == 63 && clock().saturating_sub(began) > TIME_NS_MAX {
            break;
        }
    }
    let took = clock().saturating_sub(began);
    Ok(Churn { queues, packets: served, ns_per_packet: took / served.max(1) })
}
