//! A function's code, and the types of its accesses.
//!
//! What for: decodes a function as it is in its file, finds which instruction may follow which, and asks `resolve` at
//! the wanted ones. What not: values (`flow`). Assumptions: code lies contiguously between the addresses that debug
//! information gives. A jump through a register leads to an address in a table of the file, or out of the function.
//! If no such table is found, values are not followed (see [`Code::unknown_jumps`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{Bytes, FileOffset};

use super::flow::Flow;
use super::model::Model;
use super::resolve::Answer;
use super::units::{CodeRange, Function};
use super::variables::variables;
use super::{Decoder, Step, Successor, TypedAccess, Written};
use crate::elf::{Elf, LinkAddress};

/// Most instructions of a function; the largest ones of real programs (interpreters, parsers) have some 50,000.
const INSTRUCTIONS_LIMIT: usize = 1 << 18;
/// Most targets of a table.
const TABLE_LIMIT: u64 = 1 << 12;

/// The instructions of a function.
pub(super) struct Code {
    /// By address.
    pub(super) steps: Vec<(LinkAddress, Step)>,
    by_address: HashMap<LinkAddress, usize>,
    /// Where jumps through tables may lead.
    pub(super) table_targets: Vec<usize>,
    /// There is a jump through a register and no table for it.
    pub(super) unknown_jumps: bool,
}

impl Code {
    fn read(elf: &Elf<'_>, function: &Function, decoder: &mut dyn Decoder) -> Code {
        let mut steps = Vec::new();
        for CodeRange { begin, end } in &function.ranges {
            let bytes = elf.bytes_at(*begin);
            let length = usize::try_from(end.0 - begin.0).unwrap_or(usize::MAX).min(bytes.len());
            let (bytes, mut at) = (&bytes[..length], 0);
            while at < length && steps.len() < INSTRUCTIONS_LIMIT {
                let address = LinkAddress(begin.0.wrapping_add(at as u64));
                let Some(step) = decoder.step(&bytes[at..], address) else { break };
                at += usize::try_from(step.length.max(1)).unwrap_or(usize::MAX).min(length);
                steps.push((address, step));
            }
        }
        steps.sort_by_key(|(address, _)| *address);
        // Ranges in damaged files may overlap.
        steps.dedup_by_key(|(address, _)| *address);
        let by_address = steps.iter().zip(0..).map(|((address, _), number)| (*address, number));
        let by_address = by_address.collect();
        let mut code = Code { steps, by_address, table_targets: Vec::new(), unknown_jumps: false };
        code.read_tables(elf);
        code
    }

    /// The instruction at this address.
    pub(super) fn at(&self, address: LinkAddress) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// The one behind instruction `number`, if it is there.
    pub(super) fn behind(&self, number: usize) -> Option<usize> {
        let (address, step) = self.steps.get(number)?;
        let next = self.steps.get(number + 1)?;
        (next.0.0 == address.0.checked_add(step.length)?).then_some(number + 1)
    }

    /// Finds jump tables: addresses that code refers to, where the file has offsets (of 4 bytes, from the table's
    /// start) or addresses (of 8) of at least two instructions of this function.
    fn read_tables(&mut self, elf: &Elf<'_>) {
        let jumps =
            self.steps.iter().filter(|(_, step)| step.onward == Successor::Indirect).count();
        if jumps == 0 {
            return;
        }
        let mut starts = BTreeSet::new();
        for (_, step) in &self.steps {
            for (_, written) in &step.written {
                if let Written::Sum(terms, constant) = written
                    && terms.is_empty()
                {
                    starts.insert(LinkAddress(constant.cast_unsigned()));
                }
            }
            for operand in step.operands.iter().flatten() {
                if operand.base.is_none() && operand.index.is_some() {
                    starts.insert(LinkAddress(operand.displacement.cast_unsigned()));
                }
            }
        }
        let (mut targets, mut tables) = (BTreeSet::new(), 0);
        for start in starts {
            let table = elf.bytes_at(start);
            let near = self.run(table.chunks_exact(4), |cell| {
                let distance = i32::from_le_bytes(cell.try_into().ok()?);
                Some(start.0.wrapping_add_signed(i64::from(distance)))
            });
            let far = self
                .run(table.chunks_exact(8), |cell| Some(u64::from_le_bytes(cell.try_into().ok()?)));
            let found = if near.len() >= far.len() { near } else { far };
            if found.len() >= 2 {
                tables += 1;
                targets.extend(found);
            }
        }
        // Two jumps that share a table count as unknown, too. That loses answers, but makes none
        // wrong.
        self.unknown_jumps = tables < jumps;
        self.table_targets = targets.into_iter().collect();
    }

    fn run<'a>(
        &self,
        cells: impl Iterator<Item = &'a [u8]>,
        target: impl Fn(&[u8]) -> Option<u64>,
    ) -> Vec<usize> {
        let targets =
            // No length is known: a table ends at the first cell that leads to no instruction of
            // the function.
            cells.take(TABLE_LIMIT as usize).map_while(|cell| self.at(LinkAddress(target(cell)?)));
        targets.collect()
    }
}

/// The types of the accesses of the instructions at `wanted`.
pub(super) fn answers(
    model: &Model<'_>,
    elf: &Elf<'_>,
    function: &Function,
    wanted: &BTreeMap<LinkAddress, FileOffset>,
    decoder: &mut dyn Decoder,
) -> Vec<TypedAccess> {
    let code = Code::read(elf, function, decoder);
    let variables = variables(model, function);
    let plain = model.units.is_plain(function.die.unit);
    let entry = function.ranges.first().and_then(|first| code.at(first.begin));
    let wanted: BTreeMap<usize, FileOffset> =
        wanted.iter().filter_map(|(address, offset)| Some((code.at(*address)?, *offset))).collect();
    let mut flow = Flow::new(model, &code, &variables, !plain);
    flow.follow(entry);
    let mut found = Vec::new();
    flow.visit(&mut |flow, number, state| {
        let Some(offset) = wanted.get(&number) else { return };
        for (access, operand) in code.steps[number].1.operands.iter().enumerate() {
            let answer = operand.and_then(|operand| flow.resolve(number, state, &operand).answer);
            found.extend(answer.and_then(|answer| typed(model, *offset, access, &answer)));
        }
    });
    found
}

fn typed(
    model: &Model<'_>,
    offset: FileOffset,
    access: usize,
    answer: &Answer,
) -> Option<TypedAccess> {
    let leaf = &answer.found.leaf;
    let outer = &answer.found.outer;
    // A flexible array lies after the size of its structure.
    let end = leaf.offset.checked_add(leaf.bytes)?;
    Some(TypedAccess {
        offset,
        access,
        variable: answer.variable.as_deref().map(str::to_owned),
        type_name: model.name(outer.die)?.to_string(),
        type_bytes: Bytes(outer.bytes.max(end)),
        field: Some(leaf.path.clone()).filter(|path| !path.is_empty()),
        field_offset: Bytes(leaf.offset),
        field_bytes: Bytes(leaf.bytes),
    })
}
