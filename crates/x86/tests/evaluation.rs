//! Known answers of `evaluate`: masks, gathers, strings, lines, addresses with a twist. Each case is one instruction and a
//! state; what is expected was worked out by hand from the manual.

use base::RemoteAddr;
use x86::{CodeBytes, Gpr, Reader, State, Times, Touched, evaluate};

fn touched(hex: &str, state: &State) -> Vec<Touched> {
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
    let instruction = Reader::new().instruction(&code, code.start).unwrap();
    assert_eq!(instruction.length(), bytes.len(), "{hex}");
    evaluate(instruction.accesses(), state)
}

/// `read 4 0x1000` per access, a run as `read 4 0x1000 x3 by 4`.
fn text(hex: &str, state: &State) -> Vec<String> {
    let line = |one: Touched| match one.times {
        Times::Once => format!("{} {} {}", one.kind, one.bytes, one.address),
        Times::Run { count, stride, exact } => {
            let most = if exact { "" } else { "at most " };
            format!("{} {} {} {most}x{count} by {stride}", one.kind, one.bytes, one.address)
        }
    };
    touched(hex, state).into_iter().map(line).collect()
}

fn state(values: &[(Gpr, u64)]) -> State {
    let mut state = State::default();
    for (register, value) in values {
        state.set(*register, *value);
    }
    state
}

