//! The native pace of a loop, from recordings by hand whose iterations are known.

use base::{BlockId, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Block, Burst, BurstEnd, BurstFlavour, CodePiece, Evidence, Frame, Module, ModuleKind,
    Privilege, Record, RecordEncoder, Recording, Records, RegisterEncoder, Sample, SampleRegisters,
    SampledCode, SampledFrame, SampledPlace, SampledState, Slot, SlotBase, StackNode,
};

/// 1000: mov rax,[rdi]; 1003: add rdi,8; 1007: lea rdx,[rdi+rcx*2]; 100b: dec rcx; 100e: jne 1000; 1010: ret
const CODE: [u8; 17] = [
    0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x8d, 0x14, 0x4f, 0x48, 0xff, 0xc9, 0x75, 0xf0,
    0xc3,
];
const RCX: usize = 1;
const RSP: usize = 4;
const RDI: usize = 7;
const PERIOD: u64 = 1_000_000;

/// Where a sample was taken, and rdi and rcx there.
struct RegisterSample {
    offset: u64,
    rdi: u64,
    rcx: u64,
}

fn recording(samples: &[RegisterSample]) -> Recording {
    clocked(samples, |_| 0)
}

/// The same, with CPU times that are off by so much.
fn clocked(samples: &[RegisterSample], off: impl Fn(u64) -> u64) -> Recording {
    sampled(samples, |number| (number * PERIOD, Some(number * PERIOD + 123 + off(number))))
}

/// The same, each at a time, with a CPU time or on CPU 3.
fn sampled(samples: &[RegisterSample], times: impl Fn(u64) -> (u64, Option<u64>)) -> Recording {
    let mut recording = Recording {
        modules: vec![Module {
            id: ModuleId(0),
            kind: ModuleKind::File,
            path: "/bin/loop".to_owned(),
            build_id: None,
        }],
        sampled_code: vec![SampledCode {
            module: ModuleId(0),
            offset: FileOffset(0x1000),
            bytes: CODE.to_vec(),
        }],
        ..Recording::default()
    };
    recording.run.collector.sampling_period_ns = PERIOD;
    let mut encoder = RegisterEncoder::default();
    for (number, at) in (0..).zip(samples) {
        let (id, offset) = (StackId(number), FileOffset(at.offset));
        let module = ModuleId(0);
        recording.stack_nodes.push(StackNode {
            id,
            parent: None,
            module,
            offset,
            truncated: false,
        });
        let (time, cpu_time) = times(number.into());
        let (time, cpu_time) = (Nanos(time), cpu_time.map(Nanos));
        recording.samples.push(Sample {
            time,
            pid: Pid(7),
            tid: Tid(7),
            cpu: cpu_time.is_none().then_some(base::CpuId(3)),
            weight: Nanos(PERIOD),
            stack: Some(id),
            privilege: Privilege::User,
        });
        let place = SampledPlace {
            module,
            offset,
            address: RemoteAddr(0x40_0000 + at.offset),
            registers: 0xffff,
            slots: vec![],
            frame: facts::SampledFrame::Own,
        };
        let mut registers = [5; 16];
        (registers[RCX], registers[RSP], registers[RDI]) = (at.rcx, 0x7fff_0000, at.rdi);
        encoder.push(&SampledState {
            time,
            cpu_time,
            place: &place,
            registers: &registers,
            slots: &[],
        });
    }
    for (offset, line) in [(0x1000, 12), (0x1003, 13), (0x100b, 14)] {
        recording.frames.push(Frame {
            module: ModuleId(0),
            offset: FileOffset(offset),
            depth: 0,
            function: "walk".to_owned(),
            file: Some("walk.c".to_owned()),
            line: Some(line),
            inlined: false,
        });
    }
    recording.sample_registers.push(SampleRegisters {
        time: Nanos(0),
        pid: Pid(7),
        tid: Tid(7),
        samples: encoder.samples(),
        bytes: encoder.finish(),
    });
    recording
}

