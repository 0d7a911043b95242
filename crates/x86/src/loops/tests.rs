//! Loops of code by hand, and of hostile bytes.

use facts::SlotBase;

use super::*;

/// 1000: xor ecx,ecx
/// 1002: add rcx,1; 1006: test rax,rax; 1009: je 100f; 100b: add rdx,4; 100f: cmp rcx,rsi; 1012: jne 1002
/// 1014: add rbx,rdi; 1017: dec r8; 101a: jne 1000; 101c: ret
const NEST: [u8; 29] = [
    0x31, 0xc9, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x85, 0xc0, 0x74, 0x04, 0x48, 0x83, 0xc2, 0x04, 0x48,
    0x39, 0xf1, 0x75, 0xee, 0x48, 0x01, 0xfb, 0x49, 0xff, 0xc8, 0x75, 0xe4, 0xc3,
];

fn of(bytes: &[u8]) -> Loops {
    loops(&CodeBytes { start: RemoteAddr(0x1000), bytes })
}

fn show(value: &Linear) -> String {
    let term = |(variable, factor): &(Variable, u64)| {
        let name = match variable {
            Variable::Register(register) => register.to_string(),
            Variable::Slot(slot) => {
                let base = if slot.base == SlotBase::StackPointer { "rsp" } else { "rbp" };
                format!("[{base}{:+}]", slot.displacement)
            }
            Variable::Computed(number) => format!("#{number}"),
            Variable::Result(at, register) => format!("{register}@{at:x}"),
        };
        format!("{}*{name}", factor.cast_signed())
    };
    let mut parts: Vec<String> = value.terms.iter().map(term).collect();
    if value.constant != 0 || parts.is_empty() {
        parts.push(value.constant.cast_signed().to_string());
    }
    parts.join(" + ")
}

/// Readings that move, as `carrier = value step`.
fn moving(found: &Loops, one: usize, at: u64, slots: &[Slot]) -> Vec<String> {
    let readings = found.readings(one, RemoteAddr(at), slots);
    let moving = readings.iter().filter(|reading| reading.step.known() != Some(0));
    let shown = moving.map(|reading| {
        let carrier = show(&Linear::variable(reading.carrier));
        format!("{} = {} by {}", &carrier[2..], show(&reading.value), show(&reading.step))
    });
    shown.collect()
}

#[test]
fn a_pointer_and_a_counter_move_in_step_wherever_they_are_read() {
    // 1000: mov rax,[rdi]; 1003: add rdi,8; 1007: lea rdx,[rdi+rcx*2]; 100b: dec rcx; 100e: jne 1000; 1010: ret
    let bytes = [
        0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x8d, 0x14, 0x4f, 0x48, 0xff, 0xc9, 0x75,
        0xf0, 0xc3,
    ];
    let found = of(&bytes);
    assert_eq!(found.all().len(), 1);
    let one = &found.all()[0];
    assert_eq!(
        (one.start, one.depth, one.instructions, one.calls),
        (RemoteAddr(0x1000), 0, 5, false)
    );
    assert_eq!(moving(&found, 0, 0x1000, &[]), ["rcx = 1*rcx by -1", "rdi = 1*rdi by 8"]);
    // Behind the increment it tells the same.
    let behind = ["rcx = 1*rcx by -1", "rdx = 2*rcx + 1*rdi + 8 by 6", "rdi = 1*rdi + 8 by 8"];
    assert_eq!(moving(&found, 0, 0x100b, &[]), behind);
    assert_eq!(found.around(RemoteAddr(0x1010)), Vec::<usize>::new());
    assert!(found.readings(0, RemoteAddr(0x1010), &[]).is_empty());
}

