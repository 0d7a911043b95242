//! The page's program, as vite built it from `ui/src`.
//!
//! Assumption: `ui/dist` matches `ui/src`; `tests/bundle.rs` sees to it.

/// All scripts as one that runs at once.
pub(crate) const SCRIPT: &str = include_str!("../../../ui/dist/app.js");
/// All styles.
pub(crate) const STYLE: &str = include_str!("../../../ui/dist/app.css");
/// The SQL engine of the view Ask: a script for a worker and its WebAssembly, packed by `ui/vite.config.js`.
pub(crate) const ENGINE: &str = include_str!("../../../ui/dist/engine.txt");
/// `sha256-...` of the script and of the style, a line each, as a Content Security Policy names them.
const HASHES: &str = include_str!("../../../ui/dist/hashes.txt");

/// A policy that runs our own two texts only. `connect`: where data may come from, `'none'` or `'self'`. Our script may compile
/// WebAssembly, and start a worker of its own text: a file has no address for one. The worker has the same policy.
pub(crate) fn policy(connect: &str) -> String {
    let mut hashes = HASHES.lines();
    let (script, style) = (hashes.next().unwrap_or_default(), hashes.next().unwrap_or_default());
    format!(
        "default-src 'none'; script-src '{script}' 'wasm-unsafe-eval'; style-src '{style}'; img-src data: blob:; worker-src blob:; \
         connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
}
