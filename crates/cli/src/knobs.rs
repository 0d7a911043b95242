//! Knobs of a collection: one line each, from which parsing, help and the manifest are made.

use std::collections::BTreeMap;

use facts::SamplingMethod;

use crate::exit::Failure;

/// A knob as `fathom knobs` lists it.
pub struct Knob {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its value when not given.
    pub default: &'static str,
    /// What VTune calls it, if it has it.
    pub vtune: &'static str,
    /// What it does, with units and range.
    pub meaning: &'static str,
}

/// All knobs.
#[rustfmt::skip] // One line a knob.
pub const KNOBS: [Knob; 4] = [
    Knob { name: "sampling-interval", default: "1", vtune: "sampling-interval", meaning: "ms of CPU time between two samples of a thread, 0.1 to 1000" },
    Knob { name: "stack-size", default: "8192", vtune: "stack-size", meaning: "bytes of stack copied per sample for unwinding, 256 to 65000" },
    Knob { name: "sampling-mode", default: "auto", vtune: "sampling-mode", meaning: "auto (best allowed), ptrace, or off (totals only)" },
    Knob { name: "dram-bandwidth-limits", default: "true", vtune: "dram-bandwidth-limits", meaning: "true: measure this machine once, after the first run (about 15 s, kept)" },
];

/// What the knobs came to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between samples, in nanoseconds. Not round: see `collect::perf::events`.
    pub period: base::Nanos,
    /// Bytes of stack.
    pub stack_bytes: u32,
    /// The best method to try.
    pub method: SamplingMethod,
    /// Whether to measure the machine when it was not yet.
    pub calibrate: bool,
    /// What differs from the defaults, for the manifest.
    pub changed: BTreeMap<String, String>,
}

/// 1.003009 ms: as near to 1 ms as it may be without falling into step with the kernel's 1, 4 or 10 ms ticks.
const PERIOD_PER_MILLISECOND: f64 = 1_003_009.0;

/// Reads `NAME=VALUE` words.
pub fn parse(words: &[String]) -> Result<Settings, Failure> {
    let mut settings = Settings {
        period: base::Nanos(PERIOD_PER_MILLISECOND as u64),
        stack_bytes: 8192,
        method: SamplingMethod::PerfEvents,
        calibrate: true,
        changed: BTreeMap::new(),
    };
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Failure::usage(format!("knob '{word}' has no value: write NAME=VALUE")));
        };
        let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) else {
            let names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
            return Err(Failure::usage(format!(
                "there is no knob '{name}'; there are {}",
                names.join(", ")
            )));
        };
        let wrong =
            || Failure::usage(format!("knob {name}: '{value}' is not possible: {}", knob.meaning));
        match name {
            "sampling-interval" => {
                let milliseconds: f64 = value.parse().map_err(|_| wrong())?;
                if !(0.1..=1000.0).contains(&milliseconds) {
                    return Err(wrong());
                }
                settings.period = base::Nanos((milliseconds * PERIOD_PER_MILLISECOND) as u64);
            }
            "stack-size" => {
                settings.stack_bytes = value
                    .parse()
                    .ok()
                    .filter(|bytes| (256..=65_000).contains(bytes))
                    .ok_or_else(wrong)?;
            }
            "sampling-mode" => {
                settings.method = match value {
                    "auto" | "sw" => SamplingMethod::PerfEvents,
                    "ptrace" => SamplingMethod::Ptrace,
                    "off" => SamplingMethod::ProcOnly,
                    _ => return Err(wrong()),
                };
            }
            _ => settings.calibrate = value.parse().map_err(|_| wrong())?,
        }
        if value != knob.default {
            settings.changed.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_parser_agree() {
        for knob in &KNOBS {
            let settings = parse(&[format!("{}={}", knob.name, knob.default)]);
            assert!(settings.is_ok_and(|settings| settings.changed.is_empty()), "{}", knob.name);
            assert!(parse(&[format!("{}=nonsense", knob.name)]).is_err(), "{}", knob.name);
        }
        assert!(parse(&["sampling-interval".to_owned()]).is_err());
        assert!(parse(&["no-such=1".to_owned()]).is_err());
        assert!(parse(&["sampling-interval=NaN".to_owned()]).is_err());
    }
}
