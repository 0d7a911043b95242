//! Compiles `preload/` into the library that is preloaded into programs, `regions/` into the one that programs with marked
//! regions load, and `placement/` into the one that `fathom place` preloads.
//!
//! Why not by cargo: the library must not use Rust's standard library. That would give the program a TLS segment, for
//! which the C library allocates more bytes per thread, and libgcc_s. It needs `panic=abort`, which cargo sets for a
//! whole workspace or not at all; but `fathom` itself must survive a panic of a parser.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rerun-if-changed=regions");
    println!("cargo::rerun-if-changed=placement");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo::rerun-if-changed=../sys/src/marked.rs");
    println!("cargo::rerun-if-changed=../sys/src/heap.rs");
    println!("cargo::rerun-if-changed=../sys/src/heap_exact.rs");
    compile("fathom_agent", "preload/lib.rs", &[]);
    compile("fathom_placement", "placement/lib.rs", &[]);
    // Whoever loads it may unload it; then the ends of threads would call code that is gone.
    compile("fathom_regions", "regions/lib.rs", &["-C", "link-arg=-Wl,-z,nodelete"]);
}

fn compile(name: &str, source: &str, more: &[&str]) {
    let variable =
        |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    // Of another architecture than ours it is named in the environment (CARGO_TARGET_..._LINKER).
    let linker = std::env::var("RUSTC_LINKER").map(|linker| format!("linker={linker}"));
    let linker = linker.iter().flat_map(|linker| ["-C", linker]);
    let library = PathBuf::from(variable("OUT_DIR")).join(format!("lib{name}.so"));
    let status = Command::new(variable("RUSTC"))
        .args(["--crate-name", name, "--crate-type", "cdylib", "--edition", "2024"])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1"])
        // `exact` finds the program's frame through frame pointers.
        .args(["-C", "force-frame-pointers=yes"])
        // Line tables would only describe our own functions, which are left out of every stack.
        .args(["-C", "debuginfo=0", "-C", "strip=debuginfo", "-C", "force-unwind-tables=yes"])
        .args(more)
        .args(linker)
        .arg("--target")
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library)
        .arg(source)
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!("rustc could not compile {source}: {other:?}"),
    }
}
