//! The notation of `fathom scale`: lists of threads, `{threads}` in arguments, figures that programs print.
//!
//! What not: running anything.

use std::ffi::OsString;

use crate::exit::Failure;

/// The placeholder for the number of threads in arguments and variables.
const PLACE: &str = "{threads}";

/// The text with the number of threads in place of the placeholder.
pub fn text_with_threads(text: &str, threads: u32) -> String {
    text.replace(PLACE, &threads.to_string())
}

/// The same for an argument; one that is not UTF-8 has no placeholder.
pub fn with_threads(word: &OsString, threads: u32) -> OsString {
    match word.to_str() {
        Some(text) => OsString::from(text_with_threads(text, threads)),
        None => word.clone(),
    }
}

/// The number after the last `label` in `text`, possibly after blanks, `=` or `:`.
pub fn number_behind(text: &str, label: &str) -> Option<f64> {
    let (_, rest) = text.rsplit_once(label)?;
    let rest = rest.trim_start_matches([' ', '\t', '=', ':']);
    let end =
        rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
    rest[..end].parse().ok().filter(|number: &f64| number.is_finite())
}

/// Numbers of threads from text such as `1,2,4` or `1-8,16`.
pub fn thread_list(text: &str) -> Result<Vec<u32>, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "'{text}' is not a list of thread counts from 1 to 4096: write 1,2,4 or 1-8,16"
        ))
    };
    let number = |text: &str| {
        text.trim().parse().ok().filter(|n| (1..=4096u32).contains(n)).ok_or_else(wrong)
    };
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(wrong());
        }
        counts.extend(from..=to);
    }
    counts.sort_unstable();
    counts.dedup();
    Ok(counts)
}

/// All numbers up to 8, then powers of two, and as many as there are CPUs.
pub fn usual_counts(cpus: u32) -> Vec<u32> {
    let mut counts: Vec<u32> =
        (1..=cpus).filter(|n| *n <= 8 || n.is_power_of_two() || *n == cpus).collect();
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_threads() {
        assert_eq!(thread_list("4,1-3, 8,2").ok(), Some(vec![1, 2, 3, 4, 8]));
        for wrong in ["", "0", "1,x", "3-1", "1-5000", "-2"] {
            assert!(thread_list(wrong).is_err(), "{wrong}");
        }
        assert_eq!(usual_counts(12), [1, 2, 3, 4, 5, 6, 7, 8, 12]);
        assert_eq!(usual_counts(2), [1, 2]);
        assert_eq!(with_threads(&"-t{threads}".into(), 4), OsString::from("-t4"));
    }

    #[test]
    fn figures_of_programs() {
        let text = "Triad: 11.5 GB/s\nbest_gb_s= 2.5e1\nTriad:   12.25 GB/s\n";
        assert_eq!(number_behind(text, "Triad"), Some(12.25));
        assert_eq!(number_behind(text, "best_gb_s"), Some(25.0));
        assert_eq!(number_behind(text, "GB/s"), None);
        assert_eq!(number_behind(text, "Copy"), None);
    }
}
