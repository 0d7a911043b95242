//! A running program for tests of the tracer.
//!
//! What for: `known_accesses` and others, which run until the test is over. What not: tracing them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use base::{Pid, Tid};
use burst::NewBlock;
use testkit::programs::{skip, target};
use x86::translate::RecordLayout;
use x86::{Block, CodeBytes, Limits, Reader, read_block};

/// A block, read again from what was observed of it.
pub fn read_again(new: &NewBlock, limits: Limits) -> (Block, RecordLayout) {
    let pieces: Vec<CodeBytes<'_>> = new
        .pieces
        .iter()
        .map(|piece| CodeBytes { start: piece.address, bytes: &piece.bytes })
        .collect();
    let start = pieces.first().expect("a block has code").start;
    let bytes = pieces.iter().map(|piece| piece.bytes.len()).sum();
    let limits = Limits { bytes, ..limits };
    let block = read_block(&mut Reader::new(), pieces.as_slice(), start, &limits);
    (block, new.record.parse().expect("a layout"))
}

/// A running program that tells where its data lie.
pub struct Program {
    child: Child,
    pub printed: HashMap<String, u64>,
}

impl Program {
    /// One part of `known_accesses`; `None` where it may not be traced.
    pub fn known_accesses(part: &str) -> Option<Program> {
        Program::start_ready("known_accesses", &["--ms", "600000", "--only", part])
    }

    /// A program that says `ready=1` when its loops begin.
    pub fn start_ready(name: &str, arguments: &[&str]) -> Option<Program> {
        let mut program = Program::start(name, arguments)?;
        let output = program.child.stdout.take().expect("stdout");
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let (name, value) = line.split_once('=').expect("name=value");
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            };
            program.printed.insert(name.to_owned(), number.expect("a number"));
            if name == "ready" {
                break;
            }
        }
        Some(program)
    }

    /// Any program, which may not print much.
    pub fn start(name: &str, arguments: &[&str]) -> Option<Program> {
        let mut tried =
            Command::new(target("sleeper")).stdout(Stdio::null()).spawn().expect("child");
        let seized = sys::trace::seize_alone(Tid(tried.id().cast_signed()));
        let _ = tried.kill().and_then(|()| tried.wait());
        if let Err(error) = seized {
            skip(&format!("ptrace is not allowed here: {error}"));
            return None;
        }
        let child = Command::new(target(name))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        Some(Program { child, printed: HashMap::new() })
    }

    pub fn pid(&self) -> Pid {
        Pid(self.child.id().cast_signed())
    }

    /// The index of `address` in an array of elements of so many bytes.
    pub fn index(&self, array: &str, address: u64, bytes: u64) -> Option<u64> {
        let offset = address.checked_sub(self.printed[array])?;
        let within =
            offset < self.printed[&format!("{array}_bytes")] && offset.is_multiple_of(bytes);
        within.then_some(offset / bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
