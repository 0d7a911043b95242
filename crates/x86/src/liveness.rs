//! The flags and registers that are live at the start of a block.
//!
//! What for: translated code counts blocks with `inc gs:[x]`, which changes all status flags but CF, and needs
//! scratch registers. Both may be used freely where the program overwrites them before it reads them. What not:
//! liveness beyond a block: the code after it is unknown, so everything is live at its end and where a branch may
//! leave it.
//!
//! Assumptions:
//! * A flag that an instruction leaves *undefined* is dead before it: no program may read it, by both manuals (SDM
//!   vol. 1, app. A; AMD APM vol. 3, "Instruction Effects on RFLAGS"). A test that compares all flags must leave
//!   those out.
//! * Between the start and the overwriting instruction, a fault can show our value to a signal handler in the saved
//!   flags. The values are dead there too; a handler that prints them will show ours.

use std::fmt;

use iced_x86::{Instruction, RflagsBits};

use crate::corrections;
use crate::instruction::Flow;
use crate::register::GprSet;

/// A set of status flags (and the direction flag).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

const LETTERS: [(Flags, &str); 7] = [
    (Flags::OVERFLOW, "O"),
    (Flags::SIGN, "S"),
    (Flags::ZERO, "Z"),
    (Flags::ADJUST, "A"),
    (Flags::PARITY, "P"),
    (Flags::CARRY, "C"),
    (Flags::DIRECTION, "D"),
];

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// OF.
    pub const OVERFLOW: Flags = Flags(1);
    /// SF.
    pub const SIGN: Flags = Flags(2);
    /// ZF.
    pub const ZERO: Flags = Flags(4);
    /// AF.
    pub const ADJUST: Flags = Flags(8);
    /// PF.
    pub const PARITY: Flags = Flags(16);
    /// CF.
    pub const CARRY: Flags = Flags(32);
    /// DF, which no arithmetic touches.
    pub const DIRECTION: Flags = Flags(64);
    /// The six status flags.
    pub const STATUS: Flags = Flags(63);
    /// What `inc` and `dec` write: all status flags but CF (SDM vol. 2, INC).
    pub const INC: Flags = Flags(31);

    /// The union of both sets.
    #[must_use]
    pub fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Those of `self` that are not in `other`.
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Whether `self` has all of `other`.
    #[must_use]
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    fn from_iced(bits: u32) -> Flags {
        let pairs = [
            (RflagsBits::OF, Flags::OVERFLOW),
            (RflagsBits::SF, Flags::SIGN),
            (RflagsBits::ZF, Flags::ZERO),
            (RflagsBits::AF, Flags::ADJUST),
            (RflagsBits::PF, Flags::PARITY),
            (RflagsBits::CF, Flags::CARRY),
            (RflagsBits::DF, Flags::DIRECTION),
        ];
        let set = pairs.iter().filter(|(bit, _)| bits & bit != 0);
        set.fold(Flags::NONE, |all, (_, flag)| all.union(*flag))
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return out.write_str("-");
        }
        let set = LETTERS.iter().filter(|(flag, _)| self.contains(*flag));
        set.map(|(_, letter)| *letter).try_for_each(|letter| out.write_str(letter))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// The effect of an instruction on the flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlagEffect {
    /// Flags that it reads.
    pub read: Flags,
    /// Flags that it sets to a value that the manual defines, constants included.
    pub written: Flags,
    /// Flags that it sets to a value that the manual does not define.
    pub undefined: Flags,
    /// The writes may not happen: a shift by CL of 0, a repeated compare with a count of 0.
    pub conditional: bool,
}

impl FlagEffect {
    /// Flags whose old value is certainly lost.
    #[must_use]
    pub fn killed(&self) -> Flags {
        if self.conditional { Flags::NONE } else { self.written.union(self.undefined) }
    }
}

pub(crate) fn flag_effect(raw: &Instruction) -> FlagEffect {
    let written = raw.rflags_written() | raw.rflags_cleared() | raw.rflags_set();
    // The table handles shifts by a constant of 0, but assumes that CL and counters are not 0.
    let repeated_compare =
        raw.is_string_instruction() && (raw.has_rep_prefix() || raw.has_repne_prefix());
    FlagEffect {
        read: Flags::from_iced(raw.rflags_read()),
        written: Flags::from_iced(written),
        undefined: Flags::from_iced(raw.rflags_undefined()),
        conditional: corrections::is_shift_by_cl(raw) || repeated_compare,
    }
}

/// What is live at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    /// Flags that may be read later.
    pub flags: Flags,
    /// Registers of which some bit may be read later. rsp may be missing here (before `leave`), but is never free:
    /// the kernel pushes signal frames below it.
    pub registers: GprSet,
}

impl Live {
    /// Everything, where nothing is known.
    pub const ALL: Live =
        Live { flags: Flags(Flags::STATUS.0 | Flags::DIRECTION.0), registers: GprSet::ALL };

    /// What is live before an instruction if `self` is live after it.
    #[must_use]
    pub fn before(self, instruction: &crate::Instruction) -> Live {
        let flags = instruction.flags();
        let registers = instruction.registers();
        let leaves = matches!(instruction.flow(), Flow::Conditional(_) | Flow::Return);
        // The code to which a side exit leads is unknown: it may read everything.
        let after = if leaves { Live::ALL } else { self };
        Live {
            flags: after.flags.without(flags.killed()).union(flags.read),
            registers: after.registers.without(registers.killed).union(registers.read),
        }
    }
}

/// What is live before each instruction, and (last) after all of them, where everything is.
#[must_use]
pub fn live_points(instructions: &[crate::Instruction]) -> Vec<Live> {
    let mut points = vec![Live::ALL];
    for instruction in instructions.iter().rev() {
        let after = points.last().copied().unwrap_or(Live::ALL);
        points.push(after.before(instruction));
    }
    points.reverse();
    points
}

/// What is live at the start of these instructions.
#[must_use]
pub fn live_at_start(instructions: &[crate::Instruction]) -> Live {
    instructions.iter().rev().fold(Live::ALL, |after, instruction| after.before(instruction))
}
