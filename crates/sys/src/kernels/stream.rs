//! Memory kernels: one pass over large arrays that moves a known number of bytes.
//!
//! What for: the yardstick of memory bandwidth, STREAM's four loops (McCalpin 1995) and plain loads and stores,
//! with ordinary and with non-temporal stores, in every SIMD width of the CPU.
//! What not: no timing and no threads; a caller runs one pass per thread on a buffer of its own.
//!
//! Counting bytes. *Program* bytes are what the loop reads and writes (STREAM's and likwid-bench's convention).
//! *Bus* bytes add the line that an ordinary store must first read into the cache (write-allocate). That the
//! read happens is certain only for non-temporal stores (never) and for kernels without stores: recent Intel
//! servers skip it for full lines when the memory is busy ("SpecI2M", Ice Lake and later; see Gruber et al.,
//! "CloverLeaf on Intel multi-core CPUs", 2023), and so do some Arm cores ("write streaming").
//! Hence [`Kernel::bus_traffic_is_certain`].

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

use base::Bytes;

use super::Buffer;

/// A loop over arrays of doubles. `s` is a constant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kernel {
    /// Reads `b[i]`.
    Load,
    /// `a[i] = s`.
    Store,
    /// The same with non-temporal stores.
    StoreNt,
    /// `a[i] = b[i]`.
    Copy,
    /// The same with non-temporal stores.
    CopyNt,
    /// `a[i] = s * b[i]`.
    Scale,
    /// `a[i] = b[i] + c[i]`.
    Add,
    /// `a[i] = b[i] + s * c[i]`.
    Triad,
    /// The same with non-temporal stores.
    TriadNt,
}

impl Kernel {
    /// All, in the order of the definition.
    pub const ALL: [Kernel; 9] = [
        Kernel::Load,
        Kernel::Store,
        Kernel::StoreNt,
        Kernel::Copy,
        Kernel::CopyNt,
        Kernel::Scale,
        Kernel::Add,
        Kernel::Triad,
        Kernel::TriadNt,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Load => "load",
            Kernel::Store => "store",
            Kernel::StoreNt => "store-nt",
            Kernel::Copy => "copy",
            Kernel::CopyNt => "copy-nt",
            Kernel::Scale => "scale",
            Kernel::Add => "add",
            Kernel::Triad => "triad",
            Kernel::TriadNt => "triad-nt",
        }
    }

    /// How many arrays it walks.
    #[must_use]
    pub fn arrays(self) -> u32 {
        match self {
            Kernel::Load | Kernel::Store | Kernel::StoreNt => 1,
            Kernel::Copy | Kernel::CopyNt | Kernel::Scale => 2,
            Kernel::Add | Kernel::Triad | Kernel::TriadNt => 3,
        }
    }

    /// Bytes that the loop itself reads and writes per element.
    #[must_use]
    pub fn program_bytes_per_element(self) -> u64 {
        8 * u64::from(self.arrays())
    }

    /// Bytes on the memory bus per element when every ordinary store reads its line first.
    #[must_use]
    pub fn bus_bytes_per_element(self) -> u64 {
        self.program_bytes_per_element() + if self.has_ordinary_stores() { 8 } else { 0 }
    }

    /// Whether the bus bytes are certain, i.e. free of the write-allocate question (see the head of this file).
    #[must_use]
    pub fn bus_traffic_is_certain(self) -> bool {
        !self.has_ordinary_stores()
    }

    fn has_ordinary_stores(self) -> bool {
        match self {
            Kernel::Load | Kernel::StoreNt | Kernel::CopyNt | Kernel::TriadNt => false,
            Kernel::Store | Kernel::Copy | Kernel::Scale | Kernel::Add | Kernel::Triad => true,
        }
    }
}

/// Width of the vectors that a kernel moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Simd {
    /// What every CPU of this architecture has: 16-byte SSE2 on x86-64, compiler's choice elsewhere.
    Baseline,
    /// 32-byte vectors.
    Avx2,
    /// 64-byte vectors: a whole line.
    Avx512,
}

impl Simd {
    /// Usable on this CPU and with this kernel's register saving, narrowest first. Never empty.
    #[must_use]
    pub fn available() -> Vec<Simd> {
        [Simd::Baseline, Simd::Avx2, Simd::Avx512]
            .into_iter()
            .filter(|simd| simd.is_available())
            .collect()
    }

