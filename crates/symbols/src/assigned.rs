//! The variable that a statement assigns to, from the text of its line: `cells` of `double *cells = malloc(n * sizeof
//! *cells);`.
//!
//! What for: people know an allocation by the variable that holds it, which also distinguishes several in one
//! function. What not: which lines allocate, which the caller knows; files. Assumption: C, C++, Rust or Fortran, with
//! one statement per line or begun on the line before. The text is hostile and may be anything else. No answer is
//! better than a wrong one: a line that is not plainly an assignment, a declaration or a method call has none.

/// Longer names are not names.
const LONGEST: usize = 64;
/// Longer lines are generated data.
const LONGEST_LINE: usize = 1000;

/// Words that begin a statement without declaration or assignment, or that are not names.
const NO_STATEMENT: [&str; 15] = [
    "return",
    "for",
    "while",
    "else",
    "delete",
    "throw",
    "case",
    "goto",
    "using",
    "typedef",
    "new",
    "do",
    "switch",
    "co_return",
    "if",
];

/// The variable of the statement on `line`; `before` is the line above, on which it may begin.
#[must_use]
pub fn assigned(line: &str, before: Option<&str>) -> Option<String> {
    let line = statement(line)?;
    let before = before.and_then(statement).filter(|before| before.ends_with('='));
    let whole = before.map_or_else(|| line.to_owned(), |before| format!("{before} {line}"));
    let variable = fortran(&whole).or_else(|| of_statement(&whole))?;
    // A line of a file that is no source code may have any bytes.
    let is_name = variable.len() <= LONGEST && !variable.chars().any(char::is_control);
    is_name.then_some(variable)
}

fn of_statement(text: &str) -> Option<String> {
    let assigned = of_assignment(text);
    match first_word(text) {
        "if" | "while" if assigned.is_some() => assigned,
        "if" | "while" | "for" => of_statement(behind_head(text)?),
        "else" => of_statement(text["else".len()..].trim_start()),
        _ => assigned.or_else(|| of_declaration(text)).or_else(|| of_method(text)),
    }
}

