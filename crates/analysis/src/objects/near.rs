//! The object of each access, looked up once as long as its site stays in it.
//!
//! What for: successive accesses of a site are mostly to one object; a look-up costs as much as hundreds of them. What not: parts of
//! objects (`units`), sums.

use base::{Nanos, Pid, RemoteAddr};
use facts::Burst;

use super::{Extent, Located, Objects, Window};
use crate::traced::SiteIndex;

/// What was at the last address of each site, in the burst at hand.
pub(crate) struct NearObjects<'a> {
    objects: &'a Objects,
    pid: Pid,
    window: Window,
    last: Vec<Option<(Located, Extent)>>,
    looked_up: Vec<SiteIndex>,
}

impl<'a> NearObjects<'a> {
    /// For this many sites.
    pub(crate) fn new(sites: usize, objects: &'a Objects) -> NearObjects<'a> {
        NearObjects {
            objects,
            pid: Pid(0),
            window: Window { start: Nanos(0), end: Nanos(0) },
            last: vec![None; sites],
            looked_up: Vec::new(),
        }
    }

    /// From here on accesses are of this burst.
    pub(crate) fn begin(&mut self, burst: &Burst) {
        for site in self.looked_up.drain(..) {
            self.last[site.index()] = None;
        }
        self.pid = burst.pid;
        self.window = Window { start: burst.time, end: burst.time + burst.elapsed };
    }

    /// What is at an address, and the addresses for which that holds. Where nothing is, the start says nothing.
    pub(crate) fn at(&mut self, site: SiteIndex, address: RemoteAddr) -> (Located, Extent) {
        match self.last[site.index()] {
            Some(last) if last.1.has(address) => last,
            _ => self.look_up(site, address),
        }
    }

    fn look_up(&mut self, site: SiteIndex, address: RemoteAddr) -> (Located, Extent) {
        let found = self.objects.locate(self.pid, address, self.window);
        if self.last[site.index()].replace(found).is_none() {
            self.looked_up.push(site);
        }
        found
    }
}
