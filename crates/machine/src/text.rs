//! Parsers of the notations of sysfs and procfs: lists, masks, sizes, choices, `key: value` lines.
//!
//! What not: reading files (`snapshot`).

use crate::MachineError;

/// The largest CPU or node number believed: eight times what any kernel is built for (`CONFIG_NR_CPUS`).
/// Without a limit, `0-4294967295` from a hostile file would cost 16 GB.
pub const LARGEST_NUMBER: u32 = 65_535;

/// At most the first 40 characters: enough for an error message.
fn shortened(text: &str) -> String {
    text.trim().chars().take(40).collect()
}

/// Without blanks and NUL at both ends: some kernels' sysfs files end in "\n\0".
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0')
}

/// `0-3,8` as sorted, distinct numbers; an empty text is an empty list (kernel: `bitmap_print_to_pagebuf`).
///
/// # Errors
/// [`MachineError::List`] for anything else, also for descending ranges; [`MachineError::Number`] for numbers
/// above [`LARGEST_NUMBER`].
pub fn number_list(text: &str) -> Result<Vec<u32>, MachineError> {
    let malformed = || MachineError::List { text: shortened(text) };
    let mut numbers = Vec::new();
    for part in trimmed(text).split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) =
            (number(first).ok_or_else(malformed)?, number(last).ok_or_else(malformed)?);
        if first > last {
            return Err(malformed());
        }
        if last > u64::from(LARGEST_NUMBER) {
            return Err(MachineError::Number { number: last, limit: LARGEST_NUMBER });
        }
        numbers.extend(first as u32..=last as u32);
        // Overlapping ranges must not add up without bound either.
        if numbers.len() > 2 * LARGEST_NUMBER as usize {
            numbers.sort_unstable();
            numbers.dedup();
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Decimal digits only: `str::parse` would also take a plus sign.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// A hexadecimal mask in groups of 32 bits, `00000000,000000ff`: how kernels before 2.6.26 write lists.
///
/// # Errors
/// [`MachineError::List`] for anything else or for more bits than [`LARGEST_NUMBER`].
pub fn number_mask(text: &str) -> Result<Vec<u32>, MachineError> {
    let malformed = || MachineError::List { text: shortened(text) };
    let mut numbers = Vec::new();
    let groups: Vec<&str> = trimmed(text).split(',').collect();
    if groups.len() > (LARGEST_NUMBER as usize + 1) / 32 {
        return Err(malformed());
    }
    for (position, group) in groups.iter().rev().enumerate() {
        let hexadecimal =
            (1..=8).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hexadecimal {
            return Err(malformed());
        }
        let bits = u32::from_str_radix(group, 16).map_err(|_| malformed())?;
        numbers.extend(
            (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| position as u32 * 32 + bit),
        );
    }
    Ok(numbers)
}

/// A size in bytes: `48K`, `2048 kB`, `32M`, `1G`, `4096`. All units are binary, as the kernel means them.
///
/// # Errors
/// [`MachineError::Size`] for anything else and for more than 2^63 bytes.
pub fn size(text: &str) -> Result<u64, MachineError> {
    let malformed = || MachineError::Size { text: shortened(text) };
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let value = number(&trimmed[..digits]).ok_or_else(malformed)?;
    let shift = match trimmed[digits..].trim() {
        "" | "B" => 0,
        "K" | "k" | "kB" | "KB" | "KiB" => 10,
        "M" | "MB" | "MiB" => 20,
        "G" | "GB" | "GiB" => 30,
        "T" | "TB" | "TiB" => 40,
        _ => return Err(malformed()),
    };
    value.checked_mul(1 << shift).filter(|bytes| *bytes <= 1 << 63).ok_or_else(malformed)
}

/// The bracketed one of `always [madvise] never`.
#[must_use]
pub fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(choice)
}

/// The value of the first line `key: value` or `key=value` with this key; blanks around both do not count.
#[must_use]
pub fn value_of<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once([':', '='])?;
        (found.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(number_list("0-3,8\n"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(number_list(" 5 ,1-2,2"), Ok(vec![1, 2, 5]));
        assert_eq!(number_list("7\n\0"), Ok(vec![7]));
        assert_eq!(number_list("\n"), Ok(vec![]));
        for hostile in ["3-1", "a", "-", "1-", "+1", "0x3", "1--2", "18446744073709551616", "１"] {
            assert!(matches!(number_list(hostile), Err(MachineError::List { .. })), "{hostile}");
        }
        assert_eq!(
            number_list("0-4294967295").map_err(|error| error.to_string()),
            Err("number 4294967295 in a list of CPUs or nodes is above 65535".to_owned())
        );
        let repeated = "0-65535,".repeat(100);
        assert_eq!(number_list(&repeated).map(|list| list.len()), Ok(65536));
    }

    #[test]
    fn masks() {
        assert_eq!(number_mask("00000001,00000003\n"), Ok(vec![0, 1, 32]));
        assert_eq!(number_mask("f"), Ok(vec![0, 1, 2, 3]));
        for hostile in ["", "g", "123456789", "1,,2", "-1"] {
            assert!(number_mask(hostile).is_err(), "{hostile}");
        }
        assert!(number_mask(&"ffffffff,".repeat(3000)).is_err());
    }

    #[test]
    fn sizes() {
        let read: Vec<_> = ["48K", "2048 kB", "32M\n", "1G", "4096", "0"].map(size).into();
        assert_eq!(read, [Ok(49152), Ok(2 << 20), Ok(32 << 20), Ok(1 << 30), Ok(4096), Ok(0)]);
        for hostile in ["", "K", "-1K", "1X", "99999999999999999999", "18014398509481984K", "1 2"] {
            assert!(size(hostile).is_err(), "{hostile}");
        }
    }

    #[test]
    fn choices_and_values() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always ]["), None);
        assert_eq!(value_of("a: 1\nvendor_id\t: X: Y\n", "vendor_id"), Some("X: Y"));
        assert_eq!(value_of("PRETTY_NAME=\"D 12\"", "PRETTY_NAME"), Some("\"D 12\""));
        assert_eq!(value_of("a: 1", "b"), None);
    }
}
