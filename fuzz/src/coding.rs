//! A receiver of coded packets, and peers that code or only pretend to.

use std::collections::HashMap;

use arbitrary::Arbitrary;
use towpath_proto::coding::{Coding, Decoder, Encoder, PLAIN, Rebuilt};
use towpath_wire::bytes::Writer;
use towpath_wire::coding::{Coded, Parity, emit_coded, emit_parity};
use towpath_wire::frame::{Frame, Frames};
use towpath_wire::{Instant, PathId};

/// What comes, after an honest sender has laid its groups.
#[derive(Arbitrary, Debug)]
pub struct Script {
    /// Members and parities of the honest sender's groups.
    code: (u8, u8),
    paths: u8,
    memory: u16,
    /// Packets of the honest sender: path, length, filling.
    packets: Vec<(u8, u8, u8)>,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Packet number so and so of the honest sender, parities behind members.
    Honest(u8),
    /// The same with a byte changed, as another group's.
    Changed { which: u8, at: u8, by: u8 },
    /// A member of anything.
    Member { group: u8, index: u8, members: u8, frames: Vec<u8> },
    /// A parity of anything.
    Parity { group: u8, index: u8, members: u8, symbol: Vec<u8> },
    /// A packet's content.
    Raw(Vec<u8>),
}

/// The honest sender's groups are below 200; changed ones are as many from here on, ...
const CHANGED: u32 = 300;
/// ... and made-up ones behind these.
const OTHERS: u32 = 600;

enum Sent {
    Member { group: u32, index: u8, members: u8, packet: (PathId, u64), frames: Vec<u8> },
    Parity(towpath_proto::coding::Parity),
}

/// Plays it, and checks.
pub fn run(script: Script) {
    let coding = Coding::new(script.code.0 % 16 + 1, script.code.1 % 4 + 1).expect("in range");
    let sent = lay(&script, coding);
    let honest: HashMap<u64, &Vec<u8>> = sent
        .iter()
        .filter_map(|s| match s {
            Sent::Member { packet, frames, .. } => Some((packet.1, frames)),
            Sent::Parity(_) => None,
        })
        .collect();
    let mut decoder = Decoder::new(script.memory.into());
    for step in &script.steps {
        let (rebuilt, is_honest) = play(&mut decoder, step, &sent);
        assert!(decoder.used() <= script.memory.into(), "{} bytes", decoder.used());
        assert!(rebuilt.len() <= 16, "{} of one group", rebuilt.len());
        for Rebuilt { number, frames, .. } in rebuilt.iter().filter(|_| is_honest) {
            assert_eq!(honest.get(number), Some(&frames), "packet {number}");
        }
    }
}

fn lay(script: &Script, coding: Coding) -> Vec<Sent> {
    let (mut encoder, paths) = (Encoder::default(), usize::from(script.paths % 8) + 1);
    let (mut sent, mut now) = (Vec::new(), Instant::ZERO);
    for (number, (path, len, fill)) in script.packets.iter().enumerate().take(200) {
        let packet = (PathId(u16::from(*path) % paths as u16), number as u64);
        let frames = vec![*fill; usize::from(*len) + 1];
        let seat = encoder.seat(packet.0, paths, coding);
        encoder.add(now, seat, packet, &frames, &PLAIN);
        let (group, index, members) = (seat.group, seat.index, seat.members);
        sent.push(Sent::Member { group, index, members, packet, frames });
        now = now + std::time::Duration::from_micros(u64::from(*fill) * 8);
        encoder.handle_timeout(now, fill % 2 == 0);
        let paths = (0..paths as u16).map(PathId);
        while let Some(path) = paths.clone().find(|p| encoder.owes(*p, paths.len())) {
            match encoder.take(path, paths.len(), usize::MAX) {
                Some(parity) => sent.push(Sent::Parity(parity)),
                None => break,
            }
        }
    }
    sent
}

/// What comes of one step, and whether only honest symbols can be in it.
fn play(decoder: &mut Decoder, step: &Step, sent: &[Sent]) -> (Vec<Rebuilt>, bool) {
    let at = |n: &u8| sent.get(usize::from(*n) % sent.len().max(1));
    match step {
        Step::Honest(n) => (at(n).map_or_else(Vec::new, |s| give(decoder, s, 0, None)), true),
        Step::Changed { which, at: place, by } => {
            let change = Some((*place, *by));
            (at(which).map_or_else(Vec::new, |s| give(decoder, s, CHANGED, change)), false)
        }
        Step::Member { group, index, members, frames } => {
            let group = OTHERS + u32::from(*group);
            let coded = Coded { group, index: *index, members: *members, frames };
            (decoder.member(&coded, (PathId(0), 1), &PLAIN), false)
        }
        Step::Parity { group, index, members, symbol } => {
            let group = OTHERS + u32::from(*group);
            let parity = Parity { group, index: *index, members: *members, symbol };
            (decoder.parity(&parity, &PLAIN), false)
        }
        Step::Raw(content) => {
            let mut all = Vec::new();
            for frame in Frames::new(content).map_while(Result::ok) {
                match frame {
                    Frame::Coded(c) if c.group > OTHERS => {
                        all = decoder.member(&c, (PathId(1), 2), &PLAIN);
                    }
                    Frame::Parity(p) if p.group > OTHERS => all = decoder.parity(&p, &PLAIN),
                    _ => {}
                }
            }
            (all, false)
        }
    }
}

/// Gives a sender's packet, by way of its frame's bytes.
fn give(decoder: &mut Decoder, sent: &Sent, shift: u32, change: Option<(u8, u8)>) -> Vec<Rebuilt> {
    let mut bytes = vec![0; 600];
    let mut w = Writer::new(&mut bytes);
    let (start, packet) = match sent {
        Sent::Member { group, index, members, packet, frames } => {
            emit_coded(&mut w, group + shift, *index, *members, frames.len() as u16);
            let start = w.used();
            w.put(frames);
            (start, *packet)
        }
        Sent::Parity(p) => {
            let towpath_proto::coding::Parity { group, members, index, symbol } = p;
            let group = group + shift;
            emit_parity(&mut w, &Parity { group, members: *members, index: *index, symbol });
            (12, (PathId(0), 0))
        }
    };
    let used = w.used();
    bytes.truncate(used);
    if let Some((at, by)) = change {
        let at = start + usize::from(at) % (used - start);
        bytes[at] ^= by;
    }
    match Frames::new(&bytes).next() {
        Some(Ok(Frame::Coded(c))) => decoder.member(&c, packet, &PLAIN),
        Some(Ok(Frame::Parity(p))) => decoder.parity(&p, &PLAIN),
        other => panic!("its own frame comes back: {other:?}"),
    }
}
