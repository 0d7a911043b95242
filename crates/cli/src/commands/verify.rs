//! `fathom verify`.

use std::process::ExitCode;

use crate::arguments::VerifyOptions;
use crate::exit::{DAMAGED, Failure};

/// Checks a result and lists what does not hold.
pub fn verify(options: &VerifyOptions) -> Result<ExitCode, Failure> {
    let directory = super::result_directory(options.result.as_ref())?;
    let violations = store::verify(&directory)
        .map_err(|error| Failure::new(super::report::store_error_code(&error, DAMAGED), error))?;
    if violations.is_empty() {
        return super::print(&format!(
            "{}: all {} invariants hold\n",
            directory.display(),
            store::INVARIANTS.len()
        ));
    }
    for violation in &violations {
        super::print(&format!("{violation}\n"))?;
    }
    Err(Failure::new(
        DAMAGED,
        anyhow::anyhow!("{}: {} violations of invariants", directory.display(), violations.len()),
    ))
}
