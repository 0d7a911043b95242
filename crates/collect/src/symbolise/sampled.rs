//! The code in which samples fell, kept with the result so that its loops can be analysed later, on another machine.
//!
//! What not: what the code does (`analysis`, `x86`). The extent of a function comes from unwind information; code
//! without it, and code without a file, is left out.

use std::collections::BTreeMap;

use base::FileOffset;
use facts::SampledCode;
use symbols::SymbolTable;

use super::Collector;

/// A longer function is left out: it would take the room of many.
const LONGEST: u64 = 64 << 10;

/// Bytes of all functions together: an eighth of what a thread may take per minute.
const ROOM: usize = 256 << 10;

/// Functions are kept until they have this share of the samples, in per mille: the rest is a long tail.
const ENOUGH: u64 = 990;

impl Collector<'_> {
    /// Adds the functions of `bytes`, a module's file, in which samples fell, each with their number.
    pub(super) fn add_code(&mut self, table: &SymbolTable<'_>, bytes: &[u8]) {
        let mut functions: BTreeMap<(FileOffset, u64), u64> = BTreeMap::new();
        for (offset, samples) in &self.job.sampled {
            if let Some((start, length)) = table.function_extent(*offset) {
                *functions.entry((start, length.0)).or_default() += samples;
            }
        }
        for ((start, length), samples) in functions {
            let code = usize::try_from(start.0).ok().and_then(|from| bytes.get(from..));
            let code = usize::try_from(length).ok().and_then(|length| code?.get(..length));
            let Some(code) = code.filter(|_| (1..=LONGEST).contains(&length)) else { continue };
            let module = self.job.module.id;
            let code = SampledCode { module, offset: start, bytes: code.to_owned() };
            self.answer.code.push((samples, code));
        }
    }
}

/// Those with the most samples, by module and offset.
pub(super) fn hottest(mut code: Vec<(u64, SampledCode)>) -> Vec<SampledCode> {
    code.sort_by_key(|(samples, code)| (std::cmp::Reverse(*samples), code.module, code.offset));
    let all: u64 = code.iter().map(|(samples, _)| samples).sum();
    let (mut room, mut seen) = (ROOM, 0);
    let mut kept = Vec::new();
    for (samples, code) in code {
        if seen >= all / 1000 * ENOUGH + all % 1000 * ENOUGH / 1000 && seen > 0 {
            break;
        }
        seen += samples;
        if let Some(left) = room.checked_sub(code.bytes.len()) {
            room = left;
            kept.push(code);
        }
    }
    kept.sort_by_key(|code| (code.module, code.offset));
    kept
}

#[cfg(test)]
mod tests {
    use base::ModuleId;

    use super::*;

    #[test]
    fn the_hottest_functions_are_kept_as_far_as_there_is_room() {
        let function = |samples, offset, length| {
            let (module, offset) = (ModuleId(0), FileOffset(offset));
            (samples, SampledCode { module, offset, bytes: vec![0x90; length] })
        };
        let all = vec![
            function(1, 1, 10),
            function(500, 2, ROOM - 20),
            function(400, 3, 30),
            function(90, 4, 20),
            function(9, 5, 1),
        ];
        let kept: Vec<u64> = hottest(all).iter().map(|code| code.offset.0).collect();
        assert_eq!(kept, [2, 4]);
        assert_eq!(hottest(vec![function(1, 1, 10)]).len(), 1);
        assert!(hottest(Vec::new()).is_empty());
    }
}
