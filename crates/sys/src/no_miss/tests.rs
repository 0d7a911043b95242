//! Known chains against each other, and code that must not get away.
//!
//! Times are compared with each other in ratios that no noise reaches, each the least of many repetitions.

use super::*;

const AT: RemoteAddr = RemoteAddr(0x10_0000_0000);

/// `None` where such a process is not allowed.
fn process() -> Option<TimingProcess> {
    match TimingProcess::start(AT, DATA_PAGES) {
        Ok(process) => Some(process),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Ticks of `copies` more copies of `body`: the difference between two and one times as many.
fn ticks(body: &[u8], copies: usize, state: &StartState) -> Result<u64, NoMissError> {
    let Some(mut process) = process() else { return Ok(0) };
    process.load(&body.repeat(2 * copies), state)?;
    let half = copies * body.len();
    process.time(0, 1, 1)?;
    let least = |all: Vec<u64>| all.into_iter().min().unwrap_or(0);
    let long = least(process.time(0, 50, 100)?);
    let short = least(process.time(half, 50, 100)?);
    Ok(long.saturating_sub(short))
}

fn allowed() -> bool {
    process().is_some()
}

#[test]
fn a_chain_takes_as_long_as_its_links() {
    if !allowed() {
        return;
    }
    let state = StartState::default();
    let imul = [0x48, 0x0f, 0xaf, 0xc0]; // imul rax, rax: 3 cycles on all that there are
    quiet_enough(|| {
        let one = ticks(&imul, 50, &state).unwrap();
        let eight = ticks(&imul.repeat(8), 50, &state).unwrap();
        eight > 5 * one && eight < 12 * one
    });
    // vfmadd231sd xmm0, xmm1, xmm1 depends on itself (4 cycles or more); into four registers in turn it does not.
    if !std::is_x86_feature_detected!("fma") {
        println!("skipped: no FMA");
        return;
    }
    let fma = |register: u8| [0xc4, 0xe2, 0xf1, 0xb9, 0xc1 | register << 3];
    let apart: Vec<u8> = [0, 2, 3, 4].into_iter().flat_map(fma).collect();
    quiet_enough(|| {
        let chain = ticks(&fma(0).repeat(4), 50, &state).unwrap();
        chain > 2 * ticks(&apart, 50, &state).unwrap()
    });
}

/// Whether times are as they should be, at least once; a machine that other programs keep busy may never show it.
fn quiet_enough(mut as_it_should: impl FnMut() -> bool) {
    if !(0..50).any(|_| as_it_should()) {
        println!("skipped: the machine is too busy to time some instructions");
    }
}

/// mov rax, [rax] chases the one pointer; independent loads over many pages overlap.
#[test]
fn every_address_is_near() {
    let Some(mut process) = process() else { return };
    let state = StartState::default();
    let chase = [0x48, 0x8b, 0x00];
    // mov rcx, [rax]; add rax, 4096
    let stride = [0x48, 0x8b, 0x08, 0x48, 0x05, 0, 0x10, 0, 0];
    quiet_enough(|| {
        let chased = ticks(&chase, 100, &state).unwrap();
        ticks(&stride, 20, &state).unwrap() * 5 < 2 * chased
    });
    process.load(&stride.repeat(40), &state).unwrap();
    process.time(0, 1, 1).unwrap();
    assert_eq!(process.pages(), 40);
}

#[test]
fn hostile_code_ends_with_a_reason() {
    if !allowed() {
        return;
    }
    let mut bad = StartState::default();
    bad.general[3] = 1 << 63;
    let refused = |code: &[u8]| ticks(code, 1, &bad).unwrap_err().to_string();
    assert_eq!(refused(&[0x0f, 0x05]), "it makes a system call");
    assert_eq!(refused(&[0x0f, 0x0b]), format!("it ends by signal {}", libc::SIGILL));
    assert_eq!(refused(&[0xcc]), format!("it ends by signal {}", libc::SIGTRAP));
    assert_eq!(refused(&[0xeb, 0xfe]), "it takes more than 200 ms");
    // xor ecx, ecx; div ecx
    assert_eq!(refused(&[0x31, 0xc9, 0xf7, 0xf1]), format!("it ends by signal {}", libc::SIGFPE));
    // mov [rbx], rax with an address that is none
    assert!(refused(&[0x48, 0x89, 0x03]).contains("nothing can be mapped"));
    // mov [rip], rax: its own code
    assert!(refused(&[0x48, 0x89, 0x05, 0, 0, 0, 0]).contains("nothing can be mapped"));
    // mov [0], rax
    assert!(refused(&[0x48, 0x89, 0x04, 0x25, 0, 0, 0, 0]).contains("0x0"));
    // mov rdi, rax; mov rcx, rax; rep stosb: 300 MB
    let everywhere = [0x48, 0x89, 0xc7, 0x48, 0x89, 0xc1, 0xf3, 0xaa];
    assert_eq!(refused(&everywhere), "it touches more than 512 pages");
    let mut process = TimingProcess::start(AT, DATA_PAGES).unwrap();
    let long = vec![0x90; MOST_CODE_BYTES + 1];
    assert!(matches!(process.load(&long, &bad), Err(NoMissError::Code { .. })));
    assert!(matches!(process.time(1, 1, 1), Err(NoMissError::Code { .. })));
}

/// A chain of pointers through eight pages, two of which share memory, so that their words must not lie in the same place.
#[test]
fn memory_holds_what_it_is_given() {
    let Some(mut process) = process() else { return };
    let place = |number: u64| 0x7f00_0000_0000 + number * 0x5000 + if number > 5 { 8 } else { 0 };
    let bytes_of = |at: u64, word: u64| {
        (at..).map(RemoteAddr).zip(word.to_le_bytes()).collect::<Vec<(RemoteAddr, u8)>>()
    };
    let chain = (0..7).flat_map(|number| bytes_of(place(number), place(number + 1)));
    let last = bytes_of(place(7), 1 << 63);
    process.hold(&chain.chain(last).collect()).unwrap();
    assert_eq!(process.pages(), 8);
    let mut state = StartState::default();
    state.general[0] = place(0);
    let chase = [0x48, 0x8b, 0x00]; // mov rax, [rax]
    process.load(&chase.repeat(8), &state).unwrap();
    process.time(0, 1, 1).unwrap();
    assert_eq!(process.pages(), 8);
    // The ninth follows what the last one holds, which is no address.
    process.load(&chase.repeat(9), &state).unwrap();
    assert!(matches!(process.time(0, 1, 1), Err(NoMissError::Fault(_))));
}

#[test]
fn the_process_goes_with_its_owner() {
    let Some(process) = process() else { return };
    let pid = process.child.pid();
    drop(process);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

/// Vector and mask registers arrive: a gather-free way to see them is to compare and divide by zero unless equal.
#[test]
fn registers_hold_what_was_asked() {
    let Some(mut process) = process() else { return };
    let mut state = StartState::default();
    state.vectors[5][..8].copy_from_slice(&7u64.to_le_bytes());
    state.general[13] = 7;
    // movq rax, xmm5; xor edx, edx; sub rax, r13; inc eax; mov ecx, eax; mov eax, 1; div ecx; dec eax; inc eax;
    // mov ecx, eax; div ecx
    let code = [
        0x66, 0x48, 0x0f, 0x7e, 0xe8, 0x31, 0xd2, 0x4c, 0x29, 0xe8, 0xff, 0xc0, 0x89, 0xc1, 0xb8,
        1, 0, 0, 0, 0xf7, 0xf1, 0x89, 0xc1, 0x31, 0xd2, 0xf7, 0xf1,
    ];
    process.load(&code, &state).unwrap();
    process.time(0, 10, 2).unwrap();
    state.general[13] = 5;
    process.load(&code, &state).unwrap();
    // 1 / 3 is 0, and 0 / 0 a fault.
    assert!(matches!(process.time(0, 1, 1), Err(NoMissError::Signal(libc::SIGFPE))));
}

/// A store to a page, loads from six others at the same offset, and a note of the last one: of six shared pages it is the first again.
#[test]
fn pages_are_shared_as_far_as_they_have_to_be() {
    for (shared, expected) in [(DATA_PAGES, 5), (DATA_PAGES + 1, EVERY_WORD)] {
        let Ok(mut process) = TimingProcess::start(AT, shared) else {
            return println!("skipped: no process for timing code alone");
        };
        let mut code = vec![0x48, 0xc7, 0x07, 5, 0, 0, 0]; // mov qword [rdi], 5
        for page in 1..=DATA_PAGES as u32 {
            code.extend([0x48, 0x8b, 0x87]); // mov rax, [rdi + disp32]
            code.extend((4096 * page).to_le_bytes());
        }
        code.extend([0x48, 0x89, 0x05]); // mov [rip + disp32], rax
        let next = TimingProcess::code_at(AT).0 as i64 + code.len() as i64 + 4;
        let note = TimingProcess::note_at(AT, 2).0 as i64;
        code.extend(((note - next) as i32).to_le_bytes());
        let mut state = StartState::default();
        state.general[7] = 0x7f12_0000_0000;
        process.load(&code, &state).unwrap();
        process.time(0, 1, 1).unwrap();
        assert_eq!(process.notes(4).unwrap(), [0, 0, expected, 0], "{shared}");
        assert_eq!((process.pages(), process.aliases()), (7, usize::from(shared == DATA_PAGES)));
    }
}
