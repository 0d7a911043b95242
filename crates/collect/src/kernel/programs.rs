//! The BPF programs that the kernel runs at each entry: they measure its time and add it up.
//!
//! ```text
//!   slot  (per thread)  excluded, waited, switched out at, whose, faults not added yet, begin of a fault, its kind,
//!                       system call + 1, its begin
//!   cpu   (per CPU)     last switch at, waited for the CPU, interrupt's begin, soft interrupt's begin
//!   begin               time, excluded, waited                                at that moment
//!   entry (thread, cause, CPU) -> count, own time, time waited
//! ```
//! `excluded` grows by everything that is not the entry's own: time off the CPU, and the own time of entries inside
//! it (an interrupt in a system call). So the own times of all entries add up without counting any time twice. A
//! thread that returns to a CPU does so on the CPU whose last switch let it in. From that it learns how long it was
//! away, without reading the kernel's structures: no offset in any of them is assumed.
//!
//! Where page faults come in storms, their ends are not observed (`storms.rs`). A fault in the program then adds 1 to
//! its thread's slot and takes no time. The count in a slot is added to the entry when the thread leaves its CPU, and
//! when a vector's interrupt ends; the kernel's timer has hundreds of these a second.
//!
//! What not: reading the sums (`mod`). Assumptions: one CPU and one thread change a key, so counts need no atomics. A
//! slot can be interrupted, so what interrupts add to it is atomic.

use sys::bpf::Map;

use super::assembler::{Assembler, Condition, Helper, Label, Reg, Width};
use super::tables::{Tables, cause};
use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};

/// The task of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A system call begins; its number is argument 1.
    CallBegins,
    /// It ends, or its thread ends.
    CallEnds,
    /// An interrupt begins.
    InterruptBegins,
    /// An interrupt of the line in argument 0 ends, or of this vector.
    InterruptEnds(Option<u32>),
    /// A soft interrupt begins.
    SoftBegins,
    /// The one in argument 0 ends.
    SoftEnds,
    /// A thread in argument 0 becomes ready.
    Wakes,
    /// The CPU switches from the thread in argument 1 to that in 2; 0 says preempted, 3 is the old thread's state.
    Switches,
    /// The program touches a page that the kernel must create or fetch first.
    FaultInProgram(Faults),
    /// The kernel touches such a page.
    FaultInKernel(Faults),
    /// The page is available.
    FaultEnds,
    /// Something of this cause happens, with a number in argument 0.
    Counts(u32),
}

/// Whether both ends of page faults are observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Faults {
    /// Counted at their start.
    Counted,
    /// Counted and timed at their end, but counted at their start while [`Tables::mode`] says so.
    Timed,
}

const KEY: i16 = -16;
const KEY_CAUSE: i16 = -8;
const KEY_CPU: i16 = -4;
const VALUE: i16 = -40;
const INDEX: i16 = -44;
const TASK: i16 = -64;
const SINCE: i16 = -72;

/// Offsets in a slot.
mod slot {
    pub const EXCLUDED: i16 = 0;
    pub const WAITED: i16 = 8;
    pub const OUT: i16 = 16;
    pub const OWNER: i16 = 24;
    pub const FAULTS: i16 = 32;
    pub const FAULT: i16 = 40;
    pub const FAULT_NUMBER: i16 = 64;
    pub const CALL_NUMBER: i16 = 72;
    pub const CALL: i16 = 80;
}

/// Offsets in a CPU's state.
mod cpu {
    pub const SWITCHED: i16 = 0;
    pub const DELAY: i16 = 8;
    pub const INTERRUPT: i16 = 16;
    pub const SOFT: i16 = 40;
}

/// The words of a program. Argument `n` of its tracepoint is at `8 * n` of the context.
#[must_use]
pub fn program(work: Work, tables: &Tables) -> Vec<u64> {
    let mut writer = Writer { code: Assembler::default(), tables };
    let out = writer.code.label();
    writer.code.copy(R6, R1);
    match work {
        Work::Wakes => {
            writer.code.call(Helper::KtimeGetNs);
            writer.code.copy(R8, R0);
            writer.note_ready(0);
        }
        Work::FaultInProgram(faults) => writer.fault_in_program(faults, out),
        Work::Counts(kind) => writer.count(kind),
        _ => {
            writer.find_out_who(out);
            writer.do_work(work, out);
        }
    }
    writer.code.place(out);
    writer.code.exit();
    writer.code.finish()
}

