//! Which registers have their native value in a slot of the area.
//!
//! What for: the state at each byte of a copy, without memory of its own: a translation has some hundred states. What not: the
//! slots (`area`).

use super::area::Displacement;
use crate::register::Gpr;

/// Registers and their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// By number of the register; 0 for those that hold their own value. No register is kept in the slot at 0.
    slots: [u8; Gpr::COUNT],
}

impl Saved {
    /// The native value of `register` is in `slot`, which lies in the first 256 bytes.
    pub(super) fn insert(&mut self, register: Gpr, slot: Displacement) {
        let slot = u8::try_from(slot).expect("a slot in the first 256 bytes");
        self.slots[register.number()] = slot;
    }

    /// `register` holds its own value.
    pub(super) fn remove(&mut self, register: Gpr) {
        self.slots[register.number()] = 0;
    }

    /// All registers with a slot.
    pub fn iter(&self) -> impl Iterator<Item = (Gpr, Displacement)> + '_ {
        let all = Gpr::all()
            .map(|register| (register, Displacement::from(self.slots[register.number()])));
        all.filter(|(_, slot)| *slot != 0)
    }
}
