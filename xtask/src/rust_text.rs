//! Rust source taken apart into code and comments, and into what ships and what is only for tests.
//!
//! What for: a rule about `unsafe` must not stumble over the word in a sentence or in a string.
//! What not: no parser. Strings, characters, comments and braces are all it knows; a macro that builds tokens
//! out of pieces is beyond it.

/// One file. `code` and `comments` are the file with everything else turned into spaces: a byte keeps its place
/// and a line its number.
pub struct RustText {
    /// Code, without the content of literals and without comments.
    pub code: String,
    /// Comments only, with their slashes.
    pub comments: String,
    /// Comments and the content of literals: what people read.
    pub prose: String,
    /// Per line (0-based): under `#[cfg(test)]`.
    in_test: Vec<bool>,
}

/// A position in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// 1-based.
    pub line: usize,
    /// In bytes.
    pub offset: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl RustText {
    /// Takes a file apart.
    pub fn of(text: &str) -> RustText {
        let mut code = String::with_capacity(text.len());
        let mut comments = String::with_capacity(text.len());
        let mut prose = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let (kind, length) = next_piece(text, at);
            let piece = &text[at..at + length];
            let blank: String =
                piece.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
            code.push_str(if kind == Kind::Code { piece } else { &blank });
            comments.push_str(if kind == Kind::Comment { piece } else { &blank });
            prose.push_str(if kind == Kind::Code { &blank } else { piece });
            at += length;
        }
        let in_test = test_lines(&code);
        RustText { code, comments, prose, in_test }
    }

    /// Every position of the whole word `word` in the code.
    pub fn words(&self, word: &str) -> Vec<Position> {
        find_words(&self.code, word)
    }

    /// Whether the line (1-based) is compiled for tests only.
    pub fn is_test_line(&self, line: usize) -> bool {
        line.checked_sub(1).and_then(|index| self.in_test.get(index)).copied().unwrap_or(false)
    }
}

/// Every position of a whole word in a text.
pub fn find_words(text: &str, word: &str) -> Vec<Position> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    text.match_indices(word)
        .filter(|(at, _)| {
            let end = at + word.len();
            (*at == 0 || !is_word(bytes[at - 1])) && !bytes.get(end).copied().is_some_and(is_word)
        })
        .map(|(offset, _)| Position { line: line_of(text, offset), offset })
        .collect()
}

/// The line (1-based) of a byte offset.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// What begins at `at`, and how many bytes it is long (at least one character).
fn next_piece(text: &str, at: usize) -> (Kind, usize) {
    let rest = &text[at..];
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(length) = string(text, at) {
        return (Kind::Literal, length);
    }
    if let Some(length) = character(rest) {
        return (Kind::Literal, length);
    }
    (Kind::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The length of a string literal that begins here: plain, `b`, `c`, and raw with any number of `#`.
fn string(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let before = text[..at].bytes().next_back();
    let prefix = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    if prefix > 2
        || (prefix > 0 && before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    {
        return None;
    }
    let raw = rest[..prefix].ends_with('r');
    let body = &rest[prefix..];
    let hashes = if raw { body.len() - body.trim_start_matches('#').len() } else { 0 };
    let content = body[hashes..].strip_prefix('"')?;
    let head = prefix + hashes + 1;
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(content.find(&end).map_or(rest.len(), |found| head + found + end.len()));
    }
    Some(head + closing_quote(content, b'"'))
}

/// The offset behind the closing quote, with backslashes honoured.
fn closing_quote(content: &str, quote: u8) -> usize {
    let mut bytes = content.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == quote {
            return index + 1;
        }
    }
    content.len()
}

/// The length of a character literal that begins here; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let content = rest.strip_prefix('\'')?;
    let first = content.chars().next()?;
    if first == '\\' {
        return Some(1 + closing_quote(content, b'\''));
    }
    content[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

/// Marks the lines of every item under `#[cfg(test)]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marked = vec![false; code.lines().count() + 1];
    for (start, attribute) in code.match_indices("#[cfg(test)]") {
        let end = item_end(code, start + attribute.len());
        for line in line_of(code, start)..=line_of(code, end) {
            marked[line - 1] = true;
        }
    }
    marked
}

/// The offset of the last byte of the item that begins at `start`: its closing brace, or its semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (index, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return index,
            b'}' => depth -= 1,
            b';' if depth == 0 => return index,
            _ => {}
        }
    }
    code.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_not_code() {
        let text = "let a = \"unsafe \\\" todo!\"; // unsafe\nlet b = r#\"x\" unsafe\"#; /* /* unsafe */ */ f('\"', b'\\'', 'é');";
        let parts = RustText::of(text);
        assert_eq!(
            parts.code.split_whitespace().collect::<Vec<_>>().join(" "),
            "let a = ; let b = ; f( , b , );"
        );
        assert_eq!(
            parts.comments.split_whitespace().collect::<Vec<_>>().join(" "),
            "// unsafe /* /* unsafe */ */"
        );
        assert!(parts.words("unsafe").is_empty());
        assert_eq!(parts.code.len(), text.len());
    }

    #[test]
    fn lifetimes_are_code() {
        let parts = RustText::of("fn f<'a>(x: &'a str) -> &'static str { unsafe { g(x) } }");
        assert_eq!(parts.words("unsafe"), [Position { line: 1, offset: 39 }]);
    }

    #[test]
    fn names_that_end_in_a_prefix_letter_are_no_raw_string() {
        let offset = |text, word| RustText::of(text).words(word)[0].offset;
        assert_eq!(offset("car\"s\" bar\"unsafe\" x", "x"), 19);
        assert_eq!(offset("br#\"a\"b\"# unsafe", "unsafe"), 10);
    }

    #[test]
    fn words_are_whole() {
        let positions = RustText::of("unsafe_code unsafe\nunsafer unsafe").words("unsafe");
        assert_eq!(positions, [(1, 12), (2, 27)].map(|(line, offset)| Position { line, offset }));
    }

    #[test]
    fn test_items_are_known_by_line() {
        let parts = RustText::of(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { }\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}\n",
        );
        let marked: Vec<usize> = (1..=9).filter(|line| parts.is_test_line(*line)).collect();
        assert_eq!(marked, [2, 3, 4, 5, 7, 8]);
    }
}
