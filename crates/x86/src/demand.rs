//! What a loop asks of the core while its data is in the first-level cache: the time that each of its resources needs at least.
//!
//! What for: which of them limits the loop (`analysis::core_limits`). What not: how long it takes; costs of operations are
//! measured on the machine, and handed in.
//!
//! *Chain*: what an iteration needs of the one before. Iterations are followed one after the other, each value as soon as its
//! inputs are there, with no other limit; what a further iteration adds is the longest chain through the loop.
//!
//! Assumptions, all of which make a demand smaller than it is, so that a loop is never said to wait for what it does not:
//! an instruction that no row of [`work`] names takes as long as an addition; moves between registers, and what pushes and pops do
//! to the stack pointer, take nothing; a load does not wait for a store unless both name the same place by registers that
//! the loop leaves alone; a comparison and the branch behind it are one instruction.

use std::collections::HashMap;

use iced_x86::{Mnemonic, OpKind, Register};

use crate::block::Block;
use crate::instruction::{Flow, Instruction};
use crate::operand::Kind;
use crate::register::{Gpr, GprSet};

/// Iterations that are followed; the first half lets chains of several iterations come into step.
const FOLLOWED: usize = 48;

/// Least and most.
pub type Range = (f64, f64);

/// What an operation costs, seconds or any other unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OperationTime {
    /// Each of many.
    pub each: Range,
    /// Each that waits for the one before.
    pub latency: Range,
}

/// Costs by name (`sys::kernels::Operation`) and width, 64 to 512.
pub type Costs<'a> = dyn Fn(&str, u32) -> Option<OperationTime> + 'a;

/// Time per iteration that each resource needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Demand {
    /// The longest chain through the loop.
    pub chain: Range,
    /// Positions of its instructions in the block, and of the one that takes longest.
    pub through: Vec<usize>,
    /// See `through`.
    pub slowest: Option<usize>,
    /// Divisions and square roots.
    pub divider: Range,
    /// Multiplications and floating-point arithmetic: the kind that takes longest.
    pub arithmetic: f64,
    /// Loads.
    pub loads: f64,
    /// Stores.
    pub stores: f64,
    /// Fetching and decoding of all instructions, and the branch back.
    pub front: f64,
}

/// The name of an instruction's own operation, without its accesses, and its width. `None`: it takes no time.
fn work(instruction: &Instruction) -> Option<(&'static str, u32)> {
    let raw = &instruction.raw;
    let mnemonic = instruction.mnemonic();
    let plain = mnemonic.strip_prefix('v').unwrap_or(&mnemonic);
    let suffix = |one: &str| {
        ["sd", "ss", "pd", "ps"].into_iter().find(|end| plain.strip_prefix(one) == Some(*end))
    };
    let first = raw.op0_register();
    let bits = |scalar: bool| match () {
        () if scalar => 64,
        () if first.is_zmm() => 512,
        () if first.is_ymm() => 256,
        () => 128,
    };
    let float = |name: &'static str, end: &str| Some((name, bits(end.starts_with('s'))));
    if matches!(raw.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
        let wide = first.is_gpr64() || (first == Register::None && raw.memory_size().size() == 8);
        return Some(("divide", if wide { 64 } else { 32 }));
    }
    if matches!(raw.mnemonic(), Mnemonic::Imul | Mnemonic::Mul | Mnemonic::Mulx) {
        return Some(("multiply", 64));
    }
    for (start, double, single) in [
        ("add", "float-add", "float-add"),
        ("sub", "float-add", "float-add"),
        ("mul", "float-multiply", "float-multiply"),
        ("div", "float-divide", "single-divide"),
        ("sqrt", "float-root", "single-root"),
    ] {
        if let Some(end) = suffix(start) {
            return float(if end.ends_with('d') { double } else { single }, end);
        }
    }
    let fused = ["fmadd", "fmsub", "fnmadd", "fnmsub"].iter().any(|start| plain.starts_with(start));
    if fused {
        return float("float-fused", &plain[plain.len().saturating_sub(2)..]);
    }
    let moves = plain.starts_with("mov") && !plain.starts_with("movmsk") || plain == "endbr64";
    let takes_none =
        moves || plain.starts_with("nop") || is_of_stack(instruction) || plain.starts_with('j');
    (!takes_none).then_some(("simple", 64))
}