/// A sample after so many whole iterations of a run, at one of three instructions.
fn at(iterations: u64, place: u64) -> RegisterSample {
    let (rdi, rcx) = (0x10_0000 + 8 * iterations, 1_000_000_000 - iterations);
    match place % 3 {
        0 => RegisterSample { offset: 0x1000, rdi, rcx },
        1 => RegisterSample { offset: 0x1003, rdi, rcx },
        // Behind the increment, before the decrement.
        _ => RegisterSample { offset: 0x100b, rdi: rdi + 8, rcx },
    }
}

#[test]
fn iterations_between_samples_are_exact_wherever_in_the_body_they_were_taken() {
    let samples: Vec<RegisterSample> = (0..200).map(|number| at(number * 1000, number)).collect();
    let found = analysis::pace::loops(&recording(&samples));
    assert_eq!(found.len(), 1);
    let row = &found[0];
    let (rate, iterations) = (&row.iterations_per_second, &row.iterations);
    assert!((rate.value.unwrap() - 1e6).abs() < 1e-3, "{rate:?}");
    assert!(rate.low.unwrap() > 0.999e6 && rate.high.unwrap() < 1.001e6, "{rate:?}");
    assert!((row.iteration_time.value.unwrap() - 1e-6).abs() < 1e-12);
    assert!((iterations.value.unwrap() - 2e5).abs() < 1.0, "{iterations:?}");
    assert_eq!((rate.samples, row.odometer.as_deref()), (199, Some("rcx")));
    let place = (row.function.as_str(), row.file.as_deref(), row.line);
    assert_eq!((place, row.depth), (("walk", Some("walk.c"), Some(12)), 0));
    assert_eq!(row.trip_count.value, None);
}

/// The kernel adds the time of threads that ended, now and then.
#[test]
fn a_thread_uses_no_more_time_than_passes() {
    let samples: Vec<RegisterSample> = (0..200).map(|number| at(number * 1000, number)).collect();
    let off = |number: u64| if number % 40 == 20 { 950_000_000 } else { 0 };
    let rate = &analysis::pace::loops(&clocked(&samples, off))[0].iterations_per_second;
    assert!((rate.value.unwrap() - 1e6).abs() < 1e3, "{rate:?}");
    assert!(rate.low.unwrap() > 0.99e6 && rate.high.unwrap() < 1.01e6, "{rate:?}");
}

#[test]
fn pairs_across_the_end_of_a_run_and_around_bursts_do_not_count() {
    // Runs of 50,000 iterations over the same memory; nothing but the registers that move tells them apart.
    let samples: Vec<RegisterSample> =
        (0..1000).map(|number| at(number * 1300 % 50_000, number)).collect();
    let mut restarting = recording(&samples);
    let row = &analysis::pace::loops(&restarting)[0];
    let rate = &row.iterations_per_second;
    assert!((rate.value.unwrap() / 1.3e6 - 1.0).abs() < 1e-3, "{rate:?}");
    assert!((900..999).contains(&rate.samples), "{rate:?}");
    // While a burst lasts the thread is not native: pairs around it do not count.
    restarting.bursts.push(burst(0, 100 * PERIOD, 50 * PERIOD - 1000));
    let disturbed = &analysis::pace::loops(&restarting)[0].iterations_per_second;
    assert!(disturbed.samples <= rate.samples - 45, "{disturbed:?}");
}

fn burst(id: u32, time: u64, elapsed: u64) -> Burst {
    Burst {
        id: base::BurstId(id),
        time: Nanos(time),
        pid: Pid(7),
        tid: Tid(7),
        flavour: BurstFlavour::Trace,
        end: BurstEnd::Time,
        elapsed: Nanos(elapsed),
        cpu_time: None,
        stand_still: Nanos(0),
        stops: 1,
        fs_base: RemoteAddr(0),
        records: 0,
        records_lost: false,
        entries: None,
        in_calls: None,
        faults: None,
        answers: None,
    }
}

