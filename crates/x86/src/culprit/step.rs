//! One instruction, as far as waiting for it and undoing it are concerned.
//!
//! What for: the properties that the walk back needs, also of instructions that may not run in a copy: they are only
//! analysed. What not: its address.

use base::RemoteAddr;
use iced_x86::{FlowControl, Mnemonic, OpAccess};

use super::WaitKind;
use crate::instruction::{self, Flow, Reader};
use crate::operand::{Access, Kind};
use crate::pointers::{Derived, derived};
use crate::register::{Gpr, GprSet};
use crate::{corrections, derive};

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) length: u8,
    /// `None` where control does not continue (`ud2`, `hlt`).
    pub(super) flow: Option<Flow>,
    pub(super) accesses: Vec<Access>,
    /// Registers of which any part may change.
    pub(super) changed: GprSet,
    /// Registers whose new value is known.
    pub(super) derived: Vec<(Gpr, Derived)>,
    /// Its memory operand is relative to rip.
    pub(super) relative: bool,
    /// It divides or takes a square root.
    pub(super) divides: bool,
    /// It moves one or many elements of a string.
    pub(super) is_string: bool,
    /// It only moves what it loads.
    only_moves: bool,
}

impl Step {
    /// Decodes the first instruction of `bytes`, at `at`.
    pub(super) fn read(reader: &mut Reader, bytes: &[u8], at: RemoteAddr) -> Option<Step> {
        let raw = instruction::decode(bytes, at).ok()?;
        let info = reader.factory.info(&raw);
        let mut registers = instruction::register_effect(info);
        // Also of instructions that no copy may run (`policy`): the program itself ran them.
        let accesses = derive::accesses(&raw, info).unwrap_or_default();
        let only_moves = matches!(raw.mnemonic(), Mnemonic::Pop | Mnemonic::Leave)
            || raw.is_vsib()
            || raw.is_string_instruction()
            || (raw.op_count() == 2 && info.op0_access() == OpAccess::Write);
        corrections::correct_registers(&raw, &mut registers);
        let ends = matches!(raw.flow_control(), FlowControl::Exception)
            || matches!(raw.mnemonic(), Mnemonic::Hlt | Mnemonic::Int3);
        Some(Step {
            length: u8::try_from(raw.len()).ok()?,
            flow: (!ends).then(|| instruction::flow(&raw)),
            changed: registers.changed,
            derived: derived(&raw, &accesses),
            relative: raw.is_ip_rel_memory_operand(),
            divides: divides(raw.mnemonic()),
            is_string: raw.is_string_instruction(),
            only_moves,
            accesses,
        })
    }

    /// The kind of wait that an access of it causes. `None` for hints, and for the stack access of calls and returns:
    /// what follows those waits for instructions.
    pub(super) fn waits(&self, access: &Access) -> Option<WaitKind> {
        if self.flow != Some(Flow::Next) {
            return None;
        }
        match access.kind {
            _ if access.locked => Some(WaitKind::Atomic),
            Kind::Read | Kind::StreamingRead if self.only_moves => Some(WaitKind::Load),
            Kind::Read | Kind::StreamingRead | Kind::ReadWrite => Some(WaitKind::LoadOperand),
            Kind::Write | Kind::StreamingWrite => Some(WaitKind::Store),
            Kind::Prefetch | Kind::PrefetchWrite | Kind::Flush | Kind::WriteBack | Kind::Demote => {
                None
            }
        }
    }

    /// The addresses that may follow, as far as the instruction shows; after a call those after its return.
    pub(super) fn leads_to(&self, at: RemoteAddr) -> Vec<RemoteAddr> {
        let next = RemoteAddr(at.0.wrapping_add(u64::from(self.length)));
        match self.flow {
            Some(Flow::Next | Flow::Call(_) | Flow::IndirectCall) => vec![next],
            Some(Flow::Conditional(target)) => vec![next, target],
            Some(Flow::Jump(target)) => vec![target],
            Some(Flow::IndirectJump | Flow::Return) | None => Vec::new(),
        }
    }

    /// Whether this access loads all of a register.
    pub(super) fn loads(&self, register: Gpr, number: usize) -> bool {
        self.derived.iter().any(|(to, from)| {
            *to == register && matches!(from, Derived::Loaded { access } if *access == number)
        })
    }
}

/// Instructions for which the divider of a core takes tens of cycles (SDM vol. 2; uops.info).
fn divides(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Div
            | M::Idiv
            | M::Divss
            | M::Divsd
            | M::Divps
            | M::Divpd
            | M::Vdivss
            | M::Vdivsd
            | M::Vdivps
            | M::Vdivpd
            | M::Sqrtss
            | M::Sqrtsd
            | M::Sqrtps
            | M::Sqrtpd
            | M::Vsqrtss
            | M::Vsqrtsd
            | M::Vsqrtps
            | M::Vsqrtpd
            | M::Fdiv
            | M::Fdivp
            | M::Fdivr
            | M::Fdivrp
            | M::Fidiv
            | M::Fidivr
            | M::Fsqrt
    )
}
