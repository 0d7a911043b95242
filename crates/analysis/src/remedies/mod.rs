//! Remedies that need no change of the program: what each sets, and whether it fits a machine and a program.
//!
//! What for: `fathom try` runs those that fit. A remedy is a row of [`remedies`]: environment, tunables of the C library, or a
//! prefix command, all of which end with the program. What not: running them (`fathom try`), judging them (`trial`), remedies in source code (findings).
//!
//! A remedy that is named explicitly runs if the machine allows it, whatever the program looks like.
//!
//! Sources: jemalloc(3), "TUNING" and `opt.thp`, `opt.dirty_decay_ms`; mimalloc's README, "Environment Options"; glibc's manual (chapter "Tunables") and NEWS (2.34: malloc hooks removed; 2.35: `glibc.malloc.hugetlb`); OpenMP 5.2,
//! chapter 21 (environment variables, syntax of places); set_mempolicy(2).

mod allocator;
mod nodes;
mod pages;
mod threads;

use facts::host::Host;

/// What the machine offers.
#[derive(Clone, Debug)]
pub struct Means<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Version of its GNU C library; `None` for another C library.
    pub glibc: Option<(u32, u32)>,
    /// Allocators' libraries that are installed: the file's beginning (`libjemalloc.so`), its path.
    pub allocators: Vec<(String, String)>,
    /// Why the kernel places no memory on chosen nodes.
    pub no_memory_policy: Option<String>,
    /// Why it does not spread memory by the weights of nodes.
    pub no_weights: Option<String>,
    /// Why it gives pages to no next user.
    pub no_next_touch: Option<String>,
}

/// The allocator whose heap a program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Heap {
    /// The GNU C library's, in a file of its own.
    #[default]
    Glibc,
    /// That of a Java virtual machine.
    Java,
    /// jemalloc's, in a file of its own.
    Jemalloc,
    /// mimalloc's, in a file of its own.
    Mimalloc,
    /// One that is built into the program, or another C library's.
    Other,
}

/// What is known about the program from a recording. `None` where the recording does not have it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Behaviour {
    /// Threads.
    pub threads: f64,
    /// Page faults per second.
    pub faults_per_second: Option<f64>,
    /// Percent of CPU time in page faults.
    pub fault_percent: Option<f64>,
    /// Percent of anonymous memory in huge pages.
    pub huge_percent: Option<f64>,
    /// Most memory in use, bytes.
    pub resident: Option<f64>,
    /// Most bytes of heap blocks at once.
    pub heap_peak: Option<f64>,
    /// Most bytes at once that it mapped itself, without a file.
    pub mapped: Option<f64>,
    /// Bytes of the file in which most of its persistent blocks (libpmemobj) lie.
    pub pool: Option<f64>,
    /// Heap blocks per second.
    pub blocks_per_second: Option<f64>,
    /// Percent of CPU time in `memcpy` and its kin.
    pub copy_percent: f64,
    /// Bytes of each heap block of the object that threads wait for most, where its blocks are alike; and its percent of the time.
    pub hot_block: Option<(u64, f64)>,
    /// Whether an OpenMP runtime is loaded.
    pub openmp: bool,
    /// The allocator whose heap it uses.
    pub heap: Heap,
}

/// What is different in a run with a remedy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Variables to set.
    pub environment: Vec<(String, String)>,
    /// Tunables of the GNU C library, `NAME=VALUE`; they share one variable.
    pub tunables: Vec<String>,
    /// Words in front of the command.
    pub before: Vec<String>,
}

impl Change {
    fn variable(name: &str, value: impl Into<String>) -> Change {
        Change { environment: vec![(name.to_owned(), value.into())], ..Change::default() }
    }

    fn tunables(tunables: &[&str]) -> Change {
        let tunables = tunables.iter().map(|&tunable| tunable.to_owned()).collect();
        Change { tunables, ..Change::default() }
    }

    /// All variables; `already` is what `GLIBC_TUNABLES` and `LD_PRELOAD` hold.
    #[must_use]
    pub fn variables(&self, already: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let mut all = self.environment.clone();
        if !self.tunables.is_empty() {
            all.push(("GLIBC_TUNABLES".to_owned(), self.tunables.join(":")));
        }
        for (name, value) in &mut all {
            if let ("GLIBC_TUNABLES" | "LD_PRELOAD", Some(before)) = (&**name, already(name)) {
                *value = format!("{value}:{before}");
            }
        }
        all
    }

    /// What to put in front of the command in a script.
    #[must_use]
    pub fn line(&self) -> String {
        let variables = self.variables(&|_| None);
        let words = variables.into_iter().map(|(name, value)| format!("{name}={value}"));
        words.chain(self.before.iter().cloned()).collect::<Vec<_>>().join(" ")
    }
}

/// Whether a remedy is worth a try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Yes, by this.
    Fits(Change),
    /// It can be done, but the program gives no reason for it.
    Pointless(Change, String),
    /// It cannot be done here: why, and what would help.
    Impossible(String),
}

/// A remedy for a program on a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// Whether it fits.
    pub fit: Fit,
}

/// All remedies, each with how it fits.
#[must_use]
pub fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    let parts = [pages::remedies, threads::remedies, nodes::remedies, allocator::remedies];
    parts.iter().flat_map(|part| part(means, program)).collect()
}

/// `change` if nothing stands against it.
fn fit(change: Change, possible: Result<(), String>, pointless: Option<String>) -> Fit {
    match (possible, pointless) {
        (Err(why), _) => Fit::Impossible(why),
        (Ok(()), Some(why)) => Fit::Pointless(change, why),
        (Ok(()), None) => Fit::Fits(change),
    }
}

/// Why a setting of the C library's heap, or a library in its place, does not concern this program.
fn other_heap(program: &Behaviour) -> Option<String> {
    match program.heap {
        Heap::Glibc => None,
        Heap::Java => Some("the program's heap is that of a Java virtual machine".to_owned()),
        Heap::Jemalloc => Some("the program's heap is jemalloc's".to_owned()),
        Heap::Mimalloc => Some("the program's heap is mimalloc's".to_owned()),
        Heap::Other => Some("the program's heap is built in, or another C library's".to_owned()),
    }
}

/// Whether the C library is GNU's, of at least a version.
fn needs_glibc(means: &Means<'_>, least: (u32, u32), what: &str) -> Result<(), String> {
    match means.glibc {
        Some(version) if version >= least => Ok(()),
        Some((major, minor)) => Err(format!(
            "{what} came with version {}.{} of the GNU C library; this is {major}.{minor}",
            least.0, least.1
        )),
        None => Err(format!("{what} is the GNU C library's; this machine has another one")),
    }
}

#[cfg(test)]
mod tests;
