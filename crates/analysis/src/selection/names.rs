//! Whether a name matches what a user typed.

pub(super) fn file_matches(file: &str, wanted: &str) -> bool {
    let ends = file.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'));
    ends || name_matches(file, wanted)
}

pub(super) fn function_matches(name: &str, wanted: &str) -> bool {
    if name_matches(name, wanted) {
        return true;
    }
    let bare = bare_function_name(name);
    bare == wanted || bare.strip_suffix(wanted).is_some_and(|rest| rest.ends_with("::"))
}

/// A demangled name without return type, parameters, template arguments and anonymous namespaces:
/// `void ns::Grid<double>::step<4>(int)` becomes `ns::Grid::step`. Names that cannot be taken apart so simply
/// (`operator<`, `<T as Trait>::f`, `[libc.so.6+0x12]`, Python's `py::<module>`) are returned as they are.
#[must_use]
pub fn bare_function_name(name: &str) -> String {
    const CALL: &str = "operator()";
    if let Some(at) = name.find(CALL).filter(|_| name.matches("operator").count() == 1) {
        // The parentheses are part of its name: as if it had another.
        let bare = bare_function_name(&format!("{}x", &name[..at]));
        return format!("{}{CALL}", bare.strip_suffix('x').unwrap_or_default());
    }
    if name.starts_with(['[', '<']) || name.starts_with("py::") || name.contains("operator") {
        return name.to_owned();
    }
    let named = name.replace("(anonymous namespace)::", "").replace("{anonymous}::", "");
    let mut bare = String::new();
    let mut depth = 0usize;
    for c in named.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' | '[' if depth == 0 => break,
            ' ' if depth == 0 => bare.clear(),
            _ if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    if bare.is_empty() { name.to_owned() } else { bare }
}

/// Equality, or a match of a pattern in which `*` matches any text. So does `…`, which stands for what a table left
/// out of a long name.
#[must_use]
pub fn name_matches(name: &str, wanted: &str) -> bool {
    const ANY: [char; 2] = ['*', '…'];
    if name == wanted || !wanted.contains(ANY) {
        return name == wanted;
    }
    let mut parts = wanted.split(ANY);
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_match_by_full_bare_and_pattern_names() {
        let name = "void ns::Grid<double>::step<4>(int, char const*)";
        for wanted in [name, "*step<4>*", "void ns::*"] {
            assert!(function_matches(name, wanted), "{wanted}");
        }
        for wanted in ["ns::Grid::step", "Grid::step", "step"] {
            assert!(function_matches(name, wanted), "{wanted}");
        }
        assert!(function_matches("ns::(anonymous namespace)::g(int)", "ns::g"));
        assert!(function_matches("core::ptr::drop_in_place<Vec<u8>>", "drop_in_place"));
        assert!(function_matches("ns::f<int>(double)", "f"));
        assert!(function_matches("ns::f(double)", "ns::f"));
        assert!(!function_matches("ns::leaf(double)", "f"));
        assert!(!function_matches("main", "mai"));
        assert!(function_matches("[libc.so.6+0x12]", "[libc.so.6+0x12]"));
        let call = "ns::product<Matrix<double, int>, V>::operator()(Matrix<double, int>&, V&)";
        for wanted in ["ns::product::operator()", "ns::product<…>::operator()(…)", "ns::p…)(…)"]
        {
            assert!(function_matches(call, wanted), "{wanted}");
        }
        assert!(!function_matches(call, "ns::product<…>::operator+(…)"));
        assert!(function_matches("<Vec<u8> as Drop>::drop", "<Vec<u8> as Drop>::drop"));
        assert!(function_matches("py::Mesh.<lambda>", "Mesh.<lambda>"));
        assert!(!function_matches("py::<module>", ""));
    }

    #[test]
    fn patterns_match_any_text_at_stars() {
        for (name, wanted, expected) in [
            ("abcabc", "a*c", true),
            ("abcabc", "*bca*", true),
            ("abc", "abc*", true),
            ("abc", "*d", false),
            ("ab", "ab*b", false),
            ("", "*", true),
        ] {
            assert_eq!(name_matches(name, wanted), expected, "{name} {wanted}");
        }
    }

    #[test]
    fn files_match_by_their_end() {
        assert!(file_matches("/home/u/src/triad.c", "triad.c"));
        assert!(file_matches("/home/u/src/triad.c", "src/triad.c"));
        assert!(!file_matches("/home/u/src/triad.c", "iad.c"));
    }
}
