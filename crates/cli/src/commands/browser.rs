//! Starts the user's browser at an address that nobody else may know.
//!
//! What for: any user of the machine can read the arguments of all programs (`/proc/PID/cmdline`). So the browser is given the
//! name of a file that only this user can read, and the file leads to the address. What not: the server (`web`).

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long the file stays. A browser that starts first reads it within seconds; what it opens afterwards has the address.
const FILE_STAYS: Duration = Duration::from_secs(60);

/// Starts the browser; whether there is one to start.
pub fn open(address: &str) -> bool {
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let Some(file) = has_screen.then(|| leading_to(address)).flatten() else { return false };
    let started = Command::new("xdg-open")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok();
    // What an interrupt leaves behind leads to a server that has ended, and its token with it.
    std::thread::spawn(move || {
        std::thread::sleep(if started { FILE_STAYS } else { Duration::ZERO });
        let _ = std::fs::remove_file(file);
    });
    started
}

/// A new file that leads a browser to the address, readable by this user only. `None` when none can be written.
fn leading_to(address: &str) -> Option<PathBuf> {
    // A folder of this user's own first: the system removes what is left there at the end of the session.
    let folders =
        [std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), Some(std::env::temp_dir())];
    let name = format!("fathom-open-{}.html", std::process::id());
    folders.into_iter().flatten().find_map(|folder| written(&folder.join(&name), address).ok())
}

fn written(file: &Path, address: &str) -> std::io::Result<PathBuf> {
    // `create_new` follows no link that somebody else put there.
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(
        to,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><title>Fathom</title>\
         <p><a href=\"{address}\">The page of this result</a></p>"
    )?;
    Ok(file.to_owned())
}
