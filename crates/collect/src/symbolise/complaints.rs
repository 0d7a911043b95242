//! Reasons for missing names of modules, in few sentences.
//!
//! What for: a program with ten libraries without debug information gets one sentence, not ten. What not: finding
//! what is wrong; that happens where a module is read. Assumption: a module with few of the seen addresses is not
//! worth its place in a sentence.

use std::collections::BTreeMap;

/// How many modules a sentence names.
const NAMES_AT_MOST: usize = 6;

/// Modules below this share of all distinct addresses are left out of a sentence that names heavier ones, percent.
const WEIGHT_AT_LEAST_PERCENT: usize = 1;

/// Something that makes a module's names poorer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Complaint {
    /// The same words fit other modules.
    Shared {
        /// What is wrong, in words that fit one module as well as several; their names follow.
        what: String,
        /// What is particular to this module.
        detail: Option<String>,
        /// What the user can do. May be empty.
        advice: &'static str,
    },
    /// A sentence of its own.
    Own(String),
}

/// A complaint about one module.
#[derive(Clone, Debug)]
pub(super) struct ModuleComplaint {
    /// File name of the module.
    pub name: String,
    /// How many distinct addresses of the module were to be looked up.
    pub addresses: usize,
    /// What is wrong.
    pub complaint: Complaint,
}

/// The sentences for `complaints`, those about the most addresses first. `all_addresses` is the number of distinct
/// addresses over all modules, those without complaint included.
pub(super) fn sentences(complaints: Vec<ModuleComplaint>, all_addresses: usize) -> Vec<String> {
    let mut by_words: BTreeMap<(String, &str), Vec<Named>> = BTreeMap::new();
    let mut found = Vec::new();
    for ModuleComplaint { name, addresses, complaint } in complaints {
        match complaint {
            Complaint::Own(sentence) => found.push((addresses, sentence)),
            Complaint::Shared { what, detail, advice } => {
                let text = detail.map_or(name.clone(), |detail| format!("{name} ({detail})"));
                by_words.entry((what, advice)).or_default().push(Named { text, addresses });
            }
        }
    }
    for ((what, advice), modules) in by_words {
        let addresses = modules.iter().map(|module| module.addresses).sum();
        let separator = if advice.is_empty() { "" } else { "; " };
        let names = names(modules, all_addresses);
        found.push((addresses, format!("{what}: {names}{separator}{advice}")));
    }
    found.sort_by(|(some, a), (other, b)| other.cmp(some).then_with(|| a.cmp(b)));
    found.into_iter().map(|(_, sentence)| sentence).collect()
}

/// A module as the sentence shows it.
struct Named {
    text: String,
    addresses: usize,
}

/// The heaviest first.
fn names(mut modules: Vec<Named>, all_addresses: usize) -> String {
    let weighty = |module: &Named| {
        module.addresses.saturating_mul(100)
            >= all_addresses.saturating_mul(WEIGHT_AT_LEAST_PERCENT)
    };
    if modules.iter().any(weighty) {
        modules.retain(weighty);
    }
    modules.sort_by(|a, b| b.addresses.cmp(&a.addresses).then_with(|| a.text.cmp(&b.text)));
    let shown: Vec<_> =
        modules.iter().take(NAMES_AT_MOST).map(|module| module.text.as_str()).collect();
    let shown = shown.join(", ");
    match modules.len().saturating_sub(NAMES_AT_MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(name: &str, addresses: usize) -> ModuleComplaint {
        let complaint =
            Complaint::Shared { what: "stripped".to_owned(), detail: None, advice: "build them" };
        ModuleComplaint { name: name.to_owned(), addresses, complaint }
    }

    #[test]
    fn modules_with_the_same_problem_share_a_sentence() {
        let deleted = |name: &str, detail: &str| ModuleComplaint {
            name: name.to_owned(),
            addresses: 7,
            complaint: Complaint::Shared {
                what: "replaced".to_owned(),
                detail: Some(detail.to_owned()),
                advice: "",
            },
        };
        let own = Complaint::Own("[kernel]: hidden".to_owned());
        let complaints = vec![
            stripped("libb.so", 10),
            deleted("libx.so", "then 1, now 2"),
            stripped("liba.so", 10),
            ModuleComplaint { name: "[kernel]".to_owned(), addresses: 50, complaint: own },
            deleted("liby.so", "then 3, now 4"),
            stripped("libc.so", 30),
        ];
        assert_eq!(
            sentences(complaints, 200),
            [
                "[kernel]: hidden",
                "stripped: libc.so, liba.so, libb.so; build them",
                "replaced: libx.so (then 1, now 2), liby.so (then 3, now 4)",
            ]
        );
    }

    #[test]
    fn light_modules_are_left_out_next_to_heavy_ones() {
        let heavy_and_light = vec![stripped("light.so", 9), stripped("heavy.so", 10)];
        assert_eq!(sentences(heavy_and_light, 1000), ["stripped: heavy.so; build them"]);
        let all_light = vec![stripped("a.so", 1), stripped("b.so", 9)];
        assert_eq!(sentences(all_light, 1000), ["stripped: b.so, a.so; build them"]);
    }

    #[test]
    fn long_lists_end_with_a_count() {
        let many = (1..=9).map(|number| stripped(&format!("{number}.so"), number)).collect();
        assert_eq!(
            sentences(many, 45),
            ["stripped: 9.so, 8.so, 7.so, 6.so, 5.so, 4.so and 3 more; build them"]
        );
    }

    #[test]
    fn nothing_wrong_nothing_said() {
        assert_eq!(sentences(Vec::new(), 0), [""; 0]);
    }
}
