//! x86-64 machine code: bytes -> blocks, their memory accesses, and the registers that suffice to rebuild the addresses.
//!
//! What for: the burst tracer runs translated copies of a program's code that record exact addresses.
//!
//! * Decoding: [`read_block`]; [`Instruction::accesses`] lists what each instruction touches.
//! * Recording: [`find_roots`] and [`self_loop`] find the few register values that suffice, [`evaluate`] rebuilds the
//!   addresses, [`live_at_start`] finds the flags and registers that a copy may use, [`translate`] writes the copy.
//! * No-miss time: [`unroll`] writes a loop as straight code, to be timed alone, with the content of its memory
//!   ([`contents`]) and with registers brought to what was recorded ([`shifted`]), or with registers in place of repeated
//!   loads ([`keep`]).
//! * Skid: [`Surroundings`] names the accesses that a clock sample may have waited for.
//!
//! What not: I/O, live processes, 16- or 32-bit code; placing and running copies (`burst`).
//!
//! The model, with its assumptions ("SDM" is the Intel 64 and IA-32 Architectures Software Developer's Manual, "APM" the
//! AMD64 Architecture Programmer's Manual):
//!
//! 1. 64-bit mode, user level. Bases of cs, ds, es, ss are 0; fs and gs have a base (SDM vol. 1, 3.4.2.1).
//! 2. An address is segment base + (base + index x scale + displacement), the bracket cut to 32 bits with a 67h prefix
//!    (SDM vol. 1, 3.3.7 and 3.7.5). It is computed modulo 2^64; paging, canonicality and faults are not modelled.
//! 3. Data accesses only. Instruction fetch, page walks, the shadow stack of CET, descriptor tables that segment
//!    instructions read, and further accesses of microcode are left out.
//! 4. Order: an instruction's loads come before its stores; several loads or stores in the order of the manual's
//!    pseudo-code. Within a gather, the lanes' order is ours (SDM vol. 2, VPGATHERDD: "any order").
//! 5. Masked-off elements are not touched, where the instruction suppresses their faults (SDM vol. 2, 2.8); other masked
//!    instructions read their whole operand.
//! 6. Sizes are architectural: what the instruction may read or write, not what a processor fetches. `fxsave` counts 512
//!    bytes although its last 48 are not written (SDM vol. 2, FXSAVE).
//! 7. A hint (prefetch, `clwb`, ...) acts on the 64-byte line of its address. nop with a memory operand, `lea`, `endbr64`
//!    and MPX instructions (nops on all processors that run with MPX off, as Linux does since 5.6) touch nothing.
//! 8. What cannot be modelled or must not run in a copy is refused by name ([`Refusal`]); a block ends in front of it.
//! 9. The direction flag stays clear, for traces do not record it: `std` and `popf` are refused. gs is the tracer's own:
//!    operands relative to it are refused.
//! 10. An x87 instruction leaves its own address in the FPU's state, where `fnstenv` and `fxsave` show it; code that looks
//!     sees the copy's address (SDM vol. 1, 8.1.8). Likewise `rdtsc` sees time that the copy takes.
//! 11. Sub-register writes: 32 bits clear the upper half, 8 and 16 leave the rest (SDM vol. 1, 3.4.1.1).
//!
//! ```
//! use base::RemoteAddr;
//! use x86::{CodeBytes, Limits, Reader, find_roots, read_block, self_loop};
//!
//! // 0x1000: mov rax, [rdi+rcx*8]; add rcx, 1; cmp rcx, rdx; jne 0x1000
//! let bytes = [0x48, 0x8b, 0x04, 0xcf, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x39, 0xd1, 0x75, 0xf3];
//! let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
//! let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
//! assert_eq!(block.instructions[0].accesses()[0].to_string(), "read 8 [rdi+rcx*8]");
//!
//! let roots = find_roots(&block);
//! let names: Vec<String> = roots.roots.iter().map(ToString::to_string).collect();
//! assert_eq!(names, ["rcx@0", "rdi@0"]);
//! assert!(self_loop(&block, &roots).unwrap().is_summarisable());
//! ```
//!
//! The decoder is iced-x86; `derive`, `masks` and `corrections` hold what its tables say differently. yaxpeax-x86 checks it in
//! the tests.

mod assembly;
mod block;
mod code;
mod contents;
mod corrections;
mod culprit;
mod demand;
mod derive;
mod effect;
mod evaluate;
mod flops;
mod instruction;
mod kept;
mod listing;
mod liveness;
mod loops;
mod masks;
mod moved;
mod operand;
mod pointers;
mod refusal;
mod refused_instructions;
mod register;
mod roots;
mod slowest;
mod steered;
pub mod translate;
mod unroll;
mod walk;
mod wanted;

pub use assembly::{TextLine, disassemble};
pub use block::{Block, End, Limits};
pub use code::{CodeBytes, CodeSource, LONGEST_INSTRUCTION};
pub use contents::{Contents, FirstContents, RecordedRegister, contents, restored};
pub use culprit::{FARTHEST, Operand, Sum, Surroundings, Suspect, Term, WaitKind, Whereabouts};
pub use demand::{Costs, Demand, OperationTime, Range, demand};
pub use evaluate::{State, Times, Touched, evaluate, resolve};
pub use flops::{Flops, Precision};
pub use instruction::{Flow, Instruction, NotRead, Reader, RegisterEffect, Vectors};
pub use kept::{Carried, Kept, KeptAccess, carried, keep};
pub use listing::listing;
pub use liveness::{FlagEffect, Flags, Live, live_at_start, live_points};
pub use loops::{Entered, Linear, Loop, Loops, Reading, TripCount, Variable, loops};
pub use operand::{
    Access, Address, AddressWidth, ExtraTerm, Index, Kind, LINE_BYTES, LaneAddress, LaneMask,
    Location, Masked, Occurrence, Repeat, Segment,
};
pub use pointers::{Derived, PointerStep};
pub use refusal::Refusal;
pub use register::{Gpr, GprSet, MaskRegister, VectorRegister};
pub use roots::{
    Advance, BackEdge, BlockRoots, Input, Root, RootedAccess, SelfLoop, Source, Value, find_roots,
    self_loop, sources,
};
pub use steered::{Shift, noted, shifted};
pub use unroll::{NotTimeable, Part, PathLocation, Unrolled, unroll};
pub use walk::{read_block, read_pieces};
pub use wanted::{BYTES_AROUND, Wanted, wanted, wanted_of_caller};
