//! Prose without the code that it quotes.
//!
//! What for: rules that read documents and comments. What not: the rules.

/// Fenced and inline code turned into spaces; lines keep their numbers.
#[must_use]
pub fn without_code(text: &str) -> String {
    let mut inside = false;
    without_fences(text)
        .chars()
        .map(|letter| {
            // Inline code does not go on over an empty line; a line is the safe bound here.
            inside = (inside != (letter == '`')) && letter != '\n';
            if inside && letter != '\n' { ' ' } else { letter }
        })
        .collect()
}

/// Without fenced blocks, also those of comments in code; lines keep their numbers.
#[must_use]
pub fn without_fences(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let fence = line.trim_start_matches(['/', '!', ' ']).starts_with("```");
        inside ^= fence;
        kept.push_str(if inside || fence { "" } else { line });
        kept.push('\n');
    }
    kept
}
