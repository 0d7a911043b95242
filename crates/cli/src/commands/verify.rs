//! `fathom verify`: checks the invariants of a result, and the agreement of its views.
//!
//! What not: the invariants (`store::verify`, `report::consistency`).

use std::process::ExitCode;

use report::consistency::{CHECKS, contradictions};

use crate::arguments::VerifyOptions;
use crate::exit::{DAMAGED, Failure};

/// Checks a result and lists what does not hold.
pub fn verify(options: &VerifyOptions) -> Result<ExitCode, Failure> {
    let directory = super::result_directory(options.result.as_ref())?;
    let violations = store::verify(&directory)
        .map_err(|error| Failure::new(super::report::store_error_code(&error, DAMAGED), error))?;
    // The agreement of views is checked only for an intact result.
    let mut violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    if violations.is_empty() {
        let recording = super::report::open(&directory)?;
        let failed = contradictions(&recording).map_err(|error| Failure::new(DAMAGED, error))?;
        violations.extend(failed.into_iter().map(|(check, detail)| format!("{check}: {detail}")));
    }
    if violations.is_empty() {
        return super::print(&format!(
            "{}: all {} invariants hold, and {} between its views\n",
            directory.display(),
            store::INVARIANTS.len(),
            CHECKS.len()
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
