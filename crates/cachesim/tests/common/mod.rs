//! What the tests share: random numbers, configurations, and a hierarchy written as plainly as possible.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod naive;

use base::{Bytes, RemoteAddr};
use cachesim::{Access, ColdLines, Config, Frames, Geometry, Hierarchy, Kind, PageSize, SiteId};

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Lines of 64 bytes.
pub fn geometry(sets: u64, ways: u32) -> Geometry {
    Geometry { bytes: Bytes(sets * u64::from(ways) * 64), ways, line_bytes: 64 }
}

/// Empty at the start, only L1.
pub fn plain(l1: Geometry) -> Config {
    Config { l1, l2: None, llc: None, cold: ColdLines::Miss, frames: Frames::AsAddressed }
}

/// Three levels.
pub fn three_levels(random: &mut Random) -> Config {
    let mut config = plain(geometry(random.one_of(&[1, 4, 7, 16]), random.one_of(&[2, 4, 12])));
    config.l2 = Some(geometry(random.one_of(&[4, 9, 16]), random.one_of(&[2, 5, 16])));
    config.llc = Some(geometry(random.one_of(&[1, 4, 13, 32]), random.one_of(&[1, 2, 11, 20, 40])));
    config.cold = random.one_of(&[ColdLines::Miss, ColdLines::Unknown]);
    config
}

/// Small caches, so that random traces fill them; odd numbers of sets and ways among them.
pub fn any_config(random: &mut Random) -> Config {
    let l1 = geometry(random.one_of(&[1, 2, 4, 7]), random.one_of(&[1, 2, 3, 4, 8]));
    let l2 = geometry(random.one_of(&[4, 8, 9]), random.one_of(&[2, 4, 5]));
    let llc = geometry(random.one_of(&[4, 12, 16]), random.one_of(&[2, 4, 11, 20]));
    Config {
        l1,
        l2: random.one_of(&[None, Some(l2)]),
        llc: random.one_of(&[None, Some(llc)]),
        cold: random.one_of(&[ColdLines::Miss, ColdLines::Unknown]),
        frames: Frames::AsAddressed,
    }
}

/// Pages anywhere, with larger outer levels: in small ones a page has lines of all sets.
pub fn scattered(config: Config, random: &mut Random) -> Config {
    let larger = |level: Geometry, sets| geometry(sets, level.ways);
    Config {
        l2: config.l2.map(|l2| larger(l2, random.one_of(&[128, 200]))),
        llc: config.llc.map(|llc| larger(llc, random.one_of(&[256, 300]))),
        frames: Frames::Scattered(PageSize::Small),
        ..config
    }
}

const OFTEN: [Kind; 4] = [Kind::Read, Kind::Read, Kind::Write, Kind::ReadWrite];
const SELDOM: [Kind; 5] =
    [Kind::StreamingRead, Kind::StreamingWrite, Kind::Prefetch, Kind::Flush, Kind::WriteBack];

pub fn any_kind(random: &mut Random) -> Kind {
    if random.below(10) == 0 { random.one_of(&SELDOM) } else { random.one_of(&OFTEN) }
}

/// An access somewhere in `lines` lines.
pub fn any_access(random: &mut Random, lines: u64) -> Access {
    let bytes = random.one_of(&[1, 4, 8, 8, 8, 32, 64, 0, 200]);
    let address = RemoteAddr(0x7000 + random.below(lines * 64));
    let kind = any_kind(random);
    Access { address, bytes, kind, site: SiteId(random.below(5) as u32) }
}

pub fn read(line: u64) -> Access {
    let address = RemoteAddr(line * 64);
    Access { address, bytes: 8, kind: Kind::Read, site: SiteId(0) }
}

pub fn write(line: u64) -> Access {
    Access { kind: Kind::Write, ..read(line) }
}

/// A hierarchy after these accesses.
pub fn after(config: &Config, accesses: &[Access]) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(config).expect("it can be simulated");
    for access in accesses {
        hierarchy.access(access);
    }
    hierarchy
}
