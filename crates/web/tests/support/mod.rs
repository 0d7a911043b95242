//! Scripts of `tests/ui` in real Chromium. Where something that they need is missing, the test says so and returns.

/// Runs `tests/ui/SCRIPT` on a page, with what else it wants to know; every step in it must hold.
pub fn click_through(script: &str, address: &str, others: &[&str]) {
    let arguments: Vec<&str> = [address].iter().chain(others).copied().collect();
    testkit::programs::in_chromium(&format!("ui/{script}"), &arguments);
}