/// Between two ticks of its timer a thread ran for the timer's period, however long it was kept from its CPU by others. Once it
/// is back its caches are cold, and it does a tenth less.
#[test]
fn time_for_which_a_thread_was_preempted_is_none_of_its_own() {
    let iterations = |number: u64| number * 1000 - number / 4 * 100;
    let samples: Vec<RegisterSample> =
        (0..400).map(|number| at(iterations(number), number)).collect();
    let preempted = |number: u64| (number * PERIOD + number / 4 * (PERIOD * 27 / 10), None);
    let recording = sampled(&samples, preempted);
    let rate = analysis::pace::loops(&recording)[0].iterations_per_second.clone();
    assert!((rate.value.unwrap() / 0.975e6 - 1.0).abs() < 2e-3, "{rate:?}");
    assert_eq!(rate.samples, 399);
}

/// A CPU's timer ticks once a period whoever runs. A thread that waits half of each one comes half as far between two ticks that
/// meet it as it would have come in a period of its own; but it is met at every second tick only.
#[test]
fn a_thread_that_waits_between_ticks_of_a_cpu_has_the_pace_of_its_own_time() {
    // Met at random ticks, on average each second one.
    let mut state = 1u64;
    let mut ticks = 0u64;
    let times: Vec<u64> = (0..2000)
        .map(|_| {
            loop {
                ticks += 1;
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if state >> 63 == 1 {
                    return ticks;
                }
            }
        })
        .collect();
    // 500 iterations per tick that passes.
    let samples: Vec<RegisterSample> = (0..).zip(&times).map(|(n, t)| at(t * 500, n)).collect();
    let recording = sampled(&samples, |number| (times[number as usize] * PERIOD, None));
    let rate = &analysis::pace::loops(&recording)[0].iterations_per_second;
    assert!(rate.low.unwrap() < 1e6 && 1e6 < rate.high.unwrap(), "{rate:?}");
    assert!((rate.value.unwrap() / 1e6 - 1.0).abs() < 0.1, "{rate:?}");
}

/// Others interrupt a thread at every tick, and it comes far or nearly nowhere in between: no rate follows, but its registers
/// still tell all iterations from the first sample to the last.
#[test]
fn iterations_are_counted_where_time_is_not_known() {
    let iterations = |number: u64| number.div_ceil(2) * 10 + number / 2 * 50_000;
    let samples: Vec<RegisterSample> =
        (0..14).map(|number| at(iterations(number), number)).collect();
    let recording = sampled(&samples, |number| (number * 3 * PERIOD, None));
    let row = &analysis::pace::loops(&recording)[0];
    assert_eq!(row.iterations_per_second.value, None, "{row:?}");
    let (whole, found) = (iterations(13) as f64 * 14.0 / 13.0, &row.iterations);
    assert!((found.value.unwrap() / whole - 1.0).abs() < 1e-6, "{found:?}");
    assert!(found.low.unwrap() < whole * 0.95 && found.low.unwrap() > whole * 0.5, "{found:?}");
}

/// In one gap of ten is a burst, in which the loop comes half as far.
#[test]
fn iterations_of_the_whole_run_are_fewer_where_bursts_slowed_it() {
    let iterations = |number: u64| number * 1000 - number / 10 * 500;
    let samples: Vec<RegisterSample> =
        (0..400).map(|number| at(iterations(number), number)).collect();
    let mut recording = recording(&samples);
    for id in 1..40 {
        let time = u64::from(id) * 10 * PERIOD - PERIOD / 2;
        recording.bursts.push(burst(id, time, PERIOD / 4));
    }
    let row = &analysis::pace::loops(&recording)[0];
    let (rate, iterations) = (&row.iterations_per_second, &row.iterations);
    assert!((rate.value.unwrap() / 1e6 - 1.0).abs() < 1e-6, "{rate:?}");
    assert!((iterations.value.unwrap() / 380_500.0 - 1.0).abs() < 2e-3, "{iterations:?}");
}

