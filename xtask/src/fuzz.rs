//! `cargo xtask fuzz [--seconds N] [TARGET]…`: runs the fuzz targets, each for a minute by default.
//!
//! It uses libFuzzer through cargo-fuzz, without a sanitizer: the code under test has no `unsafe`,
//! so it runs on the stable toolchain. Each run starts from `fuzz/seeds` and from the findings of
//! earlier runs on this machine. Inputs that break a target are kept in `fuzz/artifacts`. A run is
//! limited in time, memory and the time of one input.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::prerequisites::cargo_tools::installed;
use crate::process::{cache, command, output, root, run as run_command, run_within, target};

const VERSION: &str = "0.13.2";
const SECONDS: u64 = 60;
/// Extra time for the start, the corpus and the last input.
const GRACE: Duration = Duration::from_secs(120);

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (seconds, wanted) = parse(args)?;
    let targets = targets()?;
    if let Some(unknown) = wanted.iter().find(|name| !targets.contains(name)) {
        bail!("no fuzz target is called '{unknown}'; targets: {}", targets.join(", "));
    }
    fuzz(if wanted.is_empty() { &targets } else { &wanted }, seconds)
}

/// Runs every target, each for `STEAD_FUZZ_SECONDS`.
pub(crate) fn check() -> Result<()> {
    let seconds = match std::env::var("STEAD_FUZZ_SECONDS") {
        Ok(text) => text.parse().context("STEAD_FUZZ_SECONDS is no number")?,
        Err(_) => SECONDS,
    };
    fuzz(&targets()?, seconds)
}

fn parse(args: &[String]) -> Result<(u64, Vec<String>)> {
    let (mut seconds, mut wanted) = (SECONDS, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => seconds = args.next().context("--seconds wants a number")?.parse()?,
            flag if flag.starts_with('-') => bail!("usage: cargo xtask fuzz [--seconds N] [TARGET]…"),
            name => wanted.push(name.to_owned()),
        }
    }
    Ok((seconds, wanted))
}

/// Returns the names of the targets, one per file, sorted.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("fuzz/targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn fuzz(targets: &[String], seconds: u64) -> Result<()> {
    let programs = build()?;
    // Temporary directory of the targets. It is removed even if a target dies.
    let scratch = tempfile::tempdir()?;
    for name in targets {
        println!("\nfuzzing {name} for {seconds} s");
        let corpus = cache().join("fuzz").join(name);
        let artifacts = root().join("fuzz/artifacts").join(name);
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&artifacts)?;
        let mut fuzzer = command(programs.join(name));
        fuzzer
            .arg(corpus)
            .arg(root().join("fuzz/seeds").join(name))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=20", "-rss_limit_mb=1024", "-max_len=16384", "-verbosity=0", "-print_final_stats=1"])
            .env("TMPDIR", scratch.path());
        run_within(&mut fuzzer, Duration::from_secs(seconds) + GRACE).with_context(|| {
            format!(
                "fuzz target {name}; the input is in {}. Run it again: {} {}/INPUT",
                artifacts.display(),
                programs.join(name).display(),
                artifacts.display()
            )
        })?;
    }
    Ok(())
}

/// Builds the targets and returns their directory.
fn build() -> Result<PathBuf> {
    let tool = installed("cargo-fuzz", VERSION)?;
    let target = target().join("fuzz");
    run_command(command(tool).args(["build", "--sanitizer=none", "--fuzz-dir=fuzz", "--target-dir"]).arg(&target))?;
    let facts = output(command("rustc").arg("-vV"))?;
    let host = facts.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(target.join(host).join("release"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let args = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(parse(&args(&["tar", "--seconds", "5"])).unwrap(), (5, vec!["tar".to_owned()]));
        assert_eq!(parse(&[]).unwrap(), (SECONDS, Vec::new()));
        assert!(parse(&args(&["--second", "5"])).is_err());
        assert!(parse(&args(&["--seconds"])).is_err());
    }

    #[test]
    fn every_target_has_seeds() {
        for name in targets().unwrap() {
            assert!(root().join("fuzz/seeds").join(&name).read_dir().unwrap().count() > 0, "{name}");
        }
    }
}
