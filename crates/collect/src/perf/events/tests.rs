//! What becomes of refusals, with a kernel that is made up.

use std::io;

use base::{CpuId, Nanos, Pid};
use sys::perf::Flag;

use super::error::libc_errno;
use super::{Opened, Settings};

fn settings() -> Settings {
    Settings {
        period: Nanos(1_003_009),
        echoes: false,
        stack_bytes: 8192,
        fault_rate: 1000,
        cpus: vec![CpuId(0)],
        wait_stack_rate: None,
        start_paused: false,
        wakes: None,
        counted: Vec::new(),
    }
}

fn opening_with(answer: sys::perf::FakeOpen) -> String {
    sys::perf::fake_open(Some(answer));
    let result = Opened::on_launch(Pid(1), &settings()).map(|_| ());
    sys::perf::fake_open(None);
    result.unwrap_err().to_string()
}

#[test]
fn a_refusal_is_distinguished_from_a_missing_call() {
    let refused = opening_with(|_, _| Err(io::Error::from_raw_os_error(libc_errno::EACCES)));
    assert_eq!(refused, "perf_event_open is not permitted here (Permission denied (os error 13))");
    let missing = opening_with(|_, _| Err(io::Error::from_raw_os_error(libc_errno::ENOSYS)));
    assert_eq!(
        missing,
        "perf_event_open does not exist here (Function not implemented (os error 38))"
    );
}

#[test]
fn where_the_kernel_may_not_be_watched_only_user_mode_is() {
    // EACCES unless the kernel is excluded; then ENOSYS shows that the second try was made.
    let error = opening_with(|attr, _| {
        let excluded = attr.has(Flag::ExcludeKernel);
        Err(io::Error::from_raw_os_error(if excluded {
            libc_errno::ENOSYS
        } else {
            libc_errno::EACCES
        }))
    });
    assert!(error.starts_with("perf_event_open does not exist"), "{error}");
}