#[test]
fn registers_that_disagree_and_runs_that_look_alike_give_no_pace() {
    // rcx counts another thing than rdi.
    let samples: Vec<RegisterSample> = (0..200)
        .map(|number| RegisterSample { rcx: 1_000_000_000 - number * 700, ..at(number * 1000, 0) })
        .collect();
    let row = &analysis::pace::loops(&recording(&samples))[0];
    assert_eq!((row.iterations_per_second.value, row.odometer.clone()), (None, None));
    assert!(row.iterations_per_second.note.as_ref().is_some_and(|note| !note.is_empty()));
    // Runs of 100 iterations in a thousandth of the time between two samples.
    let samples: Vec<RegisterSample> =
        (0..1000).map(|number| at(number * 7919 % 101, number)).collect();
    let row = &analysis::pace::loops(&recording(&samples))[0];
    assert_eq!(row.iterations_per_second.value, None, "{row:?}");
}

fn node(id: u32, parent: Option<u32>, offset: u64) -> StackNode {
    let (parent, offset) = (parent.map(StackId), FileOffset(offset));
    StackNode { id: StackId(id), parent, module: ModuleId(0), offset, truncated: false }
}

fn place(offset: u64, registers: u16, slots: Vec<Slot>, frame: SampledFrame) -> SampledPlace {
    let (module, address) = (ModuleId(0), RemoteAddr(0x40_0000 + offset));
    SampledPlace { module, offset: FileOffset(offset), address, registers, slots, frame }
}

/// 2000: call 3000; 2005: add rbx,1; 2009: add dword [rsp+8],3; 200e: jmp 2000
const CALLER: [u8; 16] =
    [0xe8, 0xfb, 0x0f, 0, 0, 0x48, 0x83, 0xc3, 0x01, 0x83, 0x44, 0x24, 0x08, 0x03, 0xeb, 0xf0];

/// Samples in a callee that tells nothing, every third in the kernel; the caller's loop went on by 10 iterations in each.
fn called(slot: Option<i32>, damage: impl Fn(u64) -> u64) -> Recording {
    let (module, pid, tid) = (ModuleId(0), Pid(7), Tid(7));
    let mut recording = recording(&[]);
    recording.sample_registers.clear();
    recording.sampled_code[0] =
        SampledCode { module, offset: FileOffset(0x2000), bytes: CALLER.to_vec() };
    recording.stack_nodes = vec![node(0, None, 0x2004), node(1, Some(0), 0x3000)];
    let word = |displacement| Slot { base: SlotBase::StackPointer, displacement, wide: false };
    let callee = place(0x3000, 0xffff, vec![], SampledFrame::Own);
    let kernel = place(0x3000, 0xffff, vec![], SampledFrame::Kernel);
    let kept = if slot.is_some() { 1 << RSP } else { 1 << RSP | 1 << 3 };
    let caller = place(0x2004, kept, slot.map(word).into_iter().collect(), SampledFrame::Caller);
    let mut encoder = RegisterEncoder::default();
    for number in 0..200 {
        let time = Nanos(number * PERIOD);
        let in_kernel = number % 3 == 0;
        let privilege = if in_kernel { Privilege::Kernel } else { Privilege::User };
        let (stack, weight) = (Some(StackId(1)), Nanos(PERIOD));
        recording.samples.push(Sample { time, pid, tid, cpu: None, weight, stack, privilege });
        let place = if in_kernel { &kernel } else { &callee };
        let (cpu_time, mut registers) = (Some(time), [number % 7; 16]);
        registers[RSP] = 0x7ffe_0000;
        let state = SampledState { time, cpu_time, place, registers: &registers, slots: &[] };
        encoder.push(&state);
        let went = damage(number * 10);
        (registers[RSP], registers[3]) = (0x7fff_0000, went);
        let slots = [Some(went.wrapping_mul(3) & 0xffff_ffff)];
        let slots = &slots[..caller.slots.len()];
        encoder.push(&SampledState {
            time,
            cpu_time,
            place: &caller,
            registers: &registers,
            slots,
        });
    }
    let (samples, bytes) = (encoder.samples(), encoder.finish());
    recording.sample_registers.push(SampleRegisters { time: Nanos(0), pid, tid, samples, bytes });
    recording
}

