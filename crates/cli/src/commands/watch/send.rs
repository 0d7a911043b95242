//! Sends what waits in the spool where the user wants it: to a receiver of OTLP, to a dataset.
//!
//! What for: the consequences of each failure. A place that is away holds up its own results only; a result that a place has no use
//! for is not sent there again. What not: the message and the connection (`commands/otlp`), the files of a dataset (`dataset`):
//! both are commands of Fathom in a child process.
//!
//! Assumption: a place that gets a result twice knows it: a dataset by its name, a receiver by the profile's id. That happens after
//! a kill between its arrival and its note.

use std::ffi::OsString;
use std::path::Path;

use base::Nanos;
use serde_json::{Value, json};

use super::Watch;
use super::helper::{Ended, Stop};
use super::spool::{Removed, Spool, make_private};
use crate::exit::{BUG, DAMAGED};
use crate::s3::Bucket;

/// A result that cannot be read in so many rounds is given up.
const MOST_TRIES: u32 = 3;

/// Where results go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    Dataset,
    Receiver,
}

impl Destination {
    /// As the spool notes it.
    fn name(self) -> &'static str {
        match self {
            Destination::Dataset => "dataset",
            Destination::Receiver => "otlp",
        }
    }

    /// Whether it never wants what a command tried to send there. Its code alone may mean something else.
    fn refused(self, ended: &Ended) -> bool {
        let is_damaged = ended.status.code() == Some(i32::from(DAMAGED));
        match self {
            Destination::Dataset => is_damaged && ended.said.contains(" was left out: "),
            Destination::Receiver => {
                is_damaged || ended.said.contains(" has no figures by call stack")
            }
        }
    }
}

impl Watch<'_> {
    /// Where results go.
    fn places(&self) -> Vec<Destination> {
        let all = [
            (Destination::Receiver, self.options.otlp.is_some()),
            (Destination::Dataset, self.options.dataset.is_some()),
        ];
        all.into_iter().filter_map(|(place, wanted)| wanted.then_some(place)).collect()
    }

    /// Whether results go anywhere.
    pub(super) fn sends(&self) -> bool {
        !self.places().is_empty()
    }

    /// Sends what waits, the oldest first.
    pub(super) fn send_waiting(&mut self) {
        for place in self.places() {
            if place == Destination::Dataset && !self.dataset_is_there() {
                continue;
            }
            for result in self.spool.waiting() {
                if is_done(&result, place) {
                    // The other place is no longer wanted.
                    if self.places() == [place] && self.spool.keep(&result).is_err() {
                        break;
                    }
                    continue;
                }
                if self.guard.stop().is_some() || self.left() == Nanos(0) {
                    return;
                }
                if !self.send(&result, place) {
                    break;
                }
            }
        }
    }

    /// Whether a dataset can be added to; makes its folder where there never was one.
    fn dataset_is_there(&self) -> bool {
        let Some(dataset) = &self.options.dataset else { return false };
        let path = dataset.display().to_string();
        // A store is asked by `dataset add`.
        let is_stored = Bucket::is_named(&path);
        if is_stored || dataset.join(::dataset::VERSION_FILE).exists() {
            return true;
        }
        let waiting = self.spool.waiting().len();
        if self.sent_to.as_ref() == Some(&path) && waiting > 0 {
            // The folder below a mount that is gone must not become another dataset.
            let message = format!(
                "{waiting} results wait in the spool: {path} is no longer a dataset. Mount it, or create it again with `fathom \
                 dataset add {path} RESULT`"
            );
            self.log.say("waits", &message, json!({ "waiting": waiting }));
            return false;
        }
        // Command lines may be secret. What cannot be made now is said by `dataset add`.
        let _ = make_private(dataset);
        true
    }

    fn words(&self, result: &Path, place: Destination) -> Vec<OsString> {
        let target = Spool::target(result);
        let mut words: Vec<OsString>;
        match place {
            Destination::Dataset => {
                words = ["dataset", "add", "-q"].map(OsString::from).to_vec();
                words.extend(labels(&target));
                words.extend(self.redaction());
                words.extend(self.options.dataset.clone().map(OsString::from));
            }
            Destination::Receiver => {
                words = ["export", "otlp", "--send"].map(OsString::from).to_vec();
                words.extend(self.options.otlp.clone().map(OsString::from));
                words.extend(attributes(&target));
                words.extend(self.redaction());
                words.push("-r".into());
            }
        }
        words.push(result.as_os_str().to_owned());
        words
    }

    /// Sends a result. Whether the next one may be tried.
    fn send(&mut self, result: &Path, place: Destination) -> bool {
        let name = crate::commands::shown_name(Path::new(result.file_name().unwrap_or_default()));
        let Some(ended) = self.run(self.words(result, place), false) else { return false };
        let is_refused = place.refused(&ended);
        if !ended.status.success() && !is_refused {
            self.waits(result, &name, &ended);
            return false;
        }
        self.tries.remove(&name);
        if place == Destination::Dataset {
            self.sent_to = self.options.dataset.as_ref().map(|path| path.display().to_string());
        }
        if is_refused {
            let at =
                if place == Destination::Dataset { "in the dataset" } else { "at the receiver" };
            let message = format!("{name} is not {at}: {}", ended.why());
            self.log.say("failed", &message, json!({ "result": name }));
        }
        self.note_arrival(result, &name, place, is_refused)
    }

    /// Notes that a place is done with a result. When all are, it does not wait any more.
    fn note_arrival(
        &mut self,
        result: &Path,
        name: &str,
        place: Destination,
        is_refused: bool,
    ) -> bool {
        let refused = Spool::noted(result, "refused");
        let is_last = self.places().into_iter().all(|one| one == place || is_done(result, one));
        let noted = match is_last {
            true => self.spool.keep(result),
            false => Spool::note(result, if is_refused { "refused" } else { "sent" }, place.name()),
        };
        self.counts.sent += u64::from(is_last && !is_refused && refused.is_empty());
        if let Err(error) = noted {
            let message = format!("cannot note in the spool that {name} was sent: {error}");
            self.log.say("failed", &message, json!({ "result": name }));
            return false;
        }
        true
    }

    /// A result could not be sent now.
    fn waits(&mut self, result: &Path, name: &str, ended: &Ended) {
        if matches!(ended.stopped, Some(Stop::Off | Stop::Signal)) {
            return;
        }
        // The place is away: all wait. Or this one cannot be read: the others must not wait for it.
        let code = ended.status.code().and_then(|code| u8::try_from(code).ok());
        let is_away = ended.stopped.is_none() && code.is_some_and(|code| code < BUG);
        let why = match ended.stopped {
            Some(_) => "it takes more than the budget of an hour".to_owned(),
            None => ended.why(),
        };
        let message = format!("{name} and later ones wait in the spool: {why}");
        let waiting = self.spool.waiting().len();
        self.log.say("waits", &message, json!({ "result": name, "waiting": waiting }));
        let tries = self.tries.entry(name.to_owned()).or_default();
        *tries += u32::from(!is_away);
        if *tries == MOST_TRIES {
            Spool::remove(result);
            self.note_removed(&[Removed { name: name.to_owned(), is_lost: true }], &why);
        }
    }
}

