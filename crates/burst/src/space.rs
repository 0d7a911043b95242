//! The memory that we share with a program: its thread's area, and regions of translated code near the program's own.
//!
//! What for: one memfd per process and flavour, mapped in the program and here. What not: what the code does
//! (`cache`).
//!
//! A stopped thread of the program makes the calls that create it. A signal may end them at any step; the next visit
//! continues from there. The descriptor is closed at once, so that a program that counts its descriptors finds what
//! it expects. Further regions are second mappings of the first one's file (mremap(2) with an old size of 0). Nothing
//! of it survives a fork (MADV_DONTFORK) or, like all mappings, an exec.

use base::{Pid, RemoteAddr};
use facts::BurstFlavour;
use sys::shared::SharedMemory;
use x86::Gpr;
use x86::translate::{CommonCode, area, common_code};

use crate::remote_call::{CallError, RemoteCalls};

/// Bytes for records.
pub const RECORD_BYTES: usize = 2 << 20;
/// Where records begin in the area.
pub const RECORDS: usize = area::TABLE_END as usize;
/// Bytes of a page on x86-64.
const PAGE_BYTES: usize = 4096;
/// Where code begins in the file: after slots, counters, table and records.
const CODE: usize = RECORDS + RECORD_BYTES;
/// The size of a flavour's area. Timed loads make few records for their time. Counts make none, but their blocks
/// still check for room. Each page costs us and the program several microseconds in a virtual machine.
const fn area_bytes(of: BurstFlavour) -> usize {
    RECORDS
        + match of {
            BurstFlavour::Trace => RECORD_BYTES,
            BurstFlavour::Count | BurstFlavour::Sparse => RECORD_BYTES / 16,
            BurstFlavour::Timed => RECORD_BYTES / 4,
        }
}

/// Bytes of translated code near one part of the program.
pub const REGION_BYTES: usize = 4 << 20;
/// Where the cold parts of copies begin in a region. Those of windows are four times as long as the hot ones, those of other flavours
/// about as long.
const fn cold_bytes(of: BurstFlavour) -> usize {
    match of {
        BurstFlavour::Count | BurstFlavour::Sparse => REGION_BYTES / 4,
        BurstFlavour::Trace | BurstFlavour::Timed => REGION_BYTES / 2,
    }
}
/// Most regions.
const MOST_REGIONS: usize = 4;
/// The first region's mapping covers all of them: the others are made from it.
const CODE_BYTES: usize = MOST_REGIONS * REGION_BYTES;
/// It identifies this mapping.
const COOKIE: usize = area::COOKIE as usize;

/// One region of code.
pub struct Region {
    /// Where it lies in the program.
    pub at: RemoteAddr,
    /// Where it lies in the shared memory.
    pub offset: usize,
    /// The code that all its blocks share, at its start.
    pub common: CommonCode,
    /// Behind the last hot part, and behind the last cold one.
    pub used: [usize; 2],
    /// Where the cold parts begin.
    cold: usize,
}

impl Region {
    /// Forgets the copies in it.
    pub fn clear(&mut self) {
        self.used = [self.common.bytes.len(), self.cold];
    }

    /// Offsets at which the parts of the next copy begin.
    #[must_use]
    pub fn next(&self) -> [usize; 2] {
        self.used.map(|used| used.next_multiple_of(COPY_ALIGNMENT))
    }

    /// Whether there is room for parts of this size at [`next`](Region::next).
    #[must_use]
    pub fn has_room(&self, bytes: [usize; 2]) -> bool {
        let [hot, cold] = self.next();
        hot + bytes[0] <= self.cold && cold + bytes[1] <= REGION_BYTES
    }
}

/// Where parts of copies begin.
const COPY_ALIGNMENT: usize = 16;

/// Faults of a program on our pages.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// Minor faults in which the kernel populated pages on our request.
    pub populating: u64,
    /// Pages on which a thread may have faulted: of code, and of an area that the kernel did not populate.
    pub touched: u64,
}

/// Shared memory, in a program or on its way there.
pub struct Space {
    pid: Pid,
    memory: SharedMemory,
    cookie: u64,
    /// Still open in the program.
    descriptor: Option<u64>,
    /// Bytes of slots, counters, table and records.
    area_bytes: usize,
    /// Where the cold parts of copies begin in a region.
    cold: usize,
    /// Where the area lies in the program, once it does.
    area: Option<RemoteAddr>,
    regions: Vec<Region>,
    /// Mapped as a region, but without the code that all blocks share.
    unfilled: Option<(RemoteAddr, Option<Gpr>)>,
    populated: bool,
    /// Minor faults that populating took.
    populating_faults: u64,
    /// Most pages that were ever in use and not populated.
    touched: u64,
    /// The faults that [`new_faults`](Space::new_faults) has reported.
    reported: Faults,
}