#[test]
fn a_loop_that_calls_is_read_from_the_callers_registers_or_stack_words() {
    for (slot, by) in [(None, "caller's rbx"), (Some(8), "caller's [rsp+8]")] {
        let rows = analysis::pace::loops(&called(slot, |went| went));
        assert_eq!(rows.len(), 1);
        let rate = &rows[0].iterations_per_second;
        assert!((rate.value.unwrap() - 1e4).abs() < 1e-3, "{rate:?}");
        assert_eq!((rate.samples, rows[0].odometer.as_deref()), (199, Some(by)));
    }
    // A word of another one's frame, and a register that goes anywhere.
    assert_eq!(analysis::pace::loops(&called(Some(16), |went| went))[0].odometer, None);
    let anywhere = |went: u64| went.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let row = &analysis::pace::loops(&called(None, anywhere))[0];
    assert_eq!(row.iterations_per_second.value, None, "{row:?}");
}

/// A loop that calls one of two functions by a pointer, and goes on by so many iterations in each sample of them.
fn pool(callee: impl Fn(u64) -> u32, iterations: [u64; 2]) -> Recording {
    let (module, pid, tid) = (ModuleId(0), Pid(7), Tid(7));
    let mut recording = recording(&[]);
    recording.sample_registers.clear();
    // 2000: call rax; 2002: add rbx,1; 2006: jmp 2000; and two functions of one instruction.
    let pool = [0xff, 0xd0, 0x48, 0x83, 0xc3, 0x01, 0xeb, 0xf8];
    let code = [(0x2000, &pool[..]), (0x3000, &[0xc3]), (0x4000, &[0xc3])];
    let code = code.map(|(at, bytes)| (FileOffset(at), bytes.to_vec()));
    recording.sampled_code =
        code.map(|(offset, bytes)| SampledCode { module, offset, bytes }).to_vec();
    recording.stack_nodes =
        vec![node(0, None, 0x2001), node(1, Some(0), 0x3000), node(2, Some(0), 0x4000)];
    let caller = place(0x2001, 1 << RSP | 1 << 3, vec![], SampledFrame::Caller);
    let mut encoder = RegisterEncoder::default();
    let mut went = 0;
    for number in 0..400 {
        let (time, callee) = (Nanos(number * PERIOD), callee(number));
        let own = place(0x2000 + 0x1000 * u64::from(callee), 0xffff, vec![], SampledFrame::Own);
        let (stack, weight, privilege) = (Some(StackId(callee)), Nanos(PERIOD), Privilege::User);
        recording.samples.push(Sample { time, pid, tid, cpu: None, weight, stack, privilege });
        let (cpu_time, mut registers) = (Some(time), [0; 16]);
        for (place, sp) in [(&own, 0x7ffe_0000), (&caller, 0x7fff_0000)] {
            (registers[RSP], registers[3]) = (sp, went);
            let registers = &registers;
            encoder.push(&SampledState { time, cpu_time, place, registers, slots: &[] });
        }
        went += iterations[callee as usize - 1];
    }
    let (samples, bytes) = (encoder.samples(), encoder.finish());
    recording.sample_registers.push(SampleRegisters { time: Nanos(0), pid, tid, samples, bytes });
    recording
}

/// A thread that works off tasks: half of the time one function, and then another one at ten times the pace.
#[test]
fn a_loop_that_calls_by_a_pointer_has_a_pace_for_each_callee() {
    let rows = analysis::pace::loops(&pool(|number| if number < 200 { 1 } else { 2 }, [10, 100]));
    let mut found: Vec<(&str, f64)> = rows
        .iter()
        .map(|row| (row.callee.as_deref().unwrap(), row.iterations_per_second.value.unwrap()))
        .collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1));
    let [(slow, one), (quick, other)] = found[..] else { panic!("{rows:?}") };
    assert_eq!((slow, quick), ("[0x3000]", "[0x4000]"));
    assert!((one / 1e4 - 1.0).abs() < 1e-6 && (other / 1e5 - 1.0).abs() < 1e-6, "{found:?}");
}

/// A loop over objects of two classes calls now the one's function and now the other's.
#[test]
fn a_loop_whose_callees_alternate_has_one_pace() {
    let rows = analysis::pace::loops(&pool(|number| 1 + (number % 3 / 2) as u32, [10, 10]));
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.callee, None);
    let rate = row.iterations_per_second.value.unwrap();
    assert!((rate / 1e4 - 1.0).abs() < 1e-6, "{rate}");
}

