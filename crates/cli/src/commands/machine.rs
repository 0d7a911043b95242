//! `fathom machine`: prints what this machine is and can do.
//!
//! What not: measuring (`calibrate`), the layout of the text (`report::machine`).

use std::process::ExitCode;

use crate::arguments::{Format, MachineFormat, MachineOptions};
use crate::exit::Failure;
use crate::progress::Progress;

/// Shows the machine, after measuring it if that was not done yet.
pub fn machine(options: &MachineOptions) -> Result<ExitCode, Failure> {
    let (host, mut problems) = calibrate::host();
    let known = if options.refresh { None } else { calibrate::cache::load(&host) };
    let calibration = known.unwrap_or_else(|| {
        let mut progress = Progress::new(true);
        let mut measured =
            calibrate::measure(&host, &calibrate::Options::default(), &mut |done, what| {
                progress.show(done, what);
            });
        drop(progress);
        if let Err(error) = calibrate::cache::save(&host, &mut measured) {
            problems.push(format!("cannot store the figures for later runs: {error}"));
        }
        measured
    });
    for problem in &problems {
        eprintln!("fathom: {problem}");
    }
    let counters = super::counters::look(&host);
    let document = report::machine(&host, &calibration, counters.data());
    super::print(&match options.format {
        MachineFormat::Text => super::rendered(&document, Format::Text) + &counters.text(),
        MachineFormat::Json => document.json(),
        MachineFormat::Csv => document.csv(),
        MachineFormat::Markdown => document.markdown(),
        MachineFormat::Svg => report::machine_svg(&host, &calibration),
    })
}
