//! The ways out that no original has: no more room, a counter at its end, a target without a block, one whose witness changed.

use base::RemoteAddr;
use sys::sandbox::{Registers, Stopped};
use x86::translate::{MISS, area};

use super::compare::{Case, same};
use super::machine::{Machine, RECORDS, WITNESS, WORD};

/// A native address in no block.
const ELSEWHERE: RemoteAddr = RemoteAddr(0x1234_5678_9abc);

impl Case<'_> {
    /// Neither may change anything, nor write a record.
    pub fn check_leaving(&self, machine: &mut Machine) {
        machine.enter(&self.start, self.translation, false);
        machine.set_slot(area::LIMIT, RECORDS.0);
        machine.set_slot(area::NEGATIVE_LIMIT, RECORDS.0.wrapping_neg());
        machine.set_slot(area::COUNTERS + 8 * 7, 1);
        self.leaves(machine, &self.start, 20);

        let elsewhere = Registers { rip: ELSEWHERE, ..self.start };
        machine.enter(&elsewhere, self.translation, true);
        self.leaves(machine, &elsewhere, MISS);

        for change in [1, 1 << 31] {
            machine.enter(&self.start, self.translation, true);
            machine.set_slot(WITNESS, u64::from(WORD ^ change));
            self.leaves(machine, &self.start, MISS);
        }
        machine.set_slot(WITNESS, WORD.into());
    }

    fn leaves(&self, machine: &mut Machine, native: &Registers, exit: u32) {
        let stopped = machine.sandbox.run().unwrap();
        assert!(matches!(stopped, Stopped::SystemCall(39)), "{stopped:?}");
        let mut registers = machine.sandbox.registers().unwrap();
        registers.rip = machine.system_call();
        let state = self.state_at(machine, registers.rip);
        let stands_for = machine.native(&registers, &state);
        same(native, &stands_for, self.flags_of_start());
        assert_eq!(machine.slot(area::EXIT) as u32, exit);
        if machine.reserved().is_some() {
            assert_eq!(machine.pointer(&registers, &state), RECORDS.0);
            assert_eq!(machine.record_word(0), 0xeeee_eeee_eeee_eeee);
        }
    }
}