impl Space {
    /// Makes the program create a memfd, and opens it here.
    pub fn open(
        pid: Pid,
        of: BurstFlavour,
        calls: &RemoteCalls<'_>,
        cookie: u64,
    ) -> Result<Space, CallError> {
        const MFD_CLOEXEC: u64 = 1;
        // Kernels from 6.3 on require this where vm.memfd_noexec is 2. It forbids execve, not PROT_EXEC.
        const MFD_NOEXEC_SEAL: u64 = 8;
        let make = |flags| calls.call(MEMFD_CREATE, &[calls.name(), flags]);
        let descriptor = match make(MFD_CLOEXEC) {
            Err(CallError::Refused) => make(MFD_CLOEXEC | MFD_NOEXEC_SEAL)?,
            made => made?,
        };
        match SharedMemory::of_descriptor(pid, descriptor, CODE + CODE_BYTES) {
            Ok(memory) => {
                memory.store_u64(COOKIE, cookie);
                let descriptor = Some(descriptor);
                let (area, regions) = (None, Vec::new());
                Ok(Space {
                    pid,
                    memory,
                    cookie,
                    descriptor,
                    area_bytes: area_bytes(of),
                    cold: cold_bytes(of),
                    area,
                    regions,
                    unfilled: None,
                    populated: false,
                    populating_faults: 0,
                    touched: 0,
                    reported: Faults::default(),
                })
            }
            Err(_) => {
                calls.call(CLOSE, &[descriptor])?;
                Err(CallError::Refused)
            }
        }
    }

    /// Memory that is in no program: blocks can be written to it, not run.
    #[cfg(test)]
    pub fn without_program(pid: Pid, file: &std::fs::File, at: RemoteAddr) -> Space {
        use std::os::fd::AsRawFd;
        let own = Pid(std::process::id().cast_signed());
        let descriptor = u64::try_from(file.as_raw_fd()).expect("an open file");
        let memory = SharedMemory::of_descriptor(own, descriptor, CODE + CODE_BYTES);
        let memory = memory.expect("memory");
        let (area, regions) = (Some(RemoteAddr(0x1000_0000)), Vec::new());
        let mut space = Space {
            pid,
            memory,
            cookie: 1,
            descriptor: None,
            area_bytes: area_bytes(BurstFlavour::Trace),
            cold: cold_bytes(BurstFlavour::Trace),
            area,
            regions,
            unfilled: None,
            populated: true,
            populating_faults: 0,
            touched: 0,
            reported: Faults::default(),
        };
        space.add_region(at, Some(Gpr::R15));
        space
    }

    /// A further region of such memory.
    #[cfg(test)]
    pub fn add_region_in_no_program(&mut self, at: RemoteAddr) {
        self.add_region(at, Some(Gpr::R15));
    }

    /// Maps what is not mapped yet, the first region of code at `at`, and closes the descriptor.
    pub fn map(
        &mut self,
        calls: &RemoteCalls<'_>,
        at: RemoteAddr,
        reserved: Option<Gpr>,
    ) -> Result<(), CallError> {
        let Some(descriptor) = self.descriptor else { return Ok(()) };
        if !self.is_ours(descriptor) {
            // The program has closed the descriptor and may have reused its number: use only what is mapped.
            self.descriptor = None;
            return Err(CallError::Refused);
        }
        if self.area.is_none() {
            let length = self.area_bytes as u64;
            let arguments = [0, length, READ_WRITE, MAP_SHARED, descriptor, 0];
            let area = calls.call(MMAP, &arguments)?;
            self.area = Some(RemoteAddr(area));
            calls.call(MADVISE, &[area, length, MADV_DONTFORK])?;
        }
        if self.regions.is_empty() && self.unfilled.is_none() {
            let (length, offset) = (CODE_BYTES as u64, CODE as u64);
            let flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
            let arguments = [at.0, length, READ_EXECUTE, flags, descriptor, offset];
            self.reserve_checked(calls, calls.call(MMAP, &arguments)?, at, length)?;
            self.unfilled = Some((at, reserved));
            calls.call(MADVISE, &[at.0, length, MADV_DONTFORK])?;
        }
        calls.call(CLOSE, &[descriptor])?;
        self.descriptor = None;
        Ok(())
    }