#[test]
fn a_nest_has_the_outer_counter_in_its_inner_loop_and_conditional_steps_are_none() {
    let found = of(&NEST);
    let nest: Vec<(u64, Option<usize>, usize)> =
        found.all().iter().map(|one| (one.start.0, one.parent, one.depth)).collect();
    assert_eq!(nest, [(0x1000, None, 0), (0x1002, Some(0), 1)]);
    assert_eq!(found.around(RemoteAddr(0x1009)), [1, 0]);
    assert_eq!(moving(&found, 1, 0x1009, &[]), ["rcx = 1*rcx + 1 by 1"]);
    // Of the outer loop: what the inner one leaves alone.
    assert_eq!(moving(&found, 0, 0x1009, &[]), ["rbx = 1*rbx by 1*rdi", "r8 = 1*r8 by -1"]);
}

#[test]
fn counters_on_the_stack_and_what_is_computed_from_them() {
    // 1000: mov eax,[rbp-4]; 1003: cdqe; 1005: lea rdx,[rax*8]; 100d: mov rax,[rbp-24]; 1011: add rax,rdx;
    // 1014: mov rcx,[rax]; 1017: add dword [rbp-4],1; 101b: cmp [rbp-4],100; 101f: jle 1000; 1021: ret
    let bytes = [
        0x8b, 0x45, 0xfc, 0x48, 0x98, 0x48, 0x8d, 0x14, 0xc5, 0, 0, 0, 0, 0x48, 0x8b, 0x45, 0xe8,
        0x48, 0x01, 0xd0, 0x48, 0x8b, 0x08, 0x83, 0x45, 0xfc, 0x01, 0x83, 0x7d, 0xfc, 0x64, 0x7e,
        0xdf, 0xc3,
    ];
    let found = of(&bytes);
    let counter = Slot { base: SlotBase::FramePointer, displacement: -4, wide: false };
    assert_eq!(moving(&found, 0, 0x1000, &[counter]), ["[rbp-4] = 1*[rbp-4] by 1"]);
    let inside = ["rax = 1*[rbp-4] by 1", "rdx = 8*[rbp-4] by 8", "[rbp-4] = 1*[rbp-4] by 1"];
    assert_eq!(moving(&found, 0, 0x100d, &[counter]), inside);
    let at = moving(&found, 0, 0x1014, &[counter]);
    assert_eq!(at[0], "rax = 1*[rbp-24] + 8*[rbp-4] by 8");
    assert_eq!(at[2], "[rbp-4] = 1*[rbp-4] by 1");
    assert_eq!(moving(&found, 0, 0x101b, &[counter])[2], "[rbp-4] = 1*[rbp-4] + 1 by 1");
}

#[test]
fn calls_leave_what_the_abi_says_and_pushes_move_words_of_the_stack() {
    // 1000: push rax; 1001: call 1100; 1006: pop rcx; 1007: add rbx,1; 100b: add rdi,1; 100f: add qword [rsp+16],2;
    // 1015: jne 1000; 1017: ret
    let bytes = [
        0x50, 0xe8, 0xfa, 0, 0, 0, 0x59, 0x48, 0x83, 0xc3, 0x01, 0x48, 0x83, 0xc7, 0x01, 0x48,
        0x83, 0x44, 0x24, 0x10, 0x02, 0x75, 0xe9, 0xc3,
    ];
    let found = of(&bytes);
    assert!(found.all()[0].calls);
    let slot = Slot { base: SlotBase::StackPointer, displacement: 24, wide: true };
    // Behind the push the same word lies eight bytes further up.
    let inside = ["rbx = 1*rbx by 1", "[rsp+24] = 1*[rsp+16] by 2"];
    assert_eq!(moving(&found, 0, 0x1001, &[slot]), inside);
}

