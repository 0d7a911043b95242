//! Marks a region of each of its threads, with one within that may panic, and a moment: what Fathom's tests run.

use fathom_regions::{in_region, mark, pause, region, resume};

fn work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum: u64, at| std::hint::black_box(sum.wrapping_mul(31).wrapping_add(at)))
}

fn phases(rounds: u64) -> u64 {
    let mut sum = 0;
    for round in 0..rounds {
        let _step = region(c"step");
        sum ^= work(2_000_000);
        sum ^= in_region(c"solve", || work(1_000_000));
        // A region ends with its block, also when that is left by a panic.
        let failed =
            std::panic::catch_unwind(|| in_region(c"fails", || assert!(round == u64::MAX)));
        assert!(failed.is_err());
    }
    sum
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let threads = [(); 2].map(|()| std::thread::spawn(|| phases(10)));
    let sums = threads.map(|thread| thread.join().expect("its end"));
    mark(c"threads ended");
    pause();
    drop(region(c"unseen"));
    resume();
    println!("sum={:x}", sums[0] ^ sums[1] ^ 1);
}