/// 32-bit elements of a vector register, from the lowest.
fn elements32(values: &[i32]) -> [u8; 64] {
    let mut vector = [0; 64];
    for (at, value) in values.iter().enumerate() {
        vector[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
    }
    vector
}

fn elements64(values: &[i64]) -> [u8; 64] {
    let mut vector = [0; 64];
    for (at, value) in values.iter().enumerate() {
        vector[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
    }
    vector
}

#[test]
fn masked_stores_touch_unbroken_pieces() {
    let mut state = state(&[(Gpr::RDI, 0x1000)]);
    // vmovdqa64 [rdi]{k2}, ymm0: four elements of 8 bytes; bits above the fourth do not count
    state.masks[2] = 0b1111_1011;
    assert_eq!(text("62f1fd2a7f07", &state), ["write 16 0x1000", "write 8 0x1018"]);
    state.masks[2] = 0xf0;
    assert_eq!(text("62f1fd2a7f07", &state), [""; 0]);
    // vpmovqb [rdi]{k3}, zmm0: eight elements of a byte
    state.masks[3] = 0x81;
    assert_eq!(text("62f27e4b3207", &state), ["write 1 0x1000", "write 1 0x1007"]);
}

#[test]
fn masked_loads_follow_the_lanes_of_the_destination() {
    let mut state = state(&[(Gpr::RDI, 0x1000)]);
    state.masks[1] = 0b10;
    // vpmovzxbd zmm0{k1}, [rdi]: lane 1 is byte 1
    assert_eq!(text("62f27d493107", &state), ["read 1 0x1001"]);
    // vpmaddwd zmm0{k1}, zmm1, [rdi]: lane 1 is the second pair of words
    assert_eq!(text("62f17549f507", &state), ["read 4 0x1004"]);
    // vaddss xmm0{k1}, xmm1, [rdi]: only bit 0 counts
    assert_eq!(text("62f176095807", &state), [""; 0]);
    // vpermd zmm0{k1}, zmm1, [rdi]: no fault suppression
    assert_eq!(text("62f275493607", &state), ["read 64 0x1000"]);
}

#[test]
fn a_broadcast_is_read_once_when_any_lane_asks() {
    let mut state = state(&[(Gpr::RDI, 0x1000)]);
    // vaddps zmm0{k1}, zmm1, [rdi+4]{1to16}
    state.masks[1] = 1 << 15;
    assert_eq!(text("62f17459584701", &state), ["read 4 0x1004"]);
    state.masks[1] = 1 << 16;
    assert_eq!(text("62f17459584701", &state), [""; 0]);
    // vbroadcastf32x4 zmm0{k1}, [rdi]: lane 6 is element 2
    state.masks[1] = 1 << 6;
    assert_eq!(text("62f27d491a07", &state), ["read 4 0x1008"]);
}

#[test]
fn compress_and_expand_are_dense() {
    let mut state = state(&[(Gpr::RDI, 0x1000)]);
    state.masks[1] = 0b1010_0001;
    // vcompressps [rdi]{k1}, zmm0
    assert_eq!(text("62f27d498a07", &state), ["write 12 0x1000"]);
    // vexpandpd zmm0{k1}{z}, [rdi]
    assert_eq!(text("62f2fdc98807", &state), ["read 24 0x1000"]);
    state.masks[1] = 0;
    assert_eq!(text("62f27d498a07", &state), [""; 0]);
}

#[test]
fn signs_of_a_vector_as_mask() {
    let mut state = state(&[(Gpr::RDI, 0x1000)]);
    state.vectors[1] = elements32(&[-1, 0, i32::MIN, i32::MAX, -1, -1, 0, -1]);
    // vmaskmovps ymm0, ymm1, [rdi]
    assert_eq!(
        text("c4e2752c07", &state),
        ["read 4 0x1000", "read 4 0x1008", "read 8 0x1010", "read 4 0x101c"]
    );
    // maskmovq mm0, mm1
    state.mmx[1] = 0x8000_0000_0000_0080;
    assert_eq!(text("0ff7c1", &state), ["streaming-write 1 0x1000", "streaming-write 1 0x1007"]);
}

#[test]
fn gathers_sign_extend_their_indices() {
    let mut state = state(&[(Gpr::RDI, 0x1000)]);
    state.vectors[1] = elements32(&[-1, 0, 1, 5, 0, 0, 0, 0x1000]);
    state.vectors[2] = elements32(&[-1, 0, -1, -1, 0, 0, 0, -1]);
    // vgatherdps ymm0, [rdi+ymm1*4+8], ymm2
    assert_eq!(
        text("c4e26d92448f08", &state),
        ["read 4 0x1004", "read 4 0x100c", "read 4 0x101c", "read 4 0x5008"]
    );
    // vpgatherqq xmm0, [xmm1*8+0x100], xmm2
    state.vectors[1] = elements64(&[-0x20, 2]);
    state.vectors[2] = elements64(&[-1, -1]);
    assert_eq!(text("c4e2e99104cd00010000", &state), ["read 8 0x0", "read 8 0x110"]);
    // vpscatterqd fs:[rdi+ymm1*4]{k1}, xmm0
    state.fs_base = 0x7000_0000_0000;
    state.masks[1] = 0b01;
    assert_eq!(text("6462f27d29a1048f", &state), ["write 4 0x700000000f80"]);
    // vgatherpf0dps [rdi+zmm1*4]{k1}: lines
    state.vectors[1] = elements32(&[3]);
    assert_eq!(text("62f27d49c60c8f", &state), ["prefetch 64 0x1000"]);
}

#[test]
fn strings_go_up_or_down_and_may_stop() {
    let mut state = state(&[(Gpr::RSI, 0x1000), (Gpr::RDI, 0x2000), (Gpr::RCX, 3)]);
    // rep movsq
    assert_eq!(text("f348a5", &state), ["read 8 0x1000 x3 by 8", "write 8 0x2000 x3 by 8"]);
    state.direction_down = true;
    assert_eq!(text("f348a5", &state), ["read 8 0x1000 x3 by -8", "write 8 0x2000 x3 by -8"]);
    // repne scasb
    assert_eq!(text("f2ae", &state), ["read 1 0x2000 at most x3 by -1"]);
    // movsw alone
    assert_eq!(text("66a5", &state), ["read 2 0x1000", "write 2 0x2000"]);
    // rep stosd of nothing, and of more than there is memory
    state.set(Gpr::RCX, 0);
    assert_eq!(text("f3ab", &state), [""; 0]);
    state.set(Gpr::RCX, u64::MAX);
    assert_eq!(text("f3ab", &state), ["write 4 0x2000 x18446744073709551615 by -4"]);
}

#[test]
fn lines_are_aligned() {
    let state = state(&[(Gpr::RDI, 0x1039), (Gpr::RAX, 0x20ff)]);
    // clflush [rdi]; prefetcht0 [rdi]; clzero
    assert_eq!(text("0fae3f", &state), ["flush 64 0x1000"]);
    assert_eq!(text("0f180f", &state), ["prefetch 64 0x1000"]);
    assert_eq!(text("0f01fc", &state), ["write 64 0x20c0"]);
}

#[test]
fn addresses_with_a_twist() {
    let mut state = state(&[(Gpr::RDI, 0x1000), (Gpr::RBX, 0x500), (Gpr::RSP, 0x8000)]);
    // xlatb: only al counts
    state.set(Gpr::RAX, 0x1234);
    assert_eq!(text("d7", &state), ["read 1 0x534"]);
    // bts [rdi+8], rax with bit -1: the word below
    state.set(Gpr::RAX, u64::MAX);
    assert_eq!(text("480fab4708", &state), ["read-write 8 0x1000"]);
    // pop [rsp+8] counts from the new rsp; push [rsp+8] from the old one
    assert_eq!(text("8f442408", &state), ["read 8 0x8000", "write 8 0x8010"]);
    assert_eq!(text("ff742408", &state), ["read 8 0x8008", "write 8 0x7ff8"]);
    // mov rax, [rip-0x20] of 7 bytes at 0x1000
    assert_eq!(text("488b05e0ffffff", &state), ["read 8 0xfe7"]);
    // mov eax, [eax+ecx*2+4]: 32 bits
    state.set(Gpr::RAX, 0xffff_ffff_ffff_fff0);
    state.set(Gpr::RCX, 0x10);
    assert_eq!(text("678b444804", &state), ["read 4 0x14"]);
    // mov rax, [rax+0x7f]: wraps at 2^64
    assert_eq!(text("488b407f", &state), ["read 8 0x6f"]);
}