/// `push`, `pop`, `call`, `ret`: the stack pointer is followed by a unit of its own.
fn is_of_stack(instruction: &Instruction) -> bool {
    use Mnemonic::{Call, Pop, Push, Ret};
    matches!(instruction.raw.mnemonic(), Push | Pop | Call | Ret)
}

fn loads(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::ReadWrite | Kind::StreamingRead)
}

fn stores(kind: Kind) -> bool {
    matches!(kind, Kind::Write | Kind::ReadWrite)
}

/// When a value is there, least and most, and which step made it.
#[derive(Clone, Copy, Default)]
struct Ready {
    at: Range,
    by: Option<usize>,
}

impl Ready {
    fn later(self, other: Ready) -> Ready {
        if other.at.0 > self.at.0 { other } else { self }
    }

    fn after(self, more: Range) -> Ready {
        Ready { at: (self.at.0 + more.0, self.at.1 + more.1), ..self }
    }
}

/// Registers and places in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    General(usize),
    Vector(usize),
    Mask(usize),
    Flags,
}

/// What an iteration of a loop of one block asks for; `load` is the latency of a load from the first level. `None` where costs
/// are missing.
#[must_use]
pub fn demand(block: &Block, costs: &Costs<'_>, load: f64) -> Option<Demand> {
    let code = &block.instructions;
    let simple = costs("simple", 64)?;
    let cost = |one: &Instruction| match work(one) {
        None => Some(OperationTime { each: (0.0, 0.0), latency: (0.0, 0.0) }),
        Some((name, bits)) => costs(name, bits).or((name == "simple").then_some(simple)),
    };
    let costs_of: Vec<OperationTime> = code.iter().map(cost).collect::<Option<_>>()?;
    let mut demand = Demand {
        chain: (0.0, 0.0),
        through: Vec::new(),
        slowest: None,
        divider: (0.0, 0.0),
        arithmetic: 0.0,
        loads: 0.0,
        stores: 0.0,
        front: 0.0,
    };
    let mut kinds: HashMap<&str, f64> = HashMap::new();
    for (instruction, cost) in code.iter().zip(&costs_of) {
        match work(instruction) {
            Some((name, _)) if name.ends_with("divide") || name.ends_with("root") => {
                demand.divider.0 += cost.each.0;
                demand.divider.1 += cost.each.1;
            }
            Some((name, _)) if name != "simple" => *kinds.entry(name).or_default() += cost.each.0,
            _ => {}
        }
        for access in instruction.accesses() {
            let width = (access.bytes * 8).next_power_of_two().clamp(64, 512);
            let each = |name| Some(costs(name, width)?.each.0);
            demand.loads += if loads(access.kind) { each("load")? } else { 0.0 };
            demand.stores += if stores(access.kind) { each("store")? } else { 0.0 };
        }
    }
    // Kinds share ports in ways that differ by processor. The longest alone is surely needed; a sum might count a port twice.
    demand.arithmetic = kinds.into_values().fold(0.0, f64::max);
    let branches = |one: &&Instruction| matches!(one.flow(), Flow::Conditional(_));
    // A comparison and its conditional branch are decoded as one operation (macro-fusion; Intel optimization manual).
    let fused = code.iter().filter(branches).count();
    let width = costs("instruction", 64)?.each.0;
    // A taken branch per iteration takes a cycle at least, as long as a simple operation.
    demand.front = ((code.len() - fused.min(code.len())) as f64 * width).max(simple.latency.0);
    follow(code, &costs_of, (load, costs("forward", 64)?.latency), &mut demand);
    Some(demand)
}

