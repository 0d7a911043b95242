//! The invariants of registers at clock samples, and of the code around them.
//!
//! What not: whether a register is what the code makes it; `analysis` sees that.

use std::collections::HashSet;

use base::ModuleId;
use facts::{SampledFrame, decode_registers};

use super::{Report, Subject};

pub(super) fn registers_proper(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let known: HashSet<ModuleId> = recording.modules.iter().map(|module| module.id).collect();
    for (row, piece) in recording.sample_registers.iter().enumerate() {
        let (mut samples, mut unordered, mut strangers, mut last) = (0u32, 0u32, 0u32, piece.time);
        let decoded = decode_registers(&piece.bytes, |state| {
            let first = samples == 0 && state.time != piece.time;
            unordered += u32::from(first || state.time < last);
            strangers += u32::from(!known.contains(&state.place.module));
            let new = state.place.frame != SampledFrame::Caller;
            (samples, last) = (samples.saturating_add(u32::from(new)), state.time);
        });
        if let Err(error) = decoded {
            report.add(|| format!("row {row}: {error}"));
        }
        if samples != piece.samples || samples == 0 {
            report.add(|| format!("row {row} has {samples} samples of {}", piece.samples));
        }
        if unordered + strangers > 0 || last.0 > recording.run.elapsed_ns {
            report.add(|| {
                format!(
                    "row {row}: {unordered} samples out of order, {strangers} in no module, the last at {} ns",
                    last.0
                )
            });
        }
    }
}

pub(super) fn code_proper(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let known: HashSet<ModuleId> = recording.modules.iter().map(|module| module.id).collect();
    let mut ranges: Vec<(ModuleId, u64, u64)> = Vec::new();
    for code in &recording.sampled_code {
        let (start, length) = (code.offset.0, code.bytes.len() as u64);
        if !known.contains(&code.module) || length == 0 || start.checked_add(length).is_none() {
            report.add(|| format!("{length} bytes at {start:#x} of module {}", code.module));
            continue;
        }
        ranges.push((code.module, start, start + length));
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if let [(module, start, end), (other, next, _)] = pair
            && module == other
            && next < end
        {
            report.add(|| format!("{start:#x}..{end:#x} and {next:#x} of module {module}"));
        }
    }
}

#[cfg(test)]
pub(super) mod sound {
    use base::{FileOffset, Nanos, Pid, RemoteAddr, Tid};
    use facts::{
        RegisterEncoder, SampleRegisters, SampledCode, SampledFrame, SampledPlace, SampledState,
    };

    use super::ModuleId;

    /// A piece with two samples, in order for `step` above 0.
    pub fn piece(module: u32, step: u64) -> SampleRegisters {
        let place = SampledPlace {
            module: ModuleId(module),
            offset: FileOffset(16),
            address: RemoteAddr(0x1010),
            registers: 1 << 4,
            slots: vec![],
            frame: SampledFrame::Own,
        };
        let mut encoder = RegisterEncoder::default();
        for time in [1000, 1000u64.wrapping_add(step)] {
            encoder.push(&SampledState {
                time: Nanos(time),
                cpu_time: Some(Nanos(time / 2)),
                place: &place,
                registers: &[7; 16],
                slots: &[],
            });
        }
        let (pid, tid, bytes) = (Pid(7), Tid(7), encoder.finish());
        SampleRegisters { time: Nanos(1000), pid, tid, samples: 2, bytes }
    }

    pub fn code(module: u32, offset: u64) -> SampledCode {
        SampledCode { module: ModuleId(module), offset: FileOffset(offset), bytes: vec![0x90; 4] }
    }
}
