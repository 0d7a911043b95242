#![no_main]
//! Any text as `/proc/PID/cgroup`: whoever may make cgroups names them.

use libfuzzer_sys::fuzz_target;
use tracee::cgroup::Cgroup;

fuzz_target!(|text: &str| {
    let Cgroup { path, unit, pod, container } = Cgroup::parse(text);
    assert!(text.contains(&path) && !path.ends_with('/'));
    let parts = || path.split('/');
    assert!(unit.is_none_or(|unit| parts().any(|part| part == unit)));
    assert!(container.is_none_or(|id| id.len() == 64 && parts().any(|part| part.contains(&id))));
    assert!(pod.is_none_or(|id| id.len() == 36 && !id.contains('_')));
});