/// 1000: mov rax,[rdi]; 1003: mov rax,[rax]; 1006: test rax,rax; 1009: jne 1003; 100b: add rbx,1; 100f: jmp 1000
const CHASES: [u8; 17] = [
    0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8, 0x48, 0x83, 0xc3, 0x01, 0xeb,
    0xef,
];

/// Adds a count window in which each block ran so often.
fn window(recording: &mut Recording, (id, tid): (u32, Tid), time: Nanos, blocks: &[(u32, u64)]) {
    let mut encoder = RecordEncoder::default();
    for (block, iterations) in blocks.iter().copied() {
        let (block, way, values) = (BlockId(block), 0, &[][..]);
        encoder.push(&Record { block, way, iterations, values });
    }
    let burst = base::BurstId(id);
    recording.records.push(Records { burst, bytes: encoder.finish() });
    recording.bursts.push(Burst {
        id: burst,
        time: Nanos(u64::from(id) * 20 * PERIOD + 1),
        pid: Pid(7),
        tid,
        flavour: BurstFlavour::Count,
        end: BurstEnd::Time,
        elapsed: time,
        cpu_time: Some(time),
        stand_still: Nanos(0),
        stops: 1,
        fs_base: RemoteAddr(0),
        records: blocks.len() as u64,
        records_lost: false,
        entries: None,
        in_calls: None,
        faults: None,
        answers: None,
    });
}

/// The same with a hundred chases in each iteration of the outer loop.
/// 1000: mov ecx,100; 1005: mov rax,[rdi]; 1008: mov rax,[rax]; 100b: test rax,rax; 100e: jne 1008; 1010: dec rcx; 1013: jne 1005
/// 1015: add rbx,1; 1019: jmp 1000
const HUNDREDS: [u8; 27] = [
    0xb9, 100, 0, 0, 0, 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8, 0x48,
    0xff, 0xc9, 0x75, 0xf0, 0x48, 0x83, 0xc3, 0x01, 0xeb, 0xe5,
];

/// The innermost loop has no odometer, the outer one goes on by `per_sample` per sample; windows saw four trips each, as many as `runs`.
/// Samples lie in front of the innermost loop's jump, which is at `jump`.
fn chases(code: &[u8], jump: u64, per_sample: u64, runs: &[u64]) -> Recording {
    let mut recording = recording(&[]);
    recording.sampled_code[0].bytes = code.to_vec();
    let (module, offset, pid, tid) = (ModuleId(0), FileOffset(0x1000 + jump - 3), Pid(7), Tid(7));
    let (id, parent, truncated) = (StackId(0), None, false);
    recording.stack_nodes = vec![StackNode { id, parent, module, offset, truncated }];
    let (address, slots, frame) = (RemoteAddr(offset.0), vec![], SampledFrame::Own);
    let place = SampledPlace { module, offset, address, registers: 0xffff, slots, frame };
    let mut encoder = RegisterEncoder::default();
    for number in 0..200 {
        let time = Nanos(number * PERIOD);
        let (stack, weight, privilege) = (Some(StackId(0)), Nanos(PERIOD), Privilege::User);
        recording.samples.push(Sample { time, pid, tid, cpu: None, weight, stack, privilege });
        let mut registers = [5; 16];
        (registers[0], registers[3]) = (number * 0x1357 % 0x1000, number * per_sample);
        registers[1] = if code == HUNDREDS { number * 37 % 100 + 1 } else { 5 };
        let (cpu_time, slots, registers) = (Some(time), &[][..], &registers);
        encoder.push(&SampledState { time, cpu_time, place: &place, registers, slots });
    }
    let (samples, bytes) = (encoder.samples(), encoder.finish());
    recording.sample_registers = vec![SampleRegisters { time: Nanos(0), pid, tid, samples, bytes }];
    let (first, end) = (jump - 9, code.len() as u64);
    for (id, start, end) in [(0, first, jump + 2), (1, first + 3, jump + 2), (2, jump + 2, end)] {
        let offset = FileOffset(0x1000 + start);
        let bytes = code[start as usize..end as usize].to_vec();
        let piece = CodePiece { address: RemoteAddr(0x1000 + start), module, offset, bytes };
        recording.blocks.push(Block {
            id: BlockId(id),
            pid,
            flavour: BurstFlavour::Count,
            pieces: vec![piece],
            record: x86::translate::RecordLayout::default().to_string(),
        });
    }
    for (number, runs) in (0..).zip(runs) {
        let blocks = [(0, *runs), (1, 3 * runs), (2, *runs)];
        window(&mut recording, (number, tid), Nanos(1000 * runs), &blocks);
    }
    recording
}

