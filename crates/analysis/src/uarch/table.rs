//! The tables of the top-down tree: which nodes a CPU has, from which events, over which threshold a node matters.
//!
//! What for: choosing and parsing a CPU's part of `intel.tsv`, `amd.tsv` and `arm.tsv`, whose heads say what a line has. What not: values.

use std::collections::BTreeMap;

use facts::host::{Host, is_model};

use super::formula::{Formula, parse};

const TABLES: [(&str, &str); 3] = [
    ("GenuineIntel", include_str!("intel.tsv")),
    ("AuthenticAMD", include_str!("amd.tsv")),
    (ARM, include_str!("arm.tsv")),
];
/// Its cores have names in place of family and model.
const ARM: &str = "Arm";
const NAMES: &str = include_str!("names.tsv");

/// A node as the table has it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// Level 1 has none.
    pub(crate) parent: Option<&'static str>,
    /// What it is a share of: `slots`, `cycles`, `uops`.
    pub(crate) of: &'static str,
    /// Its formula has usual costs in it.
    pub(crate) modelled: bool,
    pub(crate) threshold: Option<Formula>,
    /// Where to look next.
    pub(crate) next: Option<&'static str>,
}

/// The tree of a CPU.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Table {
    /// Short name of the microarchitecture.
    pub(crate) cpu: &'static str,
    /// Of one kind of a hybrid's cores: the name of their PMU.
    pub(crate) pmu: Option<&'static str>,
    /// Parents before their children, in the order to show.
    pub(crate) nodes: Vec<Node>,
    /// Nodes, and values that only formulas use.
    pub(crate) formulas: BTreeMap<&'static str, Formula>,
    /// Names and the terms for perf_event_open, where the kernel counts it.
    pub(crate) events: Vec<(&'static str, Option<&'static str>)>,
    /// Names and terms of events that count what parts of PERF_METRICS do, and can be sampled.
    pub(crate) sampled: Vec<(&'static str, &'static str)>,
}

impl Table {
    /// The table of this machine's CPU; of a hybrid that of its performance cores.
    ///
    /// # Errors
    /// Says that there is none.
    pub(crate) fn of(host: &Host) -> Result<Table, String> {
        Table::all_of(host).map(|mut tables| tables.remove(0))
    }

    /// The tables of this machine's kinds of cores, the fastest first.
    ///
    /// # Errors
    /// Says that there is none.
    pub(crate) fn all_of(host: &Host) -> Result<Vec<Table>, String> {
        let none =
            || format!("there is no table of top-down events for this processor ({})", host.cpu);
        let (_, text) =
            TABLES.iter().find(|(vendor, _)| *vendor == host.vendor).ok_or_else(none)?;
        let arm = host.cpu.strip_prefix("Arm ").filter(|_| host.vendor == ARM);
        let tables = Table::parse(text, arm.unwrap_or(&host.family_model_stepping))?;
        if !host.core_types.is_empty() && tables.iter().any(|table| table.pmu.is_none()) {
            return Err(format!("{}: its two kinds of cores differ", none()));
        }
        if tables.is_empty() { Err(none()) } else { Ok(tables) }
    }

    /// What this text has for a CPU, given as `family/model/stepping`, or as its name.
    fn parse(text: &'static str, cpu: &str) -> Result<Vec<Table>, String> {
        let mut found: Vec<(&str, Table)> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&'static str> = line.split('\t').collect();
            match fields.as_slice() {
                ["cpu", letter, name, models, pmu @ ..]
                    if models
                        .split(' ')
                        .any(|pattern| pattern == cpu || is_model(pattern, cpu)) =>
                {
                    let pmu = pmu.first().copied();
                    found.push((letter, Table { cpu: name, pmu, ..Table::default() }));
                }
                ["cpu", ..] => {}
                [_, letters, rest @ ..] => {
                    for (_, table) in found.iter_mut().filter(|(one, _)| letters.contains(*one)) {
                        let whole = format!("line '{line}'");
                        table.add(fields[0], rest).map_err(|why| format!("{whole}: {why}"))?;
                    }
                }
                _ => {}
            }
        }
        Ok(found.into_iter().map(|(_, table)| table.in_order()).collect())
    }

    fn add(&mut self, kind: &str, fields: &[&'static str]) -> Result<(), String> {
        match (kind, fields) {
            ("node", [name, parent, of, threshold, formula]) => {
                let known = |text: &&'static str| (*text != "-").then_some(*text);
                let threshold = known(threshold).map(parse).transpose()?;
                let (title, next) = named(name).unwrap_or((name, "-"));
                let (of, modelled) = match of.strip_suffix(", modelled") {
                    Some(of) => (of, true),
                    None => (*of, false),
                };
                let (parent, next) = (known(parent), known(&next));
                self.nodes.push(Node { name, title, parent, of, modelled, threshold, next });
                self.formulas.insert(name, parse(formula)?);
            }
            ("value", [name, formula]) => {
                self.formulas.insert(name, parse(formula)?);
            }
            ("event", [name, terms]) => {
                self.events.push((name, (*terms != "-").then_some(*terms)));
            }
            ("sampled", [name, terms]) => self.sampled.push((name, terms)),
            _ => return Err("unknown kind of line, or of other fields".to_owned()),
        }
        Ok(())
    }

    /// In words, of a hybrid.
    pub(crate) fn cores(&self) -> Option<&'static str> {
        self.pmu.map(|pmu| if pmu == "cpu_core" { "performance" } else { "efficient" })
    }

    /// Nodes whose parent comes later, or never, would have no place: parents first, each followed by what is below it.
    fn in_order(mut self) -> Table {
        let mut left = std::mem::take(&mut self.nodes);
        let mut open: Vec<Option<&'static str>> = vec![None];
        while let Some(parent) = open.last().copied() {
            match left.iter().position(|node| node.parent == parent) {
                Some(at) => {
                    let node = left.remove(at);
                    open.push(Some(node.name));
                    self.nodes.push(node);
                }
                None => drop(open.pop()),
            }
        }
        self
    }

    /// Events that a formula needs by itself, not by way of other formulas.
    pub(crate) fn direct_events(&self, formula: &Formula) -> Vec<&'static str> {
        let mut names = Vec::new();
        formula.names(&mut names);
        let known = |name: &str| self.events.iter().find(|(event, _)| *event == name);
        names.into_iter().filter_map(|name| known(name).map(|(event, _)| *event)).collect()
    }
}

