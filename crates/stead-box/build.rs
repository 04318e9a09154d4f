//! Links the programs of a package statically, so that they run in any root: with glibc, with musl,
//! without any library. `stead-init` and `wsprobe` use this build script.
//!
//! The script sets linker arguments of these programs only. `+crt-static` would apply to the whole
//! build and would need a second target directory.

use std::path::PathBuf;

fn main() {
    // Every package has this file. Cargo also runs a build script again after compiling it again.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // The standard library's arguments name shared libraries. The linker finds these two scripts
    // first, and they name the static libraries instead.
    let (libc, unwinder) = (library("libc.a"), library("libgcc_eh.a"));
    let scripts = [
        ("libc.so", format!("GROUP ( {libc} {unwinder} )\n")),
        ("libgcc_s.so", format!("GROUP ( {unwinder} {libc} )\n")),
    ];
    for (name, text) in scripts {
        if let Err(error) = std::fs::write(out.join(name), text) {
            println!("cargo::error=cannot write {name}: {error}");
        }
    }
    // Undefined weak symbols are zero. No dynamic linker could resolve them at run time.
    let arguments = ["-static-pie", "-Wl,-z,nodynamic-undefined-weak", &format!("-L{}", out.display())];
    for argument in arguments {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// Path at which the C compiler finds a library.
fn library(name: &str) -> String {
    let found = std::process::Command::new("cc").arg(format!("-print-file-name={name}")).output();
    found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_else(|_| name.to_owned())
}
