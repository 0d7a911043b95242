//! `unsafe` stands only where unsafe work is the crate's purpose, and each one says why it holds there.
//!
//! Clippy's `undocumented_unsafe_blocks` asks for the comment too; this also keeps `unsafe` out of the other
//! crates, out of their tests, and out of `unsafe fn` without a contract.

use crate::problem::Problem;
use crate::rust_text::{Position, RustText, line_of};
use crate::tree::Tree;

/// Crates whose purpose it is: the door to the kernel, the libraries that run inside of other programs, and what these programs have
/// to find one.
const ALLOWED: [&str; 3] = ["crates/sys", "crates/agent", "include/rust"];

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.rust() {
        let allowed = ALLOWED.iter().any(|folder| file.is_under(folder));
        for Position { line, offset: at } in text.words("unsafe") {
            let rest = text.code[at + "unsafe".len()..].trim_start();
            let Some(what) = Unsafe::of(rest) else { continue };
            if !allowed {
                let sentence = "unsafe outside of crates/sys, crates/agent and include/rust: give crates/sys a safe function for it";
                problems.push(Problem::error(&file.path, line, sentence));
            } else if let Some(sentence) = what.missing(&text, at) {
                problems.push(Problem::error(&file.path, line, sentence));
            }
        }
    }
    problems
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsafe {
    /// A block or an `unsafe impl`: we claim that something holds.
    Claim,
    /// An `unsafe fn` or `unsafe trait`: whoever uses it must make something hold.
    Contract,
}

impl Unsafe {
    /// By what follows the word. `None`: an attribute (`#[unsafe(...)]`), the type of a function, or a block of
    /// foreign declarations, which promise nothing yet.
    fn of(rest: &str) -> Option<Unsafe> {
        if rest.starts_with('{') || rest.starts_with("impl") {
            return Some(Unsafe::Claim);
        }
        if rest.starts_with("trait") {
            return Some(Unsafe::Contract);
        }
        // The ABI of `extern "C"` is a literal and therefore blank here.
        let function = rest.strip_prefix("extern").map_or(rest, str::trim_start);
        let name = function.strip_prefix("fn")?;
        (!name.trim_start().starts_with('(')).then_some(Unsafe::Contract)
    }

    /// The sentence about a missing comment.
    fn missing(self, text: &RustText, at: usize) -> Option<&'static str> {
        let above = comment_above(text, line_of(&text.code, at));
        let claimed = above.contains("Safety:") || above.contains("SAFETY:");
        match self {
            Unsafe::Claim if !claimed => {
                Some("no `// Safety:` comment right above: why does it hold here?")
            }
            Unsafe::Contract if !claimed && !above.contains("# Safety") => {
                Some("no `# Safety` section: what must the caller make sure of?")
            }
            _ => None,
        }
    }
}

/// The comments right above the statement that the line (1-based) belongs to, or in its line.
fn comment_above(text: &RustText, line: usize) -> String {
    let code: Vec<&str> = text.code.lines().collect();
    let comments: Vec<&str> = text.comments.lines().collect();
    let mut found = String::from(comments[line - 1]);
    let mut in_comment = false;
    for index in (0..line - 1).rev() {
        let (code, comment) = (code[index].trim(), comments[index].trim());
        let attribute = code.starts_with("#[") || code.ends_with(")]");
        let whole_line_comment = code.is_empty() && !comment.is_empty();
        let same_statement = !code.is_empty()
            && !code.ends_with(';')
            && !code.ends_with('{')
            && !code.ends_with('}');
        match (whole_line_comment, attribute, same_statement && !in_comment) {
            (true, ..) => in_comment = true,
            (_, true, _) | (.., true) => {}
            _ => break,
        }
        found.insert(0, '\n');
        found.insert_str(0, comment);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_where_it_is_allowed() {
        let text = "// Safety: yes.\nlet a = unsafe { b() };\n";
        let sentence = "crates/store/src/a.rs:2: unsafe outside of crates/sys, crates/agent and include/rust: give crates/sys a safe function for it";
        assert_eq!(said("crates/store/src/a.rs", text), [sentence]);
        assert_eq!(said("crates/sys/src/a.rs", text), [] as [&str; 0]);
        assert_eq!(said("crates/systematic/src/a.rs", text).len(), 1);
    }

    #[test]
    fn each_block_says_why() {
        for good in [
            "// Safety: live.\nif unsafe { a() } {}\n",
            "// Safety: live,\n// as said.\nlet ready =\n    unsafe { a() };\n",
            "// Safety: live.\n#[allow(x)]\nlet b = unsafe { a() };\n",
            "// SAFETY: plain data.\nunsafe impl Send for A {}\n",
            "#[unsafe(no_mangle)]\nfn a(call: unsafe extern \"C\" fn(i32)) {}\n",
            "unsafe extern \"C\" {\n    fn a();\n}\n",
            "/// Calls.\n///\n/// # Safety\n/// Only once.\n#[inline]\npub unsafe fn a() {}\n",
        ] {
            assert_eq!(said("crates/sys/src/a.rs", good), [] as [&str; 0], "{good}");
        }
        for bad in [
            "let a = unsafe { b() };\n",
            "// Safety: for another.\nc();\nlet a = unsafe { b() };\n",
            "// Safety: for another.\nunsafe { c() };\nunsafe { b() };\n",
            "// It is safe.\nunsafe { b() };\n",
            "/// Calls.\npub unsafe fn a() {}\n",
            "pub unsafe extern \"C\" fn a() {}\n",
        ] {
            assert_eq!(said("crates/sys/src/a.rs", bad).len(), 1, "{bad}");
        }
    }
}
