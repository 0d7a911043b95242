//! One line on stderr that shows how far long work has come. Silent when stderr is no terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: usize = 24;

/// A progress line; it wipes itself away on drop.
pub struct Progress {
    shown: bool,
    drawn: Option<Instant>,
}

impl Progress {
    /// Starts one; `wanted` false (`--quiet`) keeps it silent.
    pub fn new(wanted: bool) -> Progress {
        Progress { shown: wanted && std::io::stderr().is_terminal(), drawn: None }
    }

    /// Shows `done` (0 to 1) of `what`. Draws at most twenty times a second.
    pub fn show(&mut self, done: f64, what: &str) {
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() > Duration::from_millis(50));
        if !self.shown || !due {
            return;
        }
        self.drawn = Some(Instant::now());
        let filled = ((done.clamp(0.0, 1.0) * WIDTH as f64) as usize).min(WIDTH);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled));
        let what: String = what.chars().take(60).collect();
        eprint!("\r\x1b[2K{bar} {:3.0} %  {what}", done * 100.0);
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            eprint!("\r\x1b[2K");
        }
    }
}
