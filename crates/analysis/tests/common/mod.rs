//! Recordings of bursts over real machine code, for tests.
//!
//! What its records hold comes from the translator itself, so that a change there that analysis does not understand fails
//! here.
#![allow(dead_code, reason = "each test binary uses a part")]

use base::{BlockId, ModuleId, Nanos, Pid, RemoteAddr, Tid};
use facts::{RegisterEncoder, SampleRegisters};
use testkit::recording::{CODE_BASE, RecordingBuilder};
use x86::translate::{Common, Flavour, RecordLayout, Site, translate};
use x86::{CodeBytes, Gpr, Limits, Reader, read_block};

pub const PID: i32 = 1000;

/// What the records of a block hold, from the translator itself.
pub fn layout(code: &[u8], offset: u64) -> RecordLayout {
    let start = RemoteAddr(CODE_BASE + offset);
    let code = CodeBytes { start, bytes: code };
    let block = read_block(&mut Reader::new(), &code, start, &Limits::SUPER);
    let at = RemoteAddr(0x1000_0000);
    let site = Site {
        at,
        cold: at.offset(0x10_0000),
        block: 0,
        first_exit: 0,
        flavour: Flavour::Trace,
        common: Common { exit: at, miss: at },
        witness: None,
        reserved: Gpr::from_number(15).expect("r15"),
    };
    translate(&block, &code, &site).expect("it can be copied").record
}

/// Registers at samples of the first thread.
pub fn registers(encoder: RegisterEncoder) -> SampleRegisters {
    let (time, pid, tid, samples) = (Nanos(0), Pid(PID), Tid(PID), encoder.samples());
    SampleRegisters { time, pid, tid, samples, bytes: encoder.finish() }
}

/// A recording of one program.
pub struct Test {
    pub builder: RecordingBuilder,
    pub module: ModuleId,
}

impl Test {
    pub fn new() -> Test {
        let mut builder = RecordingBuilder::new();
        let module = builder.file("/home/user/program");
        Test { builder, module }
    }

    pub fn block(&mut self, offset: u64, code: &[u8]) -> BlockId {
        let layout = layout(code, offset).to_string();
        self.builder.block(PID, self.module, offset, code, &layout)
    }

    pub fn name(&mut self, offset: u64, function: &str, line: u32) {
        self.builder.code(self.module, offset, &[(function, "/src/program.c", line)]);
    }
}
