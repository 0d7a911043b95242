//! Small programs run through linked copies, as a tracer does it: blocks are translated when an exit asks for them, exits
//! are linked, targets of indirect branches go into the table or a chain. Registers and memory at the end are those of
//! the native run, and all records together give its accesses in order.

mod common;

use std::collections::HashMap;

use base::RemoteAddr;
use common::Random;
use common::machine::{self, CODE, COPY, DATA, Machine, RECORDS};
use common::{Case, native, records};
use sys::sandbox::{Registers, Stopped};
use x86::translate::{Flavour, MISS, RecordLayout, area, translate};
use x86::{BlockRoots, CodeBytes, Gpr, Limits, Reader, Refusal, Touched, evaluate, find_roots};

/// `ud2` ends a program: natively at its address, in copies as a block that cannot be.
const END: &[u8] = &[0x0f, 0x0b];

struct Block {
    roots: BlockRoots,
    layout: RecordLayout,
    instructions: usize,
    entry: RemoteAddr,
    table_entry: RemoteAddr,
    chain: RemoteAddr,
}

struct Tracer<'a> {
    machine: Machine,
    code: CodeBytes<'a>,
    flavour: Flavour,
    blocks: Vec<Block>,
    by_start: HashMap<RemoteAddr, usize>,
    exits: Vec<(RemoteAddr, Option<RemoteAddr>)>,
    next: [usize; 2],
    stops: usize,
}

impl Tracer<'_> {
    /// The block at `start`, translated if it is new; `None` at the end of the program.
    fn block(&mut self, start: RemoteAddr) -> Option<usize> {
        if let Some(number) = self.by_start.get(&start) {
            return Some(*number);
        }
        let block = x86::read_block(&mut Reader::new(), &self.code, start, &Limits::SUPER);
        let mut site = self.machine.site(self.flavour);
        [site.at, site.cold] = self.next.map(|next| COPY.address.offset(next as u64));
        site.block = self.blocks.len() as u32;
        site.first_exit = self.exits.len() as u32;
        let copy = match translate(&block, &self.code, &site) {
            Ok(copy) => copy,
            Err(Refusal::AlwaysFaults) => return None,
            Err(why) => panic!("{start}: {why}"),
        };
        self.machine.place(&copy);
        let bytes = [copy.parts.split, copy.bytes.len() - copy.parts.split];
        let behind = self.next.iter_mut().zip(bytes);
        behind.for_each(|(next, bytes)| *next += bytes.next_multiple_of(16));
        let address = |offset: usize| copy.parts.address(offset);
        for exit in &copy.exits {
            self.exits.push((exit.target, exit.linkable.then(|| address(exit.link))));
        }
        self.machine.set_slot(area::COUNTERS + 8 * site.block as i32, 1 << 40);
        self.blocks.push(Block {
            roots: find_roots(&block),
            layout: copy.record.clone(),
            instructions: block.instructions.len(),
            entry: address(copy.entry),
            table_entry: address(copy.table.start),
            chain: address(copy.chain),
        });
        self.by_start.insert(start, self.blocks.len() - 1);
        Some(self.blocks.len() - 1)
    }

    fn link(&mut self, field: RemoteAddr, to: RemoteAddr) {
        let at = (field.0 - COPY.address.0) as usize;
        let relative = to.0.wrapping_sub(field.0 + 4) as u32;
        self.machine.part(COPY)[at..at + 4].copy_from_slice(&relative.to_le_bytes());
    }

    /// Lets indirect branches to `block` find it, behind another one as if both had the same place in the table.
    fn enter_into_table(&mut self, start: RemoteAddr, block: usize) {
        let slot = area::TABLE + 8 * (start.0 & 0xffff) as i32;
        let entry = self.blocks[block].table_entry;
        let Some(other) = block.checked_sub(1).map(|number| &self.blocks[number]) else {
            self.machine.set_slot(slot, entry.0);
            return;
        };
        let (first, chain) = (other.table_entry, other.chain);
        let at = (chain.0 - COPY.address.0) as usize;
        self.machine.part(COPY)[at..at + 8].copy_from_slice(&entry.0.to_le_bytes());
        self.machine.set_slot(slot, first.0);
    }

    /// Runs up to the end of the program.
    fn run(&mut self, start: &Registers) -> Registers {
        let mut native = *start;
        let mut pointer = RECORDS.0;
        let reserved = self.machine.reserved();
        while let Some(block) = self.block(native.rip) {
            let mut registers = native;
            registers.gs_base = machine::AREA.address;
            if let Some(reserved) = reserved {
                self.machine.set_slot(area::RESERVED, native.general[reserved.number()]);
                registers.general[reserved.number()] = pointer;
            }
            registers.rip = self.blocks[block].entry;
            self.machine.sandbox.set_registers(&registers).unwrap();
            let stopped = self.machine.sandbox.run().unwrap();
            assert_eq!(stopped, Stopped::SystemCall(39));
            self.stops += 1;
            assert!(self.stops < 200, "links do not hold");
            let mut registers = self.machine.sandbox.registers().unwrap();
            registers.rip = self.machine.system_call();
            let offset = (registers.rip.0 - COPY.address.0) as usize;
            let state = self.machine.common.states.at(offset).unwrap().clone();
            native = self.machine.native(&registers, &state);
            pointer = self.machine.pointer(&registers, &state);
            let exit = self.machine.slot(area::EXIT) as u32;
            let Some(target) = self.block(native.rip) else { break };
            if exit == MISS {
                self.enter_into_table(native.rip, target);
            } else if let (to, Some(field)) = self.exits[exit as usize] {
                assert_eq!(to, native.rip);
                self.link(field, self.blocks[target].entry);
            }
        }
        native
    }

    /// All accesses by the records up to the record pointer.
    fn accesses(&mut self, fs_base: u64) -> Vec<Touched> {
        let end = (self.machine.slot(area::POINTER) - RECORDS.0) as usize / 8;
        let words: Vec<u64> = (0..end).map(|word| self.machine.record_word(word)).collect();
        let mut all = Vec::new();
        let mut rest = &words[..];
        while let Some(header) = rest.first() {
            let block = &self.blocks[*header as u32 as usize];
            let left = block.layout.ways[(*header >> 32) as usize];
            let (record, behind) = rest.split_at(block.layout.words);
            let looped = block.layout.iterations.is_some();
            let times = if looped { records::iterations(&block.layout, record, None) } else { 1 };
            for time in 0..times {
                let (layout, roots) = (&block.layout, &block.roots);
                let until = if time + 1 < times { block.instructions } else { left };
                all.extend(records::accesses(layout, roots, record, fs_base, time, until));
            }
            rest = behind;
        }
        all
    }
}