/// More words than are tracked: none of them counts as one that stays.
#[test]
fn too_many_words_of_the_stack_are_unknown() {
    // 1000: add dword [rbp-4],1; add dword [rbp-8],1; ... add dword [rbp-400],1; jmp 1000
    let word =
        |number: i32| Slot { base: SlotBase::FramePointer, displacement: -4 * number, wide: false };
    let of_words = |most: i32| {
        let mut bytes = Vec::new();
        for number in 1..=most {
            bytes.extend([0x83, 0x85]);
            bytes.extend(word(number).displacement.to_le_bytes());
            bytes.push(1);
        }
        bytes.push(0xe9);
        bytes.extend((-(bytes.len() as i32 + 4)).to_le_bytes());
        of(&bytes)
    };
    assert_eq!(moving(&of_words(9), 0, 0x1000, &[word(9)]), ["[rbp-36] = 1*[rbp-36] by 1"]);
    let readings = of_words(100).readings(0, RemoteAddr(0x1000), &[word(1), word(100), word(101)]);
    let slots = readings.iter().filter_map(|reading| match reading.carrier {
        Variable::Slot(slot) => Some((slot, reading.step.known())),
        Variable::Register(_) | Variable::Computed(_) | Variable::Result(..) => None,
    });
    assert_eq!(slots.collect::<Vec<_>>(), [(word(1), Some(1))]);
}

/// What is pushed overwrites the word that was there.
#[test]
fn a_push_writes_the_word_below() {
    // 1000: mov qword [rsp-8],0; 1009: push rax; 100a: mov rcx,[rsp]; 100e: pop rdx; 100f: jmp 1000
    let bytes =
        [0x48, 0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0, 0x50, 0x48, 0x8b, 0x0c, 0x24, 0x5a, 0xeb, 0xef];
    let readings = of(&bytes).readings(0, RemoteAddr(0x100e), &[]);
    let rcx = Variable::Register(crate::Gpr::RCX);
    assert!(readings.iter().all(|reading| reading.carrier != rcx));
}

/// A variable whose address is taken, behind a call; another one that is private.
#[test]
fn who_has_an_address_may_be_written_by_a_call() {
    // 1000: lea rdi,[rsp+32]; 1005: call 1100; 100a: mov rax,[rsp+32]; 100f: cmp rax,[rsp+8]; 1014: add rbx,1; 1018: jne 1000
    let bytes = [
        0x48, 0x8d, 0x7c, 0x24, 0x20, 0xe8, 0xf6, 0, 0, 0, 0x48, 0x8b, 0x44, 0x24, 0x20, 0x48,
        0x3b, 0x44, 0x24, 0x08, 0x48, 0x83, 0xc3, 0x01, 0x75, 0xe6, 0xc3,
    ];
    let found = of(&bytes);
    let slot = |displacement| Slot { base: SlotBase::StackPointer, displacement, wide: true };
    let staying = |at| {
        let readings = found.readings(0, RemoteAddr(at), &[slot(32), slot(8)]);
        let staying = readings.iter().filter(|reading| reading.step.known() == Some(0));
        staying.map(|reading| show(&reading.value)).collect::<Vec<String>>()
    };
    assert!(!staying(0x100a).contains(&"1*[rsp+32]".to_owned()));
    assert!(!staying(0x1000).contains(&"1*[rsp+32]".to_owned()));
    assert!(staying(0x100a).contains(&"1*[rsp+8]".to_owned()));
    assert_eq!(moving(&found, 0, 0x100a, &[]), ["rbx = 1*rbx by 1"]);
}

#[test]
fn any_bytes_do() {
    let mut bytes = [0u8; 400];
    let mut state = 1u64;
    for round in 0..300 {
        for byte in &mut bytes {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Jumps back and forth between short instructions, so that there are loops.
            *byte = match state >> 60 {
                0..=2 => 0x75,
                3 => 0xeb,
                4..=6 => (state >> 40) as u8 & 0x3f | 0xc0,
                7 if round % 2 == 0 => 0x48,
                8 => 0x83,
                _ => (state >> 32) as u8,
            };
        }
        let found = of(&bytes);
        for at in 0x1000..0x1190 {
            for one in found.around(RemoteAddr(at)) {
                let _ = found.readings(one, RemoteAddr(at), &[]);
                if let Some(count) = found.trip_count(one) {
                    let _ = count.iterations(i64::MIN);
                    let _ = found.trip_count_by_call(RemoteAddr(at), &count);
                }
            }
        }
    }
    assert!(of(&[]).all().is_empty());
}

