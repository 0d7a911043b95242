//! The burst tracer from a user's side: what it says of programs whose accesses are known (`known_answers`), and that no
//! program notices it (`harmless`). `tests/corpus` does the latter at length, with real programs.
//!
//! Assumption: a burst comes every millisecond or so; how many there are decides no test, as long as there is one.

mod findings;
mod flushes;
mod harmless;
mod known_answers;
mod watched;
