//! The one list of instructions that a burst must not run.
//!
//! What not: the reasons in words (`refusal`), memory operands (`derive`). Sources: Intel SDM vol. 2, AMD APM vol. 3,
//! page of each instruction.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

use crate::refusal::Refusal;

/// Why `raw` must not run in translated code; `None` where it may.
pub(crate) fn refusal(raw: &Instruction) -> Option<Refusal> {
    by_mnemonic(raw.mnemonic())
        .or_else(|| by_flow(raw))
        .or_else(|| by_operand(raw))
        .or_else(|| raw.is_privileged().then_some(Refusal::Privileged))
        .or_else(|| narrow_repeat(raw).then_some(Refusal::NarrowRepeat))
}

fn by_mnemonic(mnemonic: Mnemonic) -> Option<Refusal> {
    use Mnemonic as M;
    let refusal = match mnemonic {
        M::INVALID => Refusal::Invalid,
        // The kernel sees the address of the call: seccomp filters and signal frames must find the native one.
        M::Syscall | M::Sysenter => Refusal::SystemCall,
        M::Uiret | M::Senduipi | M::Clui | M::Stui => Refusal::Interrupt,
        // The decoder lets xend and xabort continue; outside a transaction xend faults.
        M::Xbegin | M::Xend | M::Xabort => Refusal::Transaction,
        M::Enclu => Refusal::Enclave,
        M::Vmcall
        | M::Vmmcall
        | M::Vmfunc
        | M::Vmgexit
        | M::Getsec
        | M::Getsecq
        | M::Tdcall
        | M::Seamcall
        | M::Seamops
        | M::Seamret => Refusal::Hypervisor,
        M::Wrfsbase | M::Wrgsbase | M::Swapgs | M::Lfs | M::Lgs | M::Lss | M::Lkgs => {
            Refusal::SegmentLoad
        }
        M::Rdgsbase => Refusal::GsBaseRead,
        M::Std => Refusal::DirectionSet,
        // They may set the trap flag, which would stop the thread after each instruction of ours.
        M::Popf | M::Popfd | M::Popfq => Refusal::FlagsLoad,
        M::Xsave
        | M::Xsave64
        | M::Xsavec
        | M::Xsavec64
        | M::Xsaveopt
        | M::Xsaveopt64
        | M::Xsaves
        | M::Xsaves64
        | M::Xrstor
        | M::Xrstor64
        | M::Xrstors
        | M::Xrstors64 => Refusal::StateSave,
        M::Tileloadd | M::Tileloaddt1 | M::Tilestored | M::Ldtilecfg | M::Sttilecfg => {
            Refusal::Tile
        }
        // It could make the record buffer inaccessible in the middle of a block.
        M::Wrpkru => Refusal::ProtectionKeys,
        M::Incsspd
        | M::Incsspq
        | M::Rstorssp
        | M::Saveprevssp
        | M::Wrssd
        | M::Wrssq
        | M::Wrussd
        | M::Wrussq
        | M::Setssbsy
        | M::Clrssbsy => Refusal::ShadowStack,
        M::Montmul
        | M::Xsha1
        | M::Xsha256
        | M::Xsha512
        | M::Xstore
        | M::Xcryptcbc
        | M::Xcryptcfb
        | M::Xcryptctr
        | M::Xcryptecb
        | M::Xcryptofb
        | M::Xsha512_alt
        | M::Xstore_alt
        | M::Ccs_hash
        | M::Ccs_encrypt
        | M::Llwpcb
        | M::Slwpcb
        | M::Lwpins
        | M::Lwpval
        | M::Undoc
        | M::Altinst => Refusal::VendorExtension,
        _ => return None,
    };
    Some(refusal)
}

fn by_flow(raw: &Instruction) -> Option<Refusal> {
    match raw.flow_control() {
        FlowControl::Interrupt => Some(Refusal::Interrupt),
        FlowControl::XbeginXabortXend => Some(Refusal::Transaction),
        // The signal handler must find the native address of the instruction.
        FlowControl::Exception => Some(Refusal::AlwaysFaults),
        FlowControl::Return if !matches!(raw.mnemonic(), Mnemonic::Ret) => {
            let interrupt =
                matches!(raw.mnemonic(), Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq);
            Some(match raw.is_privileged() {
                true => Refusal::Privileged,
                false if interrupt => Refusal::Interrupt,
                false => Refusal::FarTransfer,
            })
        }
        FlowControl::IndirectBranch if raw.is_jmp_far_indirect() => Some(Refusal::FarTransfer),
        FlowControl::IndirectCall if raw.is_call_far_indirect() => Some(Refusal::FarTransfer),
        FlowControl::UnconditionalBranch if raw.is_jmp_far() => Some(Refusal::FarTransfer),
        FlowControl::Call if raw.is_call_far() => Some(Refusal::FarTransfer),
        FlowControl::Call if !raw.is_call_near() => Some(Refusal::Hypervisor),
        _ => None,
    }
}

/// A move into a segment register loads a base from the descriptor table.
fn by_operand(raw: &Instruction) -> Option<Refusal> {
    let into_segment = matches!(raw.mnemonic(), Mnemonic::Mov | Mnemonic::Pop)
        && raw.op0_kind() == OpKind::Register
        && raw.op0_register().is_segment_register();
    into_segment.then_some(Refusal::SegmentLoad)
}

/// Pointer and counter of such an instruction have 32 bits; no compiler generates it.
fn narrow_repeat(raw: &Instruction) -> bool {
    let narrow =
        |kind| matches!(kind, OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI);
    raw.is_string_instruction()
        && (raw.has_rep_prefix() || raw.has_repne_prefix())
        && (narrow(raw.op0_kind()) || narrow(raw.op1_kind()))
}

/// Whether the direction flag may change.
pub(crate) fn changes_direction(raw: &Instruction) -> bool {
    raw.rflags_modified() & iced_x86::RflagsBits::DF != 0
}
