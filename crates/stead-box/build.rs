//! Links `stead-init`, and the probe that goes where it goes, statically, so that the one program
//! runs in any root: with glibc, with musl, with no library at all.
//!
//! Done by linker arguments of that program alone and not by `+crt-static`, which would have to
//! hold for the whole build: every `cargo build` then gives the same `stead-init`, with no second
//! target directory.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // The standard library's own arguments ask for shared libraries by name. Found first, these two
    // stand for their static halves.
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
    // Whatever is not there is zero, and not looked up when the program starts: there is nobody to
    // look it up.
    let arguments = ["-static-pie", "-Wl,-z,nodynamic-undefined-weak", &format!("-L{}", out.display())];
    for program in ["stead-init", "wsprobe"] {
        for argument in arguments {
            println!("cargo::rustc-link-arg-bin={program}={argument}");
        }
    }
}

/// Where the C compiler finds a library of its own.
fn library(name: &str) -> String {
    let found = std::process::Command::new("cc").arg(format!("-print-file-name={name}")).output();
    found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_else(|_| name.to_owned())
}
