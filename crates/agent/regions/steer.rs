//! Marks, pauses and their ends: one line to the collector over its socket (`collect::control`).
//!
//! What for: these are few, and the next line of the program relies on them. A pause and its end wait for the answer, at
//! most a fifth of a second; a mark carries its time and waits for nothing. What not: errors: a program must not care
//! whether somebody observes it.

use core::ffi::{c_int, c_void};

use super::{kernel, libc};

unsafe extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(socket: c_int, address: *const Address, length: u32) -> c_int;
    fn send(socket: c_int, bytes: *const u8, length: usize, flags: c_int) -> isize;
    fn recv(socket: c_int, bytes: *mut u8, length: usize, flags: c_int) -> isize;
    fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: u32,
    ) -> c_int;
}

/// unix(7).
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

/// sys/socket.h.
const AF_UNIX: c_int = 1;
/// SOCK_STREAM | SOCK_CLOEXEC.
const STREAM: c_int = 0o2_000_001;
const SOL_SOCKET: c_int = 1;
const SO_RCVTIMEO: c_int = 20;
const SO_SNDTIMEO: c_int = 21;
/// No SIGPIPE.
const MSG_NOSIGNAL: c_int = 0x4000;
/// Longest name of a mark.
const LONGEST: usize = 200;

/// Names this moment.
pub fn mark(name: &[u8]) {
    let mut line = [0u8; LONGEST + 64];
    let mut length = 0;
    let mut push = |byte: u8| {
        if let Some(place) = line.get_mut(length) {
            *place = byte;
            length += 1;
        }
    };
    b"mark-at ".iter().for_each(|byte| push(*byte));
    let now = kernel::now();
    // At most 20 digits.
    let mut power = 10_u64.pow(19);
    while power > 0 {
        if now >= power {
            push(b'0' + (now / power % 10) as u8);
        }
        power /= 10;
    }
    push(b' ');
    name.iter().take(LONGEST).for_each(|byte| push(if *byte < b' ' { b' ' } else { *byte }));
    push(b'\n');
    say(line.get(..length).unwrap_or_default(), false);
}

/// Asks for something and waits until it is done.
pub fn ask(line: &[u8]) {
    say(line, true);
}

fn say(line: &[u8], wait: bool) {
    // Safety: a name that ends with NUL.
    let path = unsafe { libc::getenv(c"FATHOM_CONTROL".as_ptr()) };
    // Safety: the C library's own text, or null.
    let path = unsafe { super::text(path) };
    let mut address = Address { family: AF_UNIX as u16, path: [0; 108] };
    if path.is_empty() || path.len() >= address.path.len() {
        return;
    }
    address.path.iter_mut().zip(path).for_each(|(place, byte)| *place = *byte);
    // Safety: live values of the lengths that are passed; the socket is our own until it is closed.
    unsafe {
        let socket = socket(AF_UNIX, STREAM, 0);
        if socket < 0 {
            return;
        }
        let patience: [i64; 2] = [0, 200_000];
        for name in [SO_SNDTIMEO, SO_RCVTIMEO] {
            setsockopt(socket, SOL_SOCKET, name, patience.as_ptr().cast(), 16);
        }
        let length = size_of::<Address>() as u32;
        if connect(socket, &raw const address, length) == 0
            && send(socket, line.as_ptr(), line.len(), MSG_NOSIGNAL) > 0
            && wait
        {
            let mut answer = [0u8; 256];
            recv(socket, answer.as_mut_ptr(), answer.len(), 0);
        }
        kernel::close(socket as isize);
    }
}
