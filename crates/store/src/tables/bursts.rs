//! The tables of what bursts observed, and the bytes of a block's code.
//!
//! ```text
//! code   = piece*
//! piece  = address:u64 module:u32 offset:u64 length:u32 bytes        little-endian
//! ```
//! What not: the bytes of records (`facts::RecordEncoder`).

use base::{
    BlockId, BurstId, CodeAddress, FileOffset, ModuleId, Nanos, Picos, Pid, RemoteAddr, Tid,
};
use facts::{
    Block, BranchResolution, BurstFlavour, BurstRefused, CodePath, CodePiece, IterationTime,
    NoMissOutcome, NoMissTime,
};

use super::{PID, TID, TIME, text, word};
use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead,
};

const ID: Column = Column::new("id", ColumnKind::U32, Shape::Rising);

const fn number(name: &'static str) -> Column {
    Column::new(name, ColumnKind::U64, Shape::Repeating)
}

const fn bytes(name: &'static str) -> Column {
    Column::new(name, ColumnKind::Bytes, Shape::Opaque)
}

/// Bytes of a piece in front of its code.
const PIECE_HEAD_BYTES: usize = 24;

/// The bytes of `pieces`.
fn code_bytes(pieces: &[CodePiece]) -> Vec<u8> {
    let mut code = Vec::new();
    for piece in pieces {
        code.extend_from_slice(&piece.address.0.to_le_bytes());
        code.extend_from_slice(&piece.module.0.to_le_bytes());
        code.extend_from_slice(&piece.offset.0.to_le_bytes());
        code.extend_from_slice(&(piece.bytes.len() as u32).to_le_bytes());
        code.extend_from_slice(&piece.bytes);
    }
    code
}

/// Bytes that a block's code takes in its table.
pub fn code_length(pieces: &[CodePiece]) -> usize {
    pieces.iter().map(|piece| PIECE_HEAD_BYTES + piece.bytes.len()).sum()
}

/// The pieces of `code`; `None` when it is not what [`code_bytes`] makes.
fn pieces(mut code: &[u8]) -> Option<Vec<CodePiece>> {
    let mut pieces = Vec::new();
    while !code.is_empty() {
        let (address, rest) = code.split_first_chunk()?;
        let (module, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        pieces.push(CodePiece {
            address: RemoteAddr(u64::from_le_bytes(*address)),
            module: ModuleId(u32::from_le_bytes(*module)),
            offset: FileOffset(u64::from_le_bytes(*offset)),
            bytes: bytes.to_owned(),
        });
        code = rest;
    }
    Some(pieces)
}

impl Row for Block {
    const HEAD: TableHead = TableHead { name: "blocks", since: 2, room: Room::Names };
    const COLUMNS: &'static [Column] =
        &[ID, PID, word::<BurstFlavour>("flavour"), bytes("code"), text("record")];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U32(self.id.0));
        row.cell(Cell::I32(self.pid.0));
        row.word(self.flavour);
        row.cell(Cell::Bytes(&code_bytes(&self.pieces)));
        row.text(&self.record);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Block, RowError> {
        Ok(Block {
            id: BlockId(row.u32()?),
            pid: Pid(row.i32()?),
            flavour: row.word()?,
            pieces: pieces(&row.bytes()?).ok_or_else(|| row.out_of_range())?,
            record: row.text()?,
        })
    }
}

row!(Burst = "bursts", since 2, Names {
    id: "id", Rising;
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    flavour: "flavour";
    end: "end";
    elapsed: "elapsed_ns";
    cpu_time: "cpu_time_ns";
    stand_still: "stand_still_ns";
    stops: "stops";
    fs_base: "fs_base";
    records: "records";
    records_lost: "records_lost";
    entries: "entries";
    in_calls: "in_calls_ns";
    faults: "faults";
    answers: "answers";
});

row!(Records = "records", since 2, Bulk {
    burst: "burst", Rising;
    bytes: "records", Opaque;
});

row!(NativeAdvance = "native_advances", since 5, Names {
    burst: "burst", Rising;
    register: "register";
    cpu_time: "cpu_time_ns";
    inside: "inside";
    natively: "natively";
});

row!(NativeCount = "native_counts", since 14, Names {
    burst: "burst", Rising;
    block: "block";
    executions: "executions";
    time: "time_ns";
    offset: "offset";
});

