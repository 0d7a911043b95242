//! Words of memory that rise, or fall, as the program works: counters, positions in buffers, sizes of heaps.
//!
//! What for: by how much one rises in a count window, and by how much natively until the thread stops next, tells how much
//! longer the window took than native code would have. What not: what follows from that (`analysis::memory::copies`).
//!
//! Traces tell where a thread stores numbers. Those are read when it stands still anyway: in front of a window, behind it, and at
//! its next stop. A word that rises at one time and falls at another is given up. Nothing in the program changes, and it
//! takes no right that bursts do not need.
//!
//! Assumption: no other thread stores to the word. One that traces of two threads store to is left out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::{BurstId, Nanos, Pid, RemoteAddr, Tid};
use facts::WordAdvance;
use sys::trace::read_pieces;

/// So many words of a thread are read at most while it stands still, on so many pages: each page takes a quarter of a microsecond. While it
/// runs, more of them are tried.
const READ: Most = Most { words: 32, pages: 12 };
const TRIED: Most = Most { words: 512, pages: 64 };
const PAGE_BYTES: u64 = 4096;
/// A window has so many words at most.
const MOST_REPORTED: usize = 16;
/// A word that moves the other way this part of the time, or more often, is no odometer: a loop's counter is set back now and then.
const BACK: u32 = 16;
/// One that has not moved while it was watched so often is not read again.
const STILL: u32 = 4;
/// A word that moved one way so often is an odometer: one that changes at random does so once in 2^15.
const PROVEN: u32 = 16;
/// While fewer are known of a thread, its words are read so often behind a visit, in such steps.
const FEW: usize = 8;
const STEPS: u32 = 8;
const STEP: Duration = Duration::from_micros(500);
/// At first behind each visit, and behind one in so many later: some programs have no odometers.
const AT_FIRST: u32 = 16;
const LATER: u32 = 8;
/// So many words of a process are known at most.
const MOST_KNOWN: usize = 2048;
/// Likewise threads.
const MOST_THREADS: usize = 256;

/// How much is read at most.
#[derive(Clone, Copy)]
struct Most {
    words: usize,
    pages: usize,
}

/// A number in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Word {
    /// Where it is.
    pub at: RemoteAddr,
    /// Its bytes: 4 or 8.
    pub bytes: u8,
}

/// What is known of a word.
#[derive(Debug)]
struct Known {
    /// Who stores to it; `None` where several do.
    owner: Option<Tid>,
    traces: u32,
    rose: u32,
    fell: u32,
    watched: u32,
}

impl Known {
    /// The better, the higher: how often it moved one way, and how many traces stored to it. `None` if it is none.
    fn rank(&self) -> Option<(u32, u32)> {
        let (most, least) = (self.rose.max(self.fell), self.rose.min(self.fell));
        let is_none = least * BACK > most || most == 0 && self.watched >= STILL;
        (!is_none).then_some((most, self.traces))
    }

    fn note(&mut self, by: i64) {
        self.rose += u32::from(by > 0);
        self.fell += u32::from(by < 0);
    }
}

/// Words that are read together.
#[derive(Debug, Default)]
pub struct Reads {
    /// Each with its offset in what is read.
    words: Vec<(Word, usize)>,
    /// From the first word of a page to its last.
    pieces: Vec<(RemoteAddr, usize)>,
    bytes: usize,
}

impl Reads {
    fn new(mut words: Vec<Word>) -> Reads {
        words.sort_unstable();
        let mut reads = Reads::default();
        for word in words {
            let end = word.at.0.saturating_add(u64::from(word.bytes));
            match reads.pieces.last_mut() {
                Some((at, length)) if at.0 / PAGE_BYTES == (end - 1) / PAGE_BYTES => {
                    reads.words.push((word, reads.bytes - *length + (word.at.0 - at.0) as usize));
                    let longer = ((end - at.0) as usize).saturating_sub(*length);
                    *length += longer;
                    reads.bytes += longer;
                }
                _ => {
                    reads.words.push((word, reads.bytes));
                    reads.pieces.push((word.at, usize::from(word.bytes)));
                    reads.bytes += usize::from(word.bytes);
                }
            }
        }
        reads
    }

