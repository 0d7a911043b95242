//! The pages for users against the program: commands, options, knobs, views, keys, exit codes, remedies' commands, and
//! what each measurement takes.
//!
//! What for: a page that names a flag that is gone, or lacks one that is new, fails here. What not: prose; the result
//! directory's page (`store`) and the glossary (`report`), which have tests of their own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::error::ErrorKind;
use report::View;

use crate::commands::generate::command;
use crate::exit;
use crate::knobs::KNOBS;

const COMMAND_LINE: &str = include_str!("../../../docs/guide/command-line.md");

/// The text below the heading up to the next heading of its level or above.
fn section(heading: &str) -> &'static str {
    let start = COMMAND_LINE.find(&format!("{heading}\n"));
    let start = start.unwrap_or_else(|| panic!("command-line.md has no {heading}"));
    let level = heading.find(' ').expect("a heading");
    let rest = &COMMAND_LINE[start + heading.len()..];
    let next = rest.match_indices("\n#").find(|(at, _)| {
        rest[at + 1..].find(|letter| letter != '#').is_some_and(|found| found <= level)
    });
    &rest[..next.map_or(rest.len(), |(at, _)| at)]
}

/// The first column of a section's tables, without its backticks.
fn rows(section: &str) -> impl Iterator<Item = &str> {
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.split(" | ").next())
        .map(|cell| cell.trim_matches('`'))
}

#[test]
fn every_command_has_a_section_with_exactly_its_options() {
    let mut command = command();
    command.build();
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = command.get_name();
        let section = section(&format!("### `fathom {name}`"));
        let described: BTreeSet<String> = rows(section)
            .flat_map(|row| row.split([' ', ',']))
            .filter(|word| word.starts_with('-'))
            .map(str::to_owned)
            .collect();
        let mut options = BTreeSet::new();
        let nested = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let all = command.get_arguments().chain(nested);
        for option in all.filter(|option| option.get_id() != "help") {
            options.extend(option.get_long().map(|long| format!("--{long}")));
            options.extend(option.get_short().map(|short| format!("-{short}")));
        }
        assert_eq!(described, options, "{name}");
    }
}

#[test]
fn tables_of_knobs_analyses_and_exit_codes_are_those_of_the_program() {
    let described: Vec<&str> = rows(section("### Knobs")).skip(1).collect();
    assert_eq!(described.len(), KNOBS.len());
    for (knob, row) in KNOBS.iter().zip(described) {
        assert_eq!(knob.name, row);
        let line = format!("| `{}` | {} | {} |", knob.name, knob.default, knob.meaning());
        assert!(COMMAND_LINE.contains(&line), "command-line.md lacks: {line}");
    }
    let analyses = command();
    let collect = analyses.find_subcommand("collect").expect("collect");
    let values = collect.get_arguments().find(|one| one.get_id() == "analysis");
    let mut names: Vec<String> = values
        .expect("the analysis")
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    let mut described: Vec<&str> = rows(section("### `fathom collect`"))
        .filter(|row| {
            !row.starts_with('-') && row.starts_with(|letter: char| letter.is_lowercase())
        })
        .collect();
    names.sort();
    described.sort_unstable();
    assert_eq!(described, names);
    let codes = [0, exit::GATE_FAILED, exit::USAGE, exit::CANNOT_MEASURE, exit::DAMAGED, exit::BUG];
    let described: Vec<u8> =
        rows(section("## Exit codes")).filter_map(|row| row.parse().ok()).collect();
    assert_eq!(described, codes);
}

#[test]
fn every_view_and_grouping_is_named() {
    let section = section("### `fathom report`");
    let views = View::ALL.iter().map(|(view, _)| format!("`{}`", view.name()));
    let named: Vec<&str> = section[section.find("\nViews:").expect("the views")..]
        .split("\n\n")
        .next()
        .expect("a paragraph")
        .split(['`', '.'])
        .filter(|word| word.chars().all(|letter| letter.is_lowercase() || letter == '-'))
        .filter(|word| !word.is_empty())
        .collect();
    assert_eq!(named.len(), View::ALL.len(), "{named:?}");
    let error = report::parse_keys("no-such").expect_err("no such key").to_string();
    let keys = error.split("possible are ").nth(1).and_then(|rest| rest.split(", or ").next());
    let keys = keys.expect("the list of keys").split(", ").map(|key| format!("`{key}`"));
    for word in views.chain(keys) {
        assert!(section.contains(&word), "command-line.md lacks {word}");
    }
}

