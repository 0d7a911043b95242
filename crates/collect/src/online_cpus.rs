//! Whether CPUs came or went during a recording.
//!
//! What for: events are opened on the CPUs that are online at the beginning; what ran on others is in no sample. What not: which
//! these are (`session::Options`).

/// The kernel's list of CPUs that are online (Documentation/admin-guide/cputopology.rst).
const LIST: &str = "/sys/devices/system/cpu/online";

/// The list at the beginning; empty where it cannot be read.
pub(crate) struct OnlineCpus(String);

#[cfg(test)]
thread_local! {
    /// A test's lists, in the order in which they are read.
    pub(crate) static MADE_UP: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl OnlineCpus {
    /// Reads it.
    pub(crate) fn now() -> OnlineCpus {
        #[cfg(test)]
        if let Some(list) =
            MADE_UP.with_borrow_mut(|lists| (!lists.is_empty()).then(|| lists.remove(0)))
        {
            return OnlineCpus(list);
        }
        OnlineCpus(std::fs::read_to_string(LIST).unwrap_or_default().trim().to_owned())
    }

    /// What a reader must know at the end.
    pub(crate) fn change(&self, end: &OnlineCpus) -> Option<String> {
        let (OnlineCpus(before), OnlineCpus(after)) = (self, end);
        let changed = before != after && !before.is_empty() && !after.is_empty();
        changed.then(|| {
            format!(
                "CPUs came or went during the recording ({before} were online at the beginning, {after} at the end): what ran on \
                 CPUs that came is in no sample and no count of a CPU"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_and_a_missing_list_is_none() {
        let list = |text: &str| OnlineCpus(text.to_owned());
        let note = list("0-3").change(&list("0-1,3")).expect("a note");
        assert!(note.contains("(0-3 were online at the beginning, 0-1,3 at the end)"), "{note}");
        assert_eq!(list("0-3").change(&list("0-3")), None);
        assert_eq!(list("0-3").change(&list("")), None);
        assert!(!OnlineCpus::now().0.is_empty());
    }
}
