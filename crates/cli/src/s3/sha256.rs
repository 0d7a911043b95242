//! SHA-256 (FIPS 180-4) and HMAC (RFC 2104): what signatures of S3 are made of.
//!
//! What not: passwords, or any use in which time must not tell the key: a request is signed on the user's own machine.

use std::sync::LazyLock;

const FIRST: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
static CONSTANTS: LazyLock<[u32; 64]> = LazyLock::new(|| {
    let is_prime = |number: &u64| {
        (2..*number).take_while(|by| by * by <= *number).all(|by| !number.is_multiple_of(by))
    };
    let mut primes = (2..).filter(is_prime);
    std::array::from_fn(|_| cube_root_part(primes.next().unwrap_or(2)))
});

/// By whole numbers: the largest whose cube is at most `number` * 2^96, less its whole part.
fn cube_root_part(number: u64) -> u32 {
    let (mut root, wanted) = (0_u128, u128::from(number) << 96);
    for bit in (0..36).rev() {
        let more = root | 1 << bit;
        // Below 2^35 for primes up to 311, so that the cube is below 2^105.
        if more * more * more <= wanted {
            root = more;
        }
    }
    root as u32
}

/// The hash of bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut message = bytes.to_vec();
    message.push(0x80);
    message.resize(message.len().next_multiple_of(64), 0);
    if message.len() - bytes.len() < 9 {
        message.resize(message.len() + 64, 0);
    }
    let end = message.len() - 8;
    message[end..].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    let mut state = FIRST;
    for block in message.chunks_exact(64) {
        round(&mut state, block);
    }
    let mut hash = [0; 32];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

fn round(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..64 {
        let (one, other) = (words[at - 15], words[at - 2]);
        let one = one.rotate_right(7) ^ one.rotate_right(18) ^ one >> 3;
        let other = other.rotate_right(17) ^ other.rotate_right(19) ^ other >> 10;
        words[at] =
            words[at - 16].wrapping_add(one).wrapping_add(words[at - 7]).wrapping_add(other);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(CONSTANTS.iter()) {
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let one =
            h.wrapping_add(sum).wrapping_add(choice).wrapping_add(*constant).wrapping_add(*word);
        let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let other = sum.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(one));
        (d, c, b, a) = (c, b, a, one.wrapping_add(other));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(more);
    }
}

/// The keyed hash of bytes.
pub fn hmac(key: &[u8], bytes: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; 64];
    match key.len() {
        0..=64 => block[..key.len()].copy_from_slice(key),
        _ => block[..32].copy_from_slice(&sha256(key)),
    }
    let inner = sha256(&[&block.map(|byte| byte ^ 0x36), bytes].concat());
    sha256(&[&block.map(|byte| byte ^ 0x5c)[..], &inner].concat())
}

/// In hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standards() {
        let of = |bytes: &[u8]| hex(&sha256(bytes));
        assert_eq!(CONSTANTS[0], 0x428a_2f98);
        assert_eq!(CONSTANTS[63], 0xc671_78f2);
        assert_eq!(of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(
            of(two_blocks),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        let million = of(&[b'a'; 1_000_000]);
        assert_eq!(million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
        // RFC 4231, cases 2 and 6.
        let keyed = hex(&hmac(b"Jefe", b"what do ya want for nothing?"));
        assert_eq!(keyed, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }
}