    /// Maps a further region at `at`; false when there are [`MOST_REGIONS`].
    pub fn map_region(
        &mut self,
        calls: &RemoteCalls<'_>,
        at: RemoteAddr,
        reserved: Option<Gpr>,
    ) -> Result<bool, CallError> {
        const MREMAP_MAYMOVE: u64 = 1;
        const MREMAP_FIXED: u64 = 2;
        let Some(first) = self.regions.first().map(|region| region.at) else { return Ok(false) };
        if !self.may_have_more_regions() {
            return Ok(false);
        }
        let length = REGION_BYTES as u64;
        // Reserve the range first, so that mremap replaces a mapping of ours.
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        let got = calls.call(MMAP, &[at.0, length, 0, flags, u64::MAX, 0])?;
        self.reserve_checked(calls, got, at, length)?;
        let from = first.0 + (self.regions.len() * REGION_BYTES) as u64;
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        let got = calls.call(MREMAP, &[from, 0, length, flags, at.0]);
        if let Err(CallError::Refused) = got {
            calls.call(MUNMAP, &[at.0, length])?;
        }
        got?;
        self.unfilled = Some((at, reserved));
        calls.call(MADVISE, &[at.0, length, MADV_DONTFORK])?;
        Ok(true)
    }

    /// Reserves a range. Kernels before 4.17 take MAP_FIXED_NOREPLACE's address as a hint only, so the result is
    /// checked.
    fn reserve_checked(
        &self,
        calls: &RemoteCalls<'_>,
        got: u64,
        at: RemoteAddr,
        length: u64,
    ) -> Result<(), CallError> {
        if got == at.0 {
            return Ok(());
        }
        calls.call(MUNMAP, &[got, length])?;
        Err(CallError::Refused)
    }

    /// Writes the shared code into a new region: a millisecond of work, during which the program runs.
    pub fn fill_region(&mut self) {
        if let Some((at, reserved)) = self.unfilled.take() {
            self.add_region(at, reserved);
        }
    }

    fn add_region(&mut self, at: RemoteAddr, reserved: Option<Gpr>) {
        let offset = CODE + self.regions.len() * REGION_BYTES;
        let common = common_code(at, reserved);
        self.memory.write(offset, &common.bytes);
        let mut region = Region { at, offset, common, used: [0; 2], cold: self.cold };
        region.clear();
        self.regions.push(region);
    }

    /// Whether any of it lies in these bytes of the program's memory.
    #[must_use]
    pub fn lies_in(&self, start: RemoteAddr, bytes: u64) -> bool {
        let end = start.0.saturating_add(bytes);
        // The first one's mapping is as long as all of them.
        let lengths = std::iter::once(CODE_BYTES).chain(std::iter::repeat(REGION_BYTES));
        let regions = self.regions.iter().map(|region| region.at).zip(lengths);
        let area = self.area.map(|at| (at, self.area_bytes));
        regions.chain(area).any(|(at, length)| at.0 < end && start.0 < at.0 + length as u64)
    }

    /// Allocates the pages of the area while the program runs. The first word of each page is not in use yet.
    pub fn make_pages(&self) {
        for page in (0..self.area_bytes).step_by(PAGE_BYTES) {
            self.memory.store_u64(page, 0);
        }
    }

    /// Whether [`populate`](Space::populate) is still to be done.
    #[must_use]
    pub fn needs_populating(&self) -> bool {
        !self.populated
    }

    /// Makes the kernel fill in the page tables, so that page faults neither slow the first burst nor change the
    /// program's count of them (faults of madvise(2) are not perf events). Kernels before 5.14 refuse. We populate
    /// for reading: pages that exist are then mapped 16 at a time (`do_fault_around` in mm/memory.c), and those of
    /// shared memory for writing too. That takes a third of the time for which a thread is stopped.
    pub fn populate(&mut self, calls: &RemoteCalls<'_>) -> Result<(), CallError> {
        const MADV_POPULATE_READ: u64 = 22;
        self.populated = true;
        let Some(area) = self.area else { return Ok(()) };
        let before = calls.minor_faults();
        let populated = calls.call(MADVISE, &[area.0, self.area_bytes as u64, MADV_POPULATE_READ]);
        // The thread is stopped except for this call, so all faults in between belong to the call.
        let after = calls.minor_faults();
        let taken = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        self.populating_faults = taken.unwrap_or(0);
        match populated {
            Ok(_) | Err(CallError::Refused) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The faults since the last call.
    pub fn new_faults(&mut self) -> Faults {
        let pages = |bytes: usize| bytes.div_ceil(PAGE_BYTES) as u64;
        let code = self
            .regions
            .iter()
            .map(|Region { used, cold, .. }| pages(used[0]) + pages(used[1].saturating_sub(*cold)));
        let unpopulated = self.populated && self.populating_faults == 0;
        let area = if unpopulated { self.area_bytes / PAGE_BYTES } else { 0 };
        self.touched = self.touched.max(code.sum::<u64>() + area as u64);
        let now = Faults { populating: self.populating_faults, touched: self.touched };
        let before = std::mem::replace(&mut self.reported, now);
        Faults {
            populating: now.populating - before.populating,
            touched: now.touched - before.touched,
        }
    }

    /// An upper bound of its bytes that are resident in the program.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let touched = self.touched * PAGE_BYTES as u64;
        if self.populating_faults == 0 { touched } else { self.area_bytes as u64 + touched }
    }

    /// The last visit: removes everything from the program.
    pub fn remove(&mut self, calls: &RemoteCalls<'_>) -> Result<(), CallError> {
        if let Some((at, _)) = self.unfilled {
            let length = if self.regions.is_empty() { CODE_BYTES } else { REGION_BYTES };
            calls.call(MUNMAP, &[at.0, length as u64])?;
            self.unfilled = None;
        }
        while let Some(region) = self.regions.last() {
            let first = self.regions.len() == 1;
            let length = if first { CODE_BYTES } else { REGION_BYTES };
            calls.call(MUNMAP, &[region.at.0, length as u64])?;
            self.regions.pop();
        }
        if let Some(at) = self.area {
            calls.call(MUNMAP, &[at.0, self.area_bytes as u64])?;
            self.area = None;
        }
        if let Some(descriptor) = self.descriptor {
            if self.is_ours(descriptor) {
                calls.call(CLOSE, &[descriptor])?;
            }
            self.descriptor = None;
        }
        Ok(())
    }

    fn is_ours(&self, descriptor: u64) -> bool {
        use std::os::unix::fs::MetadataExt;
        let there = std::fs::metadata(format!("/proc/{}/fd/{descriptor}", self.pid));
        let there = there.map(|file| (file.dev(), file.ino()));
        matches!((there, self.memory.identity()), (Ok(there), Ok(here)) if there == here)
    }

    /// Whether all is mapped and code can run.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.descriptor.is_none() && self.area.is_some() && !self.regions.is_empty()
    }

