//! Looks names up in the background, so that no report waits for all of them.
//!
//! What for: a report should appear soon after a program's end, however much debug information there is. [`Naming`]
//! reads it on its own threads; a caller waits until a given time and gets the names found by then. What not: the
//! report without the missing names.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use base::{CodeAddress, Nanos, Pid};
use facts::{Frame, Mapping, Module};

use super::{Globals, Options, STACK_BYTES, Step, Symbolised, globals, symbolise};

/// What to name.
#[derive(Debug)]
pub struct Wanted {
    /// All modules.
    pub modules: Vec<Module>,
    /// Addresses, as for [`symbolise`].
    pub addresses: Vec<CodeAddress>,
    /// How.
    pub options: Options,
    /// Mappings of code, and the processes whose variables are wanted, as for [`globals`].
    pub mappings: Vec<Mapping>,
    /// Likewise.
    pub processes: Vec<Pid>,
}

enum News {
    Step(usize, usize),
    Named(Vec<Frame>),
    All(Box<(Symbolised, Globals)>),
}

/// A look-up in progress.
#[derive(Debug)]
pub struct Naming {
    news: Receiver<News>,
    so_far: Vec<Frame>,
}

impl Naming {
    /// Begins.
    #[must_use]
    pub fn start(wanted: Wanted) -> Naming {
        let (sender, news) = mpsc::channel();
        let thread = std::thread::Builder::new().name("naming".to_owned()).stack_size(STACK_BYTES);
        // Shared: where no thread can be created, the work is done here, and waited for.
        let wanted = std::sync::Arc::new(wanted);
        let (theirs, their_sender) = (std::sync::Arc::clone(&wanted), sender.clone());
        if thread.spawn(move || look_up(&theirs, &their_sender)).is_err() {
            look_up(&wanted, &sender);
        }
        Naming { news, so_far: Vec::new() }
    }

    /// Waits until everything is named; `None` if that takes until after a moment (CLOCK_MONOTONIC). `progress` gets
    /// the number of addresses that are done, and of all.
    pub fn wait(
        &mut self,
        until: Nanos,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Option<(Symbolised, Globals)> {
        loop {
            let left = until - sys::process::monotonic().min(until);
            match self.news.recv_timeout(Duration::from_nanos(left.0)) {
                Ok(News::Step(done, all)) => progress(done, all),
                Ok(News::Named(frames)) => self.so_far.extend(frames),
                Ok(News::All(all)) => return Some(*all),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    let problems = vec![
                        "naming functions failed by a bug in Fathom; please report it".to_owned(),
                    ];
                    let frames = std::mem::take(&mut self.so_far);
                    let named = Symbolised { frames, problems, ..Symbolised::default() };
                    return Some((named, Globals::default()));
                }
            }
        }
    }

    /// The frames found before the last wait ended, a module's all at once. A module whose debug information is too
    /// large to be read by then has functions without lines.
    #[must_use]
    pub fn so_far(&self) -> &[Frame] {
        &self.so_far
    }
}

/// The receiver lives until the last message, so sending does not fail.
fn look_up(wanted: &Wanted, sender: &Sender<News>) {
    let Wanted { modules, addresses, options, mappings, processes } = wanted;
    let variables = || globals(modules, mappings, processes, options);
    let both = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("variables".to_owned());
        let thread = thread.stack_size(STACK_BYTES).spawn_scoped(scope, variables).ok();
        let named = symbolise(modules, addresses, options, &mut |step| {
            let _ = sender.send(match step {
                Step::Done(done, all) => News::Step(done, all),
                Step::Named(frames) => News::Named(frames.to_vec()),
            });
        });
        let globals =
            thread.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (named, globals.unwrap_or_else(variables))
    });
    let _ = sender.send(News::All(Box::new(both)));
}