/// The statement controlled by `for (...)`, or in Rust after the first brace.
fn behind_head(text: &str) -> Option<&str> {
    let head = text.find(|c: char| !is_word(c))?;
    let rest = text[head..].trim_start();
    let end = if rest.starts_with('(') {
        let mut depth = 0_usize;
        rest.find(|letter: char| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    } else {
        rest.find('{')
    };
    let body = rest.get(end? + 1..)?.trim_start().trim_start_matches('{').trim_start();
    (!body.is_empty()).then_some(body)
}

/// The line without its trailing comment.
fn statement(line: &str) -> Option<&str> {
    let code = line.split("//").next().unwrap_or(line).trim();
    let other = code.is_empty() || ["#", "* ", "*/"].iter().any(|start| code.starts_with(start));
    (!other && code.len() <= LONGEST_LINE).then_some(code)
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    &text[..end]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `allocate(cells(n, m), order(n), stat=error)`.
fn fortran(text: &str) -> Option<String> {
    let head = text.get(..8).filter(|head| head.eq_ignore_ascii_case("allocate"))?;
    let arguments = text[head.len()..].trim_start().strip_prefix('(')?;
    let (mut depth, mut from, mut names) = (0_i32, 0, Vec::new());
    for (at, letter) in arguments.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ',' | ')' if depth == 0 => {
                let one = &arguments[from..at];
                let name = one.split('(').next().filter(|_| !one.contains('='));
                names.extend(name.and_then(path));
                from = at + 1;
                if letter == ')' {
                    break;
                }
            }
            _ => {}
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// The text before the first `=` that is an assignment.
fn of_assignment(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let assigns = |at: &usize| {
        let around = |at: Option<usize>| at.and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
        let before = around(at.checked_sub(1));
        bytes[*at] == b'='
            && !b"=<>!+-*/%&|^:".contains(&before)
            && !b"=>".contains(&around(Some(at + 1)))
    };
    let at = (0..bytes.len()).find(assigns)?;
    let left = &text[..at];
    // An open quote: the sign is inside a text.
    if left.matches('"').count() % 2 == 1 {
        return None;
    }
    let left = match left.split_once("let ") {
        Some((_, declared)) => declared.split(':').next().unwrap_or(declared),
        None => left,
    };
    path(left)
}

/// `std::vector<double> cells(n);`, also with braces or nothing after the name.
fn of_declaration(text: &str) -> Option<String> {
    let mut depth = 0_usize;
    let end = text.char_indices().find(|(_, letter)| {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(letter, '(' | '{' | ';')
    });
    let left = text[..end?.0].trim_end();
    // The character before the name may have several bytes.
    let (at, between) = left.char_indices().rev().find(|(_, letter)| !is_word(*letter))?;
    let (of, name) = left.split_at(at + between.len_utf8());
    let of = of.trim_end_matches(['*', '&', ' ']);
    let is_type = of.ends_with(|c: char| is_word(c) || c == '>') && !of.ends_with("->");
    let declares = is_type && of.starts_with(char::is_alphabetic);
    (declares && !NO_STATEMENT.contains(&first_word(of))).then(|| path(name)).flatten()
}

/// `cells.resize(n);`
fn of_method(text: &str) -> Option<String> {
    let called = &text[..text.find('(')?];
    let dot = called.rfind('.').into_iter().chain(called.rfind("->")).max()?;
    (!NO_STATEMENT.contains(&first_word(text))).then(|| path(&called[..dot])).flatten()
}

/// The variable or member that a text ends with, its indices left out: `grid->cells`, `rows[]`.
fn path(text: &str) -> Option<String> {
    let text = text.trim_end();
    let (mut from, mut depth, mut ends_word) = (text.len(), 0_usize, false);
    let mut letters = text.char_indices().rev().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        match letter {
            ']' => depth += 1,
            '[' => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ if is_word(letter) => ends_word = true,
            '.' | '%' if ends_word => {}
            '>' if ends_word && next == Some('-') => {
                letters.next();
            }
            ':' if ends_word && next == Some(':') => {
                letters.next();
            }
            _ => break,
        }
        from = match letter {
            '>' | ':' if depth == 0 => at - 1,
            _ => at,
        };
    }
    let (mut name, mut depth) = (String::new(), 0_usize);
    for letter in text[from..].chars() {
        match letter {
            '[' if depth == 0 => {
                name += "[]";
                depth = 1;
            }
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            letter => name.push(letter),
        }
    }
    let name = name.trim_start_matches(['.', '%', ':']);
    let name = name.strip_prefix("->").unwrap_or(name).trim_start_matches("this->");
    let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (begins && !NO_STATEMENT.contains(&name)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::assigned;

    #[test]
    fn a_control_character_is_in_no_name() {
        assert_eq!(assigned("  mal\0w3j;] =-<rows", Some("  m[")), None);
    }

    #[test]
    fn variables_of_statements() {
        for (line, variable) in [
            ("double *cells = malloc(n * sizeof *cells);", "cells"),
            ("  pvector<NodeID> parent(g.num_nodes(), -1);", "parent"),
            ("static std::vector<double> grid(N);  // all = of it", "grid"),
            ("std::vector<Bin> local_bins{};", "local_bins"),
            ("SD.unionized_energy_array = (double *) malloc(n);", "SD.unionized_energy_array"),
            ("rows[i % 2] = calloc(1, sizeof(row));", "rows[]"),
            ("this->start_ = new T[n];", "start_"),
            ("if ((list->head = malloc(16)) == NULL) abort();", "list->head"),
            ("float** index = new float*[n];", "index"),
            ("local_bins[bin].resize(size);", "local_bins[]"),
            ("queue->push_back(x);", "queue"),
            ("let mut values: Vec<f64> = vec![0.0; n];", "values"),
            ("let names = Vec::with_capacity(n);", "names"),
            ("values.push(3);", "values"),
            ("allocate(grid%cells(n, m), stat=error)", "grid%cells"),
            ("ALLOCATE (a(n), b(n))", "a, b"),
            ("*neighs = new int[n];", "neighs"),
            ("for (long i = 0; i < n; i++) counts.push_back(i & 7);", "counts"),
            ("for i in 0..n { index.insert(i * 31, i); }", "index"),
            ("else cells = malloc(n);", "cells"),
            ("auto table = std::make_unique<Entry[]>(n);", "table"),
            ("const int* const keys = read_keys(n);", "keys"),
        ] {
            assert_eq!(assigned(line, None).as_deref(), Some(variable), "{line}");
        }
        assert_eq!(assigned("malloc(n);", Some("  cells =")).as_deref(), Some("cells"));
    }

    #[test]
    fn other_lines_have_none() {
        for line in [
            "return malloc(n);",
            "for (int i = 0; i < n; i++) push(malloc(16));",
            "insert(new Node(key));",
            "if (a == b) grow(a);",
            "puts(\"a = b\");",
            "else return new Node(key);",
            "# define X = 3",
            "}",
            "",
            "= = = [ ] ( -> ::",
            "]]] = 3",
            "[[[ = 3",
            "日本 ( = )",
        ] {
            assert_eq!(assigned(line, None), None, "{line}");
        }
    }
}
