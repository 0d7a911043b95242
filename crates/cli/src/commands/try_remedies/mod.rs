//! `fathom try`: runs the program with and without remedies, and reports the effect of each.
//!
//! ```text
//!   record the program once (or open a result)    its behaviour decides which remedies fit
//!   rounds: plain, then each remedy, in a fresh random order; what the findings advise comes first
//!   after some rounds                             a clear remedy is not run again
//!   until all are clear, the budget is used up, or an interrupt (Ctrl-C) arrives
//! ```
//! What not: the choice of remedies for a behaviour (`analysis::remedies`). Assumption: each run does the same, ends
//! with the same exit code, and does not make the next one faster, except through caches, which the recording has
//! warmed.

mod rounds;
mod situation;

use std::ffi::OsString;
use std::process::ExitCode;

use analysis::remedies::{Change, Fit, Means, Remedy, remedies};
use report::trials::Trials;

use self::rounds::{Candidate, Outcome, Rounds};
use crate::arguments::TryOptions;
use crate::exit::{CANNOT_MEASURE, Failure};

/// Tries remedies.
pub fn try_remedies(options: &TryOptions) -> Result<ExitCode, Failure> {
    // A wrong name is said before the program has run for an hour.
    let (host, _) = calibrate::host();
    let means = situation::means(&host);
    check_names(&options.remedies, &means)?;
    super::collect::find_program(&options.command[0])?;
    let (program, advised) = situation::behaviour(options)?;
    let (mut candidates, not_tried) = choose(remedies(&means, &program), &options.remedies);
    let rank = |name: &str| advised.iter().position(|one| one == name).unwrap_or(advised.len());
    candidates.sort_by_key(|candidate| rank(&candidate.name));
    if candidates.is_empty() && !options.remedies.is_empty() {
        let why: Vec<String> =
            not_tried.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        return Err(Failure::new(CANNOT_MEASURE, anyhow::Error::msg(why.join("; "))));
    }
    let mut rounds = Rounds::new(&options.command, candidates, options.budget, options.quiet)?;
    rounds.run()?;
    let Outcome { plain, tried, notes } = rounds.finish();
    let document = report::trials::trials(&Trials {
        command: super::words(&options.command),
        plain,
        tried,
        not_tried,
        notes,
    });
    super::print(&super::rendered(&document, options.format))
}

fn check_names(names: &[String], means: &Means<'_>) -> Result<(), Failure> {
    let known: Vec<&str> =
        remedies(means, &Default::default()).iter().map(|remedy| remedy.name).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(Failure::usage(format!("no remedy '{name}'; remedies are {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

/// The remedies to try, and the others with the reason. Named remedies are tried even if they seem pointless.
fn choose(all: Vec<Remedy>, named: &[String]) -> (Vec<Candidate>, Vec<(String, String)>) {
    let (mut candidates, mut not_tried) = (Vec::new(), Vec::new());
    for remedy in all {
        let wanted = named.iter().any(|name| name == remedy.name);
        if !wanted && !named.is_empty() {
            continue;
        }
        match remedy.fit {
            Fit::Fits(change) => candidates.push(candidate(remedy.name, remedy.what, change)),
            Fit::Pointless(change, _) if wanted => {
                candidates.push(candidate(remedy.name, remedy.what, change));
            }
            Fit::Pointless(_, why) | Fit::Impossible(why) => {
                not_tried.push((remedy.name.to_owned(), why));
            }
        }
    }
    (candidates, not_tried)
}

fn candidate(name: &str, what: &str, change: Change) -> Candidate {
    let variables = change.variables(&|name| std::env::var(name).ok());
    let (mut before, line): (Vec<OsString>, _) =
        (change.before.iter().map(OsString::from).collect(), change.line());
    // This program, wherever PATH leads.
    if let (Some(first), Ok(own)) = (before.first_mut(), std::env::current_exe()) {
        *first = own.into_os_string();
    }
    Candidate::new(name, what, variables, before, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_a_remedy_gets_it_if_it_is_possible() {
        let remedy = |name, fit| Remedy { name, what: "", fit };
        let all = || {
            vec![
                remedy("a", Fit::Fits(Change::default())),
                remedy("b", Fit::Pointless(Change::default(), "no use".to_owned())),
                remedy("c", Fit::Impossible("not here".to_owned())),
            ]
        };
        let names = |(candidates, not): (Vec<Candidate>, Vec<(String, String)>)| {
            let tried: Vec<String> = candidates.into_iter().map(|one| one.name).collect();
            (tried, not.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(choose(all(), &[])), (words(&["a"]), words(&["b", "c"])));
        let named = words(&["b", "c"]);
        assert_eq!(names(choose(all(), &named)), (words(&["b"]), words(&["c"])));
    }
}
