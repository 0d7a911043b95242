//! The kernel's description of its own types and functions (BTF): a function's number in it.
//!
//! What for: a program at a function's entry and exit is attached by that number. What not: types, members, arguments.
//! Source: `Documentation/bpf/btf.rst`. Assumption: the bytes come from outside; a description that does not fit
//! itself has no functions.

/// The number of the function `name` in the bytes of `/sys/kernel/btf/vmlinux`.
#[must_use]
pub fn function_number(btf: &[u8], name: &str) -> Option<u32> {
    const MAGIC: u16 = 0xeb9f;
    let word = |at: usize| Some(u32::from_le_bytes(*btf.get(at..)?.first_chunk()?));
    if btf.first_chunk().map(|magic| u16::from_le_bytes(*magic)) != Some(MAGIC) {
        return None;
    }
    // magic 2, version 1, flags 1, hdr_len, type_off, type_len, str_off, str_len
    let [header, types_at, types_length, texts_at, texts_length] =
        [word(4)?, word(8)?, word(12)?, word(16)?, word(20)?].map(|word| word as usize);
    let section = |at: usize, length: usize| {
        let start = header.checked_add(at)?;
        btf.get(start..start.checked_add(length)?)
    };
    let (types, texts) = (section(types_at, types_length)?, section(texts_at, texts_length)?);
    let is_wanted = |at: u32| {
        let text = texts.get(at as usize..).and_then(|text| text.get(..=name.len()));
        text.is_some_and(|text| text[..name.len()] == *name.as_bytes() && text[name.len()] == 0)
    };
    const FUNCTION: u32 = 12;
    let mut rest = types;
    for number in 1.. {
        // name_off, info, size or type; then what the kind has
        let (head, after) = rest.split_first_chunk::<12>()?;
        let field =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (text, info) = (field(0), field(4));
        let kind = info >> 24 & 0x1f;
        if kind == FUNCTION && is_wanted(text) {
            return Some(number);
        }
        rest = after.get(bytes_behind(kind, (info & 0xffff) as usize)?..)?;
    }
    None
}

/// Bytes behind the head of a type of `members` members; `None` for kinds that are not known.
fn bytes_behind(kind: u32, members: usize) -> Option<usize> {
    match kind {
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => Some(0),
        // integer, variable, declaration tag
        1 | 14 | 17 => Some(4),
        // array
        3 => Some(12),
        // struct, union, data section, 64-bit enum
        4 | 5 | 15 | 19 => Some(12 * members),
        // enum, prototype
        6 | 13 => Some(8 * members),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, a struct of one member, and a function `f` of that type.
    fn small() -> Vec<u8> {
        let texts = b"\0int\0s\0f\0";
        let mut types: Vec<u32> = Vec::new();
        types.extend([1, 1 << 24, 4, 32]);
        types.extend([5, 4 << 24 | 1, 4, 1, 1, 0]);
        types.extend([7, 12 << 24, 2]);
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut all = vec![0x9f, 0xeb, 1, 0];
        let sizes = [24, 0, types.len() as u32, types.len() as u32, texts.len() as u32];
        all.extend(sizes.iter().flat_map(|word| word.to_le_bytes()));
        all.extend(types);
        all.extend(texts);
        all
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        assert_eq!(function_number(&small(), "f"), Some(3));
        assert_eq!(function_number(&small(), "int"), None, "no function");
        assert_eq!(function_number(&small(), ""), None);
    }

    #[test]
    fn cut_or_changed_bytes_never_panic() {
        let whole = small();
        for end in 0..whole.len() {
            let _ = function_number(&whole[..end], "f");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                let _ = function_number(&changed, "f");
            }
        }
    }

    #[test]
    fn the_running_kernel_describes_its_fault_handler() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return testkit::programs::skip("this kernel has no /sys/kernel/btf/vmlinux");
        };
        assert!(function_number(&bytes, "handle_mm_fault").is_some_and(|number| number > 0));
    }
}
