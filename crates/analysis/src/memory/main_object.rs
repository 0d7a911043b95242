//! The main object of some accesses: the one from which they fetch most lines.
//!
//! What for: findings name data as well as code. What not: rows of objects (`parts`), and totals of the run: the sums here are
//! those of the bursts, because only their proportions count.

use std::collections::BTreeMap;

use super::Memory;
use crate::objects::{ObjectId, Objects, Part};
use crate::traced::SiteIndex;
use crate::types::SiteTypes;

/// What a site fetches from each object, lines, and how often it accesses it.
pub(crate) type OfObjects = Vec<(ObjectId, f64, f64)>;

impl Memory<'_> {
    /// What a site has of each object. It is asked for more than once of each: as a site, of its function, of the program.
    pub(crate) fn objects_of(&self, site: SiteIndex) -> OfObjects {
        let mut found: OfObjects = Vec::new();
        // Parts of an object stand next to each other.
        for (site, part) in self.parts_of(site) {
            if found.last().is_none_or(|(object, ..)| *object != part.object) {
                found.push((part.object, 0.0, 0.0));
            }
            let Some((_, lines, accesses)) = found.last_mut() else { continue };
            for (_, burst, work, part) in self.works_of_part(site, part) {
                *lines += self.model.fetched(burst, work, &part.fills).best;
                *accesses += part.loads.saturating_add(part.stores) as f64;
            }
        }
        found
    }

    /// The object from which these sites fetch most lines, with its share of all that they fetch, percent; of sites that
    /// fetch none, the one that they use most. `None` where objects are not distinguished.
    pub(crate) fn main_object(&self, sites: &[SiteIndex]) -> Option<(ObjectId, f64)> {
        main_object(sites.iter().flat_map(|site| self.objects_of(*site)))
    }

    /// The type that most accesses to an object are to, where debug information knows one for most of them.
    #[must_use]
    pub fn element_types(&self, types: &SiteTypes) -> BTreeMap<ObjectId, String> {
        let mut sums: BTreeMap<ObjectId, BTreeMap<&str, f64>> = BTreeMap::new();
        for (site, part) in self.parts.keys() {
            let accesses = self.works_of_part(*site, *part);
            let accesses: f64 =
                accesses.map(|(.., part)| part.loads.saturating_add(part.stores) as f64).sum();
            let of = types.type_of(&self.code.sites[site.index()]);
            let name = if types.is_known(of) { types.type_name(of) } else { "" };
            *sums.entry(part.object).or_default().entry(name).or_default() += accesses;
        }
        let most = |(object, types): (ObjectId, BTreeMap<&str, f64>)| {
            let all: f64 = types.values().sum();
            let (name, most) = types.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            (!name.is_empty() && most > all / 2.0).then(|| (object, name.to_owned()))
        };
        sums.into_iter().filter_map(most).collect()
    }

    fn parts_of(&self, site: SiteIndex) -> impl Iterator<Item = (SiteIndex, Part)> {
        let first = Part::whole(Objects::unknown());
        let own = self.parts.range((site, first)..).map(|(key, _)| *key);
        own.take_while(move |(of, _)| *of == site)
    }
}

/// The same of what some sites have of objects.
pub(crate) fn main_object(
    sites: impl Iterator<Item = (ObjectId, f64, f64)>,
) -> Option<(ObjectId, f64)> {
    let mut sums: BTreeMap<ObjectId, (f64, f64)> = BTreeMap::new();
    for (object, lines, accesses) in sites {
        let sum = sums.entry(object).or_default();
        sum.0 += lines;
        sum.1 += accesses;
    }
    let all = sums.values().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    // A line or two are those with which a burst began.
    let by_lines = all.0 >= 1.0;
    let amount = |sum: &(f64, f64)| if by_lines { sum.0 } else { sum.1 };
    let (object, sum) = sums.iter().max_by(|a, b| amount(a.1).total_cmp(&amount(b.1)))?;
    (amount(&all) > 0.0).then(|| (*object, amount(sum) / amount(&all) * 100.0))
}
