//! A target of the corpus in Rust: threads, channels, panics that are caught, hash maps; prints a checksum.
//! What not: a crate of the workspace; `make corpus` compiles it with rustc alone.

use std::collections::BTreeMap;
use std::sync::mpsc;

fn mixed(sum: u64, value: u64) -> u64 {
    let sum = (sum ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum ^ (sum >> 29)
}

fn work(number: u64) -> u64 {
    let mut counts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut sum = number;
    for step in 0..300_000 {
        sum = mixed(sum, step);
        counts.entry(sum % 1009).or_default().push(step);
    }
    counts.iter().fold(sum, |sum, (key, steps)| mixed(sum, key + steps.iter().sum::<u64>()))
}

fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let (send, receive) = mpsc::channel();
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let send = send.clone();
            std::thread::spawn(move || {
                for part in 0..8 {
                    let sum = work(number * 8 + part);
                    let caught = std::panic::catch_unwind(|| assert!(sum == 0, "{sum}")).is_err();
                    send.send((number * 8 + part, sum, caught)).expect("the receiver lives");
                }
            })
        })
        .collect();
    drop(send);
    let mut results: Vec<_> = receive.iter().collect();
    for thread in threads {
        thread.join().expect("no panic gets out");
    }
    results.sort_unstable();
    let caught = results.iter().filter(|result| result.2).count();
    let sum = results.iter().fold(1, |sum, result| mixed(sum, result.1));
    println!("caught={caught}\nchecksum={sum:016x}\nEXIT-SUCCESS");
}
