//! Texts packed into ASCII: gzip, then base64.
//!
//! What for: documents of a self-contained page, which become a fifth as long. `ui/src/data.ts` unpacks them. What not: which
//! documents (`page`).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The same text gives the same bytes.
pub(crate) fn packed(text: &str) -> String {
    let mut zip = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let bytes = zip.write_all(text.as_bytes()).and_then(|()| zip.finish()).unwrap_or_default();
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| three.get(place).map_or(0, |byte| u32::from(*byte));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_packed_text_is_shorter_and_says_the_same() {
        let text = r#"{"rows":[[0,1,2],[0,1,2]],"name":"</script>"}"#.repeat(200);
        let packed = packed(&text);
        assert!(packed.len() * 5 < text.len() && !packed.contains('<'));
        let number = |letter: u8| LETTERS.iter().position(|one| *one == letter).unwrap_or(0) as u32;
        let bytes: Vec<u8> = packed
            .as_bytes()
            .chunks(4)
            .flat_map(|four| {
                let bits = four.iter().fold(0, |bits, letter| bits << 6 | number(*letter));
                bits.to_be_bytes()[1..].to_vec()
            })
            .collect();
        let mut again = String::new();
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut again).expect("gzip");
        assert_eq!(again, text);
    }
}