row!(WordAdvance = "word_advances", since 19, Names {
    burst: "burst", Rising;
    address: "address";
    inside: "inside";
    natively: "natively";
    cpu_time: "cpu_time_ns";
});

row!(NoReloadTime = "no_reload_times", since 5, Names {
    block: "block";
    repetitions: "repetitions";
    median: "median_ps";
    low: "low_ps";
    high: "high_ps";
});

row!(SampleRegisters = "sample_registers", since 6, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    samples: "samples";
    bytes: "registers", Opaque;
});

row!(SampledCode = "sampled_code", since 6, Names {
    module: "module";
    offset: "module_offset";
    bytes: "code", Opaque;
});

impl Row for BurstRefused {
    const HEAD: TableHead = TableHead { name: "burst_refusals", since: 2, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        TID,
        Column::nullable("module", ColumnKind::U32),
        Column::nullable("module_offset", ColumnKind::U64),
        text("reason"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.optional_u32(self.at.map(|code| code.module.0));
        row.optional_u64(self.at.map(|code| code.offset.0));
        row.text(&self.reason);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<BurstRefused, RowError> {
        let (time, pid, tid) = (Nanos(row.u64()?), Pid(row.i32()?), Tid(row.i32()?));
        let (module, offset) = (row.optional_u32()?, row.optional_u64()?);
        Ok(BurstRefused {
            time,
            pid,
            tid,
            at: module
                .zip(offset)
                .map(|(module, offset)| CodeAddress::new(ModuleId(module), FileOffset(offset))),
            reason: row.text()?,
        })
    }
}

impl Row for NoMissTime {
    const HEAD: TableHead = TableHead { name: "no_miss_times", since: 3, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        Column::new("block", ColumnKind::U32, Shape::Repeating),
        number("iterations"),
        Column::nullable("repetitions", ColumnKind::U32),
        Column::nullable("median_ps", ColumnKind::U64),
        Column::nullable("low_ps", ColumnKind::U64),
        Column::nullable("high_ps", ColumnKind::U64),
        Column::nullable("refused", ColumnKind::Text),
        Column::nullable("path_burst", ColumnKind::U32),
        Column::nullable("path_instructions", ColumnKind::U64),
        Column::nullable("resolution_blocks", ColumnKind::U32),
        Column::nullable("resolution_ps", ColumnKind::U64),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U32(self.block.0));
        row.cell(Cell::U64(self.iterations));
        let (time, refused) = match &self.outcome {
            NoMissOutcome::Measured(time) => (Some(time), None),
            NoMissOutcome::Refused(why) => (None, Some(why.as_str())),
        };
        row.optional_u32(time.map(|time| time.repetitions));
        row.optional_u64(time.map(|time| time.median.0));
        row.optional_u64(time.map(|time| time.low.0));
        row.optional_u64(time.map(|time| time.high.0));
        row.optional_text(refused);
        row.optional_u32(self.path.map(|path| path.burst.0));
        row.optional_u64(self.path.map(|path| path.instructions));
        row.optional_u32(self.resolution.map(|resolution| resolution.blocks));
        row.optional_u64(self.resolution.map(|resolution| resolution.time.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<NoMissTime, RowError> {
        let block = BlockId(row.u32()?);
        let iterations = row.u64()?;
        let repetitions = row.optional_u32()?;
        let [median, low, high] = [row.optional_u64()?, row.optional_u64()?, row.optional_u64()?];
        let outcome = match (repetitions, median, low, high, row.optional_text()?) {
            (Some(repetitions), Some(median), Some(low), Some(high), None) => {
                let [median, low, high] = [median, low, high].map(Picos);
                NoMissOutcome::Measured(IterationTime { repetitions, median, low, high })
            }
            (None, None, None, None, Some(why)) => NoMissOutcome::Refused(why),
            _ => return Err(row.out_of_range()),
        };
        let (burst, instructions) = (row.optional_u32()?.map(BurstId), row.optional_u64()?);
        let resolution = match (row.optional_u32()?, row.optional_u64()?.map(Picos)) {
            (Some(blocks), Some(time)) => Some(BranchResolution { blocks, time }),
            (None, None) => None,
            _ => return Err(row.out_of_range()),
        };
        let path = match (burst, instructions) {
            (Some(burst), Some(instructions)) => Some(CodePath { burst, instructions }),
            (None, None) => None,
            _ => return Err(row.out_of_range()),
        };
        Ok(NoMissTime { block, path, iterations, outcome, resolution })
    }
}
