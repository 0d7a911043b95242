//! Pages that go to the node of the thread that uses them next, by userfaultfd(2).
//!
//! ```text
//!   a round      the block's pages move to other addresses (MREMAP_DONTUNMAP); their own addresses are empty, and watched
//!   a fault      the kernel tells our thread which thread touched which page; 64 KiB there are copied back into pages on that
//!                thread's node, and the moved pages are freed
//!   the end      all is back: the block is watched no more, until the next round
//! ```
//! Rounds: when the program starts its first thread, and from then on at 50 ms, 100 ms, 200 ms ... of its life, until two rounds
//! found nearly all pages at home. Later ones are for a program that fills its memory after its threads have started.
//!
//! Why userfaultfd: it also stops system calls that touch such a page, which a handler of SIGSEGV cannot. What not: huge pages stay
//! whole. A child gets whole blocks (`pthread_atfork`), and no thread of ours.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use super::blocks::{self, Block, PAGE, whole_pages};
use super::settings::{BEGAN, OBJECT_AFTER, TOUCH, node_of, number};
use super::system::{self, PollFile, now, own_memory, quietly, syscall};

/// pthread_create(3).
pub type Create =
    unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *mut c_void) -> c_int;
/// Of glibc: what `pthread_atfork` calls.
type AtFork =
    unsafe extern "C" fn(extern "C" fn(), extern "C" fn(), extern "C" fn(), *mut c_void) -> c_int;

const CHUNK: usize = 16 * PAGE;
/// Time of the first round after the start, milliseconds; each later one comes at twice the time.
const FIRST_ROUND: u64 = 50;
/// How long to wait at most, to see the end of all other threads.
const LOOK: c_int = 100;
/// Of so many chunks that were touched, one that moves is too few for another round.
const FEW: u32 = 20;

// linux/userfaultfd.h, with the sizes of its structures.
const API: u64 = 0xaa;
const IOCTL_API: usize = 0xc018_aa3f;
const IOCTL_REGISTER: usize = 0xc020_aa00;
const IOCTL_UNREGISTER: usize = 0x8010_aa01;
const IOCTL_WAKE: usize = 0x8010_aa02;
const IOCTL_COPY: usize = 0xc028_aa03;
const FEATURE_THREAD_ID: u64 = 1 << 8;
const MODE_MISSING: u64 = 1;
const EVENT_FAULT: u64 = 0x12;
// What UFFDIO_COPY leaves in place of a number of bytes: ENOMEM, EAGAIN, EEXIST.
const NO_MEMORY: i64 = -12;
const AGAIN: i64 = -11;
const EXISTS: i64 = -17;

/// The pages of a block.
#[derive(Clone, Copy)]
pub struct Pages {
    /// Where they are until someone touches them; 0 while they are at home.
    moved_to: usize,
    /// A bit for each chunk that is back.
    back: usize,
    /// Bytes of that.
    back_bytes: usize,
    /// Bytes of all of them.
    bytes: usize,
    /// How many chunks are not back.
    left: usize,
}

impl Pages {
    pub const NONE: Pages = Pages { moved_to: 0, back: 0, back_bytes: 0, bytes: 0, left: 0 };
}

static FILE: AtomicI32 = AtomicI32::new(-1);
static BEGUN: AtomicBool = AtomicBool::new(false);
static CREATE: super::Real<Create> = super::Real::new();
/// Chunks that were touched in this round, and those of them that came to another node.
static TOUCHED: AtomicU32 = AtomicU32::new(0);
static CAME: AtomicU32 = AtomicU32::new(0);

/// The program starts a thread.
pub fn begin(create: Create) {
    if !TOUCH.load(Ordering::Relaxed) || BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    quietly(|| start(create, true));
}

/// The object is to move after a while, which needs a thread that waits.
pub fn begin_later() {
    if BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(create) = CREATE.get(c"pthread_create") {
        quietly(|| start(create, TOUCH.load(Ordering::Relaxed)));
    }
}

