//! Remote memory from end to end, on a virtual machine with two NUMA nodes: what `make numa` does on larger ones.
//!
//! What not: which checks; `tests/numa/numa.py` has them.

use testkit::programs::{root, skip};

#[test]
fn remote_memory_is_found_on_two_nodes() {
    let mut command = std::process::Command::new("python3");
    command.arg(root().join("tests/numa/numa.py"));
    command.args(["--smoke", "--fathom", env!("CARGO_BIN_EXE_fathom")]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return skip(&format!("python3 is not here: {error}")),
    };
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    if let Some(reason) = said.strip_prefix("skipped: ") {
        skip(reason.trim_end());
    }
}
