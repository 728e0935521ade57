//! Seeds of the `operations` target.

use arbitrary::{Arbitrary, Unstructured};
use towpath_fuzz::operations::{self, Operation};

use super::variant;

/// Operations in the layout that `arbitrary` reads a `Vec<Operation>` from: before each one a
/// byte that says "there is one", then the variant as a 32-bit fraction, then the fields.
#[derive(Default)]
struct Script(Vec<u8>);

const VARIANTS: u64 = 18;

impl Script {
    fn then(mut self, variant: u64, fields: &[u8]) -> Self {
        let fraction = ((variant << 32).div_ceil(VARIANTS)) as u32;
        self.0.push(1);
        self.0.extend(fraction.to_le_bytes());
        self.0.extend_from_slice(fields);
        self
    }
    fn open(self, side: u8, direction: u8) -> Self {
        self.then(0, &[side, direction, 0, 0])
    }
    fn send(self, side: u8, channel: u8, len: u16) -> Self {
        let [a, b] = len.to_le_bytes();
        self.then(1, &[side, channel, a, b])
    }
    fn finish(self, side: u8, channel: u8) -> Self {
        self.then(3, &[side, channel])
    }
    fn consume(self, side: u8) -> Self {
        self.then(4, &[side, 1])
    }
    fn transmit(self, side: u8) -> Self {
        self.then(6, &[side, 255, 255])
    }
    fn deliver_all(self) -> Self {
        self.then(8, &[])
    }
    fn lose(self, index: u8) -> Self {
        self.then(9, &[index])
    }
    fn advance(self, step: u8) -> Self {
        self.then(13, &[step])
    }
    fn end(self, count: usize) -> Vec<u8> {
        let read = Vec::<Operation>::arbitrary_take_rest(Unstructured::new(&self.0));
        let read = read.expect("the layout is arbitrary's");
        assert_eq!(read.len(), count, "{read:?}");
        operations::run(&read);
        self.0
    }
}

pub(super) fn scripts() -> Vec<(&'static str, Vec<u8>)> {
    let start = || Script::default().open(0, 0).send(0, 0, 3000).transmit(0);
    let exchange = start().deliver_all().send(1, 0, 900).transmit(1).deliver_all();
    vec![
        ("exchange", exchange.consume(0).consume(1).advance(14).finish(0, 0).end(11)),
        ("loss", start().lose(0).transmit(0).deliver_all().advance(17).advance(17).end(8)),
        ("close", start().deliver_all().then(5, &[1]).transmit(1).deliver_all().end(7)),
        ("small_grants", {
            let small = |s: Script| s.then(6, &[0, 200, 0]).deliver_all();
            small(small(start().send(0, 0, 500))).end(8)
        }),
        // Forge with one frame (a question), and garbage of three bytes.
        ("forged", {
            let mut fields = vec![1, 0, 1];
            fields.extend(variant(7, 15));
            fields.extend([9, 0, 0, 0, 0, 0, 0, 0, 0]);
            start().then(11, &fields).then(12, &[0, 1, 4, 1, 0, 1, 0, 0]).end(5)
        }),
    ]
}