#[test]
fn a_loop_without_odometer_has_the_pace_of_the_one_around_times_the_trips_of_bursts() {
    let rows = analysis::pace::loops(&chases(&CHASES, 9, 1000, &[10, 20, 15, 12]));
    let [outer, inner] = &rows[..] else { panic!("{rows:?}") };
    let rate = outer.iterations_per_second.value.unwrap();
    assert!((rate - 1e6).abs() < 1.0, "{rate}");
    let result = &inner.iterations_per_second;
    assert!((result.value.unwrap() / 4e6 - 1.0).abs() < 1e-6, "{result:?}");
    assert_eq!((result.evidence, result.samples), (Some(Evidence::Estimated), 4));
    assert!((inner.trip_count.value.unwrap() - 4.0).abs() < 1e-6, "{:?}", inner.trip_count);
    assert_eq!(inner.odometer.as_deref(), Some("rbx, 4.0000 trips in 4 bursts"));
    // A microsecond each, as natively; what follows from bursts does not speak for them.
    assert_eq!(outer.agreement.as_deref(), Some("1.00 in 4 windows"));
    assert_eq!(inner.agreement, None);
    // Two bursts have no scatter.
    let rows = analysis::pace::loops(&chases(&CHASES, 9, 1000, &[10, 20]));
    assert_eq!(rows[1].iterations_per_second.value, None);
}

/// No burst sees 20 iterations of the outermost loop, and samples see none of the innermost: the loop between them tells both.
/// Each of four windows ends at a system call, perhaps with a pass of the outer loop that the window did not begin with.
#[test]
fn trips_of_bursts_that_end_at_system_calls_may_be_more() {
    let mut recording = chases(&CHASES, 9, 1000, &[10, 20, 15, 12]);
    recording.bursts.iter_mut().for_each(|burst| burst.end = BurstEnd::Native);
    let rows = analysis::pace::loops(&recording);
    let trips = &rows[1].trip_count;
    let most = 4.0 * 57.0 / (57.0 - 4.0 / 2.0);
    assert!((trips.value.unwrap() - (4.0 + most) / 2.0).abs() < 1e-3, "{trips:?}");
    assert!(trips.low.unwrap() < 4.0001 && trips.high.unwrap() > most - 0.0001, "{trips:?}");
}

#[test]
fn trips_from_samples_and_from_bursts_go_on_from_one_another() {
    let mut recording = chases(&HUNDREDS, 14, 10, &[10, 20, 15, 12]);
    // The last block goes round the loop between, not the outermost.
    recording.blocks[2].pieces[0].bytes.truncate(5);
    let rows = analysis::pace::loops(&recording);
    let rates: Vec<f64> =
        rows.iter().map(|row| row.iterations_per_second.value.unwrap().round()).collect();
    assert_eq!(rates, [1e4, 1e6, 4e6], "{rows:?}");
    assert_eq!(rows[2].odometer.as_deref(), Some("rbx × trips, 4.0000 trips in 4 bursts"));
}

/// 1000, 2000: call 3000; add rbx,1; jmp back. 3000: mov rax,[rax]; test rax,rax; jne 3000; ret
fn function(offset: u64) -> Vec<u8> {
    if offset == 0x3000 {
        return vec![0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8, 0xc3];
    }
    let distance = u32::try_from(0x3000 - offset - 5).unwrap();
    let mut bytes = vec![0xe8];
    bytes.extend(distance.to_le_bytes());
    bytes.extend([0x48, 0x83, 0xc3, 0x01, 0xeb, 0xf5]);
    bytes
}

