//! `BENTPIPE_EMULATOR`: the version of the emulator's code, for [`BUILD`](../src/lib.rs). It covers only the crates that an emulation runs, so an
//! emulated Run stays valid when the simulator's transport, the readers or the orbits change.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Sources of this crate and its workspace dependencies; the lock file stands for other dependencies.
const SOURCES: [&str; 5] = ["src", "../apps/src", "../link/src", "../profile/src", "../../Cargo.lock"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        let path = here.join(source);
        // A packaged crate has neither the other crates nor a lock file.
        if path.exists() {
            collect(&path, &mut files)?;
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(&here).map_err(io::Error::other)?;
        let content = fs::read(&file)?;
        hash.update(format!("{}\0{}\0", name.display(), content.len()));
        hash.update(content);
    }
    // The build profile counts: an unoptimised relay is later.
    hash.update(env::var("PROFILE").unwrap_or_default());
    let first: [u8; 8] = hash.finalize()[..8].try_into().map_err(io::Error::other)?;
    println!("cargo:rustc-env=BENTPIPE_EMULATOR={:016x}", u64::from_be_bytes(first));
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else {
        files.push(path.to_owned());
    }
    Ok(())
}
