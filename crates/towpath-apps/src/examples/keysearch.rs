//! Search for a key: AES-128 (FIPS 197), of which some bits are not known, and one block in clear
//! and encrypted. Ranges of keys are items of a pool; who finds a key tells all.

use anyhow::{Context as _, ensure};
use aws_lc_rs::cipher::{AES_128, EncryptingKey, UnboundCipherKey};
use clap::Args;

use crate::exchange::{Exchange, ExchangeError, bytes};
use crate::options::splitmix;
use crate::report::Report;

const BITS_MAX: u32 = 32;
/// Keys of an item.
const KEYS: u64 = 1 << 10;
/// Tag of a key that is found, and of a rank's last word.
const FOUND: i32 = 12;
/// No key.
const NONE: u64 = u64::MAX;

#[derive(Clone, Debug, Args)]
pub(crate) struct KeysearchArgs {
    /// Bits of the key that are not known
    #[arg(long, default_value_t = 16)]
    bits: u32,
    /// Of the key that is looked for
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn encrypted(key: u128, mut block: [u8; 16]) -> anyhow::Result<[u8; 16]> {
    let key = UnboundCipherKey::new(&AES_128, &key.to_be_bytes());
    let key = key.and_then(EncryptingKey::ecb).ok().context("a key of AES")?;
    key.encrypt(&mut block).ok().context("a block of AES")?;
    Ok(block)
}

/// What is known of a key: all but its last bits, and a block in clear and encrypted.
struct Riddle {
    known: u128,
    bits: u32,
    clear: [u8; 16],
    secret: [u8; 16],
}

fn tell(exchange: &mut dyn Exchange, key: u64, is_last: bool) -> crate::exchange::Result<()> {
    let own = exchange.rank();
    let message = [key, u64::from(is_last)];
    let message = bytes::of(&message);
    (0..exchange.size())
        .filter(|to| *to != own)
        .try_for_each(|to| exchange.send(to, FOUND, &message))
}

fn heard(message: &[u8]) -> crate::exchange::Result<(u64, bool)> {
    match bytes::to::<u64>(message)?[..] {
        [key, last @ 0..=1] => Ok((key, last == 1)),
        _ => Err(ExchangeError::Malformed { len: message.len(), what: "a key" }),
    }
}

/// The least bits that fit, at every rank.
fn found(exchange: &mut dyn Exchange, riddle: &Riddle) -> anyhow::Result<Option<u64>> {
    let bits = riddle.bits;
    ensure!((1..=BITS_MAX).contains(&bits), "{bits} bits: from 1 to {BITS_MAX}");
    let keys = 1_u64 << bits;
    let mut pool = exchange.pool(keys.div_ceil(KEYS));
    let mut best = NONE;
    while let Some(item) = exchange.next_item(&mut pool)? {
        while let Some((_, message)) = exchange.try_recv(None, FOUND)? {
            best = best.min(heard(&message)?.0);
        }
        // Greater keys than one that fits are not tried any more.
        for key in (item * KEYS..((item + 1) * KEYS).min(keys)).take_while(|key| *key < best) {
            if encrypted(riddle.known | u128::from(key), riddle.clear)? == riddle.secret {
                best = key;
                tell(exchange, best, false)?;
                break;
            }
        }
    }
    tell(exchange, best, true)?;
    let own = exchange.rank();
    for from in (0..exchange.size()).filter(|from| *from != own) {
        let mut is_last = false;
        while !is_last {
            let told = heard(&exchange.recv(Some(from), FOUND)?.1)?;
            best = best.min(told.0);
            is_last = told.1;
        }
    }
    Ok(Some(best).filter(|best| *best != NONE))
}

fn riddle(bits: u32, seed: u64) -> anyhow::Result<(Riddle, u64)> {
    ensure!((1..=BITS_MAX).contains(&bits), "{bits} bits: from 1 to {BITS_MAX}");
    let key = u128::from(splitmix(seed)) << 64 | u128::from(splitmix(seed ^ 1 << 40));
    let unknown = key as u64 & ((1 << bits) - 1);
    let known = key - u128::from(unknown);
    let clear = *b"slow horse, lock";
    Ok((Riddle { known, bits, clear, secret: encrypted(key, clear)? }, unknown))
}

/// The whole example; the root gets the report.
pub(super) fn keysearch(
    exchange: &mut dyn Exchange,
    args: &KeysearchArgs,
) -> anyhow::Result<Option<Report>> {
    let (riddle, right) = riddle(args.bits, args.seed)?;
    let found = found(exchange, &riddle)?;
    ensure!(found == Some(right), "wrong: {found:x?}, not {right:x}");
    let lead = format!("AES-128, {} bits of it not known, {} tasks", args.bits, exchange.size());
    let mut report = Report::new("Key search", &lead);
    report.say("The key", &format!("{:032x}", riddle.known | u128::from(right)));
    Ok((exchange.rank() == 0).then_some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    /// NIST, FIPS 197, appendix C.1.
    #[test]
    fn the_standards_vector() {
        let key = 0x000102030405060708090a0b0c0d0e0f;
        let clear = 0x00112233445566778899aabbccddeeff_u128.to_be_bytes();
        let right = 0x69c4e0d86a7b0430d8cdb78070b4c55a_u128.to_be_bytes();
        assert_eq!(encrypted(key, clear).unwrap(), right);
    }

    #[test]
    fn any_number_of_tasks_finds_the_key_or_that_there_is_none() {
        for size in [1, 2, 3, 4, 7, 8] {
            let (mut riddle, right) = riddle(13, size as u64).unwrap();
            for said in run(size, |exchange| found(exchange, &riddle)) {
                assert_eq!(said.unwrap(), Some(right), "{size} tasks");
            }
            riddle.secret[0] ^= 1;
            assert!(
                run(size, |e| found(e, &riddle)).into_iter().all(|said| said.unwrap().is_none())
            );
        }
        let said = riddle(40, 1).map(drop).unwrap_err().to_string();
        assert_eq!(said, "40 bits: from 1 to 32");
    }
}
