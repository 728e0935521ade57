//! Functions with a variable number of arguments. Stable Rust cannot define them; a few
//! instructions put the argument registers where C's `va_start` would, and Rust does the rest.

use std::ffi::{CStr, c_char};

use crate::abi::{Text, call, library, traced};
use crate::code::Code;
use crate::library::Arguments;
use crate::trace_names::{data, event_number};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("`va_list` of this architecture is not known here");

/// `va_list` of the System V ABI for x86-64 (section 3.5.7).
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct VaList {
    /// Where in `saved` the next argument of an integer register is; 48: none is left.
    integer: u32,
    /// The same for vector registers; 176: none is left.
    vector: u32,
    /// The next argument on the stack.
    stack: *mut u8,
    saved: *mut u8,
}

#[cfg(target_arch = "x86_64")]
impl VaList {
    /// # Safety
    /// `va_start` made it, and there is an argument left.
    unsafe fn next(&mut self, vector: bool) -> *mut u8 {
        let (at, size, end) =
            if vector { (&mut self.vector, 16, 176) } else { (&mut self.integer, 8, 48) };
        if *at < end {
            let offset = *at as usize;
            *at += size;
            // SAFETY: inside the saved registers.
            return unsafe { self.saved.add(offset) };
        }
        let argument = self.stack;
        // SAFETY: behind the argument, on the caller's stack.
        self.stack = unsafe { argument.add(8) };
        argument
    }
}

/// `va_list` of the procedure call standard for AArch64 (appendix B).
#[cfg(target_arch = "aarch64")]
#[repr(C)]
struct VaList {
    /// The next argument on the stack.
    stack: *mut u8,
    /// Ends of the saved registers.
    integer_top: *mut u8,
    vector_top: *mut u8,
    /// Distance of the next argument from the end; not negative: none is left.
    integer: i32,
    vector: i32,
}

#[cfg(target_arch = "aarch64")]
impl VaList {
    /// # Safety
    /// `va_start` made it, and there is an argument left.
    unsafe fn next(&mut self, vector: bool) -> *mut u8 {
        let (at, size, top) = if vector {
            (&mut self.vector, 16, self.vector_top)
        } else {
            (&mut self.integer, 8, self.integer_top)
        };
        if *at < 0 {
            let offset = *at as isize;
            *at += size;
            // SAFETY: inside the saved registers.
            return unsafe { top.offset(offset) };
        }
        let argument = self.stack;
        // SAFETY: behind the argument, on the caller's stack.
        self.stack = unsafe { argument.add(8) };
        argument
    }
}

impl Arguments for &mut VaList {
    unsafe fn int(&mut self) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { self.next(false).cast::<i32>().read_unaligned() }
    }

    unsafe fn long(&mut self) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { self.next(false).cast::<i64>().read_unaligned() }
    }

    unsafe fn double(&mut self) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { self.next(true).cast::<f64>().read_unaligned() }
    }

    unsafe fn pointer(&mut self) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.next(false).cast::<*mut u8>().read_unaligned() }
    }
}

/// `pvm_packf` with a `va_list`, which C passes by address on both architectures.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_vpackf(format: *const c_char, arguments: *mut VaList) -> i32 {
    traced(
        event_number!("packf"),
        || data![PF: Text(format)],
        || {
            call("pvm_packf", || {
                if format.is_null() {
                    return Err(Code::BadParam);
                }
                // SAFETY: a C string, and arguments that it describes.
                unsafe {
                    library().pack_format(CStr::from_ptr(format).to_bytes(), &mut &mut *arguments)
                }
            })
        },
    )
}

/// `pvm_unpackf` with a `va_list`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_vunpackf(format: *const c_char, arguments: *mut VaList) -> i32 {
    traced(
        event_number!("unpackf"),
        || data![PF: Text(format)],
        || {
            call("pvm_unpackf", || {
                if format.is_null() {
                    return Err(Code::BadParam);
                }
                // SAFETY: a C string, and arguments that it describes.
                unsafe {
                    library().unpack_format(CStr::from_ptr(format).to_bytes(), &mut &mut *arguments)
                }
            })
        },
    )
}

/// A function `(format, ...)` that calls `(format, va_list)`.
///
/// Frame on x86-64, 216 bytes below the return address: `va_list` 0..24, registers 32..208.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($name:ident, $with_list:ident) => {
        /// Takes a variable number of arguments: see the module.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> i32 {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                // al: whether vector registers hold arguments.
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                "mov dword ptr [rsp], 8",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                "mov rsi, rsp",
                "call {with_list}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                with_list = sym $with_list,
            )
        }
    };
}

/// A function `(format, ...)` that calls `(format, va_list)`.
///
/// Frame on AArch64, 240 bytes: frame record 0..16, `va_list` 16..48, integer registers 48..112,
/// vector registers 112..240.
#[cfg(target_arch = "aarch64")]
macro_rules! variadic {
    ($name:ident, $with_list:ident) => {
        /// Takes a variable number of arguments: see the module.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> i32 {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-240]!",
                ".cfi_adjust_cfa_offset 240",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "mov x29, sp",
                "stp x0, x1, [sp, #48]",
                "stp x2, x3, [sp, #64]",
                "stp x4, x5, [sp, #80]",
                "stp x6, x7, [sp, #96]",
                "stp q0, q1, [sp, #112]",
                "stp q2, q3, [sp, #144]",
                "stp q4, q5, [sp, #176]",
                "stp q6, q7, [sp, #208]",
                "add x9, sp, #240",
                "str x9, [sp, #16]",
                "str x9, [sp, #32]",
                "add x9, sp, #112",
                "str x9, [sp, #24]",
                "mov w9, #-56",
                "str w9, [sp, #40]",
                "mov w9, #-128",
                "str w9, [sp, #44]",
                "add x1, sp, #16",
                "bl {with_list}",
                "ldp x29, x30, [sp], #240",
                ".cfi_adjust_cfa_offset -240",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                with_list = sym $with_list,
            )
        }
    };
}

variadic!(pvm_packf, pvm_vpackf);
variadic!(pvm_unpackf, pvm_vunpackf);
