//! Places for copies, and their listing by the other decoder.

use std::fmt::Write as _;
use std::ops::Range;

use base::RemoteAddr;
use x86::translate::{Common, Flavour, NativeRip, Site, State, States, Translation};
use x86::{CodeBytes, Gpr, Reader};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::InstDecoder;

/// Where copies lie.
pub const AT: RemoteAddr = RemoteAddr(0x10_0000);
/// Where their cold parts lie.
pub const COLD: RemoteAddr = RemoteAddr(0x18_0000);
/// Where the shared code lies.
pub const COMMON: RemoteAddr = RemoteAddr(0x20_0000);

pub fn site(flavour: Flavour) -> Site {
    Site {
        at: AT,
        cold: COLD,
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

/// The instructions of a copy: its constants are none.
fn instructions(translation: &Translation) -> Vec<DecodedLine> {
    let Translation { bytes, constants, parts, .. } = translation;
    assert_eq!(constants.end, parts.split);
    let mut lines = decode(&bytes[..constants.start]).unwrap();
    let cold = decode(&bytes[parts.split..]).unwrap();
    lines.extend(
        cold.into_iter().map(|line| DecodedLine { offset: line.offset + parts.split, ..line }),
    );
    lines
}

/// The instructions but those at `hidden` offsets, each state once above those for which it holds.
pub fn listing(translation: &Translation, hidden: &Range<usize>) -> String {
    let mut lines = instructions(translation);
    lines.retain(|line| !hidden.contains(&line.offset));
    list(&lines, &translation.states)
}

/// The same of other code.
pub fn list(lines: &[DecodedLine], states: &States) -> String {
    let mut text = String::new();
    let mut last = None;
    for DecodedLine { offset, text: line } in lines {
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
pub fn check_boundaries(translation: &Translation) {
    let starts: Vec<usize> = instructions(translation).iter().map(|line| line.offset).collect();
    let begins = |offset: usize| starts.binary_search(&offset).is_ok();
    assert!(translation.states.from.iter().all(|(from, _)| begins(*from)));
    assert!(translation.states.from.is_sorted_by_key(|(from, _)| *from));
    assert_eq!(translation.states.from.first().map(|(from, _)| *from), Some(0));
    assert!(begins(translation.entry) && begins(translation.table.start));
    let parts = &translation.parts;
    assert!(translation.table.start >= parts.split);
    // A field that is changed later is the end of a branch, and aligned to 4 bytes.
    let last = [translation.constants.start, translation.bytes.len()];
    let ends = |offset: usize| begins(offset + 4) || last.contains(&(offset + 4));
    assert!(begins(translation.chain + 8) && parts.address(translation.chain).0.is_multiple_of(8));
    for exit in &translation.exits {
        assert!(begins(exit.stub));
        let aligned = parts.address(exit.link).0.is_multiple_of(4);
        assert!(!exit.linkable || ends(exit.link) && aligned, "{exit:?}");
    }
}
