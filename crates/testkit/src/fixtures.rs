//! Recordings and descriptions of real machines, which are not part of the repository.
//!
//! What for: `FATHOM_FIXTURES`, else `../shared/fixtures` next to the checkout. What not: reading them.

use std::path::{Path, PathBuf};

/// The file of this name. `None`, with the reason printed, where it is not there: the test is skipped then.
#[must_use]
pub fn fixture(name: &str) -> Option<PathBuf> {
    let next_to_checkout =
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = std::env::var_os("FATHOM_FIXTURES").map_or_else(next_to_checkout, PathBuf::from);
    let file = folder.join(name);
    if !file.exists() {
        println!("skipped: {} is not there (set FATHOM_FIXTURES)", file.display());
        return None;
    }
    Some(file)
}