/// gcc -O2: a binary search in a loop; part of the inner loop lies behind the function's return.
#[test]
fn a_loop_goes_on_behind_the_return() {
    let bytes = [
        0x49, 0x89, 0xfb, 0x48, 0x8b, 0x7f, 0x40, 0x45, 0x31, 0xc9, 0x4d, 0x8b, 0x43, 0x20, 0x4d,
        0x8d, 0x90, 0x00, 0x00, 0x10, 0x00, 0x0f, 0x1f, 0x00, 0x49, 0x63, 0x00, 0xba, 0x00, 0x00,
        0x20, 0x00, 0x31, 0xc9, 0x48, 0x8d, 0x34, 0x40, 0xeb, 0x18, 0x0f, 0x1f, 0x84, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x48, 0x8d, 0x04, 0x0a, 0x48, 0xd1, 0xf8, 0x48, 0x39, 0x34, 0xc7, 0x7c,
        0x33, 0x48, 0x89, 0xc2, 0x48, 0x39, 0xca, 0x7f, 0xeb, 0x49, 0x83, 0xc0, 0x04, 0x49, 0x01,
        0xc9, 0x4d, 0x39, 0xd0, 0x75, 0xc7, 0x66, 0x0f, 0xef, 0xc0, 0xb8, 0x00, 0x00, 0x04, 0x00,
        0xf2, 0x49, 0x0f, 0x2a, 0xc1, 0xf2, 0x41, 0x0f, 0x58, 0x43, 0x18, 0xf2, 0x41, 0x0f, 0x11,
        0x43, 0x18, 0xc3, 0x0f, 0x1f, 0x40, 0x00, 0x48, 0x8d, 0x48, 0x01, 0xeb, 0xca,
    ];
    let found = loops(&CodeBytes { start: RemoteAddr(0x1820), bytes: &bytes });
    let nest: Vec<(u64, usize)> = found.all().iter().map(|one| (one.start.0, one.depth)).collect();
    assert_eq!(nest, [(0x1838, 0), (0x1860, 1)]);
    let last = |one| [false, true].map(|memory| found.last_per_iteration(one, memory).unwrap().0);
    // Of the inner one the comparison with the element: its head runs once more than that, and two ways lead back to it.
    assert_eq!((last(0), last(1)), ([0x186f, 0x1838], [0x185b, 0x1857]));
    assert_eq!(moving(&found, 0, 0x1850, &[]), ["r8 = 1*r8 by 4"]);
    assert_eq!(moving(&found, 1, 0x1850, &[]), Vec::<String>::new());
}

#[test]
fn what_runs_once_in_each_iteration_is_distinguished_from_what_may_be_skipped_or_repeated() {
    // 1000: mov rax,[rdi]; 1003: test rax,rax; 1006: je 100b; 1008: inc rbx; 100b: add rdi,8;
    // 100f: dec rdx; 1012: jne 100f; 1014: dec rcx; 1017: jne 1000; 1019: ret
    let bytes = [
        0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x74, 0x03, 0x48, 0xff, 0xc3, 0x48, 0x83, 0xc7, 0x08,
        0x48, 0xff, 0xca, 0x75, 0xfb, 0x48, 0xff, 0xc9, 0x75, 0xe7, 0xc3,
    ];
    let found = of(&bytes);
    let once = |one: usize| {
        let found: Vec<u64> = found.once(one).map(Instruction::ip).collect();
        found
    };
    assert_eq!(found.all().len(), 2);
    assert_eq!(once(0), [0x1000, 0x1003, 0x1006, 0x100b, 0x1014, 0x1017]);
    assert_eq!(once(1), [0x100f, 0x1012]);
    assert_eq!(once(2), [0u64; 0]);
}

/// The difference that ends a loop, in its first iteration, with the iterations where that has some values.
fn counted(found: &Loops, one: usize, first: [i64; 3]) -> Option<(String, [Option<u64>; 3])> {
    let count = found.trip_count(one)?;
    Some((show(count.first.as_ref()?), first.map(|first| count.iterations(first))))
}

