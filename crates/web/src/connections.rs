//! Connections whose request has not arrived.
//!
//! What for: any program of this machine, also another user's, may connect and send nothing. Each connection has a thread of
//! its own, and the oldest idle one is closed when there are too many. So idle ones never delay a browser, whose
//! request is there at once. What not: reading requests (`http`); who has sent the token is not limited.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Idle connections that are kept. A browser opens six to one server, some of them in advance.
const MOST: usize = 64;

/// Idle connections by number, the oldest first.
#[derive(Default)]
pub(crate) struct Idle {
    streams: Mutex<VecDeque<(u64, TcpStream)>>,
}

impl Idle {
    fn streams(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, of a number that no other has. Closes the oldest where there are too many.
    ///
    /// # Errors
    /// When there is no descriptor for it.
    pub(crate) fn add(&self, number: u64, stream: &TcpStream) -> std::io::Result<()> {
        let stream = stream.try_clone()?;
        let mut streams = self.streams();
        if streams.len() >= MOST
            && let Some((_, oldest)) = streams.pop_front()
        {
            // Its thread reads the end. A connection that the other side closed meanwhile is none to close.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        streams.push_back((number, stream));
        Ok(())
    }

    /// Its request is here, or will never be.
    pub(crate) fn remove(&self, number: u64) {
        self.streams().retain(|(other, _)| *other != number);
    }
}
