//! Demangling: from linker names to names in the source.
//!
//! What for: Rust (legacy and v0), C++ (Itanium ABI) and module names of gfortran; all others pass unchanged. What
//! not: return types, which make rows longer and add nothing to the name; Swift, D, Go. Assumption: names come from
//! files. A short mangled name can unfold to gigabytes, and make the demangler try alternatives for hours. So length,
//! recursion and failures are bounded; a name that exceeds a bound stays mangled.

use std::cell::Cell;
use std::fmt::{self, Write};

/// Longest mangled name that is demangled, bytes. Deep C++ templates reach some 20 KiB.
const LONGEST_MANGLED: usize = 32 << 10;

/// Longest demangled name that is accepted, bytes.
const LONGEST_DEMANGLED: usize = 64 << 10;

/// Longest name that is kept when it stays as it is, bytes.
const LONGEST_RAW: usize = 4 << 10;

/// Recursion that cpp_demangle may use to parse a name. Of 6235 names of LLVM, libstdc++ and `<regex>`, 7 need more.
/// A failing parse tries alternatives at every level, so this bounds its time, too: at most 70 ms in two million
/// names made by mutation, where the crate's own default of 96 hung.
const RECURSION: u32 = 64;

/// The same for names with many expressions, whose parse has the most alternatives per level (33 ms by mutation with
/// this limit, hours with 64; 12 of the 6235 names stay mangled by it), and after many failures.
const RECURSION_WHEN_COSTLY: u32 = 24;

/// Two-letter operators from which on a name counts as full of expressions.
const MANY_OPERATORS: usize = 12;

/// Names that may fail before costly ones are given up sooner. Compilers write correct names.
const FAILURES: u32 = 64;

/// Whether names are demangled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Demangle {
    /// As a programmer wrote them.
    #[default]
    Yes,
    /// As the linker sees them.
    No,
}

/// Collects text up to [`LONGEST_DEMANGLED`], then fails, which stops the demangler.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// `name` for the reader: demangled where that is asked for and possible, control characters replaced, at most
/// 64 KiB long. Takes microseconds, for a hostile name up to a tenth of a second.
#[must_use]
pub fn function_name(name: &[u8], demangle: Demangle) -> String {
    Demangler::new(demangle).name(name)
}

/// Turns names into text for the reader, with a memory for how many could not be demangled.
#[derive(Debug, Default)]
pub(crate) struct Demangler {
    wanted: Demangle,
    failures: Cell<u32>,
}

impl Demangler {
    /// One per file: a file with many broken names is hostile, and handled with less patience.
    pub(crate) fn new(wanted: Demangle) -> Demangler {
        Demangler { wanted, failures: Cell::new(0) }
    }

    /// As [`function_name`].
    pub(crate) fn name(&self, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name);
        let demangled = match self.wanted {
            Demangle::Yes => fortran(&name).or_else(|| self.demangled(&name)),
            Demangle::No => None,
        };
        match demangled {
            Some(name) => cleaned(&name, LONGEST_DEMANGLED),
            None => cleaned(&name, LONGEST_RAW),
        }
    }

    fn demangled(&self, name: &str) -> Option<String> {
        if name.len() > LONGEST_MANGLED || !is_mangled(name.as_bytes()) {
            return None;
        }
        let patient = self.failures.get() < FAILURES && !is_full_of_expressions(name.as_bytes());
        let recursion = if patient { RECURSION } else { RECURSION_WHEN_COSTLY };
        let demangled = rust(name)
            .or_else(|| c_plus_plus(name, recursion))
            .or_else(|| patient.then(|| without_parameters(name)).flatten());
        if demangled.is_none() {
            self.failures.set(self.failures.get().saturating_add(1));
        }
        demangled
    }
}

/// `fields::pressure` of gfortran's `__fields_MOD_pressure`.
fn fortran(name: &str) -> Option<String> {
    let (module, own) = name.strip_prefix("__")?.split_once("_MOD_")?;
    Some(format!("{module}::{own}"))
}

/// Whether `name` looks like one that C++ or Rust made up for the linker.
pub(crate) fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded(String::new());
    // `#` leaves out the hash that legacy names end with.
    write!(text, "{demangled:#}").ok()?;
    Some(text.0)
}

fn c_plus_plus(name: &str, recursion: u32) -> Option<String> {
    let parsing = cpp_demangle::ParseOptions::default().recursion_limit(recursion);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &parsing).ok()?;
    let mut text = Bounded(String::new());
    let printing = cpp_demangle::DemangleOptions::new().no_return_type();
    symbol.structured_demangle(&mut text, &printing).ok()?;
    Some(text.0)
}

/// A C++ function template without its return type and parameters, if these cannot be read: those of libstdc++ say
/// `srSt11__is_scalarIT0_E7__value`, which neither the ABI's grammar (Itanium C++ ABI 5.1.6, `unresolved-type`) nor
/// cpp_demangle has. Its arguments end with an `E`. The shortest prefix that, with `vv`, reads as a function from
/// nothing to nothing has all of them: in a shorter one a bracket is open, or an identifier cut off.
fn without_parameters(name: &str) -> Option<String> {
    /// Names have few arguments before their own end; a hostile one must not be tried at each byte.
    const ENDS: usize = 16;
    let readable = &name[..name.find("srSt")?];
    let ends = readable.match_indices('E').take(ENDS);
    ends.filter_map(|(at, _)| name.get(..=at)).find_map(|start| {
        let read = c_plus_plus(&format!("{start}vv"), RECURSION_WHEN_COSTLY)?;
        read.strip_suffix("()").filter(|read| read.ends_with('>')).map(str::to_owned)
    })
}