#[test]
fn a_counter_from_zero_to_a_bound_tells_its_iterations() {
    let found = of(&NEST);
    // With a bound of 10; a bound of 1; a bound that was passed: the counter wraps around first.
    let inner = ("-1*rsi + 1".to_owned(), [Some(10), Some(1), None]);
    assert_eq!(counted(&found, 1, [-9, 0, 3]), Some(inner));
    // The outer one begins with the function's argument.
    let outer = ("1*r8 + -1".to_owned(), [Some(10), Some(1), None]);
    assert_eq!(counted(&found, 0, [9, 0, -3]), Some(outer));
}

#[test]
fn unoptimised_code_compares_first_and_may_not_iterate_at_all() {
    // 1000: mov dword [rbp-4],0; 1007: jmp 1012
    // 1009: mov eax,[rbp-4]; 100c: add [rbp-8],eax; 100f: inc dword [rbp-4]
    // 1012: mov eax,[rbp-4]; 1015: cmp eax,[rbp-12]; 1018: jl 1009; 101a: dec dword [rbp-16]; 101d: jne 1000; 101f: ret
    let bytes = [
        0xc7, 0x45, 0xfc, 0, 0, 0, 0, 0xeb, 0x09, 0x8b, 0x45, 0xfc, 0x01, 0x45, 0xf8, 0xff, 0x45,
        0xfc, 0x8b, 0x45, 0xfc, 0x3b, 0x45, 0xf4, 0x7c, 0xef, 0xff, 0x4d, 0xf0, 0x75, 0xe1, 0xc3,
    ];
    let found = of(&bytes);
    // Bounds of 100, 1 and 0.
    let expected = ("4294967295*[rbp-12]".to_owned(), [Some(100), Some(1), Some(0)]);
    assert_eq!(counted(&found, 1, [-100, -1, 0]), Some(expected));
    assert!(found.trip_count(1).unwrap().may_be_none());
    assert!(!found.trip_count(0).unwrap().may_be_none());
}

#[test]
fn a_loop_behind_a_check_is_entered_each_time_if_what_is_checked_stays() {
    // 1000: test rsi,rsi; 1003: je 1010; 1005: mov rcx,rsi; 1008: add rax,1; 100c: dec rcx; [100f: jne 1008]
    let guarded = |change: &[u8]| {
        let mut bytes = vec![0x48, 0x85, 0xf6, 0x74, 0x0c, 0x48, 0x89, 0xf1];
        bytes.extend([0x48, 0x83, 0xc0, 0x01, 0x48, 0xff, 0xc9, 0x75, 0xf7]);
        bytes.extend(change);
        // dec r8; jne 1000; ret
        bytes.extend([0x49, 0xff, 0xc8, 0x75]);
        bytes.push((-(bytes.len() as i64 + 1)) as u8);
        bytes.push(0xc3);
        of(&bytes)
    };
    let expected = ("1*rsi + -1".to_owned(), [Some(1), Some(8), None]);
    assert_eq!(counted(&guarded(&[]), 1, [0, 7, -1]), Some(expected));
    assert!(!guarded(&[]).entered(1).unwrap().is_checked());
    // 1011: mov rsi,[rdi]: another bound in each iteration, and perhaps none.
    let differs = guarded(&[0x48, 0x8b, 0x37]);
    assert!(differs.entered(1).unwrap().is_checked());
    assert_eq!(counted(&differs, 1, [0, 7, -1]), counted(&guarded(&[]), 1, [0, 7, -1]));
}

