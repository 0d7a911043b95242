//! Data TLBs: which address translations are cached.
//!
//! What for: the share of accesses that need the second-level TLB or a page walk, per site. Unknown cold contents are
//! treated as in caches. What not: the walk's own memory accesses, instruction TLBs, TLB prefetching.
//!
//! Assumptions: LRU; a page walk fills both levels; the second level is shared by both page sizes (Intel's STLB since
//! Haswell, AMD's L2 DTLB since Zen); no invalidations by the system during a trace. 1 GiB pages are not
//! distinguished: pass them as 2 MiB ones; one translation then covers less than in reality. Depths beyond
//! [`crate::DEPTHS`] of fully associative first levels count as the deepest.

use crate::access::{Access, Kind, LoopAccess, LoopRun, SiteId, Span};
use crate::cache::Cache;
use crate::config::{ColdLines, ConfigError, Frames, Geometry};
use crate::levels::Touched;
use crate::loops::{Levels, drive};
use crate::state::LineState;
use crate::tally::LevelTally;

/// Which pages the memory is mapped with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB.
    Huge,
}

impl PageSize {
    pub(crate) fn shift(self) -> u32 {
        match self {
            PageSize::Small => 12,
            PageSize::Huge => 21,
        }
    }
}

/// A TLB's size and shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TlbGeometry {
    /// Translations it holds; a multiple of the ways.
    pub entries: u32,
    /// Per set, 1..=128; as many as entries when fully associative.
    pub ways: u32,
}

impl TlbGeometry {
    fn build(self, level: &'static str, cold: ColdLines) -> Result<Cache, ConfigError> {
        let TlbGeometry { entries, ways } = self;
        if ways == 0 || !entries.is_multiple_of(ways) {
            return Err(ConfigError::Entries { level, entries, ways });
        }
        let geometry = Geometry::of_entries(entries, ways);
        geometry.check(level)?;
        Ok(Cache::new(geometry, cold, Frames::AsAddressed))
    }
}

/// The data TLBs of a core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TlbConfig {
    /// First level for small pages.
    pub small: TlbGeometry,
    /// First level for huge pages; `None` where they share the one of small pages.
    pub huge: Option<TlbGeometry>,
    /// Second level.
    pub second: Option<TlbGeometry>,
    /// The state at the start.
    pub cold: ColdLines,
}

/// The outcomes of a site's accesses. An access that misses in both levels needs a page walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlbTally {
    /// First level, of the page's size.
    pub first: LevelTally,
    /// Second level; all zero without one.
    pub second: LevelTally,
}

/// Simulated TLBs of a core.
#[derive(Clone, Debug)]
pub struct Tlb {
    small: Cache,
    huge: Option<Cache>,
    second: Option<Cache>,
    tallies: Vec<TlbTally>,
}

/// Distinguishes translations of huge pages from those of small ones: page numbers have at most 52 bits, and a cache
/// keeps 54.
const HUGE: u64 = 1 << 52;

fn tag(page: u64, size: PageSize) -> u64 {
    page | if size == PageSize::Huge { HUGE } else { 0 }
}

impl Tlb {
    /// Empty TLBs.
    ///
    /// # Errors
    /// The property of the configuration that cannot be simulated.
    pub fn new(config: &TlbConfig) -> Result<Tlb, ConfigError> {
        let build = |level, geometry: Option<TlbGeometry>| {
            geometry.map(|geometry| geometry.build(level, config.cold)).transpose()
        };
        Ok(Tlb {
            small: config.small.build("the TLB of small pages", config.cold)?,
            huge: build("the TLB of huge pages", config.huge)?,
            second: build("the second-level TLB", config.second)?,
            tallies: Vec::new(),
        })
    }

    /// Empties them at once; the tallies stay.
    pub fn forget(&mut self) {
        let rest = [self.huge.as_mut(), self.second.as_mut()];
        rest.into_iter().flatten().for_each(Cache::forget);
        self.small.forget();
    }

