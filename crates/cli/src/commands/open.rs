//! `fathom open` and `fathom html`: the page with all views of a result, or of a dataset's many results, in the browser or in a file.
//!
//! What not: the page (`web`), starting a browser (`browser`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use facts::Recording;
use report::diff::{DiffOptions, RunFigures};
use report::{Diff, Document, Options, View};
use store::Answers;

use crate::arguments::{HtmlOptions, OpenOptions, Shown};
use crate::exit::{CANNOT_MEASURE, DAMAGED, Failure, USAGE};
use crate::s3::Bucket;

/// Serves the page until it is interrupted.
pub fn open(options: &OpenOptions) -> Result<ExitCode, Failure> {
    with_subject(&options.shown, |site| {
        let server = web::Server::bind(options.port).map_err(cannot)?;
        let address = server.address();
        super::print(&format!("{address}\n"))?;
        if options.no_browser || !super::browser::open(&address) {
            eprintln!(
                "fathom: open this address in a browser on this machine; Ctrl-C stops the server"
            );
        }
        server.serve(site);
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes the page as one file.
pub fn html(options: &HtmlOptions) -> Result<ExitCode, Failure> {
    with_subject(&options.shown, |site| {
        let page = web::page(site);
        let name = options.output.display();
        std::fs::write(&options.output, &page).map_err(|error| {
            Failure::new(
                CANNOT_MEASURE,
                anyhow::Error::new(error).context(format!("cannot write {name}")),
            )
        })?;
        eprintln!("fathom: {name}: {:.1} MB", page.len() as f64 / 1e6);
        Ok(ExitCode::SUCCESS)
    })
}

fn cannot(error: web::WebError) -> Failure {
    Failure::new(CANNOT_MEASURE, error)
}

fn is_dataset(path: &Path) -> bool {
    Bucket::is_named(&path.to_string_lossy()) || path.join(::dataset::VERSION_FILE).is_file()
}

/// A result, or the many of a dataset.
fn with_subject(
    shown: &Shown,
    show: impl FnOnce(&dyn web::Subject) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    match shown.result.as_ref().filter(|path| is_dataset(path)) {
        Some(dataset) => with_fleet(shown, dataset, show),
        None => with_site(shown, show),
    }
}

fn with_fleet(
    shown: &Shown,
    dataset: &Path,
    show: impl FnOnce(&dyn web::Subject) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    if shown.with.is_some() || shown.scaling.is_some() {
        let says = "--with and --scaling are for the page of one result, not of a dataset";
        return Err(Failure::usage(says.to_owned()));
    }
    // That there is no engine is said here, not in the page.
    let [first, ..] = web::FLEET;
    let results = super::across::answered(dataset, first)?;
    let across = |question: &str| match question == first {
        true => Ok(results.clone()),
        false => super::across::answered(dataset, question).map_err(|failure| failure.says()),
    };
    show(&web::Fleet::new(&super::shown_name(dataset), &across))
}

fn with_site(
    shown: &Shown,
    show: impl FnOnce(&dyn web::Subject) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let directory = super::result_directory(shown.result.as_ref())?;
    let (recording, problems) = super::report::open_with_problems(&directory)?;
    let working_directory = PathBuf::from(&recording.run.working_directory);
    let sources = |path: &str| super::report::read_source(&working_directory.join(path));
    let name = super::shown_name(&directory);
    let facts = |table: Option<&str>, most: usize| match table {
        Some(name) => store::rows_json(&recording, name, most),
        None => Some(store::tables_json(&recording)),
    };
    let (answers, is_whole) = (OnceLock::new(), problems.is_empty());
    let of_this_build = || Some((super::report::this_build()?, Answers::of(&directory)?));
    let kept = |question: &str, make: &web::Made<'_>| {
        let answers = answers.get_or_init(|| of_this_build().filter(|_| is_whole));
        let Some((build, answers)) = answers else { return make() };
        let answer = answers.to(format!("{build} page of {name}: {question}").as_bytes());
        answer
            .read()
            .map_or_else(|| make().inspect(|text| answer.keep(text, recording.run.limit_bytes)), Ok)
    };
    let site = web::Site::new(&recording, &name, problems, &sources)
        .with_code(&super::machine_code::of_functions)
        .with_facts(&facts)
        .with_kept(&kept);
    let site = match &shown.scaling {
        Some(sweep) => scaled(site, &sweep.join("scale.json"))?,
        None => site,
    };
    let Some(other) = &shown.with else { return show(&site) };
    let compared = super::report::open(other)?;
    let diff = difference((&recording, &name), (&compared, &super::shown_name(other)))?;
    show(&site.comparing(&diff, &web::ComparedResult::New(&compared)).map_err(cannot)?)
}

fn scaled<'a>(site: web::Site<'a>, file: &Path) -> Result<web::Site<'a>, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(USAGE, anyhow::Error::new(error).context(format!("cannot read {name}")))
    })?;
    site.scaling(&text).ok_or_else(|| {
        Failure::new(DAMAGED, anyhow::anyhow!("{name} is not a document of `fathom scale`"))
    })
}

/// What `fathom diff BASE NEW` shows, with all rows.
fn difference(base: (&Recording, &str), new: (&Recording, &str)) -> Result<Document, Failure> {
    let usage = |error| Failure::new(USAGE, error);
    let table = Options { view: View::Hotspots, ..Options::default() };
    let options = DiffOptions::new(table, None).map_err(usage)?;
    let figures = |(recording, name): (&Recording, &str)| {
        RunFigures::of(recording, name, &options).map_err(usage)
    };
    let (base, new) = ([figures(base)?], [figures(new)?]);
    let diff = Diff::new(&base, &new, &options, &[], None).map_err(usage)?;
    Ok(Document::Diff(Box::new(diff)))
}
