//! The interface: accesses in, tallies of sites out.
//!
//! What not: what an access does to the levels (`levels`), loops (`loops`).

use crate::access::{Access, SiteId, Span};
use crate::config::{Config, ConfigError};
use crate::levels::Caches;
use crate::tally::SiteTally;

/// A simulated cache hierarchy.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub(crate) caches: Caches,
    tallies: Vec<SiteTally>,
}

impl Hierarchy {
    /// Empty caches.
    ///
    /// # Errors
    /// The property of the configuration that cannot be simulated.
    pub fn new(config: &Config) -> Result<Hierarchy, ConfigError> {
        config.check()?;
        Ok(Hierarchy { caches: Caches::new(config), tallies: Vec::new() })
    }

    /// Empties the caches at once, as between bursts; the tallies stay.
    pub fn forget(&mut self) {
        self.caches.forget();
    }

    /// The tally of each site, in the order of their numbers.
    #[must_use]
    pub fn tallies(&self) -> &[SiteTally] {
        &self.tallies
    }

    /// The tally of one site since the last call, which starts again at zero. The caches stay as they are.
    pub fn take_tally(&mut self, site: SiteId) -> SiteTally {
        self.tallies.get_mut(site.0 as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Simulates an access.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        let (caches, tally) = self.with_tally(access.site);
        tally.count(access, 1);
        let shift = caches.shift;
        let span = Span::of(access, shift);
        if span.lines == 1 {
            caches.touch(span.first, access.kind, tally);
            return;
        }
        for line in span.iter(shift) {
            caches.touch(line, access.kind, tally);
        }
    }

    /// The levels, and the tally of a site.
    #[inline]
    pub(crate) fn with_tally(&mut self, site: SiteId) -> (&mut Caches, &mut SiteTally) {
        let site = site.0 as usize;
        if site >= self.tallies.len() {
            self.make_room(site);
        }
        (&mut self.caches, &mut self.tallies[site])
    }

    #[cold]
    fn make_room(&mut self, site: usize) {
        self.tallies.resize(site + 1, SiteTally::default());
    }
}
