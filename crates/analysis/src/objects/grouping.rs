//! Which row an access of a site to a part of an object belongs to.
//!
//! What for: one rule groups all figures of objects, so that their rows can be joined. What not: figures.

use base::{Nanos, Pid, RemoteAddr};

use super::{Objects, Part, Pieces, Window};
use crate::hotspots::{Key, RowKey};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::traced::{SiteIndex, TracedCode};

/// What is asked for of which objects.
#[derive(Clone, Copy)]
pub struct Grouping<'a> {
    /// The recording.
    pub profile: &'a Profile<'a>,
    /// Its traced code; the profile knows its addresses.
    pub code: &'a TracedCode,
    /// Its objects.
    pub objects: &'a Objects,
    /// What is asked for.
    pub selection: &'a Selection,
    /// Keys on code and objects; others are ignored.
    pub keys: &'a [Key],
}

impl Grouping<'_> {
    /// How finely the keys take objects apart.
    #[must_use]
    pub fn pieces(&self) -> Pieces {
        if self.keys.contains(&Key::Offset) {
            Pieces::Offsets
        } else if self.keys.contains(&Key::CacheLine) {
            Pieces::Lines
        } else if self.keys.contains(&Key::BandwidthDomain) || self.selection.chooses_nodes() {
            Pieces::Nodes
        } else {
            Pieces::Whole
        }
    }

    pub(crate) fn place(&self, site: SiteIndex) -> LocationId {
        let site = &self.code.sites[site.index()];
        self.profile.stacks.place_at(site.instruction)
    }

    /// The row of an access; `None` when it is not asked for.
    pub(crate) fn row(&self, site: SiteIndex, part: Part) -> Option<RowKey> {
        let key = self.key(self.place(site), part)?;
        Some(key.with_site(self.keys, &self.profile.types, &self.code.sites[site.index()]))
    }

    /// The row of code that uses a part of an object; `None` when it is not asked for.
    pub(crate) fn key(&self, place: LocationId, part: Part) -> Option<RowKey> {
        let is_asked = self.selection.has_object(part.object) && self.selection.has_node(part.node);
        if !self.selection.has_place(place) || !is_asked {
            return None;
        }
        let of_code = RowKey::at(self.keys, &self.profile.stacks, place);
        let object = self.keys.contains(&Key::Object).then_some(part.object);
        let node = part.node.filter(|_| self.keys.contains(&Key::BandwidthDomain));
        Some(RowKey { object, piece: part.piece, node, ..of_code })
    }

    /// The row of code that used an address at a time.
    pub(crate) fn row_at(
        &self,
        place: LocationId,
        (pid, address): (Pid, RemoteAddr),
        time: Nanos,
    ) -> Option<RowKey> {
        let window = Window { start: time, end: time };
        let part = self.objects.part(pid, address, window, self.pieces()).0;
        self.key(place, part)
    }
}
