//! What `fathom place` asks for, as words of one variable: `touch;object=BYTES:MASK:AFTER;nodes=0,0,1,1`.
//!
//! What not: whether it is possible; `fathom place` has looked.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::system::{getenv, now};

/// The variable.
pub const VARIABLE: &CStr = c"FATHOM_PLACEMENT";
/// CPUs beyond are taken for such of node 0.
const CPUS: usize = 4096;

/// Whether pages go to their next user.
pub static TOUCH: AtomicBool = AtomicBool::new(false);
/// Bytes asked for of the block that goes elsewhere; 0 for none.
pub static OBJECT: AtomicU64 = AtomicU64::new(0);
/// The nodes that it goes to, a bit each.
pub static OBJECT_NODES: AtomicU64 = AtomicU64::new(0);
/// Milliseconds after the start of the process when it goes there.
pub static OBJECT_AFTER: AtomicU64 = AtomicU64::new(0);
/// When the process started, in milliseconds of [`now`].
pub static BEGAN: AtomicU64 = AtomicU64::new(0);
static NODES: [AtomicU8; CPUS] = [const { AtomicU8::new(0) }; CPUS];

/// The node of a CPU.
pub fn node_of(cpu: usize) -> u8 {
    NODES.get(cpu).map_or(0, |node| node.load(Ordering::Relaxed))
}

/// Reads the variable.
pub extern "C" fn read() {
    BEGAN.store(now(), Ordering::Relaxed);
    // Safety: a name that ends with NUL; what is found ends with NUL and stays, as nobody sets it.
    let text = unsafe {
        let text = getenv(VARIABLE.as_ptr());
        if text.is_null() {
            return;
        }
        CStr::from_ptr(text).to_bytes()
    };
    for word in text.split(|byte| *byte == b';') {
        if word == b"touch" {
            TOUCH.store(true, Ordering::Relaxed);
        } else if let Some(list) = word.strip_prefix(b"nodes=") {
            for (node, of) in list.split(|byte| *byte == b',').zip(&NODES) {
                of.store(number(node) as u8, Ordering::Relaxed);
            }
        } else if let Some(object) = word.strip_prefix(b"object=") {
            let fields = object.split(|byte| *byte == b':');
            for (field, to) in fields.zip([&OBJECT, &OBJECT_NODES, &OBJECT_AFTER]) {
                to.store(number(field), Ordering::Relaxed);
            }
        }
    }
}

/// A number in decimal; what is none of its digits ends it.
pub fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, byte| sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
}
