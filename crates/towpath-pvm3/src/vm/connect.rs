//! How this process gets into its virtual machine.

use super::contract::Vm;
use crate::code::Code;

/// Enters the virtual machine of this process.
pub(crate) fn connect() -> Result<Box<dyn Vm>, Code> {
    Err(Code::SysErr)
}
