//! Groups.

use std::ffi::{c_char, c_int};

use super::shapes::{BAD_PARAM, by_name};
use super::strings::name;
use crate::abi;
use crate::library::Operator;

by_name! {
    pvmfjoingroup_() abi::pvm_joingroup;
    pvmflvgroup_() abi::pvm_lvgroup;
    pvmfgsize_() abi::pvm_gsize;
    pvmfgetinst_(tid) abi::pvm_getinst;
    pvmfgettid_(instance) abi::pvm_gettid;
    pvmfbarrier_(count) abi::pvm_barrier;
    pvmfbcast_(tag) abi::pvm_bcast;
    pvmffreezegroup_(size) abi::pvm_freezegroup;
}

/// `pvmfreduce`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfreduce_(
    operator: Option<Operator>,
    data: *mut u8,
    count: *const c_int,
    data_type: *const c_int,
    tag: *const c_int,
    group: *const c_char,
    root: *const c_int,
    out: *mut c_int,
    len: usize,
) {
    // SAFETY: Fortran's arguments are references, its strings as long as it says.
    unsafe {
        *out = match name(group, len) {
            Some(group) => {
                let group = group.as_ptr();
                abi::pvm_reduce(operator, data, *count, *data_type, *tag, group, *root)
            }
            None => BAD_PARAM,
        };
    }
}

macro_rules! with_arrays {
    ($($name:ident $call:path;)*) => { $(
        /// The C call of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            result: *mut u8,
            data: *mut u8,
            count: *const c_int,
            data_type: *const c_int,
            tag: *const c_int,
            group: *const c_char,
            root: *const c_int,
            out: *mut c_int,
            len: usize,
        ) {
            // SAFETY: Fortran's arguments are references, its strings as long as it says.
            unsafe {
                *out = match name(group, len) {
                    Some(group) => {
                        let group = group.as_ptr();
                        $call(result, data, *count, *data_type, *tag, group, *root)
                    }
                    None => BAD_PARAM,
                };
            }
        }
    )* };
}

with_arrays! {
    pvmfgather_ abi::pvm_gather;
    pvmfscatter_ abi::pvm_scatter;
}

macro_rules! operators {
    ($($name:ident $call:path;)*) => { $(
        /// The reduce function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            data_type: *mut c_int,
            data: *mut u8,
            more: *mut u8,
            count: *mut c_int,
            code: *mut c_int,
        ) {
            // SAFETY: the C function has the same arguments.
            unsafe { $call(data_type, data, more, count, code) };
        }
    )* };
}

operators! {
    pvmmax_ abi::PvmMax;
    pvmmin_ abi::PvmMin;
    pvmsum_ abi::PvmSum;
    pvmproduct_ abi::PvmProduct;
}