#[test]
fn a_second_way_out_leaves_the_iterations_open_unless_it_never_returns() {
    // 1000: mov ecx,8; 1005: cmp rax,[rdi]; 1008: ja 1010; 100a: dec rcx; 100d: jne 1005; 100f: ret; 1010: ...
    let with = |end: &[u8]| {
        let mut bytes = vec![0xb9, 8, 0, 0, 0, 0x48, 0x3b, 0x07, 0x77, 0x06];
        bytes.extend([0x48, 0xff, 0xc9, 0x75, 0xf6, 0xc3]);
        bytes.extend(end);
        of(&bytes)
    };
    let iterations = |found: &Loops| {
        let count = found.trip_count(0)?;
        count.iterations(count.first.as_ref()?.known()?.cast_signed())
    };
    assert_eq!(iterations(&with(&[0xc3])), None);
    // call 1100; ud2
    assert_eq!(iterations(&with(&[0xe8, 0xeb, 0, 0, 0, 0x0f, 0x0b])), Some(8));
}

#[test]
fn arguments_of_a_call_tell_the_iterations_of_the_callee() {
    // 1000: lea rdi,[r12+2]; 1005: mov esi,1; 100a: call 1100; 100f: add r12,3; 1013: dec rbx; 1016: jne 1000; 1018: ret
    let caller = of(&[
        0x49, 0x8d, 0x7c, 0x24, 0x02, 0xbe, 1, 0, 0, 0, 0xe8, 0xf1, 0, 0, 0, 0x49, 0x83, 0xc4,
        0x03, 0x48, 0xff, 0xcb, 0x75, 0xe8, 0xc3,
    ]);
    // test esi,esi; je +6; 1004: dec rdi; jne 1004; ret
    let callee = of(&[0x85, 0xf6, 0x74, 0x05, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3]);
    let own = callee.trip_count(0).unwrap();
    assert_eq!((show(own.first.as_ref().unwrap()), own.guards.len()), ("1*rdi + -1".to_owned(), 1));
    let count = caller.trip_count_by_call(RemoteAddr(0x100c), &own).unwrap();
    assert_eq!(
        (show(count.first.as_ref().unwrap()), count.iterations(41)),
        ("1*r12 + 1".to_owned(), Some(42))
    );
    // What decides whether the callee comes to its loop is not known: mov rsi,[rdi] instead of mov esi,1.
    let other = of(&[
        0x49, 0x8d, 0x7c, 0x24, 0x02, 0x48, 0x8b, 0x37, 0x90, 0x90, 0xe8, 0xf1, 0, 0, 0, 0x49,
        0x83, 0xc4, 0x03, 0x48, 0xff, 0xcb, 0x75, 0xe8, 0xc3,
    ]);
    assert_eq!(other.trip_count_by_call(RemoteAddr(0x100c), &own), None);
}

#[test]
fn all_conditions_end_where_they_say() {
    let iterations = |step: i8, condition: u8, bound: i64| {
        // 1000: xor ecx,ecx; 1002: add rcx,step; 1006: cmp rcx,rsi; 1009: jcc 1002; 100b: ret
        let mut bytes = vec![0x31, 0xc9, 0x48, 0x83, 0xc1, step.cast_unsigned()];
        bytes.extend([0x48, 0x39, 0xf1, 0x70 | condition, 0xf7, 0xc3]);
        let count = of(&bytes).trip_count(0)?;
        // Some conditions are read as those of the opposite difference.
        let sign = if matches!(condition, 0xd | 0xf | 0x3 | 0x7) { -1 } else { 1 };
        count.iterations(sign * (i64::from(step) - bound))
    };
    let really = |step: i8, condition: u8, bound: i64| {
        let (mut counter, mut passes) = (0, 0);
        loop {
            counter += i64::from(step);
            passes += 1;
            let stays = match condition {
                0x5 => counter != bound,
                0xc | 0x2 => counter < bound,
                0xd | 0x3 => counter >= bound,
                0xe | 0x6 => counter <= bound,
                _ => counter > bound,
            };
            if !stays || passes > 1000 {
                return Some(passes).filter(|passes| *passes <= 1000);
            }
        }
    };
    for condition in [0x5, 0x2, 0x3, 0x6, 0x7, 0xc, 0xd, 0xe, 0xf] {
        for (step, bound) in [(1, 7), (3, 7), (3, 9), (-2, -8), (-2, -7), (1, 1), (-1, 5), (2, -5)]
        {
            let found = iterations(step, condition, bound);
            assert_eq!(found, really(step, condition, bound), "{condition:x} {step} {bound}");
        }
    }
}