/// Finds the longest chain.
fn follow(
    code: &[Instruction],
    costs: &[OperationTime],
    (load, forward): (f64, Range),
    demand: &mut Demand,
) {
    let changed =
        code.iter().fold(GprSet::default(), |all, one| all.union(one.registers().changed));
    let mut ready: HashMap<Name, Ready> = HashMap::new();
    let mut memory: HashMap<String, Ready> = HashMap::new();
    // Of each step its instruction, and the one that it waited for.
    let mut steps: Vec<(usize, Option<usize>)> = Vec::new();
    let (mut half, mut last) = ((0.0, 0.0), Ready::default());
    for iteration in 0..FOLLOWED {
        for (at, one) in code.iter().enumerate() {
            let (reads, addresses) = inputs(one);
            let latest = |names: &[Name]| {
                let known = names.iter().filter_map(|name| ready.get(name).copied());
                known.fold(Ready::default(), Ready::later)
            };
            let mut begins = latest(&reads);
            let location = |access: &crate::operand::Access| {
                let fixed = addresses.iter().all(|name| match name {
                    Name::General(number) => {
                        Gpr::from_number(*number).is_some_and(|gpr| !changed.contains(gpr))
                    }
                    _ => false,
                });
                fixed.then(|| access.address().to_string())
            };
            for access in one.accesses().iter().filter(|access| loads(access.kind)) {
                begins = begins.later(latest(&addresses).after((load, load)));
                let stored = location(access).and_then(|location| memory.get(&location).copied());
                begins =
                    begins.later(stored.map_or(Ready::default(), |stored| stored.after(forward)));
            }
            steps.push((at, begins.by));
            let done = Ready { by: Some(steps.len() - 1), ..begins.after(costs[at].latency) };
            for name in outputs(one) {
                ready.insert(name, done);
            }
            for access in one.accesses().iter().filter(|access| stores(access.kind)) {
                if let Some(location) = location(access) {
                    memory.insert(location, done);
                }
            }
        }
        let all = || ready.values().chain(memory.values());
        last = all().copied().fold(Ready::default(), Ready::later);
        // The first half is left out: values that were ready at the start would shorten the chain.
        if iteration + 1 == FOLLOWED / 2 {
            half = last.at;
        }
    }
    let iterations = (FOLLOWED - FOLLOWED / 2) as f64;
    demand.chain = ((last.at.0 - half.0) / iterations, (last.at.1 - half.1) / iterations);
    let mut step = last.by;
    // The end may hang behind the chain: what comes back is in it.
    let (mut seen, mut again) = (vec![0; code.len()], Vec::new());
    while let Some((at, before)) = step.map(|step| steps[step]) {
        seen[at] += 1;
        if seen[at] > 1 && !again.contains(&at) {
            again.push(at);
        }
        step = before;
    }
    again.sort_unstable();
    demand.slowest =
        again.iter().copied().max_by(|a, b| costs[*a].latency.0.total_cmp(&costs[*b].latency.0));
    demand.through = again;
}

/// What the result waits for, and what an address in memory is made of.
fn inputs(one: &Instruction) -> (Vec<Name>, Vec<Name>) {
    let (raw, registers) = (&one.raw, one.registers());
    let has_access = !one.accesses().is_empty();
    let general =
        |register: Register| Gpr::from_iced(register).map(|gpr| Name::General(gpr.number()));
    let mut addresses: Vec<Name> = Vec::new();
    if has_access && (0..raw.op_count()).any(|at| raw.op_kind(at) == OpKind::Memory) {
        addresses.extend([raw.memory_base(), raw.memory_index()].into_iter().filter_map(general));
    }
    let explicit: Vec<Name> = (0..raw.op_count())
        .filter(|at| raw.op_kind(*at) == OpKind::Register)
        .filter_map(|at| general(raw.op_register(at)))
        .collect();
    let of_stack = is_of_stack(one);
    let mut reads: Vec<Name> = Gpr::all()
        .filter(|gpr| registers.read.contains(*gpr) && !(of_stack && *gpr == Gpr::RSP))
        .map(|gpr| Name::General(gpr.number()))
        .filter(|name| !addresses.contains(name) || explicit.contains(name))
        .collect();
    reads.extend((0..32).filter(|at| registers.vectors_read >> at & 1 == 1).map(Name::Vector));
    reads.extend((0..8).filter(|at| registers.masks_read >> at & 1 == 1).map(Name::Mask));
    // Branches are predicted: nothing waits for them.
    if raw.rflags_read() != 0 && !matches!(one.flow(), Flow::Conditional(_)) {
        reads.push(Name::Flags);
    }
    (reads, addresses)
}

fn outputs(one: &Instruction) -> Vec<Name> {
    let registers = one.registers();
    let of_stack = is_of_stack(one);
    let changed = Gpr::all().filter(|gpr| registers.changed.contains(*gpr));
    let mut names: Vec<Name> = changed
        .filter(|gpr| !(of_stack && *gpr == Gpr::RSP))
        .map(|gpr| Name::General(gpr.number()))
        .collect();
    names.extend((0..32).filter(|at| registers.vectors_changed >> at & 1 == 1).map(Name::Vector));
    names.extend((0..8).filter(|at| registers.masks_changed >> at & 1 == 1).map(Name::Mask));
    if one.raw.rflags_modified() != 0 {
        names.push(Name::Flags);
    }
    names
}

#[cfg(test)]
mod tests {
    use base::RemoteAddr;

