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
    let expected = ["mov [rdx+rbx], al", "add rbx, 1", "nop", "nop", "nop"];
    assert_eq!(kept(&APPENDED).unwrap(), expected);
}

#[test]
fn pointers_are_followed_to_what_they_lead_to_even_from_the_end_of_the_iteration_before() {
    // mov rcx,[rdx]; add [rcx+rax],bl; add rax,1; mov rdx,[rdi]; cmp rax,[rdx+8]; jb to the start
    let bytes = [
        0x48, 0x8b, 0x0a, 0, 0x1c, 0x01, 0x48, 0x83, 0xc0, 1, 0x48, 0x8b, 0x17, 0x48, 0x3b, 0x42,
        8, 0x72, 0xed,
    ];
    let expected = ["add [rbp+rax], bl", "add rax, 1", "cmp rax, rcx"];
    let found = kept(&bytes).unwrap();
    assert_eq!(found[..3], expected, "{found:?}");
}

/// tests/findings/mask_dilated.cpp: five pointers of rows are loaded, and the length of one is computed, for each byte.
#[test]
fn what_only_leads_to_kept_values_is_left_out() {
    // mov r9,[rcx+0x18]; movzx eax,byte [r9+rdx]; mov [rsi+rdx],al; mov rsi,[rdi]; add rdx,1; mov rax,[rdi+8]; sub rax,rsi;
    // cmp rdx,rax; jb to the start
    let bytes = [
        0x4c, 0x8b, 0x49, 0x18, 0x41, 0x0f, 0xb6, 0x04, 0x11, 0x88, 0x04, 0x16, 0x48, 0x8b, 0x37,
        0x48, 0x83, 0xc2, 1, 0x48, 0x8b, 0x47, 8, 0x48, 0x29, 0xf0, 0x48, 0x39, 0xc2, 0x72, 0xe1,
    ];
    let found = kept(&bytes).unwrap();
    let expected =
        ["movzx eax, byte ptr [rbp+rdx]", "mov [rcx+rdx], al", "add rdx, 1", "cmp rdx, rbx"];
    assert_eq!(found[..4], expected, "{found:?}");
}

/// tests/findings/text_folded.c: both ends are reached through pointers, and one length is stored.
#[test]
fn pointers_to_pointers_need_no_register() {
    // mov rcx,[rsi+0x108]; mov rdx,[rdx]; mov rdi,[rcx+8]; movzx edx,byte [rdx+rax]; add rax,1; mov r8,[rcx]; lea r9,[rdi+1];
    // mov [rcx+8],r9; movzx edx,byte [rsi+rdx]; mov [r8+rdi],dl; mov rdx,[rsi+0x100]; cmp rax,[rdx+8]; jb to the start
    let bytes = [
        0x48, 0x8b, 0x8e, 8, 1, 0, 0, 0x48, 0x8b, 0x12, 0x48, 0x8b, 0x79, 8, 0x0f, 0xb6, 0x14, 2,
        0x48, 0x83, 0xc0, 1, 0x4c, 0x8b, 1, 0x4c, 0x8d, 0x4f, 1, 0x4c, 0x89, 0x49, 8, 0x0f, 0xb6,
        0x14, 0x16, 0x41, 0x88, 0x14, 0x38, 0x48, 0x8b, 0x96, 0, 1, 0, 0, 0x48, 0x3b, 0x42, 8,
        0x72, 0xca,
    ];
    let found = kept(&bytes).unwrap();
    let expected = [
        "mov rdi, rbx",
        "movzx edx, byte ptr [rbp+rax]",
        "add rax, 1",
        "lea r9, [rdi+1]",
        "mov rbx, r9",
        "movzx edx, byte ptr [rsi+rdx]",
        "mov [r11+rdi], dl",
        "cmp rax, r10",
    ];
    assert_eq!(found[..8], expected, "{found:?}");
}

#[test]
fn what_must_stay_in_its_register_stays() {
    // mov rcx,[rdi]; shl rax,cl; mov [rsi],al; add rsi,1; jmp: cl has no other name
    let shift = [0x48, 0x8b, 0x0f, 0x48, 0xd3, 0xe0, 0x88, 6, 0x48, 0x83, 0xc6, 1, 0xeb, 0xf2];
    assert_eq!(kept(&shift).unwrap()[..2], ["mov rcx, rdx", "shl rax, cl"]);
    // mov rcx,[rdi]; add rcx,rax; mov [rcx],al; add rax,1; jmp: changed behind
    let changed = [0x48, 0x8b, 0x0f, 0x48, 1, 0xc1, 0x88, 1, 0x48, 0x83, 0xc0, 1, 0xeb, 0xf2];
    assert_eq!(kept(&changed).unwrap()[..2], ["mov rcx, rdx", "add rcx, rax"]);
    // mov rcx,[rdi]; add qword [rdi],1; mov [rsi+rcx],al; jmp: the place has changed before the copy is read
    let stale = [0x48, 0x8b, 0x0f, 0x48, 0x83, 7, 1, 0x88, 4, 0x0e, 0xeb, 0xf4];
    assert_eq!(kept(&stale).unwrap()[..3], ["mov rcx, rdx", "add rdx, 1", "mov [rsi+rcx], al"]);
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
    assert_eq!(found[..2], ["mov rcx, [rdx]", "mov rdx, rcx"]);
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
    assert_eq!((state.get(Gpr::RBX), state.get(Gpr::RDX)), (0x1122, 7));
    let places: Vec<(usize, usize)> =
        kept.accesses().iter().map(|one| (one.instruction, one.place)).collect();
    assert_eq!(places, [(0, 1), (1, 0), (3, 1)]);
}

#[test]
fn what_is_carried_on_in_memory_is_restored() {
    let code = CodeBytes { start: AT, bytes: &APPENDED };
    let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
    let mut state = State::default();
    state.set(Gpr::RDI, 0x5000);
    let contents = (0x5008..).map(RemoteAddr).zip(0x1122u64.to_le_bytes()).collect();
    let code = crate::restored(&carried(&block).held(&state, &contents, 7));
    let lines = disassemble(&code, base::FileOffset(0));
    let lines: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, ["mov rax, 0x5008", "mov rcx, 0x1122", "mov [rax], rcx"]);
}
