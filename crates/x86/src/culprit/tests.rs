//! Assembled by hand; the expected waits were worked out by hand, too.

use base::RemoteAddr;

use super::*;

/// Addresses count from 0x1000.
#[rustfmt::skip]
const CODE: &[u8] = &[
    // 00 a: mov rax, [rdi+rcx*8]; 04 add rdi, 8; 08 add rdx, rax; 0b dec rsi; 0e jne a; 10 ret
    // 11 b: mov rdi, [rdi+8]; 15 test rdi, rdi; 18 jne b; 1a ret
    // 1b c: mov rax, [rax+rbx*8]; 1f test rax, rax; 22 ret
    // 23 d: pop rbx; 24 leave; 25 ret
    // 26 e: add rbx, [rip+0x100]; 2d mov rax, fs:[rdx-8]; 32 nop
    // 33 f: lock xadd [rcx], rax; 38 nop; 39 mov [rdx+r8], rax; 3d nop; 3e div rcx; 41 nop
    // 42 g: vgatherqpd ymm0, [rsi+ymm1*8], ymm2; 48 nop
    // 49 h: rep movsb; 4b nop; 4c lodsq; 4e nop; 4f ret
    // 50 i: mov rax, [rdi]; 53 jmp k; 55 j: mov rbx, [rsi]; 58 k: nop; 59 jne j; 5b jmp i
    // 5d l: call a; 62 nop
    0x48, 0x8b, 0x04, 0xcf, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x01, 0xc2, 0x48, 0xff, 0xce, 0x75, 0xf0, 0xc3,
    0x48, 0x8b, 0x7f, 0x08, 0x48, 0x85, 0xff, 0x75, 0xf7, 0xc3,
    0x48, 0x8b, 0x04, 0xd8, 0x48, 0x85, 0xc0, 0xc3,
    0x5b, 0xc9, 0xc3,
    0x48, 0x03, 0x1d, 0x00, 0x01, 0x00, 0x00, 0x64, 0x48, 0x8b, 0x42, 0xf8, 0x90,
    0xf0, 0x48, 0x0f, 0xc1, 0x01, 0x90, 0x4a, 0x89, 0x04, 0x02, 0x90, 0x48, 0xf7, 0xf1, 0x90,
    0xc4, 0xe2, 0xed, 0x93, 0x04, 0xce, 0x90,
    0xf3, 0xa4, 0x90, 0x48, 0xad, 0x90, 0xc3,
    0x48, 0x8b, 0x07, 0xeb, 0x03, 0x48, 0x8b, 0x1e, 0x90, 0x75, 0xfa, 0xeb, 0xf3,
    0xe8, 0x9e, 0xff, 0xff, 0xff, 0x90,
];
const STARTS: [u64; 10] = [0x00, 0x11, 0x1b, 0x23, 0x26, 0x33, 0x42, 0x49, 0x50, 0x5d];

fn surroundings() -> Surroundings {
    let code = [CodeBytes { start: RemoteAddr(0x1000), bytes: CODE }];
    Surroundings::read(&code, STARTS.map(|start| RemoteAddr(0x1000 + start)))
}

