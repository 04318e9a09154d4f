//! `sqlx::migrate!` reads directories; on stable Rust only a build script can say when to read them
//! again.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
