//! One field of CSV (RFC 4180).
//!
//! What not: lines and tables; views and exports end their lines differently.

/// The text as a field: quoted where a reader would else see a border of fields or lines in it.
#[must_use]
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_when_they_must_be() {
        let fields = ["plain", "f(int, char)", "say \"x\"", "two\nlines"].map(csv_field);
        assert_eq!(fields, ["plain", "\"f(int, char)\"", "\"say \"\"x\"\"\"", "\"two\nlines\""]);
    }
}
