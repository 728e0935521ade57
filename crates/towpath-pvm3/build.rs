//! Gives the shared library the name that PVM programs ask for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpvm3.so.3");
}
