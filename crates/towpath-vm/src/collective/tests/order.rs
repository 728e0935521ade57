//! Bits that do not depend on what comes first, and operators on known values.

use std::vec::Vec;

use proptest::prelude::*;

use super::network::{Chance, Network};
use super::work::{hosts, settings};
use crate::collective::*;

/// Numbers whose sum depends on the order.
fn rough(rank: u32, count: usize) -> Payload {
    let mut chance = Chance(u64::from(rank) + 1);
    let mut number = || {
        let bits = (chance.below(1 << 30) as f64 - 5e8) * 1.1;
        bits * [1e-9, 1.0, 1e9][chance.below(3)]
    };
    (0..count).flat_map(|_| number().to_le_bytes()).collect::<Vec<_>>().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sums_of_floats_have_the_same_bits_whatever_comes_first(
        hosts in hosts(),
        settings in settings(),
        count in 0..40usize,
        seeds: [u64; 2],
    ) {
        let run = |seed| {
            let script = move |rank, number| {
                let data = rough(rank, count);
                let operator = Operator::built_in(Function::Sum, Element::F64).unwrap();
                match number {
                    0 => Some(Operation::AllReduce { data, operator }),
                    1 => Some(Operation::Reduce { root: 0, data, operator }),
                    2 => Some(Operation::Scan { data, operator }),
                    _ => None,
                }
            };
            Network::new(&hosts, &settings, seed, script).run().0
        };
        let results = run(seeds[0]);
        prop_assert_eq!(&results, &run(seeds[1]));
        for result in &results {
            prop_assert_eq!(&result[0], &results[0][0], "not the same everywhere");
        }
    }
}

fn combine(function: Function, element: Element, left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut operator = Operator::built_in(function, element).unwrap();
    let mut appended = left.to_vec();
    operator.append(&mut appended, right);
    let mut prepended = right.to_vec();
    operator.prepend(left, &mut prepended);
    assert_eq!(appended, prepended, "{function:?}");
    appended
}

macro_rules! by_hand {
    ($t:ident, $of:ident, $left:expr, $right:expr, $($function:ident => $result:expr),*) => { $(
        let bytes =
            |values: &[$t]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let (left, right) = (bytes(&$left), bytes(&$right));
        let got = combine(Function::$function, Element::$of, &left, &right);
        assert_eq!(got, bytes(&$result), "{} {:?}", stringify!($t), Function::$function);
    )* };
}

macro_rules! unsigned {
    ($($t:ident $element:ident)*) => { $(
        by_hand!($t, $element, [6, 0, $t::MAX], [3, 5, 2],
            Sum => [9, 5, 1], Product => [18, 0, $t::MAX - 1], Min => [3, 0, 2],
            Max => [6, 5, $t::MAX], BitAnd => [2, 0, 2], BitOr => [7, 5, $t::MAX],
            BitXor => [5, 5, $t::MAX - 2], LogicalAnd => [1, 0, 1], LogicalOr => [1, 1, 1],
            LogicalXor => [0, 1, 0]);
    )* };
}

macro_rules! signed {
    ($($t:ident $element:ident)*) => { $(
        by_hand!($t, $element, [-6, 0, $t::MAX], [3, -5, 2],
            Sum => [-3, -5, $t::MIN + 1], Product => [-18, 0, -2], Min => [-6, -5, 2],
            Max => [3, 0, $t::MAX], BitAnd => [2, 0, 2], BitOr => [-5, -5, $t::MAX],
            BitXor => [-7, -5, $t::MAX - 2], LogicalAnd => [1, 0, 1], LogicalOr => [1, 1, 1],
            LogicalXor => [0, 1, 0]);
    )* };
}

macro_rules! float {
    ($($t:ident $element:ident $complex:ident)*) => { $(
        by_hand!($t, $element, [1.5, -0.0, $t::NAN, 1.0], [2.0, 0.0, 1.0, $t::NAN],
            Min => [1.5, -0.0, $t::NAN, $t::NAN], Max => [2.0, 0.0, $t::NAN, $t::NAN]);
        by_hand!($t, $element, [1.5, -0.0, 1.0], [2.0, 0.0, 0.25],
            Sum => [3.5, 0.0, 1.25], Product => [3.0, -0.0, 0.25]);
        // (1 + 2i) + (3 − 4i), (1 + 2i) (3 − 4i)
        by_hand!($t, $complex, [1.0, 2.0], [3.0, -4.0], Sum => [4.0, -2.0], Product => [11.0, 2.0]);
    )* };
}

#[test]
fn built_in_operators_by_hand() {
    unsigned!(u8 U8 u16 U16 u32 U32 u64 U64);
    signed!(i8 I8 i16 I16 i32 I32 i64 I64);
    float!(f32 F32 C32 f64 F64 C64);
    let undefined = Operator::built_in(Function::BitOr, Element::F64).unwrap_err();
    let (function, element) = (Function::BitOr, Element::F64);
    assert_eq!(undefined, OperatorError::Undefined { function, element });
    assert!(Operator::built_in(Function::Min, Element::C64).is_err());
    assert!(Operator::user(0, Commutes::Yes, |_, _| {}).is_err());
}
