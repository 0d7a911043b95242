//! Mangled names to names that a programmer wrote.
//!
//! What for: Rust (legacy and v0) and C++ (Itanium ABI) names; all others pass unchanged.
//! What not: no return types (they make rows longer and tell nothing that the name does not); no Swift, D, Go.
//! Assumption: names come from files. A short mangled name can unfold to gigabytes, so both sides are bounded;
//! what exceeds a bound stays mangled.

use std::fmt::{self, Write};

/// Longest mangled name that is demangled, bytes. Deep C++ templates reach some 20 KiB.
const LONGEST_MANGLED: usize = 32 << 10;

/// Longest demangled name that is accepted, bytes.
const LONGEST_DEMANGLED: usize = 64 << 10;

/// Longest name that is kept when it stays as it is, bytes.
const LONGEST_RAW: usize = 4 << 10;

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
/// 64 KiB long.
#[must_use]
pub fn function_name(name: &[u8], demangle: Demangle) -> String {
    let name = String::from_utf8_lossy(name);
    let demangled = match demangle {
        Demangle::Yes => demangled(&name),
        Demangle::No => None,
    };
    match demangled {
        Some(name) => cleaned(&name, LONGEST_DEMANGLED),
        None => cleaned(&name, LONGEST_RAW),
    }
}

/// Whether `name` looks like one that C++ or Rust made up for the linker.
pub(crate) fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

fn demangled(name: &str) -> Option<String> {
    if name.len() > LONGEST_MANGLED || !is_mangled(name.as_bytes()) {
        return None;
    }
    rust(name).or_else(|| c_plus_plus(name))
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded(String::new());
    // `#` leaves out the hash that legacy names end with.
    write!(text, "{demangled:#}").ok()?;
    Some(text.0)
}

fn c_plus_plus(name: &str) -> Option<String> {
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let mut text = Bounded(String::new());
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
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
        .map(|name| function_name(name.as_bytes(), Demangle::Yes));
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
        assert_eq!(function_name(b"_Z6triadsPdS_", Demangle::No), "_Z6triadsPdS_");
    }

    #[test]
    fn hostile_names_are_bounded_and_clean() {
        assert_eq!(
            function_name(b"evil\x1b[2Jname\xff", Demangle::Yes),
            "evil\u{fffd}[2Jname\u{fffd}"
        );
        assert_eq!(function_name(&vec![b'a'; 1 << 20], Demangle::Yes).len(), LONGEST_RAW);
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
        let shown = function_name(doubling.as_bytes(), Demangle::Yes);
        assert!(shown.len() <= LONGEST_DEMANGLED);
    }
}