    /// Their values, sign-extended; `None` if any of them cannot be read.
    #[must_use]
    pub fn read(&self, pid: Pid) -> Option<Vec<i64>> {
        let mut bytes = vec![0; self.bytes];
        if self.words.is_empty() || !read_pieces(pid, &self.pieces, &mut bytes) {
            return None;
        }
        let value = |(word, at): &(Word, usize)| {
            let bytes = bytes.get(*at..)?;
            match word.bytes {
                8 => bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
                _ => bytes.first_chunk().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
            }
        };
        self.words.iter().map(value).collect()
    }

    /// By how much each rose, modulo 2^64 or 2^32.
    fn moves(&self, before: &[i64], after: &[i64]) -> Vec<i64> {
        let by = |((word, _), (before, after)): (&(Word, usize), (&i64, &i64))| {
            let by = after.wrapping_sub(*before);
            if word.bytes == 8 { by } else { i64::from(by as i32) }
        };
        self.words.iter().zip(before.iter().zip(after)).map(by).collect()
    }
}

/// A window and what was read around it.
#[derive(Debug)]
pub struct Read {
    /// What was read.
    pub reads: Arc<Reads>,
    /// In front of it.
    pub begin: Vec<i64>,
    /// Behind it.
    pub end: Vec<i64>,
    /// The thread's CPU time behind it.
    pub used: Nanos,
}

/// The words of one process.
#[derive(Debug, Default)]
pub struct Odometers {
    known: HashMap<Word, Known>,
    /// Behind so many visits few odometers were known.
    lacking: u32,
    /// What is read of each thread.
    reads: HashMap<Tid, Arc<Reads>>,
    /// Windows behind which threads have not stopped again.
    open: HashMap<Tid, (BurstId, Read)>,
    /// Those behind which they have, with what was read then and their CPU time.
    closed: Vec<(BurstId, Read, Vec<i64>, Nanos)>,
}

impl Odometers {
    /// Notes the words to which a trace stored.
    pub fn note_trace(&mut self, tid: Tid, words: impl IntoIterator<Item = Word>) {
        for word in words {
            let new = Known { owner: Some(tid), traces: 0, rose: 0, fell: 0, watched: 0 };
            let known = self.known.entry(word).or_insert(new);
            known.traces += 1;
            known.owner = known.owner.filter(|owner| *owner == tid);
        }
        if self.known.len() > MOST_KNOWN {
            self.known.retain(|_, known| known.traces > 1 || known.rose + known.fell > 0);
        }
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
    }

    /// What to read of a thread in front of a window and behind it.
    #[must_use]
    pub fn reads(&self, tid: Tid) -> Option<Arc<Reads>> {
        self.reads.get(&tid).cloned()
    }

    /// Notes a window.
    pub fn note_window(&mut self, tid: Tid, burst: BurstId, read: Read) {
        self.open.insert(tid, (burst, read));
    }

    /// A thread stands still, after so much CPU time: reads again what was read around its last window.
    pub fn note_stop(&mut self, pid: Pid, tid: Tid, used: Option<Nanos>) {
        if let Some((burst, read)) = self.open.remove(&tid)
            && let Some((now, used)) = read.reads.read(pid).zip(used)
        {
            self.closed.push((burst, read, now, used));
        }
    }

    /// What words showed when threads stopped. Nothing stands still meanwhile.
    #[must_use]
    pub fn take_advances(&mut self) -> Vec<WordAdvance> {
        let closed = std::mem::take(&mut self.closed).into_iter();
        closed
            .flat_map(|(burst, read, now, used)| self.advances(burst, &read, &now, used))
            .collect()
    }

    fn advances(
        &mut self,
        burst: BurstId,
        Read { reads, begin, end, used: before }: &Read,
        now: &[i64],
        used: Nanos,
    ) -> Vec<WordAdvance> {
        let (inside, natively) = (reads.moves(begin, end), reads.moves(end, now));
        let mut moved = Vec::new();
        for ((word, _), (inside, natively)) in
            reads.words.iter().zip(inside.into_iter().zip(natively))
        {
            let Some(known) = self.known.get_mut(word).filter(|known| known.owner.is_some()) else {
                continue;
            };
            known.note(inside);
            known.note(natively);
            let rank = known.rank().filter(|_| inside != 0 || natively != 0);
            moved.extend(rank.map(|rank| (rank, word.at, inside, natively)));
        }
        moved.sort_unstable_by(|a, b| b.cmp(a));
        moved.truncate(MOST_REPORTED);
        // None has passed for another thread of this number.
        let cpu_time = Nanos(used.0.saturating_sub(before.0));
        let advance = |(_, address, inside, natively): (_, RemoteAddr, i64, i64)| WordAdvance {
            burst,
            address,
            inside: inside.cast_unsigned(),
            natively: natively.cast_unsigned(),
            cpu_time,
        };
        moved.into_iter().filter(|_| cpu_time.0 > 0).map(advance).collect()
    }

