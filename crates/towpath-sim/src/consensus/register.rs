//! The state machine of the simulation: registers that hold numbers.

use towpath_vm::consensus::StateMachine;
use towpath_wire::bytes::{ParseError, Reader};

/// How many there are.
pub(super) const KEYS: u8 = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Registers([u64; KEYS as usize]);

impl Registers {
    pub(super) fn get(&self, key: u8) -> u64 {
        self.0[usize::from(key % KEYS)]
    }
}

/// The command that sets a register and answers what it held. Its length is drawn by the caller,
/// so that messages are cut at different places.
pub(super) fn swap(key: u8, value: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![key];
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes.resize(bytes.len() + len, 0);
    bytes
}

impl StateMachine for Registers {
    fn apply(&mut self, _index: u64, command: &[u8]) -> Vec<u8> {
        let mut r = Reader::new(command);
        let (Ok(key), Ok(value)) = (r.u8(), r.u64()) else { return Vec::new() };
        let held = std::mem::replace(&mut self.0[usize::from(key % KEYS)], value);
        held.to_le_bytes().into()
    }

    fn save(&self) -> Vec<u8> {
        self.0.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), ParseError> {
        let mut r = Reader::new(state);
        *self = Self::default();
        if !state.is_empty() {
            for value in &mut self.0 {
                *value = r.u64()?;
            }
        }
        Ok(())
    }
}
