//! Places for copies, and their listing by the other decoder.

use std::fmt::Write as _;

use base::RemoteAddr;
use x86::translate::{Common, Flavour, NativeRip, Site, State, States, Translation};
use x86::{CodeBytes, Gpr, Reader};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::InstDecoder;

/// Where copies lie.
pub const AT: RemoteAddr = RemoteAddr(0x10_0000);
/// Where the shared code lies.
pub const COMMON: RemoteAddr = RemoteAddr(0x20_0000);

pub fn site(flavour: Flavour) -> Site {
    Site {
        at: AT,
        block: 7,
        first_exit: 20,
        flavour,
        common: Common { exit: COMMON, miss: COMMON.offset(0x100) },
        reserved: Gpr::R15,
        witness: None,
    }
}

/// An instruction as the other decoder prints it.
pub struct DecodedLine {
    pub offset: usize,
    pub text: String,
}

/// The instructions; an error names what does not decode. What the other decoder lacks is ours
/// to decode, and shown as bytes: forms of AVX-512, and odd ones where data are taken for code (tests/second_decoder.rs
/// compares the two and explains each difference). None is an instruction that we add.
pub fn decode(bytes: &[u8]) -> Result<Vec<DecodedLine>, String> {
    let decoder = InstDecoder::default();
    let mut reader = Reader::new();
    let mut at = 0;
    let mut lines = Vec::new();
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (text, length) = match decoder.decode_slice(rest) {
            Ok(decoded) => (decoded.to_string(), decoded.len().to_const() as usize),
            Err(error) => {
                let code = CodeBytes { start: AT, bytes: rest };
                let ours = reader.instruction(&code, AT);
                let ours = ours.map_err(|_| format!("{error} at {at:#x}: {rest:02x?}"))?;
                let name = ours.mnemonic();
                (format!("{name} {:02x?}", &rest[..ours.length()]), ours.length())
            }
        };
        lines.push(DecodedLine { offset: at, text });
        at += length;
    }
    Ok(lines)
}

fn show(state: &State) -> String {
    let mut text = match state.rip {
        NativeRip::Known(address) => address.to_string(),
        NativeRip::Register(register, more) => {
            format!("{register}{:+#x}", more.cast_signed())
        }
        NativeRip::Slot(slot) => format!("gs:[{slot:#x}]"),
    };
    text += &state.instruction.map_or(" -".to_owned(), |number| format!(" #{number}"));
    for (register, slot) in state.saved.iter() {
        write!(text, " {register}=gs:[{slot:#x}]").unwrap();
    }
    let notes = [
        (state.recorded, "recorded"),
        (state.pointer_in_slot, "pointer in slot"),
        (state.looping, "looping"),
    ];
    for (_, note) in notes.iter().filter(|(holds, _)| *holds) {
        write!(text, ", {note}").unwrap();
    }
    text
}

/// The instructions at `from` and behind, each state once above those for which it holds.
pub fn listing(bytes: &[u8], from: usize, states: &States) -> String {
    let mut text = String::new();
    let mut last = None;
    let lines = decode(bytes).unwrap();
    for DecodedLine { offset, text: line } in lines.iter().filter(|line| line.offset >= from) {
        let offset = *offset;
        let state = states.at(offset);
        if state != last {
            writeln!(text, "  ; {}", state.map_or_else(|| "no state".to_owned(), show)).unwrap();
            last = state;
        }
        writeln!(text, "{offset:4x}  {line}").unwrap();
    }
    text
}

/// Every offset that the copy names, and where every state begins, is where the other decoder finds an instruction.
pub fn check_boundaries(translation: &Translation, at: RemoteAddr) {
    let instructions = decode(&translation.bytes[..translation.code_end]).unwrap();
    let starts: Vec<usize> = instructions.iter().map(|line| line.offset).collect();
    let begins = |offset: usize| starts.binary_search(&offset).is_ok();
    assert!(translation.states.from.iter().all(|(from, _)| begins(*from)));
    assert!(translation.states.from.is_sorted_by_key(|(from, _)| *from));
    assert_eq!(translation.states.from.first().map(|(from, _)| *from), Some(0));
    assert!(begins(translation.entry) && begins(translation.table_entry));
    // A field that is changed later is the end of a branch, and aligned to 4 bytes.
    let ends = |offset: usize| begins(offset + 4) || offset + 4 == translation.code_end;
    assert!(ends(translation.chain));
    for exit in &translation.exits {
        assert!(begins(exit.stub));
        let aligned = at.offset(exit.link as u64).0.is_multiple_of(4);
        assert!(!exit.linkable || ends(exit.link) && aligned, "{exit:?}");
    }
}
