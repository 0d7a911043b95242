//! Remote memory from end to end, on a virtual machine with two NUMA nodes: what `make numa` does on larger ones.
//!
//! What not: which checks; `tests/numa/numa.py` has them.

use testkit::programs::plain_python;

#[test]
fn remote_memory_is_found_on_two_nodes() {
    plain_python("numa/numa.py", &["--smoke", "--fathom", env!("CARGO_BIN_EXE_fathom")]);
}