/// Whether a C++ name has something that starts an expression (Itanium C++ ABI 5.1.6: template argument `X`,
/// `decltype`, `noexcept`, vector and array sizes), and many lower-case pairs, as operators are, outside of
/// identifiers. A guess from the text: it errs towards "yes".
fn is_full_of_expressions(name: &[u8]) -> bool {
    let starts_expression = |pair: &[u8]| {
        matches!(pair, [b'X', _] | [_, b'X'] | b"DT" | b"Dt" | b"DO" | b"Dv")
            || (pair[0] == b'A' && !pair[1].is_ascii_digit())
    };
    name.windows(2).any(starts_expression) && operators_outside_identifiers(name) > MANY_OPERATORS
}

fn operators_outside_identifiers(name: &[u8]) -> usize {
    let (mut at, mut operators) = (0, 0);
    while at < name.len() {
        let digits = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            let pair = name.get(at..at + 2);
            operators +=
                usize::from(pair.is_some_and(|pair| pair.iter().all(u8::is_ascii_lowercase)));
            at += 1;
            continue;
        }
        // `S1_`, `T1_` and literals number something; other numbers are the length of the identifier that follows.
        let numbers = at > 0 && matches!(name[at - 1], b'S' | b'T' | b'L' | b'_');
        let length =
            std::str::from_utf8(&name[at..at + digits]).ok().and_then(|text| text.parse().ok());
        let identifier = length.filter(|_| !numbers).unwrap_or(0_usize);
        at = at.saturating_add(digits).saturating_add(identifier);
    }
    operators
}

/// Names go to terminals: an escape sequence in a symbol must not reach them.
fn cleaned(name: &str, longest: usize) -> String {
    let mut end = name.len().min(longest);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demangle(name: &[u8]) -> String {
        Demangler::new(Demangle::Yes).name(name)
    }

    #[test]
    fn known_names() {
        let shown = [
            "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
            "_RNvC6_123foo3bar",
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "_Z6triadsPdS_",
            "_Z3foov.cold",
            "main._omp_fn.0",
            "_Z",
            "_start",
        ]
        .map(|name| demangle(name.as_bytes()));
        assert_eq!(
            shown,
            [
                "core::fmt::Formatter::pad",
                "123foo::bar",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "triads(double*, double*)",
                "foo() [clone .cold]",
                "main._omp_fn.0",
                "_Z",
                "_start",
            ]
        );
        assert_eq!(Demangler::new(Demangle::No).name(b"_Z6triadsPdS_"), "_Z6triadsPdS_");
    }

    #[test]
    fn a_template_whose_return_type_cannot_be_read_keeps_its_name() {
        let name = "_ZSt9__fill_a1IPddEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S6_RKS3_";
        assert_eq!(demangle(name.as_bytes()), "std::__fill_a1<double*, double>");
        // Cut off, these read as something else, or as nothing.
        for broken in ["_Z4REALIiXsrSt", "_Z2REXsrSt", "_ZN4HEREIiESt"] {
            assert_eq!(demangle(broken.as_bytes()), broken);
        }
    }

    #[test]
    fn hostile_names_are_bounded_and_clean() {
        assert_eq!(demangle(b"evil\x1b[2Jname\xff"), "evil\u{fffd}[2Jname\u{fffd}");
        assert_eq!(demangle(&vec![b'a'; 1 << 20]).len(), LONGEST_RAW);
        // Each template level names the one before twice: without a bound this is 2^40 characters.
        let mut doubling = String::from("_Z1f1AI");
        doubling.push_str("1BI");
        for level in 0..40_u32 {
            let back = match level {
                0 => "S_".to_owned(),
                n => {
                    format!("S{}_", char::from_digit(n - 1, 36).unwrap_or('0').to_ascii_uppercase())
                }
            };
            doubling.push_str(&format!("1CI{back}{back}E"));
        }
        let shown = demangle(doubling.as_bytes());
        assert!(shown.len() <= LONGEST_DEMANGLED);
    }

    /// `delete` expressions nested into each other: each level is tried twice, and with cpp_demangle's own limit of
    /// recursion this does not end in any time (found by mutating real names).
    #[test]
    fn names_with_endless_alternatives_stay_mangled() {
        for name in ["da", "dl"].map(|delete| format!("_Z1fIX{}", delete.repeat(60))) {
            assert_eq!(demangle(name.as_bytes()), name);
        }
    }

    #[test]
    fn a_few_operators_do_no_harm() {
        let name = b"_ZSt3addIiEDTplfp_fp0_ET_S0_";
        assert!(!is_full_of_expressions(name));
        assert!(demangle(name).starts_with("std::add<int>"));
        assert_eq!(operators_outside_identifiers(b"_Z12abcdefghijkliclS1_ad"), 3);
    }
}
