//! Removes from a recording what must not leave the machine.
//!
//! What for: `--redact` of `dataset add`, `export` and `watch`. The result itself stays as it is. What not: names of functions,
//! variables, threads and programs, without which a profile is of no use.

use facts::{Recording, Run};

/// A kind of text that may be secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Redact {
    /// Arguments of the program
    Arguments,
    /// Folders in paths: of the program, its libraries, its sources and its files
    Paths,
}

/// Takes it out of a manifest.
pub fn redact_run(run: &mut Run, what: &[Redact]) {
    if what.contains(&Redact::Arguments) {
        run.command.truncate(1);
    }
    if what.contains(&Redact::Paths) {
        run.working_directory.clear();
        run.source.iter_mut().for_each(|source| shorten(&mut source.file));
        run.command.iter_mut().chain(&mut run.notes).for_each(shorten_words);
    }
}

/// Takes it out of a recording.
pub fn redact(recording: &mut Recording, what: &[Redact]) {
    redact_run(&mut recording.run, what);
    if !what.contains(&Redact::Paths) {
        return;
    }
    recording.modules.iter_mut().for_each(|module| shorten(&mut module.path));
    recording.frames.iter_mut().filter_map(|frame| frame.file.as_mut()).for_each(shorten);
    recording.assignments.iter_mut().for_each(|one| shorten(&mut one.file));
    recording.regions.iter_mut().for_each(|region| shorten(&mut region.name));
    recording.wait_objects.iter_mut().for_each(|object| shorten(&mut object.module));
}

/// A path without its folders.
fn shorten(path: &mut String) {
    if let Some((_, name)) = path.rsplit_once('/') {
        *path = name.to_owned();
    }
}

/// The same of each word of a text.
fn shorten_words(text: &mut String) {
    let word = |word: &str| word.rsplit_once('/').map_or(word, |(_, name)| name).to_owned();
    *text = text.split(' ').map(word).collect::<Vec<_>>().join(" ");
}

#[cfg(test)]
mod tests {
    use facts::Run;

    use super::*;

    #[test]
    fn arguments_and_folders_go() {
        let words = ["/opt/shop/bin/serve", "--key=s3cret", "--file=/srv/a/b"].map(str::to_owned);
        let notes = vec!["no names for /opt/shop/lib/x.so: it is stripped".to_owned()];
        let run = Run {
            command: words.to_vec(),
            working_directory: "/srv".to_owned(),
            notes,
            ..Run::default()
        };
        let whole = Recording { run, ..Recording::default() };
        let with = |what: &[Redact]| {
            let mut recording = whole.clone();
            redact(&mut recording, what);
            recording.run
        };
        assert_eq!(with(&[]), whole.run);
        assert_eq!(with(&[Redact::Arguments]).command, [words[0].clone()]);
        let run = with(&[Redact::Paths]);
        assert_eq!(run.command, ["serve", "--key=s3cret", "b"]);
        assert_eq!(
            (run.working_directory.as_str(), run.notes[0].as_str()),
            ("", "no names for x.so: it is stripped")
        );
        assert_eq!(with(&[Redact::Arguments, Redact::Paths]).command, ["serve"]);
    }
}
