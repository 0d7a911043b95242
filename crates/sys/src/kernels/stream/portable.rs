//! The kernels as plain loops: for architectures without assembly here, and as the reference of the tests.
//!
//! What not: no non-temporal stores; on such architectures the `-nt` kernels run as ordinary ones, which the
//! calibration must leave out.

use std::hint::black_box;

use super::{Arrays, FACTOR, Kernel};

/// One pass.
pub(super) fn sweep(kernel: Kernel, arrays: &mut Arrays<'_>) {
    let (first, second) = (arrays.first, arrays.second);
    let destination = arrays.destination.iter_mut();
    match kernel {
        Kernel::Load => {
            // Eight sums, so that the loop is bound by memory and not by the latency of one addition.
            let mut sums = [0.0_f64; 8];
            for chunk in first.chunks_exact(8) {
                for (sum, value) in sums.iter_mut().zip(chunk) {
                    *sum += value;
                }
            }
            black_box(sums);
        }
        Kernel::Store | Kernel::StoreNt => destination.for_each(|a| *a = FACTOR),
        Kernel::Copy | Kernel::CopyNt => destination.zip(first).for_each(|(a, b)| *a = *b),
        Kernel::Scale => destination.zip(first).for_each(|(a, b)| *a = FACTOR * b),
        Kernel::Add => destination.zip(first.iter().zip(second)).for_each(|(a, (b, c))| *a = b + c),
        Kernel::Triad | Kernel::TriadNt => {
            destination.zip(first.iter().zip(second)).for_each(|(a, (b, c))| *a = b + FACTOR * c);
        }
    }
    black_box(&mut *arrays.destination);
}
