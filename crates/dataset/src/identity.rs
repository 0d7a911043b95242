//! Which recording a result is, and where its files go.
//!
//! What for: the same result, copied or renamed, is the same; a recording that was incomplete and is whole now is still the same.
//! What not: its content. Assumption: two recordings differ in their start, process, host, rank or command.

use facts::{Run, Target};

/// Hive's word for a value that is not known; engines read it as NULL.
pub(crate) const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// Longest value of a part of the path: a file name may have 255 bytes.
const LONGEST: usize = 100;

/// 9999-12-31T23:59:59: engines know no later date.
const LAST_SECOND: u64 = 253_402_300_799;

/// A recording's name and place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// 32 hex digits.
    pub run: String,
    /// Values of [`crate::PARTITIONS`].
    pub(crate) parts: [String; 5],
}

impl Identity {
    /// The identity of a manifest's recording. `host`: its machine where the manifest does not name it.
    ///
    /// # Errors
    /// The reason, when its start is no date.
    pub fn of(run: &Run, host: Option<&str>) -> Result<Identity, String> {
        if run.started_unix > LAST_SECOND {
            return Err(format!(
                "its clock said {} seconds since 1970, which is after the year 9999",
                run.started_unix
            ));
        }
        let host = run.host_name.as_deref().or(host);
        let rank = run.rank.as_ref();
        let pid = match run.target {
            Some(Target::Launched { pid } | Target::Attached { pid }) => pid,
            _ => 0,
        };
        let rank_text = rank.map(|rank| rank.rank.to_string());
        let job = rank.and_then(|rank| rank.job.as_deref());
        let known = [
            run.started_unix.to_string().as_str(),
            run.started_part_ns.to_string().as_str(),
            pid.to_string().as_str(),
            run.analysis.name(),
            run.host_name.as_deref().unwrap_or_default(),
            run.working_directory.as_str(),
            rank_text.as_deref().unwrap_or_default(),
            job.unwrap_or_default(),
            run.command.join("\0").as_str(),
        ]
        .join("\0");
        let parts = [
            date(run.started_unix),
            part(host),
            part(job),
            part(rank_text.as_deref()),
            run.analysis.name().to_owned(),
        ];
        let [one, other] = ["one", "other"].map(|start| hash(start, &known));
        Ok(Identity { run: format!("{one:016x}{other:016x}"), parts })
    }
}

/// FNV-1a: names must stay the same in all versions of Fathom, which the standard library's hash does not promise.
fn hash(start: &str, text: &str) -> u64 {
    start.bytes().chain(text.bytes()).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A file's name for a path: its end, for people, and a hash.
pub(crate) fn file_name(path: &str) -> String {
    let end = path.trim_end_matches('/').rsplit('/').next();
    format!("{}-{:016x}", part(end), hash("path", path))
}

/// A value as a part of a path. Engines differ in how they decode escapes, so there are none: the exact text is in `runs`.
fn part(text: Option<&str>) -> String {
    let plain = |letter: char| {
        let stays = letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if stays { letter } else { '_' }
    };
    let clean: String = text.unwrap_or_default().chars().take(LONGEST).map(plain).collect();
    if clean.is_empty() { UNKNOWN.to_owned() } else { clean }
}

/// The day in UTC of seconds since 1970, `2026-11-26` (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
#[must_use]
pub fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use facts::{Rank, RunState};

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_795_651_199, "2026-11-25"),
            (1_795_651_200, "2026-11-26"),
            (4_107_542_400, "2100-03-01"),
            (LAST_SECOND, "9999-12-31"),
        ];
        for (seconds, day) in days {
            assert_eq!(date(seconds), day);
        }
    }

    #[test]
    fn the_same_recording_is_the_same_whatever_its_state() {
        let rank = |rank| Some(Rank { rank, job: Some("a/b".to_owned()), ..Rank::default() });
        let run = Run {
            started_unix: 1_795_651_200,
            rank: rank(3),
            host_name: Some("node7".to_owned()),
            command: vec!["app".to_owned()],
            ..Run::default()
        };
        let of = |run: &Run| Identity::of(run, None).unwrap();
        assert_eq!(of(&run).parts, ["2026-11-26", "node7", "a_b", "3", "memory-access"]);
        let whole = Run { state: RunState::Complete, elapsed_ns: 5, ..run.clone() };
        assert_eq!(of(&whole), of(&run));
        let others = [
            Run { rank: rank(4), ..run.clone() },
            Run { started_part_ns: 1, ..run.clone() },
            Run { host_name: None, ..run.clone() },
            Run { command: vec!["other".to_owned()], ..run.clone() },
        ];
        assert!(others.iter().all(|other| of(other).run != of(&run).run));
        assert_eq!(Identity::of(&others[2], Some("given")).unwrap().parts[1], "given");
        assert_eq!(of(&others[2]).parts[1], UNKNOWN);
        // Part of the format: a change would add every result again.
        assert_eq!(of(&Run::default()).run, "e586184d978c34efe8700cc084142a1d");
        let late = Run { started_unix: u64::MAX, ..Run::default() };
        assert!(Identity::of(&late, None).unwrap_err().contains("year 9999"));
    }
}
