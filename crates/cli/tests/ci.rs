//! The gate for CI: the steps of `ci/github` and `ci/gitlab`, run as they are.

use testkit::programs::{perf_events_work, python, target};

#[test]
fn the_steps_of_github_and_gitlab_end_as_they_must() {
    if perf_events_work() {
        python("ci/ci.py", &[env!("CARGO_BIN_EXE_fathom").into(), target("touch_pages")]);
    }
}