/// The title of a node, and what to look at next.
fn named(name: &str) -> Option<(&'static str, &'static str)> {
    let fields = |line: &'static str| {
        let (key, rest) = line.split_once('\t')?;
        rest.split_once('\t').filter(|_| key == name)
    };
    NAMES.lines().find_map(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models() {
        assert!(is_model("6-55-[01234]", "6/85/4") && !is_model("6-55-[01234]", "6/85/7"));
        assert!(is_model("19-1x", "25/17/1") && !is_model("19-1x", "25/33/1"));
        assert!(is_model("1A-x", "26/2/1") && is_model("1A-xx", "26/68/0"));
        for broken in ["", "6", "6/", "6/x/4", "///", "6/85"] {
            assert!(!is_model("6-55-[01234]", broken), "{broken}");
        }
    }

    /// Every line parses, every node has a title and its place, and every name of a formula is known.
    #[test]
    fn tables_are_whole() {
        let mut cpus = Vec::new();
        for (_, text) in TABLES {
            for line in text.lines().filter_map(|line| line.strip_prefix("cpu\t")) {
                let fields: Vec<&str> = line.split('\t').collect();
                if fields[2].starts_with("Neoverse-") {
                    let tables = Table::parse(text, fields[2]).expect("every line parses");
                    let least = match fields[1] {
                        "Neoverse-N1" => 2,
                        "Neoverse-N3" | "Neoverse-V3" => 23,
                        _ => 6,
                    };
                    check(&tables[0], least);
                    cpus.push(fields[1]);
                    continue;
                }
                let first = fields[2].split(' ').next().expect("a model").replace('x', "1");
                let number = |part: &str| {
                    let digits = part.trim_matches(['[', ']']);
                    u32::from_str_radix(&digits[..digits.len().min(2)], 16).expect("a number")
                };
                let mut parts = first.split('-');
                let (family, model) =
                    (number(parts.next().unwrap()), number(parts.next().unwrap()));
                let stepping = parts.next().map_or(0, |steppings| number(&steppings[1..2]));
                let tables = Table::parse(text, &format!("{family}/{model}/{stepping}"));
                let tables = tables.expect("every line parses");
                let table = tables.iter().find(|table| table.cpu == fields[1]);
                check(table.expect("a table"), 13);
                cpus.push(fields[1]);
                if let [performance, efficient] = tables.as_slice() {
                    let pmus = (performance.pmu, efficient.pmu);
                    assert_eq!(pmus, (Some("cpu_core"), Some("cpu_atom")));
                }
            }
        }
        assert_eq!(cpus.len(), 33);
    }

    fn check(table: &Table, least: usize) {
        let cpu = table.cpu;
        assert!(table.nodes.len() >= least, "{cpu}: {}", table.nodes.len());
        let shown: Vec<&str> = table.nodes.iter().map(|node| node.name).collect();
        for node in &table.nodes {
            assert!(named(node.name).is_some(), "{}", node.name);
        }
        let mut names = Vec::new();
        table.formulas.values().for_each(|formula| formula.names(&mut names));
        for name in &names {
            let known = table.formulas.contains_key(name)
                || table.events.iter().any(|(event, _)| event == name)
                || super::super::CONSTANTS.contains(name);
            assert!(known, "{cpu}: {name}");
        }
        for (event, _) in &table.events {
            assert!(names.contains(event), "{cpu}: nothing needs {event}");
        }
        let mut in_thresholds = Vec::new();
        let thresholds = table.nodes.iter().filter_map(|node| node.threshold.as_ref());
        thresholds.for_each(|threshold| threshold.names(&mut in_thresholds));
        assert!(in_thresholds.iter().all(|name| shown.contains(name)), "{cpu}");
        let values = table.formulas.keys().filter(|name| !shown.contains(*name));
        for value in values {
            assert!(
                names.contains(value),
                "{cpu}: nothing needs {value}, or its node has no place"
            );
        }
    }
}
