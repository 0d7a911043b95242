//! Loops by hand, and what is kept of them.

use base::RemoteAddr;

use super::*;
use crate::{CodeBytes, Limits, Reader, disassemble, read_block};

const AT: RemoteAddr = RemoteAddr(0x1000);

/// The loop's text with what is kept in registers; `None` where nothing is.
fn kept(bytes: &[u8]) -> Option<Vec<String>> {
    let code = CodeBytes { start: AT, bytes };
    let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
    let part = Part { block: &block, code: &code, executed: block.instructions.len() };
    let unrolled = keep(&block)?.unroll(&part, AT, 1).unwrap();
    let lines = disassemble(&unrolled.bytes, base::FileOffset(AT.0));
    Some(lines.into_iter().map(|line| line.text).collect())
}

/// mov rdx,[rdi+8]; mov rcx,[rdi]; mov [rcx+rdx],al; add qword [rdi+8],1; jmp to the start
const APPENDED: [u8; 19] = [
    0x48, 0x8b, 0x57, 8, 0x48, 0x8b, 0x0f, 0x88, 4, 0x11, 0x48, 0x83, 0x47, 8, 1, 0x90, 0x90, 0xeb,
    0xed,
];

#[test]
fn what_is_loaded_again_and_again_is_kept() {
    let expected =
        ["mov rdx, rbx", "mov rcx, rbp", "mov [rcx+rdx], al", "add rbx, 1", "nop", "nop"];
    let found = kept(&APPENDED).unwrap();
    assert_eq!(found[..6], expected, "{found:?}");
}

#[test]
fn pointers_are_followed_to_what_they_lead_to_even_from_the_end_of_the_iteration_before() {
    // mov rcx,[rdx]; add [rcx+rax],bl; add rax,1; mov rdx,[rdi]; cmp rax,[rdx+8]; jb to the start
    let bytes = [
        0x48, 0x8b, 0x0a, 0, 0x1c, 0x01, 0x48, 0x83, 0xc0, 1, 0x48, 0x8b, 0x17, 0x48, 0x3b, 0x42,
        8, 0x72, 0xed,
    ];
    let found = kept(&bytes).unwrap();
    let expected =
        ["mov rcx, rsi", "add [rcx+rax], bl", "add rax, 1", "mov rdx, rbp", "cmp rax, r8"];
    assert_eq!(found[..5], expected, "{found:?}");
}

#[test]
fn a_sum_in_memory_is_kept_in_a_vector_register() {
    // movsd xmm0,[rdi]; addsd xmm0,[rsi]; movsd [rdi],xmm0; add rsi,8; jmp to the start
    let bytes = [
        0xf2, 0x0f, 0x10, 7, 0xf2, 0x0f, 0x58, 6, 0xf2, 0x0f, 0x11, 7, 0x48, 0x83, 0xc6, 8, 0xeb,
        0xee,
    ];
    let expected = ["movaps xmm0, xmm1", "addsd xmm0, [rsi]", "movaps xmm1, xmm0", "add rsi, 8"];
    assert_eq!(kept(&bytes).unwrap()[..4], expected);
}

#[test]
fn nothing_is_kept_where_source_code_changes_nothing() {
    let with = |body: &[u8]| {
        let back = 0u8.wrapping_sub(body.len() as u8 + 2);
        kept(&[body, &[0xeb, back]].concat())
    };
    let (load, store) = ([0x48, 0x8b, 7], [0x88, 6]); // mov rax,[rdi]; mov [rsi],al
    let moving = [0x48, 0xff, 0xc6]; // inc rsi
    assert!(with(&[&load[..], &store, &moving].concat()).is_some());
    // No store.
    assert_eq!(with(&[&load[..], &moving].concat()), None);
    // mov [rsp+8],rcx   mov rcx,[rbp-8]   lock inc dword [rsi]   pause   mfence   push rax; pop rax
    let reasons: [&[u8]; 6] = [
        &[0x48, 0x89, 0x4c, 0x24, 8],
        &[0x48, 0x8b, 0x4d, 0xf8],
        &[0xf0, 0xff, 6],
        &[0xf3, 0x90],
        &[0x0f, 0xae, 0xf0],
        &[0x50, 0x58],
    ];
    for reason in reasons {
        assert_eq!(with(&[&load[..], &store, &moving, reason].concat()), None, "{reason:x?}");
    }
}

#[test]
fn what_moves_or_depends_on_data_is_no_place() {
    // A histogram: movzx eax,byte [rdi]; inc dword [rsi+rax*4]; inc rdi; jmp
    let histogram = [0x0f, 0xb6, 7, 0xff, 4, 0x86, 0x48, 0xff, 0xc7, 0xeb, 0xf5];
    assert_eq!(kept(&histogram), None);
    // A list: inc dword [rdi+8]; mov rdi,[rdi]; jmp
    assert_eq!(kept(&[0xff, 0x47, 8, 0x48, 0x8b, 0x3f, 0xeb, 0xf8]), None);
    // A part of what is stored: mov [rdi],rax; movzx ecx,byte [rdi+1]; inc rax; jmp
    let part = [0x48, 0x89, 7, 0x0f, 0xb6, 0x4f, 1, 0x48, 0xff, 0xc0, 0xeb, 0xf4];
    assert_eq!(kept(&part), None);
    // A pointer that the loop stores leads nowhere that stays: mov rax,[rdi]; mov rcx,[rax]; mov [rdi],rcx; jmp
    let found = kept(&[0x48, 0x8b, 7, 0x48, 0x8b, 8, 0x48, 0x89, 0x0f, 0xeb, 0xf5]).unwrap();
    assert_eq!(found[..3], ["mov rax, rdx", "mov rcx, [rax]", "mov rdx, rcx"]);
}

#[test]
fn registers_begin_with_what_memory_holds() {
    let code = CodeBytes { start: AT, bytes: &APPENDED };
    let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
    let mut state = State::default();
    state.set(Gpr::RDI, 0x5000);
    let contents = (0x5008..).map(RemoteAddr).zip(0x1122u64.to_le_bytes()).collect();
    let kept = keep(&block).unwrap();
    kept.hold(&mut state, &contents, 7);
    assert_eq!((state.get(Gpr::RBX), state.get(Gpr::RBP)), (0x1122, 7));
    let places: Vec<(usize, usize)> =
        kept.accesses().iter().map(|one| (one.instruction, one.place)).collect();
    assert_eq!(places, [(0, 0), (1, 1), (3, 0)]);
}

#[test]
fn what_is_carried_on_in_memory_is_restored() {
    let code = CodeBytes { start: AT, bytes: &APPENDED };
    let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
    let mut state = State::default();
    state.set(Gpr::RDI, 0x5000);
    let contents = (0x5008..).map(RemoteAddr).zip(0x1122u64.to_le_bytes()).collect();
    let code = carried(&block).restored(&state, &contents, 7);
    let lines = disassemble(&code, base::FileOffset(0));
    let lines: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, ["mov rax, 0x5008", "mov rcx, 0x1122", "mov [rax], rcx"]);
}