    /// The tally of each site, in the order of their numbers.
    #[must_use]
    pub fn tallies(&self) -> &[TlbTally] {
        &self.tallies
    }

    /// The tally of one site since the last call, which starts again at zero. The TLBs stay as they are.
    pub fn take_tally(&mut self, site: SiteId) -> TlbTally {
        self.tallies.get_mut(site.0 as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Simulates an access; all pages that it touches have the size given.
    #[inline]
    pub fn access(&mut self, access: &Access, size: PageSize) {
        self.make_room(access.site);
        for page in Span::of(access, size.shift()).iter(size.shift()) {
            self.translate(page, size, access.site);
        }
    }

    /// Simulates a run of a loop, exactly as its single accesses. `sizes` are those of the body's accesses, in their order;
    /// small where it ends early.
    pub fn run(&mut self, run: &LoopRun<'_>, sizes: &[PageSize]) {
        run.accesses.iter().for_each(|access| self.make_room(access.site));
        // Flushes and stores that bypass the caches need translations like loads.
        let loads = run.accesses.iter().map(|access| LoopAccess { kind: Kind::Read, ..*access });
        let loads: Vec<LoopAccess> = loads.collect();
        drive(&mut Pages { tlb: self, sizes }, &LoopRun { accesses: &loads, ..*run });
    }

    fn make_room(&mut self, site: SiteId) {
        if site.0 as usize >= self.tallies.len() {
            self.tallies.resize(site.0 as usize + 1, TlbTally::default());
        }
    }

    #[inline]
    fn translate(&mut self, page: u64, size: PageSize, site: SiteId) -> Touched {
        let (tag, site) = (tag(page, size), site.0 as usize);
        let first = match (&mut self.huge, size) {
            (Some(huge), PageSize::Huge) => huge,
            _ => &mut self.small,
        };
        let address = first.locate(tag);
        let class = match first.look_up(address) {
            Ok(hit) => {
                self.tallies[site].first.add_hits(hit.depth(), 1);
                return Touched::Hit(hit.depth());
            }
            Err(class) => class,
        };
        // A page walk changes only the second level: the first is filled at once.
        first.fill(address, LineState::fetched(class));
        self.tallies[site].first.absent.add(class);
        if let Some(second) = &mut self.second {
            let (tally, address) = (&mut self.tallies[site].second, second.locate(tag));
            match second.look_up_far(address) {
                Ok(hit) => tally.add_hits(hit.depth(), 1),
                Err(class) => {
                    tally.absent.add(class);
                    second.fill(address, LineState::fetched(class));
                }
            }
        }
        Touched::Missed
    }
}

/// The TLBs, and the page size of each access of a loop's body.
struct Pages<'a> {
    tlb: &'a mut Tlb,
    sizes: &'a [PageSize],
}

impl Pages<'_> {
    fn size(&self, access: usize) -> PageSize {
        self.sizes.get(access).copied().unwrap_or_default()
    }
}

impl Levels for Pages<'_> {
    fn shift(&self, access: usize) -> u32 {
        self.size(access).shift()
    }

    fn first_level_set(&self, access: usize, page: u64) -> u64 {
        let size = self.size(access);
        match (&self.tlb.huge, size) {
            // Another array: its sets are not the small ones'.
            (Some(huge), PageSize::Huge) => huge.set_of(tag(page, size)) | HUGE,
            _ => self.tlb.small.set_of(tag(page, size)),
        }
    }

    #[inline]
    fn touch(&mut self, access: usize, page: u64, _: Kind, site: SiteId) -> Touched {
        let size = self.size(access);
        self.tlb.translate(page, size, site)
    }

    fn add_hits(&mut self, site: SiteId, depth: u8, count: u64) {
        self.tlb.tallies[site.0 as usize].first.add_hits(depth, count);
    }

    fn removals(&self) -> u64 {
        0
    }
}
