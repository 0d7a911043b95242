//! Pauses of a collection, and marks: what somebody asks for through its socket.
//!
//! A pause has no samples, no bursts, no counts and no polled levels. Mappings, births and ends of processes and threads,
//! mapped memory and heap blocks are recorded throughout, because a gap would make everything after it wrong; and where threads
//! are followed, so is each switch. What not: the socket (`control`), the effect on figures (`facts::Pauses`).

use base::{Nanos, Pid};
use facts::{Fact, Mark, MarkKind, SinkError};
use sys::process;

use super::Session;
use crate::control::{CollectionStatus, Control, Request, Wish, status};
use crate::recorder::Recorder;

/// Most marks of a recording.
const MOST_MARKS: u64 = 10_000;

impl Session<'_> {
    /// Begins with a pause, if that is wanted.
    pub(super) fn start_paused(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if self.options.start_paused { self.pause(Nanos(0), None, recorder) } else { Ok(()) }
    }

    /// Does what was asked for since the last call.
    pub(super) fn answer(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let requests = self.control.as_mut().map(Control::requests);
        for request in requests.into_iter().flatten() {
            let answer = self.do_what(&request, recorder)?;
            request.answer(answer);
        }
        Ok(())
    }

    fn do_what(
        &mut self,
        request: &Request,
        recorder: &mut Recorder<'_>,
    ) -> Result<Result<String, String>, SinkError> {
        let now = process::monotonic() - self.start;
        let from = request.from.filter(|pid| recorder.has_seen(*pid));
        let at = |text: &str| format!("{text} at {:.3} s", now.seconds());
        Ok(match &request.wish {
            Wish::Status => Ok(status(&self.about())),
            Wish::Pause | Wish::Resume if self.kernel.is_some() => {
                Err("system-overview counts in the kernel without a pause".to_owned())
            }
            Wish::Pause if self.is_paused => Ok("was paused already".to_owned()),
            Wish::Resume if !self.is_paused => Ok("was not paused".to_owned()),
            Wish::Pause => {
                self.pause(now, from, recorder)?;
                Ok(at("paused"))
            }
            Wish::Resume => {
                self.resume(from, recorder)?;
                Ok(at("resumed"))
            }
            Wish::Mark(_) | Wish::MarkAt(..) if self.marks >= MOST_MARKS => {
                self.marks += 1;
                Err(format!("a recording has room for {MOST_MARKS} marks"))
            }
            Wish::Mark(name) => self.mark(now, name, from, recorder)?,
            Wish::MarkAt(time, name) => {
                self.mark((*time - self.start).min(now), name, from, recorder)?
            }
        })
    }

    fn mark(
        &mut self,
        time: Nanos,
        name: &str,
        pid: Option<Pid>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Result<String, String>, SinkError> {
        self.marks += 1;
        let said = format!("marked {name} at {:.3} s", time.seconds());
        let (kind, name) = (MarkKind::Mark, name.to_owned());
        recorder.push(Fact::Mark(Mark { time, kind, name, pid }))?;
        Ok(Ok(said))
    }

    /// A note on the marks that found no room.
    pub(super) fn marks_note(&self) -> Option<String> {
        let left_out = self.marks.checked_sub(MOST_MARKS).filter(|count| *count > 0)?;
        Some(format!("{left_out} marks were left out: a recording has room for {MOST_MARKS}"))
    }

    fn pause(
        &mut self,
        time: Nanos,
        pid: Option<Pid>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        self.is_paused = true;
        recorder.pause(time);
        self.source.cut(time);
        self.switch_sources(true, time);
        let kind = MarkKind::Pause;
        recorder.push(Fact::Mark(Mark { time, kind, name: String::new(), pid }))
    }

    fn resume(&mut self, pid: Option<Pid>, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.is_paused = false;
        self.switch_sources(false, process::monotonic() - self.start);
        let time = process::monotonic() - self.start;
        recorder.resume(time);
        // Not before: what begins in a pause is left out.
        self.source.cut(time);
        let kind = MarkKind::Resume;
        recorder.push(Fact::Mark(Mark { time, kind, name: String::new(), pid }))
    }

    fn switch_sources(&mut self, paused: bool, now: Nanos) {
        self.source.pause(paused, now);
        if let Some(marked) = &self.marked {
            marked.pause(paused.then(|| now + self.start));
        }
        if let Some(counting) = &self.counting {
            counting.pause(paused);
        }
        if let Some(bursts) = &self.bursts {
            bursts.pause(paused);
        }
    }

    fn about(&self) -> CollectionStatus {
        CollectionStatus {
            collector: std::process::id().cast_signed(),
            target: (!self.watches_machine()).then_some(self.pid.0),
            paused: self.is_paused,
            ..self.options.about.clone().unwrap_or_default()
        }
    }
}
