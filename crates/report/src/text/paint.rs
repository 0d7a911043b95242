//! ANSI colours, or none.
//!
//! Only the eight basic colours and bold/faint: they follow the user's terminal theme.

/// Whether to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Paint {
    pub(crate) colour: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Colour `index` of a set in which neighbours differ.
    pub(crate) fn series(self, index: usize, text: &str) -> String {
        const CODES: [&str; 4] = ["32", "33", "31", "90"];
        self.with(CODES[index % CODES.len()], text)
    }

    pub(crate) fn warn(self, text: &str) -> String {
        self.with("33", text)
    }
}
