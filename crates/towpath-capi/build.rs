//! Names the shared library so that a program keeps working with every later one of its ABI.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtowpath_c.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