fn start(create: Create, touch: bool) {
    if touch {
        // Safety: no pointer; it gives a file or an error.
        let file = unsafe { syscall(system::USERFAULTFD, system::CLOSE_ON_EXEC_AND_NOT_BLOCKING) };
        let mut wanted = [API, FEATURE_THREAD_ID, 0];
        if file < 0 || control(file as c_int, IOCTL_API, &raw mut wanted) < 0 {
            return;
        }
        static AT_FORK: super::Real<AtFork> = super::Real::new();
        let Some(at_fork) = AT_FORK.get(c"__register_atfork") else { return };
        // Safety: functions that stay, as the library is never unloaded.
        if unsafe { at_fork(before_fork, in_parent, in_child, core::ptr::null_mut()) } != 0 {
            return;
        }
        FILE.store(file as c_int, Ordering::Relaxed);
    }
    let (all, mut before, mut thread) = ([u64::MAX; 16], [0u64; 16], 0usize);
    // Safety: sets of 128 bytes as the C library has them; our thread takes no signal of the program. It is never joined, and
    // ends with the process.
    unsafe {
        system::pthread_sigmask(system::SIG_SETMASK, &raw const all, &raw mut before);
        let failed = create(
            (&raw mut thread).cast(),
            core::ptr::null(),
            serve as extern "C" fn(*mut c_void) -> *mut c_void as *mut c_void,
            core::ptr::null_mut(),
        );
        system::pthread_sigmask(system::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        if failed != 0 {
            FILE.store(-1, Ordering::Relaxed);
        }
    }
    round();
}

fn control<T>(file: c_int, request: usize, with: *mut T) -> i64 {
    // Safety: each caller passes the structure of the request.
    unsafe { syscall(system::IOCTL, file as usize, request, with) }
}

/// Watches all blocks that are at home.
fn round() {
    let file = FILE.load(Ordering::Relaxed);
    if file < 0 {
        return;
    }
    blocks::lock();
    // Safety: the lock is held.
    let table = unsafe { blocks::table() };
    let used = table.used;
    for block in table.blocks.iter_mut().take(used).filter(|block| block.address != 0) {
        watch(file, block);
    }
    blocks::unlock();
}

fn watch(file: c_int, block: &mut Block) {
    let (start, end) = whole_pages(block);
    if block.pages.moved_to != 0 || start >= end {
        return;
    }
    let bytes = end.wrapping_sub(start);
    let chunks = bytes.div_ceil(CHUNK);
    let back_bytes = chunks.div_ceil(64).wrapping_mul(8);
    let back = own_memory(back_bytes);
    if back == 0 {
        return;
    }
    let mut wanted = [start as u64, bytes as u64, MODE_MISSING, 0];
    if control(file, IOCTL_REGISTER, &raw mut wanted) < 0 {
        free(back, back_bytes);
        return;
    }
    // Safety: the pages keep their content, and from the move on whoever touches an empty address waits for us.
    let moved_to =
        unsafe { syscall(system::MREMAP, start, bytes, bytes, system::MOVE_AND_KEEP, 0usize) };
    match usize::try_from(moved_to) {
        Ok(moved_to) => block.pages = Pages { moved_to, back, back_bytes, bytes, left: chunks },
        Err(_) => {
            unwatch(file, start, bytes);
            free(back, back_bytes);
        }
    }
}

fn unwatch(file: c_int, start: usize, bytes: usize) {
    let mut range = [start as u64, bytes as u64];
    control(file, IOCTL_UNREGISTER, &raw mut range);
}

fn free(at: usize, bytes: usize) {
    // Safety: memory of our own.
    unsafe { syscall(system::MUNMAP, at, bytes) };
}

/// The block leaves: its pages come back first, unless nobody needs them.
pub fn end(pages: &mut Pages, start: usize, needed: bool) {
    if pages.moved_to == 0 {
        return;
    }
    let file = FILE.load(Ordering::Relaxed);
    if needed {
        for chunk in 0..pages.bytes.div_ceil(CHUNK) {
            bring_back(file, pages, start, chunk, None);
        }
    }
    finish(file, pages, start);
}

fn finish(file: c_int, pages: &mut Pages, start: usize) {
    unwatch(file, start, pages.bytes);
    free(pages.moved_to, pages.bytes);
    free(pages.back, pages.back_bytes);
    *pages = Pages::NONE;
}

/// Copies a chunk into pages on a node, that of its old pages where none is given.
fn bring_back(file: c_int, pages: &mut Pages, start: usize, chunk: usize, node: Option<u8>) {
    let word = pages.back.wrapping_add((chunk >> 6).wrapping_mul(8)) as *mut u64;
    let bit = 1u64 << (chunk & 63);
    let offset = chunk.wrapping_mul(CHUNK);
    let bytes = CHUNK.min(pages.bytes.wrapping_sub(offset));
    let from = pages.moved_to.wrapping_add(offset);
    // Safety: a word of our own memory, under the lock.
    if unsafe { *word } & bit != 0 {
        let mut range = [start.wrapping_add(offset) as u64, bytes as u64];
        control(file, IOCTL_WAKE, &raw mut range);
        return;
    }
    let old = node_of_page(from);
    let to = node.map_or(old, i32::from);
    if to >= 0 {
        prefer(to);
    }
    let mut done = 0usize;
    while done < bytes {
        let mut copy = [
            start.wrapping_add(offset).wrapping_add(done) as u64,
            from.wrapping_add(done) as u64,
            bytes.wrapping_sub(done) as u64,
            0,
            0,
        ];
        control(file, IOCTL_COPY, &raw mut copy);
        match copy[4] as i64 {
            copied @ 1.. => done = done.wrapping_add(copied as usize),
            // Memory that is used up elsewhere, or addresses that change just now: again, from any node.
            NO_MEMORY | AGAIN => {
                prefer(-1);
                // Safety: no argument.
                unsafe { system::sched_yield() };
            }
            EXISTS => done = done.wrapping_add(PAGE),
            // The program has unmapped it by a system call of its own: nobody waits for it.
            _ => break,
        }
    }
    // Safety: as above; the pages there are copied, and ours.
    unsafe {
        *word |= bit;
        syscall(system::MADVISE, from, bytes, system::MADV_DONTNEED);
    }
    pages.left = pages.left.wrapping_sub(1);
    if node.is_some() && old >= 0 {
        TOUCHED.fetch_add(1, Ordering::Relaxed);
        CAME.fetch_add(u32::from(old != to), Ordering::Relaxed);
    }
}

/// This thread's new pages: on this node if there is room; -1 for its own.
fn prefer(node: i32) {
    // MPOL_PREFERRED; without nodes it is the local one.
    let mask = if node < 0 { 0u64 } else { 1 << (node & 63) };
    // Safety: it reads the mask.
    unsafe {
        syscall(system::SET_MEMPOLICY, 1usize, &raw const mask, if node < 0 { 0usize } else { 65 })
    };
}

/// The node that a page lies on; below 0 where there is none.
fn node_of_page(at: usize) -> i32 {
    let (mut status, pages) = ([-1i32], [at]);
    // Safety: one address, one answer; without nodes nothing moves.
    unsafe {
        syscall(
            system::MOVE_PAGES,
            0usize,
            1usize,
            &raw const pages,
            0usize,
            &raw mut status,
            0usize,
        )
    };
    status[0]
}

/// Our thread.
extern "C" fn serve(_: *mut c_void) -> *mut c_void {
    let (mut next, mut at_home) = (FIRST_ROUND, 0);
    loop {
        let file = FILE.load(Ordering::Relaxed);
        let mut polled = [PollFile { file, events: system::POLL_IN, found: 0 }];
        // Safety: one file; a negative one is left out.
        let found = unsafe { system::poll(polled.as_mut_ptr(), 1, LOOK.min(next as c_int)) };
        if found > 0 {
            answer(file);
        } else {
            end_if_alone();
        }
        let life = now().wrapping_sub(BEGAN.load(Ordering::Relaxed));
        place_late(life);
        if life >= next && at_home < 2 {
            let (touched, came) =
                (TOUCHED.swap(0, Ordering::Relaxed), CAME.swap(0, Ordering::Relaxed));
            let settled = touched > 0 && came.wrapping_mul(FEW) < touched;
            at_home = if settled { at_home + 1 } else { 0 };
            round();
            next = life.wrapping_mul(2).max(FIRST_ROUND);
        }
    }
}

/// Answers the faults that wait.
fn answer(file: c_int) {
    // struct uffd_msg: event, flags, address, thread.
    let mut messages = [[0u64; 4]; 16];
    // Safety: whole messages into a buffer of that size.
    let got = unsafe { system::read(file, messages.as_mut_ptr().cast(), size_of_val(&messages)) };
    let count = usize::try_from(got).unwrap_or(0) / 32;
    for message in messages.iter().take(count) {
        if message[0] & 0xff != EVENT_FAULT {
            continue;
        }
        let (at, thread) = (message[2] as usize, message[3] as u32);
        let node = node_of_thread(thread);
        blocks::lock();
        // Safety: the lock is held.
        let table = unsafe { blocks::table() };
        let used = table.used;
        let is_in = |block: &&mut Block| {
            let (start, end) = whole_pages(block);
            block.address != 0 && block.pages.moved_to != 0 && start <= at && at < end
        };
        match table.blocks.iter_mut().take(used).find(is_in) {
            Some(block) => {
                let (start, _) = whole_pages(block);
                bring_back(
                    file,
                    &mut block.pages,
                    start,
                    at.wrapping_sub(start) / CHUNK,
                    Some(node),
                );
                if block.pages.left == 0 {
                    finish(file, &mut block.pages, start);
                }
            }
            None => {
                // It is whole again, since the message was sent.
                let mut range = [(at & !(PAGE - 1)) as u64, PAGE as u64];
                control(file, IOCTL_WAKE, &raw mut range);
            }
        }
        blocks::unlock();
    }
}

/// The object goes when its time has come.
fn place_late(life: u64) {
    let after = OBJECT_AFTER.load(Ordering::Relaxed);
    if after == 0 || life < after {
        return;
    }
    blocks::lock();
    // Safety: the lock is held.
    let table = unsafe { blocks::table() };
    let used = table.used;
    for block in table.blocks.iter_mut().take(used).filter(|block| block.is_object) {
        blocks::place(block);
    }
    blocks::unlock();
}

/// `/proc/self/task/N/stat` from its state on: field 3 of proc_pid_stat(5).
fn after_name(thread: u32, to: &mut [u8; 512]) -> &[u8] {
    const BEFORE: &[u8] = b"/proc/self/task/";
    let mut path = [0u8; 48];
    let mut digits = [0u8; 10];
    let mut rest = thread;
    let mut count = 0usize;
    for digit in &mut digits {
        *digit = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
        count = count.wrapping_add(1);
        if rest == 0 {
            break;
        }
    }
    let number = digits.iter().take(count).rev();
    let text = BEFORE.iter().chain(number).chain(b"/stat");
    path.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    let got = system::beginning(&path, to);
    let text = to.get(..got).unwrap_or(&[]);
    let end =
        text.iter().rposition(|byte| *byte == b')').map_or(text.len(), |at| at.wrapping_add(2));
    text.get(end..).unwrap_or(&[])
}

fn node_of_thread(thread: u32) -> u8 {
    let mut buffer = [0u8; 512];
    // Field 39 is the CPU.
    let cpu = after_name(thread, &mut buffer).split(|byte| *byte == b' ').nth(36).map_or(0, number);
    node_of(cpu as usize)
}

/// A main thread that ended by `pthread_exit` leaves the process to the others; the C library ends it with the last one, but counts us.
fn end_if_alone() {
    let mut buffer = [0u8; 512];
    // Safety: no argument: the number of this process.
    let process = unsafe { syscall(GETPID) } as u32;
    let rest = after_name(process, &mut buffer);
    // Field 20: threads.
    let threads = rest.split(|byte| *byte == b' ').nth(17).map_or(0, number);
    if rest.first() == Some(&b'Z') && threads <= 2 {
        // Safety: what the C library does with the last thread.
        unsafe { system::exit(0) };
    }
}

#[cfg(target_arch = "x86_64")]
const GETPID: i64 = 39;
#[cfg(target_arch = "aarch64")]
const GETPID: i64 = 172;

extern "C" fn before_fork() {
    quietly(|| {
        blocks::lock();
        // Safety: the lock is held, until the fork is done.
        let table = unsafe { blocks::table() };
        let used = table.used;
        for block in table.blocks.iter_mut().take(used) {
            let (start, _) = whole_pages(block);
            end(&mut block.pages, start, true);
        }
    });
}

extern "C" fn in_parent() {
    blocks::unlock();
}

extern "C" fn in_child() {
    FILE.store(-1, Ordering::Relaxed);
    TOUCH.store(false, Ordering::Relaxed);
    blocks::unlock();
}
