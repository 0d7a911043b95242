//! Which CPUs a thread may run on.
//!
//! What for: a thread that alternately hands work to another and waits for it is fastest on that thread's CPU. What not:
//! choosing the CPU. Assumption: the mask is read once; later changes from outside are overwritten.

use std::io;

use base::{CpuId, Pid};

/// A set of CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Affinity(Vec<u64>);

/// Words of a mask for 65,536 CPUs, eight times what any kernel is built with today.
const MOST_WORDS: usize = 1024;

impl Affinity {
    /// These CPUs. Those beyond the largest mask are left out.
    #[must_use]
    pub fn of(cpus: &[CpuId]) -> Affinity {
        let mut mask = vec![0u64; MOST_WORDS];
        for cpu in cpus {
            if let Some(word) = mask.get_mut((cpu.0 / u64::BITS) as usize) {
                *word |= 1 << (cpu.0 % u64::BITS);
            }
        }
        Affinity(mask).shortened()
    }

    /// The calling thread's.
    pub fn own() -> io::Result<Affinity> {
        Affinity::of_thread(Pid(0))
    }

    /// Another thread's.
    pub fn of_thread(thread: Pid) -> io::Result<Affinity> {
        let mut mask = vec![0u64; MOST_WORDS];
        // Safety: the kernel writes at most that many bytes to a live allocation; thread 0 is ourselves. The call of the
        // kernel returns how many it wrote, libc's wrapper clears the rest.
        let done =
            unsafe { libc::sched_getaffinity(thread.0, mask.len() * 8, mask.as_mut_ptr().cast()) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Affinity(mask).shortened())
    }

    /// CPUs behind the last one are off in a shorter mask, too.
    fn shortened(mut self) -> Affinity {
        let last = self.0.iter().rposition(|word| *word != 0);
        self.0.truncate(last.map_or(1, |last| last + 1));
        self
    }

    /// One CPU of it alone, and the others; `None` where it is not one of several.
    #[must_use]
    pub fn split(&self, cpu: CpuId) -> Option<(Affinity, Affinity)> {
        let (word, bit) = (usize::try_from(cpu.0 / u64::BITS).ok()?, 1u64 << (cpu.0 % u64::BITS));
        let mut only = vec![0; self.0.len()];
        let mut others = self.0.clone();
        *only.get_mut(word)? = others.get(word)? & bit;
        *others.get_mut(word)? &= !bit;
        let is_one = |mask: &[u64]| mask.iter().any(|word| *word != 0);
        (is_one(&only) && is_one(&others)).then_some((Affinity(only), Affinity(others)))
    }

    /// Lets the calling thread run on these only: it is on one of them when this returns.
    pub fn apply(&self) -> io::Result<()> {
        self.apply_to(Pid(0))
    }

    /// The same of another thread.
    pub fn apply_to(&self, thread: Pid) -> io::Result<()> {
        // Safety: the kernel reads that many bytes from a live allocation; thread 0 is ourselves.
        let done =
            unsafe { libc::sched_setaffinity(thread.0, self.0.len() * 8, self.0.as_ptr().cast()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_split_and_applied() {
        let mask = Affinity(vec![0b110, 1]);
        let (only, others) = mask.split(CpuId(64)).expect("one of three");
        assert_eq!((only.0, others.0), (vec![0, 1], vec![0b110, 0]));
        assert!(mask.split(CpuId(0)).is_none() && mask.split(CpuId(128)).is_none());
        assert!(Affinity(vec![1]).split(CpuId(0)).is_none());
        assert_eq!(Affinity::of(&[CpuId(1), CpuId(2), CpuId(64)]), mask);
        let own = Affinity::own().expect("a mask");
        own.apply().expect("what it is already");
        assert_eq!(Affinity::own().expect("a mask"), own);
    }
}