    /// Chooses what to read of a thread, which runs natively. Where few of its words are known to be odometers, finds out soon which are.
    pub fn watch(&mut self, pid: Pid, tid: Tid) {
        let proven = self.reads(tid).map_or(0, |reads| reads.words.len());
        if proven < FEW {
            if self.lacking < AT_FIRST || self.lacking.is_multiple_of(LATER) {
                self.try_words(pid, tid);
            }
            self.lacking += 1;
        }
        let reads = self.best(pid, tid, READ, PROVEN);
        // Threads that have ended are here, too.
        if self.reads.len() >= MOST_THREADS {
            self.reads.clear();
            self.open.clear();
        }
        self.reads.insert(tid, Arc::new(reads));
    }

    fn try_words(&mut self, pid: Pid, tid: Tid) {
        let reads = self.best(pid, tid, TRIED, 0);
        let Some(mut before) = reads.read(pid) else { return };
        for (word, _) in &reads.words {
            self.known.get_mut(word).into_iter().for_each(|known| known.watched += 1);
        }
        for _ in 0..STEPS {
            std::thread::park_timeout(STEP);
            let Some(now) = reads.read(pid) else { return };
            for ((word, _), by) in reads.words.iter().zip(reads.moves(&before, &now)) {
                self.known.get_mut(word).into_iter().for_each(|known| known.note(by));
            }
            before = now;
        }
    }