/// Two threads come to one loop from loops of their own, which go on by 1000 and 3000 per sample; windows saw five trips each.
#[test]
fn threads_that_come_to_a_loop_by_different_ways_tell_its_pace_together() {
    let (module, pid) = (ModuleId(0), Pid(7));
    let mut recording = recording(&[]);
    recording.sampled_code.clear();
    recording.sample_registers.clear();
    let callers = [(0x1000, Tid(7), 1000), (0x2000, Tid(8), 3000)];
    let inner = place(0x3003, 0xffff, vec![], SampledFrame::Own);
    for (number, (start, tid, per_sample)) in (0..).zip(callers) {
        let outermost = 2 * number;
        recording.stack_nodes.push(node(outermost, None, start + 4));
        recording.stack_nodes.push(node(outermost + 1, Some(outermost), 0x3003));
        let caller = place(start + 4, 1 << RSP | 1 << 3, vec![], SampledFrame::Caller);
        let mut encoder = RegisterEncoder::default();
        for sample in 0..200 {
            let (time, weight) = (Nanos(sample * PERIOD), Nanos(PERIOD));
            let (stack, privilege) = (Some(StackId(outermost + 1)), Privilege::User);
            recording.samples.push(Sample { time, pid, tid, cpu: None, weight, stack, privilege });
            let (cpu_time, slots) = (Some(time), &[][..]);
            let mut registers = [5; 16];
            for (place, rsp) in [(&inner, 0x7ffe_0000), (&caller, 0x7fff_0000)] {
                (registers[RSP], registers[3]) = (rsp, sample * per_sample);
                let registers = &registers;
                encoder.push(&SampledState { time, cpu_time, place, registers, slots });
            }
        }
        let (samples, bytes) = (encoder.samples(), encoder.finish());
        let registers = SampleRegisters { time: Nanos(0), pid, tid, samples, bytes };
        recording.sample_registers.push(registers);
    }
    for (id, offset, skipped) in [(0, 0x1000, 5), (1, 0x2000, 5), (2, 0x3000, 0)] {
        let bytes = function(offset);
        let (from, offset) = (offset + skipped as u64, FileOffset(offset));
        recording.sampled_code.push(SampledCode { module, offset, bytes: bytes.clone() });
        let (address, offset) = (RemoteAddr(from), FileOffset(from));
        let bytes = bytes[skipped..].to_vec();
        recording.blocks.push(Block {
            id: BlockId(id),
            pid,
            flavour: BurstFlavour::Count,
            pieces: vec![CodePiece { address, module, offset, bytes }],
            record: x86::translate::RecordLayout::default().to_string(),
        });
    }
    for number in 0..6 {
        let (caller, tid) = (number % 2, callers[number as usize % 2].1);
        window(&mut recording, (number, tid), Nanos(10_000), &[(caller, 20), (2, 100)]);
    }
    let rows = analysis::pace::loops(&recording);
    let inner = rows.iter().find(|row| row.start.offset == FileOffset(0x3000)).unwrap();
    // Five times 1000 and 3000 in a millisecond of each thread.
    let iterations = inner.iterations.value.unwrap();
    assert!((iterations / (5.0 * 4000.0 * 200.0) - 1.0).abs() < 1e-6, "{rows:?}");
    assert_eq!(inner.odometer.as_deref(), Some("caller's rbx, 5.0000 trips in 6 bursts"));
}

#[test]
fn nothing_is_no_row_and_damage_no_panic() {
    assert!(analysis::pace::loops(&Recording::default()).is_empty());
    let mut damaged = recording(&[at(0, 0), at(1000, 1), at(2000, 2)]);
    damaged.sample_registers[0].bytes.truncate(20);
    damaged.stack_nodes[0].parent = Some(StackId(2));
    damaged.stack_nodes[2].parent = Some(StackId(0));
    assert_eq!(analysis::pace::loops(&damaged)[0].iterations_per_second.value, None);
}