#[test]
fn what_remains_of_a_run_is_known_in_each_iteration() {
    let left = of(&NEST).iterations_left(1).unwrap();
    assert_eq!(show(left.first.as_ref().unwrap()), "1*rcx + -1*rsi + 1");
    assert_eq!([-9, -1, 0].map(|first| left.iterations(first)), [Some(10), Some(2), Some(1)]);
}

/// `for (i = 0; i < 100 / threads; i++)` in a function that a loop calls.
#[test]
fn what_follows_from_a_division_of_values_that_stay_stays() {
    // 1000: mov eax,100; 1005: cdq; 1006: idiv esi; 1008: xor ecx,ecx; 100a: test eax,eax; 100c: jle 1014;
    // 100e: inc ecx; 1010: cmp ecx,eax; 1012: jne 100e; 1014: ret
    let callee = of(&[
        0xb8, 100, 0, 0, 0, 0x99, 0xf7, 0xfe, 0x31, 0xc9, 0x85, 0xc0, 0x7e, 0x06, 0xff, 0xc1, 0x39,
        0xc1, 0x75, 0xfa, 0xc3,
    ]);
    let own = callee.trip_count(0).unwrap();
    // mov esi,r13d, or mov esi,[rdi]; call 1100; dec rbx; jne 1000; ret
    let caller = |argument: [u8; 3]| {
        let mut bytes = argument.to_vec();
        bytes.extend([0xe8, 0xf8, 0, 0, 0, 0x48, 0xff, 0xcb, 0x75, 0xf3, 0xc3]);
        of(&bytes)
    };
    let (stays, differs) = (caller([0x44, 0x89, 0xee]), caller([0x48, 0x8b, 0x37]));
    let count = stays.trip_count_by_call(RemoteAddr(0x1003), &own).unwrap();
    assert!(count.is_even() && count.first.is_none());
    // Where the argument differs, the check in front of the loop may find that it has no iteration.
    let entered = callee.entered(0).unwrap();
    let is_checked = |caller: &Loops| {
        caller.entered_by_call(RemoteAddr(0x1003), &entered).map(|one| one.is_checked())
    };
    assert_eq!([&stays, &differs].map(is_checked), [Some(false), Some(true)]);
    assert_eq!(differs.trip_count_by_call(RemoteAddr(0x1003), &own), None);
}

#[test]
fn words_of_a_frame_pointer_are_known_from_the_start_of_the_function() {
    // push rbp; mov rbp,rsp; mov dword [rbp-4],0; 100b: inc dword [rbp-4]; cmp dword [rbp-4],10; jl 100b; pop rbp; ret
    let found = of(&[
        0x55, 0x48, 0x89, 0xe5, 0xc7, 0x45, 0xfc, 0, 0, 0, 0, 0xff, 0x45, 0xfc, 0x83, 0x7d, 0xfc,
        10, 0x7c, 0xf7, 0x5d, 0xc3,
    ]);
    let count = found.trip_count(0).unwrap();
    let first = count.first.as_ref().and_then(Linear::known).unwrap();
    assert_eq!(count.iterations(i64::from(first as i32)), Some(10));
}

