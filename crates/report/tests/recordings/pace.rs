//! A loop in a loop, by their registers: a run of the inner one has 400,000 iterations of 1 ns.

use base::{FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Frame, Module, ModuleKind, Privilege, Recording, RegisterEncoder, RunState, Sample,
    SampleRegisters, SampledCode, SampledPlace, SampledState, StackNode,
};

/// 1000: xor ecx,ecx; 1002: add rcx,1; 1006: cmp rcx,rsi; 1009: jne 1002; 100b: dec r8; 100e: jne 1000; 1010: ret
const CODE: [u8; 17] = [
    0x31, 0xc9, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x39, 0xf1, 0x75, 0xf7, 0x49, 0xff, 0xc8, 0x75, 0xf0,
    0xc3,
];
const TRIPS: u64 = 400_000;
const PERIOD: u64 = 100_000;
const SAMPLES: u64 = 1000;

pub fn pace() -> Recording {
    let (module, offset) = (ModuleId(0), FileOffset(0x1006));
    let path = "/home/user/nest".to_owned();
    let mut recording = Recording {
        modules: vec![Module { id: module, kind: ModuleKind::File, path, build_id: None }],
        stack_nodes: vec![StackNode {
            id: StackId(0),
            parent: None,
            module,
            offset,
            truncated: false,
        }],
        sampled_code: vec![SampledCode {
            module,
            offset: FileOffset(0x1000),
            bytes: CODE.to_vec(),
        }],
        frames: vec![Frame {
            module,
            offset,
            depth: 0,
            function: "nest".to_owned(),
            file: Some("/home/user/nest.c".to_owned()),
            line: Some(7),
            inlined: false,
        }],
        ..Recording::default()
    };
    recording.run.state = RunState::Complete;
    recording.run.elapsed_ns = SAMPLES * PERIOD;
    recording.run.collector.sampling_period_ns = PERIOD;
    let address = RemoteAddr(0x40_1006);
    let place = SampledPlace {
        module,
        offset,
        address,
        registers: 0xffff,
        slots: vec![],
        frame: facts::SampledFrame::Own,
    };
    let mut encoder = RegisterEncoder::default();
    let (pid, tid) = (Pid(7), Tid(7));
    for number in 0..SAMPLES {
        let time = Nanos(number * PERIOD);
        let mut registers = [3; 16];
        // rcx, rsi, r8
        (registers[1], registers[6]) = (time.0 % TRIPS + 1, TRIPS);
        registers[8] = 1_000_000 - time.0 / TRIPS;
        let cpu_time = Some(time);
        let registers = &registers;
        encoder.push(&SampledState { time, cpu_time, place: &place, registers, slots: &[] });
        recording.samples.push(Sample {
            time,
            pid,
            tid,
            cpu: None,
            weight: Nanos(PERIOD),
            stack: Some(StackId(0)),
            privilege: Privilege::User,
        });
    }
    let (samples, bytes) = (encoder.samples(), encoder.finish());
    recording.sample_registers.push(SampleRegisters { time: Nanos(0), pid, tid, samples, bytes });
    recording
}