/// Whether a result is at a place, or was refused there.
fn is_done(result: &Path, place: Destination) -> bool {
    let lists = ["sent", "refused"].into_iter();
    lists.flat_map(|list| Spool::noted(result, list)).any(|known| known == place.name())
}

/// Names of a workload: as a label of a dataset, and as OpenTelemetry's semantic conventions call it.
const NAMES: [(&str, &str); 5] = [
    ("unit", "systemd.unit"),
    ("namespace", "k8s.namespace.name"),
    ("pod", "k8s.pod.name"),
    ("container", "container.name"),
    ("image", "container.image.name"),
];

fn known(target: &Value) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
    let one = |(key, attribute)| Some((key, attribute, target[key].as_str()?));
    NAMES.into_iter().filter_map(one)
}

/// `--label` of each name that is known.
fn labels(target: &Value) -> Vec<OsString> {
    // A comma separates labels.
    let one = |(key, _, value): (&str, &str, &str)| format!("{key}={}", value.replace(',', "_"));
    known(target).map(one).flat_map(|label| ["--label".into(), OsString::from(label)]).collect()
}

/// `--attribute` of each.
fn attributes(target: &Value) -> Vec<OsString> {
    let one = |(_, attribute, value): (&str, &str, &str)| format!("{attribute}={value}");
    let all = known(target).map(one);
    all.flat_map(|pair| ["--attribute".into(), OsString::from(pair)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_the_names_of_each_place() {
        let target = json!({ "pod": "shop-7", "unit": "a,b", "program": "x", "image": 3 });
        let words = |all: Vec<OsString>| all.join(" ".as_ref()).into_string().unwrap();
        assert_eq!(words(labels(&target)), "--label unit=a_b --label pod=shop-7");
        let attributes = words(attributes(&target));
        assert_eq!(attributes, "--attribute systemd.unit=a,b --attribute k8s.pod.name=shop-7");
    }
}