    /// The name in notes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Simd::Baseline if cfg!(target_arch = "x86_64") => "sse2",
            Simd::Baseline => "baseline",
            Simd::Avx2 => "avx2",
            Simd::Avx512 => "avx512f",
        }
    }

    fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Simd::Baseline => true,
            Simd::Avx2 => is_x86_feature_detected!("avx2"),
            Simd::Avx512 => is_x86_feature_detected!("avx512f"),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Simd::Baseline
        }
    }
}

/// The constant of `scale` and `triad`, and what `store` writes. Above 1, so that repeated passes over the same
/// memory never shrink to denormal numbers, which would be slow; growing to infinity costs nothing.
const FACTOR: f64 = 3.0;

/// Arrays begin and end at multiples of this many doubles, the step of the widest unrolled loop (4 lines).
const STEP: usize = 32;

/// Equally long arrays cut from one buffer, each aligned to a line, their length a multiple of [`STEP`].
/// Those that the kernel does not need are empty.
struct Arrays<'buffer> {
    destination: &'buffer mut [f64],
    first: &'buffer [f64],
    second: &'buffer [f64],
}

impl<'buffer> Arrays<'buffer> {
    /// Cuts `all`, the beginning of a buffer, for `kernel`. `Load` reads what others write to, so its array is `first`.
    fn cut(kernel: Kernel, all: &'buffer mut [f64]) -> Arrays<'buffer> {
        let length = all.len() / kernel.arrays() as usize / STEP * STEP;
        let (one, rest) = all.split_at_mut(length);
        let (two, rest) = rest.split_at_mut(if kernel.arrays() > 1 { length } else { 0 });
        let three = &rest[..if kernel.arrays() > 2 { length } else { 0 }];
        if kernel == Kernel::Load {
            Arrays { destination: &mut [], first: one, second: &[] }
        } else {
            Arrays { destination: one, first: two, second: three }
        }
    }

    /// These elements of each; both ends are multiples of [`STEP`].
    fn part(&mut self, elements: Range<usize>) -> Arrays<'_> {
        let of = |array: &'buffer [f64]| array.get(elements.clone()).unwrap_or_default();
        let (first, second) = (of(self.first), of(self.second));
        let destination = self.destination.get_mut(elements).unwrap_or_default();
        Arrays { destination, first, second }
    }

    /// Elements per array.
    fn length(&self) -> usize {
        self.destination.len().max(self.first.len())
    }
}

/// Runs `kernel` once over `buffer`, cut into as many arrays as it has, and returns the number of elements (of
/// each array) that it passed; multiply with the bytes per element. A SIMD set that the CPU lacks falls back to
/// the baseline.
pub fn sweep(kernel: Kernel, simd: Simd, buffer: &mut Buffer) -> u64 {
    sweep_in_pieces(kernel, simd, buffer, &mut |_| {})
}

/// [`sweep`] in pieces of 8 MiB of all arrays together: a quarter to one millisecond, so that where other programs take the
/// CPU now and then most are undisturbed. `passed` gets the elements of each when it is done.
pub fn sweep_in_pieces(
    kernel: Kernel,
    simd: Simd,
    buffer: &mut Buffer,
    passed: &mut dyn FnMut(u64),
) -> u64 {
    sweep_by(kernel, simd, buffer, Bytes(8 << 20), passed)
}

/// The same in pieces of so many bytes, at least one turn of the loop each: `passed` may wait, so that a rate is kept.
pub fn sweep_by(
    kernel: Kernel,
    simd: Simd,
    buffer: &mut Buffer,
    piece: Bytes,
    passed: &mut dyn FnMut(u64),
) -> u64 {
    let mut arrays = Arrays::cut(kernel, buffer.doubles_mut());
    let length = arrays.length();
    let doubles = usize::try_from(piece.0).unwrap_or(usize::MAX) / size_of::<f64>();
    let piece = (doubles / kernel.arrays() as usize / STEP * STEP).max(STEP);
    let simd = if simd.is_available() { simd } else { Simd::Baseline };
    for begin in (0..length).step_by(piece) {
        let end = (begin + piece).min(length);
        pass(kernel, simd, &mut arrays.part(begin..end));
        passed((end - begin) as u64);
    }
    length as u64
}