#[test]
fn values_that_stay_tell_a_whole_run_wherever_they_came_from() {
    // 1000: mov rcx,[rdi]; 1003: lea rdx,[rcx+rsi*4]; 1007: lea rax,[rcx+r8*4]; 100b: add rdx,4; 100f: cmp rdx,rax; 1012: jne 100b
    // 1014: add rcx,rsi; 1017: ret
    let bytes = [
        0x48, 0x8b, 0x0f, 0x48, 0x8d, 0x14, 0xb1, 0x4a, 0x8d, 0x04, 0x81, 0x48, 0x83, 0xc2, 0x04,
        0x48, 0x39, 0xc2, 0x75, 0xf7, 0x48, 0x01, 0xf1, 0xc3,
    ];
    let found = of(&bytes);
    // The pointer is the same on both sides, whatever it is.
    let by_arguments = found.trip_count(0).unwrap();
    assert_eq!(show(by_arguments.first.as_ref().unwrap()), "4*rsi + -4*r8 + 4");
    let whole = found.whole_run(0).unwrap();
    assert_eq!(show(whole.first.as_ref().unwrap()), "-1*rax + 1*rcx + 4*rsi + 4");
    // From 7 x 4 to 10 x 4 behind one pointer.
    assert_eq!(whole.iterations(-8), Some(3));
    // 100b: mov rcx,[rsi]. Where the pointer is lost, nothing tells where it began.
    let lost = [&bytes[..11], &[0x48, 0x8b, 0x0e], &bytes[11..]].concat();
    assert_eq!(of(&lost).whole_run(0), None);
}

#[test]
fn bounds_tell_runs_apart_and_a_pointer_may_go_on() {
    // lea rsi,[rdi+64]; inc rdi; cmp rdi,rsi; jne; dec rbx; jne 1000; ret; perhaps with mov rdi,r8 in front
    let inner = [0x48, 0x8d, 0x77, 0x40, 0x48, 0xff, 0xc7, 0x48, 0x39, 0xf7, 0x75, 0xf8];
    let with = |begin: &[u8]| {
        let mut bytes = begin.to_vec();
        bytes.extend(inner);
        bytes.extend([0x48, 0xff, 0xcb, 0x75]);
        bytes.push((-(bytes.len() as i64 + 1)) as u8);
        bytes.push(0xc3);
        of(&bytes)
    };
    let (goes_on, begins) = (with(&[]), with(&[0x4c, 0x89, 0xc7]));
    let moves = [(Variable::Register(Gpr::RDI), 1)];
    assert!(goes_on.may_go_on(1, &moves) && !begins.may_go_on(1, &moves));
    assert_eq!(begins.bounds(1), BTreeSet::from([Variable::Register(Gpr::RSI)]));
    // 1000: cmp [rdi],rdx; je 1010; add rdi,8; cmp rdi,rsi; jne 1000; ret: what ends it is no sum, so all that it reads and
    // that stays tells runs apart.
    let search = of(&[
        0x48, 0x39, 0x17, 0x74, 0x0b, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf2, 0xc3,
        0x90, 0xc3,
    ]);
    let read = [Gpr::RDX, Gpr::RSI].map(Variable::Register);
    assert_eq!(search.bounds(0), BTreeSet::from(read));
}

#[test]
fn a_call_by_a_pointer_is_seen() {
    let found = of(&[0xff, 0xd0, 0xe8, 0, 0, 0, 0, 0xc3]);
    let by_pointer =
        [0x1000, 0x1001, 0x1002, 0x2000].map(|at| found.calls_by_pointer(RemoteAddr(at)));
    assert_eq!(by_pointer, [true, true, false, false]);
}

/// `while (--n) callee();` by a register, by a word that a register points to, and by what a pointer that moves points to.
#[test]
fn a_call_by_a_pointer_that_stays_enters_the_same_function() {
    let callee = of(&[0xb9, 8, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3]);
    let own = callee.trip_count(0).unwrap();
    let known = |call: &[u8], moves: &[u8]| {
        let mut bytes = [call, moves, &[0x48, 0xff, 0xcb, 0x75]].concat();
        bytes.push((-(bytes.len() as i64 + 1)) as u8);
        bytes.push(0xc3);
        let count = of(&bytes).trip_count_by_call(RemoteAddr(0x1000), &own);
        count.and_then(|count| count.first).is_some()
    };
    // call r12; call [r12]; and with add r12,8 behind.
    let (register, word, moves) =
        ([0x41, 0xff, 0xd4], [0x41, 0xff, 0x14, 0x24], [0x49, 0x83, 0xc4, 8]);
    assert!(known(&register, &[]) && known(&word, &[]));
    assert!(!known(&register, &moves) && !known(&word, &moves));
}
