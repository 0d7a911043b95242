//! Registers by hand and hostile ones, there and back.

use super::*;

type Owned = (u64, Option<u64>, SampledPlace, [u64; GENERAL_REGISTERS], Vec<Option<u64>>);

fn place(offset: u64, registers: u16, slots: &[(SlotBase, i32, bool)]) -> SampledPlace {
    let slots = slots.iter().map(|&(base, displacement, wide)| Slot { base, displacement, wide });
    SampledPlace {
        module: ModuleId(3),
        offset: FileOffset(offset),
        address: RemoteAddr(offset.wrapping_add(0x5555_0000_0000)),
        registers,
        slots: slots.collect(),
        frame: SampledFrame::Own,
    }
}

fn encode(samples: &[Owned]) -> Vec<u8> {
    let mut encoder = RegisterEncoder::default();
    for (time, cpu_time, place, registers, slots) in samples {
        let (time, cpu_time) = (Nanos(*time), cpu_time.map(Nanos));
        encoder.push(&SampledState { time, cpu_time, place, registers, slots });
    }
    let own = samples.iter().filter(|(_, _, place, ..)| place.frame != SampledFrame::Caller);
    assert_eq!((encoder.size(), encoder.samples() as usize), (encoder.bytes.len(), own.count()));
    encoder.finish()
}

fn decode(bytes: &[u8]) -> Result<Vec<Owned>, RegisterError> {
    let mut found = Vec::new();
    decode_registers(bytes, |state| {
        let cpu_time = state.cpu_time.map(|time| time.0);
        let slots = state.slots.to_vec();
        found.push((state.time.0, cpu_time, state.place.clone(), *state.registers, slots));
    })?;
    Ok(found)
}

fn registers(values: &[(usize, u64)]) -> [u64; GENERAL_REGISTERS] {
    let mut all = [0; GENERAL_REGISTERS];
    values.iter().for_each(|(number, value)| all[*number] = *value);
    all
}

fn some() -> Vec<Owned> {
    let inner = place(0x1010, 0b1_0000_0001_0011, &[]);
    let slots = [(SlotBase::FramePointer, -8, true), (SlotBase::StackPointer, 16, false)];
    let outer = place(0x1080, 0b0011, &slots);
    let extreme = place(u64::MAX, u16::MAX, &[(SlotBase::StackPointer, i32::MIN, true)]);
    let caller = SampledPlace { frame: SampledFrame::Caller, ..place(0x1020, 0b11_0000, &slots) };
    let kernel = SampledPlace { frame: SampledFrame::Kernel, ..place(0x1040, 0b1_0000, &[]) };
    let slot = |value| vec![Some(value), None];
    vec![
        (5, Some(0), inner.clone(), registers(&[(0, 1 << 40), (1, 7), (4, u64::MAX)]), vec![]),
        (1005, Some(990), inner.clone(), registers(&[(0, 1 << 41), (12, 1 << 63)]), vec![]),
        (1004, None, outer.clone(), registers(&[(0, 0), (1, u64::MAX)]), slot(9)),
        (1004, Some(u64::MAX), outer.clone(), registers(&[(0, 64), (1, 7)]), slot(1)),
        (u64::MAX, Some(3), outer, registers(&[(0, 128), (1, 71)]), vec![None, Some(1 << 63)]),
        (9, None, extreme, [1 << 63; GENERAL_REGISTERS], vec![Some(u64::MAX / 3)]),
        (10, None, inner, [0; GENERAL_REGISTERS], vec![]),
        (10, None, caller.clone(), registers(&[(4, 0x7000)]), slot(5)),
        (30, Some(7), kernel, registers(&[(4, 0x6f00)]), vec![]),
        (30, Some(7), caller, registers(&[(4, 0x7000), (5, 1)]), slot(6)),
    ]
}

#[test]
fn samples_come_back() {
    let samples = some();
    assert_eq!(decode(&encode(&samples)), Ok(samples));
}

#[test]
fn what_moves_in_step_costs_a_byte_each_and_what_stays_nothing() {
    let place = place(0x1010, 0xffff, &[]);
    let samples: Vec<Owned> = (0..100u64)
        .map(|n| {
            let went = n * 100_000 + n % 7;
            let moving = |number| match number {
                0 => went * 8,
                1 => went,
                2 => (went * 64).wrapping_neg(),
                number => 0x7fff_0000 + number,
            };
            let registers = std::array::from_fn(|number| moving(number as u64));
            (n * 1_000_000, Some(n * 1_000_000), place.clone(), registers, vec![])
        })
        .collect();
    let bytes = encode(&samples);
    // head, time, CPU time, which changed; four bytes for the first difference, one for each other.
    assert_eq!(encode(&samples[..99]).len() + 4 + 4 + 2, bytes.len());
    assert_eq!(decode(&bytes), Ok(samples));
}

#[test]
fn foreign_bytes_are_refused() {
    assert_eq!(decode(&[]), Ok(vec![]));
    assert_eq!(decode(&[0x80]), Err(RegisterError::Truncated));
    assert_eq!(decode(&[4]), Err(RegisterError::UnknownPlace { place: 2, known: 0 }));
    assert_eq!(decode(&[0xff; 11]), Err(RegisterError::LongNumber));
    assert_eq!(decode(&[0, 0, 0, 0, 0x80, 0x80, 0x0c]), Err(RegisterError::UnknownFrame(3)));
    assert_eq!(decode(&[0, 0, 0, 0, 0, 17]), Err(RegisterError::ManySlots(17)));
    // One register, changed, said to follow from one before it.
    assert_eq!(decode(&[0, 0, 0, 0, 1, 0, 0, 1, 1]), Err(RegisterError::Unrelated(0)));
    // Two registers; the second follows by a power that there is not.
    let related = [0, 0, 0, 0, 3, 0, 0, 3, 4, 0x41];
    assert_eq!(decode(&related), Err(RegisterError::Unrelated(32)));
}

#[test]
fn every_cut_is_an_error_or_fewer_samples() {
    let samples = some();
    let bytes = encode(&samples);
    for end in 0..bytes.len() {
        match decode(&bytes[..end]) {
            Ok(found) => assert!(samples.starts_with(&found), "cut at {end}"),
            Err(error) => assert_eq!(error, RegisterError::Truncated, "cut at {end}"),
        }
    }
}