struct Writer<'a> {
    code: Assembler,
    tables: &'a Tables,
}

impl Writer<'_> {
    fn do_work(&mut self, work: Work, out: Label) {
        match work {
            Work::CallBegins => {
                self.come_back();
                self.begin(R7, slot::CALL);
                self.code.load(Width::Word, R1, R6, 8);
                self.code.add(R1, 1);
                self.code.store(Width::Word, R7, slot::CALL_NUMBER, R1);
            }
            Work::CallEnds => {
                self.come_back();
                self.code.load(Width::Word, R1, R7, slot::CALL_NUMBER);
                // A thread is born inside its parent's clone, whose end it also sees: that is not a call of its own.
                self.code.jump(Condition::Equal(R1, 0), out);
                self.code.store_number(Width::Word, R7, slot::CALL_NUMBER, 0);
                self.code.add(R1, -1);
                self.code.and(R1, 0x00ff_ffff);
                self.cause_of(cause::SYSTEM_CALL);
                self.end(R7, slot::CALL);
                self.add_entry();
            }
            Work::InterruptBegins => self.begin(R9, cpu::INTERRUPT),
            Work::InterruptEnds(vector) => {
                match vector {
                    Some(vector) => {
                        self.add_faults();
                        self.code.set(R1, (cause::VECTOR | vector) as i32);
                    }
                    None => {
                        self.code.load(Width::Word, R1, R6, 0);
                        self.code.and(R1, cause::VECTOR as i32 - 1);
                    }
                }
                self.cause_of(cause::INTERRUPT);
                self.end(R9, cpu::INTERRUPT);
                self.add_entry();
            }
            Work::SoftBegins => self.begin(R9, cpu::SOFT),
            Work::SoftEnds => {
                self.code.load(Width::Word, R1, R6, 0);
                self.code.and(R1, 0xff);
                self.cause_of(cause::SOFT_INTERRUPT);
                self.end(R9, cpu::SOFT);
                self.add_entry();
            }
            Work::Switches => self.switches(),
            Work::FaultInKernel(faults) => self.fault_in_kernel(faults, out),
            Work::FaultEnds => self.fault_ends(out),
            Work::FaultInProgram(_) | Work::Counts(_) | Work::Wakes => {}
        }
    }

    /// Adds one to this cause, with the number in argument 0.
    fn count(&mut self, kind: u32) {
        self.begin_key();
        self.code.load(Width::Word, R1, R6, 0);
        self.code.and(R1, 0xff);
        self.cause_of(kind);
        self.one();
        self.add_entry();
    }

    /// Sets the key except its cause; R0 is the CPU.
    fn begin_key(&mut self) {
        self.code.call(Helper::GetCurrentPidTgid);
        self.code.store(Width::Word, R10, KEY, R0);
        self.code.call(Helper::GetSmpProcessorId);
        self.code.store(Width::Half, R10, KEY_CPU, R0);
    }

    /// Sets R7 to the slot, R8 to the time, R9 to the CPU's state, and the key except its cause.
    fn find_out_who(&mut self, out: Label) {
        let [threads, indexed, mine] = std::array::from_fn(|_| self.code.label());
        self.begin_key();
        self.code.store(Width::Half, R10, INDEX, R0);
        self.look_up(&self.tables.cpus, INDEX);
        self.code.jump(Condition::Equal(R0, 0), out);
        self.code.copy(R9, R0);
        self.code.load(Width::Half, R1, R10, KEY);
        self.code.jump(Condition::NotEqual(R1, 0), threads);
        // The idle threads of all CPUs have number 0.
        self.code.load(Width::Half, R1, R10, KEY_CPU);
        self.code.add(R1, self.tables.slot_count as i32);
        self.code.jump(Condition::Always, indexed);
        self.code.place(threads);
        self.code.and(R1, self.tables.slot_count as i32 - 1);
        self.code.place(indexed);
        self.find_slot(mine, out);
        // Another thread had this slot: it has ended, or its number differs by a multiple of the number of slots.
        self.code.store(Width::Word, R7, slot::OWNER, R1);
        for stale in [slot::OUT, slot::CALL_NUMBER, slot::CALL, slot::FAULT, slot::FAULTS] {
            self.code.store_number(Width::Word, R7, stale, 0);
        }
        self.code.place(mine);
        self.code.call(Helper::KtimeGetNs);
        self.code.copy(R8, R0);
    }

    /// Sets R7 to the slot of number R1, and R1 to the thread of the key. Jumps to `mine` if the slot is that
    /// thread's, out if there is no such slot.
    fn find_slot(&mut self, mine: Label, out: Label) {
        self.code.store(Width::Half, R10, INDEX, R1);
        self.look_up(&self.tables.slots, INDEX);
        self.code.jump(Condition::Equal(R0, 0), out);
        self.code.copy(R7, R0);
        self.code.load(Width::Word, R1, R10, KEY);
        self.code.load(Width::Word, R2, R7, slot::OWNER);
        self.code.jump(Condition::Same(R1, R2), mine);
    }

    /// `R0 = value of the key at this place of the stack, or 0`
    fn look_up(&mut self, map: &Map, key: i16) {
        self.code.load_map(R1, map);
        self.code.copy(R2, R10);
        self.code.add(R2, i32::from(key));
        self.code.call(Helper::MapLookup);
    }

    /// If the thread was away since it was last seen here, adds for how long.
    fn come_back(&mut self) {
        let (done, away) = (self.code.label(), self.code.label());
        self.code.load(Width::Word, R1, R7, slot::OUT);
        self.code.jump(Condition::Equal(R1, 0), done);
        self.code.store_number(Width::Word, R7, slot::OUT, 0);
        self.code.load(Width::Word, R2, R9, cpu::SWITCHED);
        self.code.subtract(R2, R1);
        self.code.jump(Condition::Above(R2, 0), away);
        self.code.jump(Condition::Always, done);
        self.code.place(away);
        self.code.add_to(R7, slot::EXCLUDED, R2);
        self.code.add_to(R7, slot::WAITED, R2);
        self.code.place(done);
    }

    fn begin(&mut self, base: Reg, at: i16) {
        self.code.store(Width::Word, base, at, R8);
        self.code.load(Width::Word, R1, R7, slot::EXCLUDED);
        self.code.store(Width::Word, base, at + 8, R1);
        self.code.load(Width::Word, R1, R7, slot::WAITED);
        self.code.store(Width::Word, base, at + 16, R1);
    }

    /// Puts one entry with its own time and the time waited into the value on the stack. Both are 0 if the begin was
    /// not observed.
    fn end(&mut self, base: Reg, at: i16) {
        let [unknown, sane, store] = std::array::from_fn(|_| self.code.label());
        self.code.load(Width::Word, R1, base, at);
        self.code.jump(Condition::Equal(R1, 0), unknown);
        self.code.store_number(Width::Word, base, at, 0);
        self.code.copy(R2, R8);
        self.code.subtract(R2, R1);
        self.code.load(Width::Word, R3, R7, slot::EXCLUDED);
        self.code.load(Width::Word, R4, base, at + 8);
        self.code.subtract(R3, R4);
        self.code.subtract(R2, R3);
        self.code.jump(Condition::Above(R2, 0), sane);
        // Clocks of different CPUs may disagree by some nanoseconds.
        self.code.set(R2, 0);
        self.code.place(sane);
        self.code.add_to(R7, slot::EXCLUDED, R2);
        self.code.load(Width::Word, R3, R7, slot::WAITED);
        self.code.load(Width::Word, R4, base, at + 16);
        self.code.subtract(R3, R4);
        self.code.jump(Condition::Always, store);
        self.code.place(unknown);
        self.code.set(R2, 0);
        self.code.set(R3, 0);
        self.code.place(store);
        self.code.store_number(Width::Word, R10, VALUE, 1);
        self.code.store(Width::Word, R10, VALUE + 8, R2);
        self.code.store(Width::Word, R10, VALUE + 16, R3);
    }

    /// One entry without time.
    fn one(&mut self) {
        self.code.store_number(Width::Word, R10, VALUE, 1);
        self.code.store_number(Width::Word, R10, VALUE + 8, 0);
        self.code.store_number(Width::Word, R10, VALUE + 16, 0);
    }

    /// Sets the cause of the key: the number in R1 within this kind.
    fn cause_of(&mut self, kind: u32) {
        self.code.or(R1, (kind << 24) as i32);
        self.code.store(Width::Half, R10, KEY_CAUSE, R1);
    }

    /// Adds the value on the stack to the entry of the key there.
    fn add_entry(&mut self) {
        let (new, done) = (self.code.label(), self.code.label());
        self.look_up(&self.tables.entries, KEY);
        self.code.jump(Condition::Equal(R0, 0), new);
        for at in [0, 8, 16] {
            self.code.load(Width::Word, R1, R0, at);
            self.code.load(Width::Word, R2, R10, VALUE + at);
            self.code.add_reg(R1, R2);
            self.code.store(Width::Word, R0, at, R1);
        }
        self.code.jump(Condition::Always, done);
        self.code.place(new);
        self.update(&self.tables.entries, KEY, VALUE);
        self.code.jump(Condition::Equal(R0, 0), done);
        self.code.store_number(Width::Half, R10, INDEX, 0);
        self.look_up(&self.tables.lost, INDEX);
        self.code.jump(Condition::Equal(R0, 0), done);
        self.code.load(Width::Word, R1, R10, VALUE);
        self.code.add_to(R0, 0, R1);
        self.code.place(done);
    }

    fn update(&mut self, map: &Map, key: i16, value: i16) {
        self.code.load_map(R1, map);
        self.code.copy(R2, R10);
        self.code.add(R2, i32::from(key));
        self.code.copy(R3, R10);
        self.code.add(R3, i32::from(value));
        self.code.set(R4, 0); // BPF_ANY
        self.code.call(Helper::MapUpdate);
    }

    /// The thread in this argument is ready to run from now on.
    fn note_ready(&mut self, argument: i16) {
        self.code.load(Width::Word, R1, R6, 8 * argument);
        self.code.store(Width::Word, R10, TASK, R1);
        self.code.store(Width::Word, R10, SINCE, R8);
        self.update(&self.tables.ready, TASK, SINCE);
    }

    /// Jumps to `counting` while faults are counted at their start.
    fn jump_if_counting(&mut self, counting: Label, out: Label) {
        self.code.store_number(Width::Half, R10, INDEX, 0);
        self.look_up(&self.tables.mode, INDEX);
        self.code.jump(Condition::Equal(R0, 0), out);
        self.code.load(Width::Word, R1, R0, 0);
        self.code.jump(Condition::NotEqual(R1, 0), counting);
    }

    /// Counting is as cheap as possible: no clock, no CPU, one line of the thread's slot.
    fn fault_in_program(&mut self, faults: Faults, out: Label) {
        let [counting, mine] = std::array::from_fn(|_| self.code.label());
        if faults == Faults::Timed {
            self.jump_if_counting(counting, out);
            self.find_out_who(out);
            self.fault_begins(0);
            self.code.jump(Condition::Always, out);
        }
        self.code.place(counting);
        self.code.call(Helper::GetCurrentPidTgid);
        self.code.store(Width::Word, R10, KEY, R0);
        self.code.load(Width::Half, R1, R10, KEY);
        self.code.and(R1, self.tables.slot_count as i32 - 1);
        self.find_slot(mine, out);
        self.find_out_who(out);
        self.code.place(mine);
        // A fault that began before must not be taken for one that ends now.
        self.code.store_number(Width::Word, R7, slot::FAULT, 0);
        self.code.set(R1, 1);
        self.code.add_to(R7, slot::FAULTS, R1);
    }

    /// Adds the faults that the slot holds to their entry.
    fn add_faults(&mut self) {
        let none = self.code.label();
        self.code.load(Width::Word, R1, R7, slot::FAULTS);
        self.code.jump(Condition::Equal(R1, 0), none);
        self.one();
        self.code.store(Width::Word, R10, VALUE, R1);
        self.code.set(R2, 0);
        self.code.subtract(R2, R1);
        self.code.add_to(R7, slot::FAULTS, R2);
        self.code.set(R1, 0);
        self.cause_of(cause::FAULT);
        self.add_entry();
        self.code.place(none);
    }

    /// A sampler that copies a thread's stack may run beyond its end and fail; that is not a fault of the thread.
    /// Faults in an interrupt, and those that no system call caused, are of that kind.
    fn fault_in_kernel(&mut self, faults: Faults, out: Label) {
        self.code.load(Width::Word, R1, R7, slot::CALL_NUMBER);
        self.code.jump(Condition::Equal(R1, 0), out);
        self.code.load(Width::Word, R1, R9, cpu::INTERRUPT);
        self.code.jump(Condition::NotEqual(R1, 0), out);
        let counting = self.code.label();
        if faults == Faults::Timed {
            self.jump_if_counting(counting, out);
            self.fault_in_kernel_begins(out);
            self.code.jump(Condition::Always, out);
        }
        self.code.place(counting);
        self.code.store_number(Width::Word, R7, slot::FAULT, 0);
        self.code.set(R1, cause::IN_KERNEL as i32);
        self.cause_of(cause::FAULT);
        self.one();
        self.add_entry();
    }

    fn fault_in_kernel_begins(&mut self, out: Label) {
        // A sampler of faults copies the stack while a fault is handled: the one that began in this call continues.
        self.code.load(Width::Word, R1, R7, slot::FAULT);
        self.code.load(Width::Word, R2, R7, slot::CALL);
        self.code.subtract(R1, R2);
        self.code.jump(Condition::Above(R1, 0), out);
        self.fault_begins(cause::IN_KERNEL);
    }

    fn fault_begins(&mut self, number: u32) {
        self.come_back();
        self.begin(R7, slot::FAULT);
        self.code.store_number(Width::Word, R7, slot::FAULT_NUMBER, number as i32);
    }

    /// The begin of a fault that ended in a signal remains until the next begin: it is not counted, as in the kernel.
    fn fault_ends(&mut self, out: Label) {
        self.code.load(Width::Word, R1, R7, slot::FAULT);
        self.code.jump(Condition::Equal(R1, 0), out);
        self.come_back();
        self.code.load(Width::Word, R1, R7, slot::FAULT_NUMBER);
        self.code.and(R1, 1);
        self.cause_of(cause::FAULT);
        self.end(R7, slot::FAULT);
        self.add_entry();
    }

    /// The time that the old thread waited for the CPU is added when it leaves, because only then is it the current
    /// one.
    fn switches(&mut self) {
        let [no_delay, asked, switched, next, none] = std::array::from_fn(|_| self.code.label());
        self.come_back();
        self.add_faults();
        self.code.store(Width::Word, R7, slot::OUT, R8);
        self.code.load(Width::Half, R1, R10, KEY);
        self.code.jump(Condition::Equal(R1, 0), next);
        self.code.load(Width::Word, R2, R9, cpu::DELAY);
        self.code.jump(Condition::Equal(R2, 0), no_delay);
        self.code.store_number(Width::Word, R10, VALUE, 1);
        self.code.store_number(Width::Word, R10, VALUE + 8, 0);
        self.code.store(Width::Word, R10, VALUE + 16, R2);
        self.code.set(R1, 0);
        self.cause_of(cause::RUN_QUEUE);
        self.add_entry();
        self.code.place(no_delay);
        // As nivcsw counts (kernel/sched/core.c, __schedule): preempted, or still able to run.
        self.code.load(Width::Word, R1, R6, 0);
        self.code.and(R1, 1);
        self.code.jump(Condition::NotEqual(R1, 0), asked);
        self.code.load(Width::Word, R2, R6, 24);
        self.code.low_half(R2);
        self.code.jump(Condition::NotEqual(R2, 0), switched);
        self.code.place(asked);
        self.note_ready(1);
        self.code.set(R1, cause::PREEMPTED as i32);
        self.code.place(switched);
        self.cause_of(cause::SWITCH);
        self.one();
        self.add_entry();
        self.code.place(next);
        self.code.store_number(Width::Word, R9, cpu::DELAY, 0);
        self.code.load(Width::Word, R1, R6, 16);
        self.code.store(Width::Word, R10, TASK, R1);
        self.look_up(&self.tables.ready, TASK);
        self.code.jump(Condition::Equal(R0, 0), none);
        self.code.load(Width::Word, R1, R0, 0);
        self.code.copy(R2, R8);
        self.code.subtract(R2, R1);
        self.code.store(Width::Word, R9, cpu::DELAY, R2);
        self.code.load_map(R1, &self.tables.ready);
        self.code.copy(R2, R10);
        self.code.add(R2, i32::from(TASK));
        self.code.call(Helper::MapDelete);
        self.code.place(none);
        self.code.store(Width::Word, R9, cpu::SWITCHED, R8);
    }
}