/// Registers and accesses of the native run.
fn natively(
    machine: &mut Machine,
    code: &CodeBytes<'_>,
    start: &Registers,
) -> (Registers, Vec<Touched>) {
    let mut reader = Reader::new();
    machine.sandbox.set_registers(start).unwrap();
    let mut registers = *start;
    let mut accesses = Vec::new();
    loop {
        let at = (registers.rip.0 - code.start.0) as usize;
        if code.bytes[at..].starts_with(END) {
            return (registers, accesses);
        }
        let instruction = reader.instruction(code, registers.rip).unwrap();
        accesses.extend(evaluate(instruction.accesses(), &machine.state(&registers, false)));
        assert_eq!(machine.sandbox.step().unwrap(), Stopped::Step);
        registers = machine.sandbox.registers().unwrap();
    }
}

fn run(flavour: Flavour) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/linked.txt");
    let mut random = Random(6);
    for Case { title, bytes, .. } in common::cases(&std::fs::read_to_string(folder).unwrap()) {
        let reserved = (flavour != Flavour::Count).then_some(Gpr::R15);
        let mut original = Machine::start(None);
        native::place(&mut original, 0, &bytes);
        let code = CodeBytes { start: CODE.address, bytes: &bytes };
        let mut tracer = Tracer {
            machine: Machine::start(reserved),
            code,
            flavour,
            blocks: Vec::new(),
            by_start: HashMap::new(),
            exits: Vec::new(),
            next: [0x1000, 0x8000],
            stops: 0,
        };
        let start = machine::registers(&mut random, CODE.address, &[], &[]);
        let memory = machine::memory(&mut random);
        original.part(DATA).copy_from_slice(&memory);
        tracer.machine.part(DATA).copy_from_slice(&memory);
        let limit = RECORDS.0 + 0x8000;
        tracer.machine.set_slot(area::LIMIT, limit);
        tracer.machine.set_slot(area::NEGATIVE_LIMIT, limit.wrapping_neg());
        let (end, accesses) = natively(&mut original, &code, &start);
        let copied = tracer.run(&start);
        assert_eq!((end.general, end.rip), (copied.general, copied.rip), "{title}");
        assert!(original.part(DATA) == tracer.machine.part(DATA), "{title}: memory differs");
        println!("{flavour:?} {title}: {} blocks, {} stops", tracer.blocks.len(), tracer.stops);
        if flavour == Flavour::Trace {
            let rebuilt = tracer.accesses(start.fs_base.0);
            println!("{} accesses", rebuilt.len());
            assert_eq!(rebuilt, accesses, "{title}");
        }
    }
}

#[test]
fn traced() {
    run(Flavour::Trace);
}

#[test]
fn counted() {
    run(Flavour::Count);
}

#[test]
fn timed() {
    run(Flavour::Timed { pick: 0 });
}
