//! Compiles the constructor of `src/ignored_signals.c` into the binary. Code of Rust cannot run before Rust's runtime.

fn main() {
    println!("cargo::rerun-if-changed=src/ignored_signals.c");
    let mut build = cc::Build::new();
    build.file("src/ignored_signals.c").warnings_into_errors(true);
    // As an object, because a linker takes nothing from a library that no symbol refers to.
    for object in build.compile_intermediates() {
        println!("cargo::rustc-link-arg-bins={}", object.display());
    }
}
