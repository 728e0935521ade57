//! A task's reserved channel on paced hosts, from the task to the other task: what it is promised
//! beside all that other tasks send, and what it is without a reservation.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::channels::Bulk;
use crate::hosts::{Got, Vm, ms};
use towpath_node::NodeEvent;
use towpath_node::egress::TRAIN_TIME;
use towpath_proto::Memory;
use towpath_sim::clock::Clock;
use towpath_sim::link::LinkSpec;
use towpath_vm::channel::{ChannelSpec, Reserve, Until};
use towpath_vm::talk::{ToDaemon, ToTask};
use towpath_wire::talk::ChannelFront;
use towpath_wire::{ByteSize, Instant, Rate, TaskId};

const RATE: Rate = Rate::from_mbps(50);
const ONE_WAY: Duration = Duration::from_millis(1);
const RESERVE: Reserve = Reserve {
    bytes: 500,
    every: Duration::from_micros(500),
    burst: 2,
    within: Duration::from_millis(2),
    until: Until::Left,
};

fn two() -> Vm {
    let spec = LinkSpec {
        rate_bps: RATE.as_bps(),
        delay_us: ONE_WAY.as_micros() as u64,
        queue_bytes: 100_000,
        ..LinkSpec::PLAIN
    };
    let mut vm = Vm::with(2, |world| {
        world.add_host(Clock::new(0, 0), ByteSize::from_mib(512), true, |_| spec);
    });
    (0..2).for_each(|host| vm.world.pace(host, Some(RATE)));
    vm
}

/// A task that sends another one a message every half a millisecond.
struct Stream {
    from: TaskId,
    to: TaskId,
    there: u32,
    sent: BTreeMap<u32, Instant>,
    next: u32,
    longest: Duration,
    arrived: usize,
}

impl Stream {
    fn open(vm: &mut Vm, reserve: Option<Reserve>) -> Result<Self, String> {
        let (from, to) = (vm.enrol(0), vm.enrol(1));
        let spec = ChannelSpec { reserve, window: 1 << 20, ..ChannelSpec::default() };
        vm.says(0, from, ToDaemon::OpenChannel { number: 0, to, spec });
        vm.run(ms(50));
        let told = vm.take(from);
        let Some(Got::Said(said)) = told.into_iter().next() else { panic!("no answer") };
        if !matches!(said, ToTask::ChannelOpen { outcome: Ok(()), .. }) {
            return Err(format!("{said:?}"));
        }
        let offered = vm.take(to);
        let [Got::Said(ToTask::ChannelOffered { number: there, .. })] = offered[..] else {
            panic!("{offered:?}")
        };
        let (sent, next, longest, arrived) = (BTreeMap::new(), 0, Duration::ZERO, 0);
        Ok(Self { from, to, there, sent, next, longest, arrived })
    }

    fn send(&mut self, vm: &mut Vm) {
        let mut bytes = [0; RESERVE.bytes as usize];
        bytes[..4].copy_from_slice(&self.next.to_le_bytes());
        let (from, front) = (self.from, ChannelFront { number: 0, left: None });
        let taken = vm.world.with(0, |n, now, m| n.task_channel(now, from, front, &bytes, m));
        assert_eq!(taken, Some(true), "room");
        self.sent.insert(self.next, vm.world.now());
        self.next += 1;
    }

    fn receive(&mut self, vm: &mut Vm) {
        for (host, event) in core::mem::take(&mut vm.others) {
            let NodeEvent::OnChannel { task, number, block, .. } = event else { continue };
            assert_eq!((host, task, number), (1, self.to, self.there));
            let bytes = vm.world.hosts[host].memory.bytes(block);
            let n = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            self.longest = self.longest.max(vm.world.now().since(self.sent[&n]));
            self.arrived += 1;
            vm.world.with(host, |n, _, m| n.channel_written(block, m));
            vm.says(host, task, ToDaemon::ChannelTaken { number, messages: 1 });
        }
    }
}

/// The longest time of its messages and what else arrived in two seconds beside it, in bytes.
fn beside_bulk(reserve: Option<Reserve>) -> (Duration, u64) {
    let mut vm = two();
    let mut bulk = Bulk::new(&mut vm);
    let mut stream = Stream::open(&mut vm, reserve).expect("it fits");
    // The window of the others has grown by then.
    for _ in 0..1000 {
        bulk.go_on(&mut vm, usize::MAX);
        vm.run(ms(1));
    }
    let before = bulk.received;
    for tick in 0..20_000 {
        if tick % 5 == 0 {
            bulk.go_on(&mut vm, usize::MAX);
            stream.send(&mut vm);
        }
        vm.run(Duration::from_micros(100));
        stream.receive(&mut vm);
    }
    for _ in 0..5000 {
        vm.run(Duration::from_micros(100));
        stream.receive(&mut vm);
    }
    assert_eq!(stream.arrived, 4000, "each has come");
    (stream.longest, bulk.received - before)
}

#[test]
fn a_tasks_reserved_channel_is_in_time_beside_all_that_other_tasks_send() {
    let (longest, others) = beside_bulk(Some(RESERVE));
    let (without, _) = beside_bulk(None);
    // What it was promised, the way, a datagram of the next link's, and the step of the test.
    let bound = RESERVE.within + ONE_WAY + TRAIN_TIME + ms(1) / 2;
    println!("{longest:?} of {bound:?}, {without:?} without; {others} bytes of the others");
    assert!(longest <= bound, "{longest:?}, promised {bound:?}");
    assert!(longest < without, "{without:?} without a reservation");
    // 10.4 of 50 Mbit/s are the reserved channel's with all headers: 39.6 are 9.9 MB in 2 s.
    assert!(others >= 7_500_000, "{others} bytes of the others");
}

#[test]
fn what_does_not_fit_is_refused_and_fits_once_the_first_is_closed() {
    let mut vm = two();
    let half = Reserve { bytes: 1300, every: Duration::from_micros(400), ..RESERVE };
    let first = Stream::open(&mut vm, Some(half)).expect("it fits");
    let Err(said) = Stream::open(&mut vm, Some(half)) else { panic!("twice 30 on 50 Mbit/s") };
    assert!(said.contains("on a link of 50.0 Mbit/s, of which"), "{said}");
    vm.says(0, first.from, ToDaemon::CloseChannel { number: 0 });
    vm.run(ms(50));
    Stream::open(&mut vm, Some(half)).map(drop).expect("it fits again");
}

#[test]
fn a_link_without_a_rate_promises_nothing() {
    let mut vm = two();
    vm.world.pace(0, None);
    let Err(said) = Stream::open(&mut vm, Some(RESERVE)) else { panic!("it has no rate") };
    assert!(said.contains("--link-rate"), "{said}");
}