#[test]
fn what_measurements_take_is_what_doctor_says() {
    const README: &str = include_str!("../../../README.md");
    let section = README.split("\n## What it needs\n").nth(1).expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let described: Vec<(&str, &str)> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .filter_map(|(what, rest)| Some((what, rest.split_once(" | ")?.0)))
        .skip(1)
        .collect();
    let findings = crate::commands::doctor::findings(&calibrate::host().0);
    let said: Vec<(&str, &str)> = findings.iter().map(|one| (one.what, one.means)).collect();
    // The rows after these are about the program, not the machine.
    assert_eq!(described[..said.len().min(described.len())], said);
}

/// Every `fathom ...` of the pages: in code spans, and lines of fenced blocks.
fn quoted_commands() -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("recipes/README.md")];
    for folder in ["docs/guide", "docs/glossary", "docs/findings", "docs/format"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of pages");
        pages.extend(entries.map(|entry| entry.expect("a page").path()));
    }
    let mut commands = Vec::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(page).expect("a page");
        let mut fenced = false;
        for line in text.lines() {
            fenced ^= line.starts_with("```");
            let spans: Vec<&str> = match fenced {
                true => vec![line.trim_start_matches(['$', ' '])],
                false => line.split('`').skip(1).step_by(2).collect(),
            };
            let found = spans.into_iter().filter(|span| span.starts_with("fathom "));
            commands.extend(found.map(|span| (page.display().to_string(), span.to_owned())));
        }
    }
    commands
}

/// A command as a shell takes it apart, as far as the pages need: quotes, and a remark or pipe that ends it.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        let word = words.last_mut().expect("one at least");
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.push(letter),
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            None if matches!(letter, '#' | '|' | '>' | '<' | ';' | '&') => break,
            None if letter == ' ' => words.push(String::new()),
            None => word.push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn commands_that_pages_quote_are_understood() {
    let commands = quoted_commands();
    assert!(commands.len() > 100, "{}", commands.len());
    let mut wrong = Vec::new();
    for (page, text) in commands {
        // A synopsis has brackets; a description follows after two spaces.
        let end = text.find("  ").unwrap_or(text.len());
        let text = text[..end].split('[').next().unwrap_or("");
        let placeholder =
            ["COMMAND", "ANALYSIS", "SHELL", "answer 1"].iter().any(|word| text.contains(word));
        if placeholder || text.ends_with("...") {
            continue;
        }
        let parsed = command().try_get_matches_from(shell_words(text));
        let Err(error) = parsed else { continue };
        let unfinished = [
            ErrorKind::MissingRequiredArgument,
            ErrorKind::DisplayHelp,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ];
        if !unfinished.contains(&error.kind()) {
            wrong.push(format!("{page}: {text}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn defaults_that_the_page_states_are_those_of_the_program() {
    let mut command = command();
    command.build();
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let section = section(&format!("### `fathom {}`", command.get_name()));
        for option in command.get_arguments() {
            let (Some(long), [default]) = (option.get_long(), option.get_default_values()) else {
                continue;
            };
            let named =
                |line: &&str| line.starts_with("| `") && line.contains(&format!("--{long} "));
            let Some(row) = section.lines().find(named).filter(|row| row.contains("default"))
            else {
                continue;
            };
            let default = default.to_string_lossy();
            assert!(row.contains(&*default), "--{long}: {row}, but the default is {default}");
        }
    }
}

#[test]
fn the_heap_library_maps_as_much_as_the_page_says() {
    let megabytes = format!("a mapping of {:.0} MB", sys::heap::TOTAL_BYTES as f64 / 1e6);
    assert!(COMMAND_LINE.contains(&megabytes), "command-line.md does not say {megabytes}");
}

#[test]
fn subjects_of_notes_are_those_of_the_page() {
    const FORMAT: &str = include_str!("../../../docs/format/result-directory.md");
    for subject in facts::NoteSubject::ALL {
        let begin = subject.note("");
        assert!(FORMAT.contains(&format!("`{}`", begin.trim_end())), "{begin} is not in the page");
    }
}
