//! Places for copies, and their listing by the other decoder.

use std::fmt::Write as _;

use base::RemoteAddr;
use x86::translate::{Common, Flavour, NativeRip, Site, State, States};
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
    }
}

/// Offset, text and length of each instruction; an error names what does not decode. AVX-512 forms that the other
/// decoder lacks (tests/second_decoder.rs names them) are ours to decode, and shown as bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<(usize, String, usize)>, String> {
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
                if !["v", "k"].iter().any(|letter| name.starts_with(letter)) {
                    return Err(format!("{error} at {at:#x}: {name} {rest:02x?}"));
                }
                (format!("{name} {:02x?}", &rest[..ours.length()]), ours.length())
            }
        };
        lines.push((at, text, length));
        at += length;
    }
    Ok(lines)
}

fn show(state: &State) -> String {
    let mut text = match state.rip {
        NativeRip::At(address) => address.to_string(),
        NativeRip::Register(register, more) => {
            format!("{register}{:+#x}", more.cast_signed())
        }
        NativeRip::Slot(slot) => format!("gs:[{slot:#x}]"),
    };
    text += &state.instruction.map_or(" -".to_owned(), |number| format!(" #{number}"));
    for (register, slot) in &state.saved {
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
    for (offset, line, _) in decode(bytes).unwrap().iter().filter(|line| line.0 >= from) {
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