/// `DISTANCE KIND PLACE` of each suspect.
fn shown(at: u64, farthest: u8) -> String {
    let Some(suspects) = surroundings().suspects(RemoteAddr(0x1000 + at), farthest) else {
        return "not known".to_owned();
    };
    let address = |operand: Operand| {
        let access = Access {
            place: Location::One(operand.address),
            bytes: 8,
            kind: crate::Kind::Read,
            when: Occurrence::Always,
            locked: false,
            line: false,
        };
        let text = access.to_string();
        text.trim_start_matches("read 8 ").to_owned()
    };
    let one = |suspect: &Suspect| {
        let place = match suspect.place {
            Whereabouts::Address(operand) => address(operand),
            Whereabouts::Lanes(operand) => format!("from {}", address(operand)),
            Whereabouts::Next(operand) => format!("next {}", address(operand)),
            Whereabouts::Sum(sum) => format!("sum {sum:?}"),
            Whereabouts::Lost(register) => format!("lost {register}"),
            Whereabouts::Nothing => "nowhere".to_owned(),
        };
        format!("{} {} {place}", suspect.distance, suspect.kind.name())
    };
    suspects.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn the_load_right_before_is_named_and_constant_steps_are_undone() {
    assert_eq!(shown(0x04, 1), "1 load [rdi+rcx*8]");
    assert_eq!(shown(0x08, 1), "");
    assert_eq!(shown(0x08, 2), "2 load [rdi+rcx*8-0x8]");
    assert_eq!(shown(0x0b, 3), "3 load [rdi+rcx*8-0x8]");
    assert_eq!(
        shown(0x00, 3),
        "0 load [rdi+rcx*8]",
        "three back is the addition, over the back edge"
    );
}

#[test]
fn a_load_that_overwrites_its_base_is_lost_and_a_chase_leaves_its_next_address() {
    assert_eq!(shown(0x15, 1), "1 load next [rdi+0x8]");
    assert_eq!(shown(0x18, 2), "2 load lost rdi");
    assert_eq!(shown(0x1f, 1), "1 load lost rax", "the head of a bucket is no chase");
}

#[test]
fn stack_slots_come_out_of_the_moved_stack_pointer() {
    assert_eq!(shown(0x24, 1), "0 load [rbp]; 1 load [rsp-0x8]");
    assert_eq!(shown(0x25, 2), "1 load [rsp-0x8]; 2 load lost rsp");
}

#[test]
fn code_and_thread_relative_addresses_are_resolved() {
    let found = surroundings().suspects(RemoteAddr(0x102d), 1).expect("known");
    let Whereabouts::Address(global) = found[1].place else { panic!("{found:?}") };
    let nothing = |_: Gpr| None;
    assert_eq!(global.resolve(nothing, None, 0x50_0000), Some(RemoteAddr(0x50_112d)));
    let found = surroundings().suspects(RemoteAddr(0x1032), 1).expect("known");
    let Whereabouts::Address(local) = found[0].place else { panic!("{found:?}") };
    let rdx = |_: Gpr| Some(0x20);
    assert_eq!(local.resolve(rdx, Some(0x7000), 0), Some(RemoteAddr(0x7018)));
    assert_eq!(local.resolve(rdx, None, 0), None);
    assert_eq!(local.resolve(nothing, Some(0x7000), 0), None);
}

#[test]
fn atomics_stores_divisions_and_gathers_have_their_kinds() {
    assert_eq!(shown(0x38, 1), "1 atomic [rcx]");
    assert_eq!(shown(0x3d, 1), "1 store [rdx+r8*1]");
    assert_eq!(shown(0x39, 1), "0 store [rdx+r8*1]");
    assert_eq!(shown(0x41, 1), "1 division nowhere");
    assert_eq!(shown(0x48, 1), "1 load from [rsi]");
}

#[test]
fn string_instructions_wait_where_they_stand_and_leave_their_pointers_behind() {
    assert_eq!(shown(0x49, 1), "0 load [rsi]; 0 store [rdi]");
    assert_eq!(shown(0x4b, 1), "1 load [rsi-0x1]; 1 store [rdi-0x1]");
    assert_eq!(shown(0x4e, 1), "1 load [rsi-0x8]");
}

#[test]
fn several_ways_to_an_instruction_give_several_suspects() {
    assert_eq!(shown(0x58, 1), "1 load [rsi]");
    assert_eq!(shown(0x58, 2), "1 load [rsi]; 2 load [rdi]");
}

#[test]
fn behind_a_call_nothing_of_memory_is_waited_for_and_unknown_ways_are_said() {
    assert_eq!(shown(0x62, 1), "");
    assert_eq!(shown(0x23, 1), "not known");
    assert_eq!(shown(0x63, 1), "not known");
}

#[test]
fn straight_reading_finds_what_is_in_front_of_an_address_without_a_known_start() {
    // 40 times add rdx, rax; then mov rcx, [rsi]; nop
    let mut bytes = [0x48, 0x01, 0xc2].repeat(40);
    bytes.extend([0x48, 0x8b, 0x0e, 0x90]);
    let code = [CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes }];
    let nop = RemoteAddr(0x1000 + bytes.len() as u64 - 1);
    let found = Surroundings::read(&code, [nop]).suspects(nop, 1).expect("all ways agree");
    assert_eq!((found.len(), found[0].instruction), (1, RemoteAddr(nop.0 - 3)));
}