/// Passes the first `bytes` of `buffer` (all of it, if it has fewer) so many times, like [`sweep`]: what lies in a cache. Returns
/// the elements of all passes together; 0 where the bytes are too few for a turn of the loop.
pub fn sweep_again(
    kernel: Kernel,
    simd: Simd,
    buffer: &mut Buffer,
    bytes: Bytes,
    times: u64,
) -> u64 {
    let all = buffer.doubles_mut();
    let doubles = usize::try_from(bytes.0).unwrap_or(usize::MAX) / size_of::<f64>();
    let most = doubles.min(all.len());
    let mut arrays = Arrays::cut(kernel, &mut all[..most]);
    if arrays.length() == 0 {
        return 0;
    }
    let simd = if simd.is_available() { simd } else { Simd::Baseline };
    (0..times).for_each(|_| pass(kernel, simd, &mut arrays));
    times.saturating_mul(arrays.length() as u64)
}

/// Once over arrays that are not empty.
fn pass(kernel: Kernel, simd: Simd, arrays: &mut Arrays<'_>) {
    #[cfg(target_arch = "x86_64")]
    x86::sweep(kernel, simd, arrays);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = simd;
        portable::sweep(kernel, arrays);
    }
}

/// Bytes of one pass in the program's convention: what [`sweep`] returns, weighed.
impl Kernel {
    /// Program bytes of `elements`.
    #[must_use]
    pub fn program_bytes(self, elements: u64) -> Bytes {
        Bytes(elements.saturating_mul(self.program_bytes_per_element()))
    }

    /// Bus bytes of `elements`.
    #[must_use]
    pub fn bus_bytes(self, elements: u64) -> Bytes {
        Bytes(elements.saturating_mul(self.bus_bytes_per_element()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pages;
    use super::*;

    /// Each assembly kernel must leave exactly the memory that the plain loop leaves.
    #[test]
    fn every_width_computes_what_the_plain_loop_computes() {
        for simd in Simd::available() {
            for kernel in Kernel::ALL {
                let mut expected = Buffer::map(Bytes(2 << 20), Pages::Base).expect("2 MiB");
                let mut actual = Buffer::map(Bytes(2 << 20), Pages::Base).expect("2 MiB");
                for buffer in [&mut expected, &mut actual] {
                    for (index, value) in buffer.doubles_mut().iter_mut().enumerate() {
                        *value = (index % 1013) as f64 + 0.25;
                    }
                }
                let mut arrays = Arrays::cut(kernel, expected.doubles_mut());
                let length = arrays.length() as u64;
                portable::sweep(kernel, &mut arrays);
                assert_eq!(sweep(kernel, simd, &mut actual), length);
                assert!(
                    expected.doubles_mut() == actual.doubles_mut(),
                    "{} with {} differs from the plain loop",
                    kernel.name(),
                    simd.name()
                );
            }
        }
    }

    #[test]
    fn bytes_are_counted_as_the_definition_says() {
        let table: Vec<(&str, u64, u64)> = Kernel::ALL
            .iter()
            .map(|k| (k.name(), k.program_bytes_per_element(), k.bus_bytes_per_element()))
            .collect();
        assert_eq!(
            table,
            [
                ("load", 8, 8),
                ("store", 8, 16),
                ("store-nt", 8, 8),
                ("copy", 16, 24),
                ("copy-nt", 16, 16),
                ("scale", 16, 24),
                ("add", 24, 32),
                ("triad", 24, 32),
                ("triad-nt", 24, 24),
            ]
        );
    }

    #[test]
    fn passes_over_a_part_count_every_element_and_leave_the_rest_alone() {
        let mut buffer = Buffer::map(Bytes(2 << 20), Pages::Base).expect("2 MiB");
        for simd in Simd::available() {
            assert_eq!(sweep_again(Kernel::Copy, simd, &mut buffer, Bytes(8192), 3), 3 * 512);
            assert_eq!(sweep_again(Kernel::Store, simd, &mut buffer, Bytes(100), 3), 0);
        }
        sweep_again(Kernel::Store, Simd::Baseline, &mut buffer, Bytes(4096), 1);
        assert!(buffer.doubles_mut()[..512].iter().all(|one| *one > 0.0));
        assert!(buffer.doubles_mut()[512..].iter().all(|one| *one == 0.0));
        let all = buffer.size().0 / 8;
        assert_eq!(sweep_again(Kernel::Load, Simd::Baseline, &mut buffer, Bytes(1 << 40), 1), all);
    }

    #[test]
    fn a_pass_covers_the_whole_buffer() {
        let mut buffer = Buffer::map(Bytes(6 << 20), Pages::Base).expect("6 MiB");
        for kernel in Kernel::ALL {
            let elements = sweep(kernel, Simd::Avx512, &mut buffer);
            let missed = buffer.size().0 - kernel.program_bytes(elements).0;
            assert!(missed < 1024, "{} left out {missed} bytes", kernel.name());
        }
    }
}
