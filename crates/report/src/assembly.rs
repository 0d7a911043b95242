//! `assembly`: the machine code of a function, for the page that shows it next to the source.
//!
//! What not: a view of the command line.

use analysis::assembly::{Assembly, CodeOf, assemblies as codes_of};
use serde::Serialize;

use crate::Prepared;
use crate::json::significant;

#[derive(Serialize)]
struct AssemblyDocument {
    view: &'static str,
    /// The compiled function.
    function: String,
    module: String,
    rows: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    offset: String,
    text: String,
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    /// CPU time of samples at this instruction, seconds.
    cpu_time: f64,
}

const FROM_FILE: &str = "From the module's file, which has the build-id that was recorded.";
const FROM_BURSTS: &str = "Only the instructions that bursts ran: the module's file is missing here, or is another build.";
/// Interrupts are taken between instructions, and what is stored is the one to go on with (Intel SDM, volume 3, 6.6). Of a
/// loop whose first instruction is a load that misses all caches, the second has 95 % of the samples.
pub(crate) const SKID: &str = "Samples have skid: they are at the next instruction to execute, often one after the \
                instruction that took the time.";

/// The document of each function, which is given with the last part of its module's path, as JSON on one line; `None` where no
/// code of it is known. `files`: see [`analysis::assembly::assemblies`].
#[must_use]
pub fn assemblies(
    prepared: &Prepared<'_>,
    functions: &[(&str, &str)],
    files: &CodeOf<'_>,
) -> Vec<Option<String>> {
    let found = codes_of(&prepared.profile, functions, files).into_iter();
    found.zip(functions).map(|(found, (_, module))| document(prepared, found?, module)).collect()
}

fn document(prepared: &Prepared<'_>, found: Assembly, module: &str) -> Option<String> {
    let scale = prepared.profile.cpu_scale();
    let whole = scale.whole().amount() as f64;
    let seconds = scale.whole_quantity().value.filter(|_| whole > 0.0).map(|value| value / whole);
    let rows = found.rows.into_iter().map(|row| Row {
        offset: format!("{:#x}", row.offset.0),
        text: row.text,
        function: row.function,
        file: row.file,
        line: row.line,
        cpu_time: significant(row.samples as f64 * seconds.unwrap_or(1e-9)),
    });
    let document = AssemblyDocument {
        view: "assembly",
        function: found.function,
        module: module.to_owned(),
        rows: rows.collect(),
        notes: [if found.whole { FROM_FILE } else { FROM_BURSTS }, SKID].map(String::from).to_vec(),
    };
    serde_json::to_string(&document).ok()
}
