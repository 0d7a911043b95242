//! The log of the watch: a line per action, for people or as JSON.
//!
//! What not: errors that end it (`exit`).

use serde_json::{Value, json};

/// Where lines go: stdout.
pub struct Log {
    /// Whether a line is a JSON object.
    pub json: bool,
}

impl Log {
    /// Says a thing. `fields`: the object besides `time`, `event` and `message`.
    pub fn say(&self, event: &str, message: &str, fields: Value) {
        let time = time(super::now() as u64);
        let line = if self.json {
            let mut line = json!({ "time": time, "event": event, "message": message });
            if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
                line.extend(fields);
            }
            format!("{line}\n")
        } else {
            // Names of programs and containers may hold anything, also what a terminal would obey.
            format!("{time} {}\n", message.replace(char::is_control, "?"))
        };
        // A log that nobody reads any more is no reason to end.
        let _ = crate::commands::print(&line);
    }
}

/// `2026-11-26T08:15:00Z`.
pub fn time(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", ::dataset::date(seconds))
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(super::time(1_795_651_199), "2026-11-25T23:59:59Z");
        assert_eq!(super::time(1_795_651_200), "2026-11-26T00:00:00Z");
    }
}