    use super::*;
    use crate::{CodeBytes, Limits, Reader, read_block};

    /// Cycles of a usual processor; it does four of anything simple at a time.
    fn costs(name: &str, bits: u32) -> Option<OperationTime> {
        let (each, latency) = match name {
            "instruction" | "simple" => (0.25, 1.0),
            "multiply" => (1.0, 3.0),
            "divide" => return Some(OperationTime { each: (6.0, 18.0), latency: (10.0, 40.0) }),
            "float-add" | "float-multiply" | "float-fused" => (0.5, 4.0),
            "float-divide" => (4.0, 13.0),
            "load" if bits < 512 => (0.5, 0.0),
            "store" => (1.0, 0.0),
            "forward" => (1.0, 5.0),
            _ => return None,
        };
        Some(OperationTime { each: (each, each), latency: (latency, latency) })
    }

    fn of(bytes: &[u8]) -> Demand {
        let start = RemoteAddr(0x1000);
        let code = CodeBytes { start, bytes };
        let block = read_block(&mut Reader::new(), &code, start, &Limits::SUPER);
        demand(&block, &costs, 4.0).expect("all costs are known")
    }

    #[test]
    fn chains_go_through_what_the_next_iteration_needs() {
        // imul rax, rbx; add rax, rcx; dec rdx; jne
        let found = of(&[0x48, 0xf, 0xaf, 0xc3, 0x48, 1, 0xc8, 0x48, 0xff, 0xca, 0x75, 0xf4]);
        assert_eq!((found.chain, found.through, found.slowest), ((4.0, 4.0), vec![0, 1], Some(0)));
        assert_eq!((found.arithmetic, found.front), (1.0, 1.0));
        // addsd xmm0, [rdi+rax*8]; inc rax; cmp rax, rcx; jne: the load is not in the chain
        let found = of(&[0xf2, 0xf, 0x58, 4, 0xc7, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xc8, 0x75, 0xf3]);
        assert_eq!((found.chain, found.through, found.loads), ((4.0, 4.0), vec![0], 0.5));
        // mov rax, [rax]; dec rcx; jne: here it is
        let found = of(&[0x48, 0x8b, 0, 0x48, 0xff, 0xc9, 0x75, 0xf8]);
        assert_eq!((found.chain, found.through), ((4.0, 4.0), vec![0]));
    }

    #[test]
    fn what_nothing_waits_for_is_no_chain() {
        // xor edx, edx; mov rax, rsi; div rdi; add rcx, rax; dec r8; jne
        let found = of(&[
            0x31, 0xd2, 0x48, 0x89, 0xf0, 0x48, 0xf7, 0xf7, 0x48, 1, 0xc1, 0x49, 0xff, 0xc8, 0x75,
            0xf0,
        ]);
        assert_eq!((found.chain, found.divider), ((1.0, 1.0), (6.0, 18.0)));
        // vxorpd xmm0, xmm0, xmm0; vdivsd xmm0, xmm0, xmm1; dec rcx; jne
        let found =
            of(&[0xc5, 0xf9, 0x57, 0xc0, 0xc5, 0xfb, 0x5e, 0xc1, 0x48, 0xff, 0xc9, 0x75, 0xf3]);
        assert_eq!((found.chain, found.divider), ((1.0, 1.0), (4.0, 4.0)));
    }

    #[test]
    fn a_store_and_its_load_are_a_chain_where_the_place_stays() {
        // add [rdi], rax; dec rcx; jne
        let found = of(&[0x48, 1, 7, 0x48, 0xff, 0xc9, 0x75, 0xf8]);
        assert_eq!((found.chain, found.stores, found.loads), ((6.0, 6.0), 1.0, 0.5));
        // add [rdi+rcx*8], rax; dec rcx; jne: another place each time
        let found = of(&[0x48, 1, 4, 0xcf, 0x48, 0xff, 0xc9, 0x75, 0xf7]);
        assert_eq!(found.chain, (1.0, 1.0));
    }

    #[test]
    fn costs_that_are_not_known_leave_all_open() {
        // vmovapd zmm0, [rdi]; dec rcx; jne
        let bytes = [0x62, 0xf1, 0xfd, 0x48, 0x28, 7, 0x48, 0xff, 0xc9, 0x75, 0xf5];
        let start = RemoteAddr(0x1000);
        let code = CodeBytes { start, bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, start, &Limits::SUPER);
        assert_eq!(demand(&block, &costs, 4.0), None);
    }
}