#[test]
fn a_block_ends_where_ways_part_and_join() {
    let block = |at: u64| -> Vec<u64> {
        let found = surroundings().block(RemoteAddr(0x1000 + at));
        found.into_iter().map(|at| at.0 - 0x1000).collect()
    };
    assert_eq!(block(0x08), [0x00, 0x04, 0x08, 0x0b, 0x0e]);
    assert_eq!(block(0x0e), [0x00, 0x04, 0x08, 0x0b, 0x0e]);
    assert_eq!(block(0x55), [0x55]);
    assert_eq!(block(0x59), [0x58, 0x59]);
    assert_eq!(block(0x62), [0x62]);
}

#[test]
fn any_bytes_do() {
    let (mut bytes, mut state) = ([0u8; 400], 1u64);
    for _ in 0..200 {
        for byte in &mut bytes {
            // Knuth's generator, MMIX.
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            *byte = (state >> 56) as u8;
        }
        let at = |offset| RemoteAddr(u64::MAX - 200 + offset);
        let code = [CodeBytes { start: at(0), bytes: &bytes }];
        let found = Surroundings::read(&code, (0..200).step_by(9).map(at));
        for offset in 0..=200 {
            let suspects = found.suspects(at(offset), u8::MAX).unwrap_or_default();
            assert!(suspects.len() <= MOST_SUSPECTS + 1, "and a division");
            assert!(suspects.iter().all(|suspect| suspect.distance <= FARTHEST));
            assert!(found.block(at(offset)).len() <= graph::LONGEST_LOOP);
        }
    }
}

/// As gcc -O0 writes `at = a[i]` and `at = at->next`.
#[test]
fn what_was_computed_from_the_stack_is_computed_again() {
    // 1000 mov rdx,[rbp-24]; 1004 mov rax,[rbp-8]; 1008 lea rax,[rax+rdx*8]; 100c mov rax,[rax+16]; 1010 mov [rbp-8],rax
    // 1014 mov rax,[rax]; 1017 ret
    let bytes = [
        0x48, 0x8b, 0x55, 0xe8, 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x8d, 0x04, 0xd0, 0x48, 0x8b, 0x40,
        0x10, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x8b, 0x00, 0xc3,
    ];
    let code = [CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes }];
    let found = Surroundings::read(&code, [RemoteAddr(0x1000)]);
    let at = |offset: u64| found.suspects(RemoteAddr(0x1000 + offset), 1).expect("known");
    let load = at(0x10).into_iter().find(|suspect| suspect.distance == 1).expect("the load");
    let Whereabouts::Sum(sum) = load.place else { panic!("{load:?}") };
    let word = |term| match term {
        Term::Register(Gpr::RDX) => Some(3),
        Term::Slot(Slot { displacement: -8, wide: true, .. }) => Some(0x7000),
        _ => None,
    };
    assert_eq!(sum.resolve(word, 0x9999), Some(RemoteAddr(0x7000 + 3 * 8 + 16)));
    // Where it came from was overwritten.
    let load = at(0x17).into_iter().find(|suspect| suspect.distance == 1).expect("the load");
    assert_eq!(load.place, Whereabouts::Lost(Gpr::RAX));
    // So it is where the store comes between the load and the sample.
    let suspects = found.suspects(RemoteAddr(0x1014), 2).expect("known");
    let load = suspects.into_iter().find(|suspect| suspect.distance == 2).expect("the load");
    assert_eq!(load.place, Whereabouts::Lost(Gpr::RAX));
}

/// As gcc -O0 writes `table[i]`.
#[test]
fn a_table_moves_with_the_code() {
    // 1000 lea rdx,[rax*8]; 1008 lea rax,[rip+0x100]; 100f mov rax,[rdx+rax]; 1013 ret
    let bytes = [
        0x48, 0x8d, 0x14, 0xc5, 0, 0, 0, 0, 0x48, 0x8d, 0x05, 0, 1, 0, 0, 0x48, 0x8b, 0x04, 0x02,
        0xc3,
    ];
    let code = [CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes }];
    let found = Surroundings::read(&code, [RemoteAddr(0x1000)]);
    let suspects = found.suspects(RemoteAddr(0x1013), 1).expect("known");
    let load = suspects.iter().find(|suspect| suspect.distance == 1).expect("the load");
    let Whereabouts::Sum(sum) = load.place else { panic!("{load:?}") };
    let word = |term| (term == Term::Register(Gpr::RDX)).then_some(24);
    assert_eq!(sum.resolve(word, 0x50_0000), Some(RemoteAddr(0x50_0000 + 0x110f + 24)));
}
