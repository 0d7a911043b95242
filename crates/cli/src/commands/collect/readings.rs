//! Readings of the memory's speed just before a program starts and right after its end, and of what pages cost before it.
//!
//! What for: which recordings have them, and the note where one failed. What not: measuring (`calibrate::reading`); what follows
//! from it (`analysis::machine_then`). Not for programs that run already, or still: a reading would disturb them, and they it.
//! Nor for a rank of an MPI job, whose neighbours run.

use calibrate::reading::Reader;
use facts::Run;
use facts::host::{Host, MemoryReading, PageReading, ReadingMoment};

use crate::knobs::Settings;

/// Those of one recording.
#[derive(Default)]
pub(super) struct Readings {
    reader: Option<Reader>,
    taken: Vec<MemoryReading>,
    /// Of the last that failed.
    why_not: Option<String>,
    /// Where pages are to be read.
    host: Option<Host>,
    pages: Option<PageReading>,
}

impl Readings {
    /// Only where accesses are traced does bandwidth matter, and only where the machine was measured can it be compared.
    pub(super) fn new(run: &Run, started_by_us: bool, settings: &Settings) -> Readings {
        let mut readings = Readings::default();
        let wanted = settings.calibrate && settings.bursts.is_some();
        let of_accesses = run.analysis == facts::Analysis::MemoryAccess;
        let Some(stored) = run.calibration.as_ref() else { return readings };
        if !wanted || !of_accesses || !started_by_us {
            return readings;
        }
        if run.rank.is_some() {
            readings.why_not = Some("other ranks of its job run on this machine".to_owned());
            return readings;
        }
        readings.host = Some(run.host.clone());
        match Reader::new(&run.host, stored) {
            Ok(reader) => readings.reader = Some(reader),
            Err(why) => readings.why_not = Some(why),
        }
        readings
    }

    pub(super) fn take(&mut self, moment: ReadingMoment) {
        // First, because the other touches large pages, which are free afterwards. Without it the calibration has to do.
        if let Some(host) = self.host.as_ref().filter(|_| moment == ReadingMoment::Before) {
            self.pages = calibrate::pages::read(host).ok();
        }
        match self.reader.as_ref().map(|reader| reader.read(moment)) {
            Some(Ok(reading)) => self.taken.push(reading),
            Some(Err(why)) => self.why_not = Some(why),
            None => {}
        }
    }

    /// Hands them over. One is enough; where there is none, a note says why.
    pub(super) fn finish(self, run: &mut Run) {
        if let (true, Some(why)) = (self.taken.is_empty(), self.why_not) {
            run.notes.push(format!(
                "the memory's speed was not read at this run ({why}): bandwidths of this machine are as measured before"
            ));
        }
        run.memory_readings = self.taken;
        run.page_reading = self.pages;
    }
}
