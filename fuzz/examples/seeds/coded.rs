//! Seeds of the `coding` target.

use super::variant;

/// A sender's code, paths, memory and packets, in the layout that `arbitrary` reads: before each
/// element of a list a byte that says "there is one".
fn sender(code: [u8; 2], paths: u8, memory: u16, packets: &[[u8; 3]]) -> Vec<u8> {
    let mut bytes = code.to_vec();
    bytes.push(paths);
    bytes.extend(memory.to_le_bytes());
    for packet in packets {
        bytes.push(1);
        bytes.extend(packet);
    }
    bytes.push(0);
    bytes
}

fn honest(of: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let one = |n: u8| [&[1][..], &variant(0, 5), &[n]].concat();
    of.into_iter().flat_map(one).collect()
}

fn changed(which: u8, at: u8, by: u8) -> Vec<u8> {
    [&[1][..], &variant(1, 5), &[which, at, by]].concat()
}

/// Groups that lose a member each, come in any order, are changed, and find no room.
pub(crate) fn groups() -> Vec<(&'static str, Vec<u8>)> {
    let packets: Vec<[u8; 3]> = (0..24).map(|n| [n, n * 9, n]).collect();
    let three = sender([2, 0], 3, u16::MAX, &packets);
    let six = sender([5, 1], 3, u16::MAX, &packets);
    let little = sender([2, 0], 3, 2000, &packets);
    let lossy = honest((0..40).filter(|n| n % 5 != 2));
    let late = honest((0..40).rev().chain(0..40));
    let wrong: Vec<u8> = (0..20).flat_map(|n| changed(n, n * 3, 1 << (n % 8))).collect();
    vec![
        ("lossy", [&three[..], &lossy].concat()),
        ("six_and_two", [&six[..], &lossy].concat()),
        ("late_and_twice", [&three[..], &late].concat()),
        ("changed", [&three[..], &wrong, &lossy].concat()),
        ("little_memory", [&little[..], &lossy].concat()),
    ]
}
