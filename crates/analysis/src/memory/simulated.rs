//! Caches and TLB with a tally per unit: a site, and the part of an object that it accesses.
//!
//! What for: fetches of a site are counted by object. What not: what the tallies mean (`pass`).
//!
//! A run of a loop over several parts is simulated in pieces. The state is kept between them, so that the sum over parts equals
//! the outcome of the whole run.

use base::RemoteAddr;
use cachesim::{
    Access, Hierarchy, Kind, LevelTally, LoopAccess, LoopRun, PageSize, SiteId, SiteTally, Tlb,
};
use facts::Burst;

use crate::objects::{MOST_CUTS, Objects, Part, Pieces, UnitIndex, Units, steps_within};
use crate::traced::SiteIndex;

/// The model, with who touched what in the burst at hand.
pub(super) struct Simulated<'a> {
    caches: Hierarchy,
    pages: Tlb,
    page: PageSize,
    units: Units<'a>,
    touched: Vec<UnitIndex>,
    is_touched: Vec<bool>,
    /// Accesses of a piece of a loop; kept for its memory.
    body: Vec<LoopAccess>,
}

impl<'a> Simulated<'a> {
    pub(super) fn new(
        caches: Hierarchy,
        (pages, page): (Tlb, PageSize),
        sites: usize,
        objects: Option<(&'a Objects, Pieces)>,
    ) -> Simulated<'a> {
        let units = Units::new(sites, objects);
        let (touched, is_touched, body) = (Vec::new(), vec![false; sites], Vec::new());
        Simulated { caches, pages, page, units, touched, is_touched, body }
    }

    /// A burst begins: nothing is known of the caches.
    pub(super) fn begin(&mut self, burst: &Burst) {
        self.caches.forget();
        self.pages.forget();
        self.units.begin(burst);
    }

    /// Whether objects are distinguished.
    pub(super) fn divides(&self) -> bool {
        self.units.divides()
    }

    /// One access.
    #[inline]
    pub(super) fn access(&mut self, site: SiteIndex, address: RemoteAddr, bytes: u32, kind: Kind) {
        let unit = self.units.at(site, address).0;
        let site = self.touch(unit);
        let access = Access { address, bytes, kind, site };
        self.caches.access(&access);
        self.pages.access(&access, self.page);
    }

    /// A run of a loop, whose accesses name their sites as the code does.
    pub(super) fn run(&mut self, accesses: &[LoopAccess], iterations: u64, partial: usize) {
        let mut body = std::mem::take(&mut self.body);
        let mut done = 0;
        for cuts in 0.. {
            body.clear();
            let mut steps = iterations - done;
            for access in accesses {
                let way = access.stride.cast_unsigned().wrapping_mul(done);
                let start = RemoteAddr(access.start.0.wrapping_add(way));
                let (unit, extent) = self.units.at(SiteIndex::new(access.site.0 as usize), start);
                let site = self.touch(unit);
                body.push(LoopAccess { start, site, ..*access });
                if cuts < MOST_CUTS {
                    steps = steps.min(steps_within(extent, start, access.stride));
                }
            }
            done += steps;
            let is_last = done >= iterations;
            let partial = if is_last { partial } else { 0 };
            let run = LoopRun { accesses: &body, iterations: steps, partial };
            self.caches.run(&run);
            self.pages.run(&run, &vec![self.page; body.len()]);
            if is_last {
                break;
            }
        }
        self.body = body;
    }

    fn touch(&mut self, unit: UnitIndex) -> SiteId {
        if unit.index() >= self.is_touched.len() {
            self.is_touched.resize(unit.index() + 1, false);
        }
        if !std::mem::replace(&mut self.is_touched[unit.index()], true) {
            self.touched.push(unit);
        }
        SiteId(unit.index() as u32)
    }

    /// The tallies of the burst, and those of the second-level TLB, in the order of sites and parts.
    pub(super) fn take(&mut self, mut give: impl FnMut(SiteIndex, Part, &SiteTally, &LevelTally)) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable_by_key(|unit| (self.units.site_of(*unit), self.units.part_of(*unit)));
        for unit in touched.drain(..) {
            self.is_touched[unit.index()] = false;
            let id = SiteId(unit.index() as u32);
            let (tally, pages) = (self.caches.take_tally(id), self.pages.take_tally(id));
            give(self.units.site_of(unit), self.units.part_of(unit), &tally, &pages.second);
        }
        self.touched = touched;
    }
}
