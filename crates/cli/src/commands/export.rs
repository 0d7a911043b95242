//! `fathom export`: a result in the format of another viewer.
//!
//! What not: the formats (`export`), sending one (`otlp`).

use std::io::IsTerminal;
use std::process::ExitCode;

use ::export::Exported;

use crate::arguments::{ExportFormat, ExportOptions};
use crate::exit::{CANNOT_MEASURE, Failure};
use crate::redact::redact;

/// Writes a result.
pub fn export(options: &ExportOptions) -> Result<ExitCode, Failure> {
    let one_figure = matches!(options.format, ExportFormat::Folded | ExportFormat::Svg);
    if options.figure.is_some() && !one_figure {
        return Err(Failure::usage("--figure is for folded and svg")
            .hint("the other formats have all figures; choose in the viewer"));
    }
    let is_otlp = matches!(options.format, ExportFormat::Otlp);
    if !is_otlp && (options.send.is_some() || !options.attributes.is_empty()) {
        return Err(Failure::usage("--send and --attribute are for otlp")
            .hint("fathom export otlp --send http://127.0.0.1:4318"));
    }
    let binary = matches!(options.format, ExportFormat::Pprof | ExportFormat::Perfetto);
    if (binary || is_otlp && options.send.is_none())
        && options.output.is_none()
        && std::io::stdout().is_terminal()
    {
        return Err(Failure::usage("this format is no text; a terminal cannot show it")
            .hint("name a file: -o FILE"));
    }
    let directory = super::result_directory(options.result.as_ref())?;
    let mut recording = super::report::open(&directory)?;
    redact(&mut recording, &options.redact);
    let exported = Exported::new(&recording, &super::shown_name(&directory));
    // Of one that was counted the notes are of other figures.
    let chosen = if one_figure { figure(&exported, options).ok() } else { None };
    let counted = chosen.is_some_and(|at| !exported.figures[at].name.starts_with("estimated"));
    // What is sent has them in it.
    let is_said = !counted && options.send.is_none();
    exported.notes.iter().filter(|_| is_said).for_each(|note| eprintln!("fathom: {note}"));
    let bytes = match options.format {
        ExportFormat::Folded => exported.folded(figure(&exported, options)?).into_bytes(),
        ExportFormat::Svg => exported.svg(figure(&exported, options)?).into_bytes(),
        ExportFormat::Perfetto => exported.perfetto(),
        ExportFormat::Firefox => exported.firefox().into_bytes(),
        // Without a figure a file would say that the program did nothing.
        ExportFormat::Pprof => figure(&exported, options).map(|_| exported.pprof())?,
        ExportFormat::Otlp => {
            figure(&exported, options).map(|_| exported.otlp(&options.attributes))?
        }
        ExportFormat::Speedscope => {
            figure(&exported, options).map(|_| exported.speedscope().into_bytes())?
        }
        ExportFormat::Csv => figure(&exported, options).map(|_| exported.csv().into_bytes())?,
    };
    if let Some(address) = &options.send {
        return super::otlp::send(address, &bytes, &exported.result);
    }
    match &options.output {
        None => super::print_bytes(&bytes),
        Some(file) => super::write(file, &bytes),
    }
}

fn figure(exported: &Exported, options: &ExportOptions) -> Result<usize, Failure> {
    let Some(main) = exported.main_figure() else {
        let error = anyhow::anyhow!("{} has no figures by call stack", exported.result);
        return Err(Failure::new(CANNOT_MEASURE, error));
    };
    let Some(name) = &options.figure else { return Ok(main) };
    exported.figure(name).ok_or_else(|| {
        let names: Vec<&str> = exported.figures.iter().map(|figure| figure.name).collect();
        Failure::usage(format!("no figure '{name}' here; possible are {}", names.join(", ")))
    })
}