    /// Of a thread's words that moved one way so often, those that did most often, then those that most traces stored to.
    fn best(&mut self, pid: Pid, tid: Tid, most: Most, moves: u32) -> Reads {
        let own = self.known.iter().filter(|(_, known)| known.owner == Some(tid));
        let mut ranked: Vec<_> =
            own.filter_map(|(word, known)| Some((known.rank()?, *word))).collect();
        ranked.retain(|((moved, _), _)| *moved >= moves);
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        let (mut words, mut pages) = (Vec::new(), Vec::new());
        for (_, word) in ranked {
            let page = word.at.0 / PAGE_BYTES;
            let is_new = !pages.contains(&page);
            if is_new && pages.len() >= most.pages {
                continue;
            }
            if is_new {
                pages.push(page);
            }
            words.push(word);
            if words.len() >= most.words {
                break;
            }
        }
        let mut reads = Reads::new(words);
        // The program has given back memory of some.
        if reads.read(pid).is_none() {
            let is_there = |word: &Word| Reads::new(vec![*word]).read(pid).is_some();
            let (there, gone): (Vec<Word>, Vec<Word>) =
                reads.words.iter().map(|(word, _)| *word).partition(is_there);
            self.known.retain(|word, _| !gone.contains(word));
            reads = Reads::new(there);
        }
        reads
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

    use super::*;

    /// Words of our own.
    #[derive(Default)]
    struct Memory {
        counter: AtomicU64,
        falling: AtomicI32,
        saw: AtomicU64,
        still: AtomicU64,
    }

    fn word<T>(of: &T) -> Word {
        Word { at: RemoteAddr(std::ptr::from_ref(of) as u64), bytes: size_of::<T>() as u8 }
    }

    /// Windows in which the words move, and behind which they move ten times as much.
    #[test]
    fn words_that_move_one_way_are_reported() {
        let memory = Memory::default();
        let (pid, tid) = (Pid(std::process::id().cast_signed()), Tid(7));
        let words = || {
            let Memory { counter, falling, saw, still } = &memory;
            [word(counter), word(falling), word(saw), word(still)]
        };
        let mut odometers = Odometers::default();
        odometers.note_trace(tid, words());
        let moves = |times: u64| {
            for _ in 0..times {
                memory.counter.fetch_add(3, Ordering::Relaxed);
                memory.falling.fetch_sub(1, Ordering::Relaxed);
                let at = memory.saw.load(Ordering::Relaxed);
                memory.saw.store((at + 1) % 4, Ordering::Relaxed);
            }
        };
        let stop = AtomicU64::new(0);
        let (stop, moves) = (&stop, &moves);
        std::thread::scope(|scope| {
            // They move while they are watched.
            scope.spawn(move || {
                while stop.load(Ordering::Relaxed) == 0 {
                    moves(1);
                }
            });
            let found = |odometers: &Odometers| {
                odometers.reads(tid).is_some_and(|one| one.words.len() == 2)
            };
            while !found(&odometers) {
                odometers.watch(pid, tid);
            }
            stop.store(1, Ordering::Relaxed);
        });
        let reads = odometers.reads(tid).expect("two words");
        let begin = reads.read(pid).expect("our own memory");
        moves(10);
        let end = reads.read(pid).expect("our own memory");
        let used = Nanos(1_000);
        odometers.note_window(tid, BurstId(4), Read { reads, begin, end, used });
        moves(101);
        odometers.note_stop(pid, tid, Some(Nanos(6_000)));
        let mut reported = odometers.take_advances();
        reported.sort_by_key(|advance| advance.inside);
        let advance = |of: Word, inside: i64, natively: i64| WordAdvance {
            burst: BurstId(4),
            address: of.at,
            inside: inside.cast_unsigned(),
            natively: natively.cast_unsigned(),
            cpu_time: Nanos(5_000),
        };
        let [counter, falling, ..] = words();
        assert_eq!(reported, [advance(counter, 30, 303), advance(falling, -10, -101)]);
        odometers.note_stop(pid, tid, Some(Nanos(9_000)));
        assert!(odometers.take_advances().is_empty(), "no window since");
    }

    #[test]
    fn words_of_two_threads_are_left_out() {
        let memory = Memory::default();
        let pid = Pid(std::process::id().cast_signed());
        let mut odometers = Odometers::default();
        odometers.note_trace(Tid(7), [word(&memory.counter), word(&memory.still)]);
        odometers.note_trace(Tid(8), [word(&memory.counter)]);
        let own = |odometers: &mut Odometers, tid| odometers.best(pid, tid, TRIED, 0).words;
        assert_eq!(own(&mut odometers, Tid(7)), [(word(&memory.still), 0)]);
        assert!(own(&mut odometers, Tid(8)).is_empty());
    }

    #[test]
    fn memory_that_was_given_back_is_not_read() {
        let memory = Memory::default();
        let (pid, tid) = (Pid(std::process::id().cast_signed()), Tid(7));
        let gone = Word { at: RemoteAddr(8), bytes: 8 };
        let mut odometers = Odometers::default();
        odometers.note_trace(tid, [gone, word(&memory.counter), word(&memory.falling)]);
        let reads = odometers.best(pid, tid, TRIED, 0);
        assert_eq!(reads.words.len(), 2);
        memory.falling.store(-5, Ordering::Relaxed);
        memory.counter.store(u64::MAX, Ordering::Relaxed);
        let mut values = reads.read(pid).expect("our own memory");
        values.sort_unstable();
        assert_eq!(values, [-5, -1]);
        let (most, wrapped) = ([i64::MAX, i64::from(i32::MAX)], [i64::MIN, i64::from(i32::MIN)]);
        let words = Reads::new(vec![
            Word { at: RemoteAddr(8), bytes: 8 },
            Word { at: RemoteAddr(16), bytes: 4 },
        ]);
        assert_eq!(words.moves(&most, &wrapped), [1, 1]);
    }

    #[test]
    fn pages_are_read_once() {
        let word = |at: u64, bytes: u8| Word { at: RemoteAddr(at), bytes };
        let words = vec![
            word(0x1ff8, 8),
            word(0x1000, 4),
            word(0x1ffe, 4),
            word(0x3010, 8),
            word(0x3014, 4),
        ];
        let reads = Reads::new(words);
        let pieces: Vec<(u64, usize)> =
            reads.pieces.iter().map(|(at, length)| (at.0, *length)).collect();
        assert_eq!(pieces, [(0x1000, 0x1000), (0x1ffe, 4), (0x3010, 8)]);
        let offsets: Vec<usize> = reads.words.iter().map(|(_, at)| *at).collect();
        assert_eq!((offsets, reads.bytes), (vec![0, 0xff8, 0x1000, 0x1004, 0x1008], 0x100c));
    }
}