    /// Whether a process still has this memory where we left it.
    #[must_use]
    pub fn is_in(&self, pid: Pid) -> bool {
        let code = |region: &Region| self.memory.load_u64(region.offset).unwrap_or(0);
        let area = self.area.map(|area| (RemoteAddr(area.0 + COOKIE as u64), self.cookie));
        let region = self.regions.first().map(|region| (region.at, code(region)));
        let (pieces, expected): (Vec<_>, Vec<_>) = area
            .into_iter()
            .chain(region)
            .map(|(at, value)| ((at, size_of::<u64>()), value.to_le_bytes()))
            .unzip();
        // One call: the thread stands still meanwhile.
        let mut seen = vec![0; size_of::<u64>() * pieces.len()];
        sys::trace::read_pieces(pid, &pieces, &mut seen) && seen == expected.concat()
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Where the area lies in the program.
    #[must_use]
    pub fn area(&self) -> RemoteAddr {
        self.area.unwrap_or_default()
    }

    /// Where the last byte for records lies in the program.
    #[must_use]
    pub fn records_end(&self) -> u64 {
        self.area().0 + self.area_bytes as u64
    }

    /// The shared memory; the area begins at offset 0.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// The mapped regions.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Whether another region can be mapped.
    #[must_use]
    pub fn may_have_more_regions(&self) -> bool {
        self.regions.len() < MOST_REGIONS
    }

    /// A region, to put code into.
    pub fn region_mut(&mut self, number: usize) -> Option<&mut Region> {
        self.regions.get_mut(number)
    }

    /// The region that holds an address of the program.
    #[must_use]
    pub fn region_of(&self, address: RemoteAddr) -> Option<usize> {
        let holds =
            |region: &Region| region.at <= address && address.0 - region.at.0 < REGION_BYTES as u64;
        self.regions.iter().position(holds)
    }

    /// Writes a slot of the area.
    pub fn set_slot(&self, displacement: area::Displacement, value: u64) {
        if let Ok(offset) = usize::try_from(displacement) {
            self.memory.store_u64(offset, value);
        }
    }

    /// Reads a slot of the area.
    #[must_use]
    pub fn slot(&self, displacement: area::Displacement) -> u64 {
        let offset = usize::try_from(displacement).unwrap_or(usize::MAX);
        self.memory.load_u64(offset).unwrap_or(0)
    }

    /// Most address space that the flavours together need in the program.
    pub const MOST_BYTES: u64 =
        3 * (RECORDS + RECORD_BYTES + CODE_BYTES + (MOST_REGIONS - 1) * REGION_BYTES) as u64;
    /// Address space that a first region needs in the program.
    pub const CODE_BYTES: u64 = CODE_BYTES as u64;
}

// Numbers of arch/x86/entry/syscalls/syscall_64.tbl.
const CLOSE: i64 = 3;
const MMAP: i64 = 9;
const MUNMAP: i64 = 11;
const MREMAP: i64 = 25;
const MADVISE: i64 = 28;
const MEMFD_CREATE: i64 = 319;
// include/uapi/asm-generic/mman-common.h, include/uapi/linux/mman.h
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MADV_DONTFORK: u64 = 10;
