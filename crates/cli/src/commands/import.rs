//! `fathom import`: a recording of another tool becomes a result like our own.
//!
//! What not: reading such files (`import`), the report (`report`).

use std::process::ExitCode;

use facts::host::Host;
use facts::{Analysis, CollectorInfo, ExitKind, Run, RunState, SCHEMA_VERSION, SamplingMethod};
use import::{ImportError, Imported};

use super::collect::closing::{Closing, Deadline, Noting};
use super::collect::new_result;
use crate::arguments::ImportOptions;
use crate::exit::{CANNOT_MEASURE, DAMAGED, Failure, USAGE};

/// Imports a file into a new result.
pub fn import(options: &ImportOptions) -> Result<ExitCode, Failure> {
    let mut run = Run {
        schema: SCHEMA_VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Incomplete,
        analysis: Analysis::Hotspots,
        // The user chose the size of the file.
        limit_bytes: u64::MAX,
        ..Run::default()
    };
    let wanted = options.result.as_deref();
    let (directory, writer) = new_result(Analysis::Hotspots, wanted, &run)?;
    let mut sink = Noting::new(writer, false);
    let mut imported = match import::import(&options.file, &mut sink) {
        Ok(imported) => imported,
        Err(error) => {
            drop(sink);
            // Nothing was imported: an empty result would only be in the way.
            let _ = std::fs::remove_dir_all(&directory);
            return Err(failure(error));
        }
    };
    let (files, elsewhere) = (std::mem::take(&mut imported.files), imported.elsewhere);
    describe(&mut run, imported);
    let deadline = Deadline::new(sys::process::monotonic(), base::Nanos(run.elapsed_ns));
    let closing = Closing::begin(sink, files, elsewhere, deadline, options.quiet);
    closing.finish(&mut run, &directory, options.quiet, None)?;
    if !options.quiet {
        super::report::print_summary(&directory)?;
        eprintln!("fathom: result in {}", directory.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(run: &mut Run, imported: Imported) {
    let Imported { source, machine, .. } = imported;
    run.command = imported.command;
    run.source = Some(source);
    run.started_unix = imported.started_unix;
    run.elapsed_ns = imported.elapsed.0;
    run.exit = Some(ExitKind::Unknown);
    run.collector = CollectorInfo {
        method: SamplingMethod::Imported,
        sampling_period_ns: imported.period.0,
        kernel_samples: imported.kernel_samples,
        stack_bytes: imported.stack_bytes,
        ..CollectorInfo::default()
    };
    run.host_name = Some(machine.host).filter(|name| !name.is_empty());
    let (vendor, family_model_stepping) = machine.cpu_id.unwrap_or_default();
    run.host = Host {
        cpu: machine.cpu,
        vendor,
        family_model_stepping,
        cores: machine.cores,
        architecture: machine.architecture,
        logical_cpus: machine.cpus,
        memory_bytes: machine.memory_bytes,
        kernel: machine.kernel,
        ..Host::default()
    };
    run.notes.extend(imported.notes);
}

fn failure(error: ImportError) -> Failure {
    let code = match &error {
        ImportError::Unreadable { .. } | ImportError::NotPerfData(_) => USAGE,
        ImportError::Damaged { .. } => DAMAGED,
        _ => CANNOT_MEASURE,
    };
    Failure::new(code, error)
}
