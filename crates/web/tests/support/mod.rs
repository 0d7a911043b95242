//! Scripts of `tests/ui` in real Chromium. Where something that they need is missing, the test says so and returns.

use std::path::{Path, PathBuf};
use std::process::Command;

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    // Ubuntu's package is a script that asks for snap.
    let starts = |file: &PathBuf| {
        Command::new(file).arg("--version").output().is_ok_and(|done| done.status.success())
    };
    found.filter(|file| file.is_file()).find(starts)
}

/// Runs `tests/ui/SCRIPT` on a page, with what else it wants to know; every step in it must hold.
pub fn click_through(script: &str, address: &str, others: &[&str]) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let Some(chromium) = chromium() else {
        println!("skipped: there is no Chromium: apt install chromium");
        return;
    };
    // The list that npm writes last: behind it the packages are whole.
    if !root.join("ui/node_modules/.package-lock.json").is_file() {
        println!("skipped: the packages of ui are not installed: cd ui && npm ci");
        return;
    }
    let done = Command::new("node")
        .arg(root.join("tests/ui").join(script))
        .arg(chromium)
        .arg(address)
        .args(others)
        .output();
    let Ok(done) = done else {
        println!("skipped: there is no node: apt install nodejs");
        return;
    };
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
}
