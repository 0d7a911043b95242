//! A cache hierarchy without any cleverness: sets are lists of ways, searched from end to end.
//!
//! What for: the real one must agree with it in every count. It shares no code with it, only the vocabulary.

use std::collections::HashMap;

use cachesim::{
    Access, ColdLines, Config, DEPTHS, FillClass, Geometry, Kind, LevelTally, SiteTally,
};

#[derive(Clone, Copy)]
struct Entry {
    line: u64,
    class: FillClass,
    dirtied: bool,
}

#[derive(Clone, Default)]
struct Set {
    ways: Vec<Option<Entry>>,
    /// Ways, most recent first.
    recency: Vec<usize>,
}

struct Level {
    config: Config,
    ways: usize,
    sets: Vec<Set>,
}

impl Level {
    fn new(config: &Config, geometry: Geometry) -> Level {
        let sets = vec![Set::default(); geometry.sets() as usize];
        Level { config: *config, ways: geometry.ways as usize, sets }
    }

    fn set(&mut self, line: u64) -> &mut Set {
        // A page of 4 KiB has lines of 64 sets: where there are no more, it does not matter where it lies.
        let scattered = self.sets.len() > 64;
        let line = if scattered { self.config.frames.line(line, 6) } else { line };
        let index = (line % self.sets.len() as u64) as usize;
        &mut self.sets[index]
    }

    fn way(&mut self, line: u64) -> Option<usize> {
        self.set(line).ways.iter().position(|way| way.is_some_and(|entry| entry.line == line))
    }

    fn entry(&mut self, line: u64) -> Option<&mut Entry> {
        let way = self.way(line)?;
        self.set(line).ways[way].as_mut()
    }

    /// Depth, or what is known.
    fn look_up(&mut self, line: u64) -> Result<usize, FillClass> {
        if let Some(way) = self.way(line) {
            let depth = self.set(line).recency.iter().position(|one| *one == way).unwrap();
            self.touched(line, way);
            return Ok(depth);
        }
        let (seen, ways) = (self.set(line).ways.len(), self.ways);
        if seen < ways && self.config.cold == ColdLines::Unknown {
            return Err(FillClass::Unknown { age: seen as u8 });
        }
        Err(FillClass::Miss)
    }

    fn touched(&mut self, line: u64, way: usize) {
        let set = self.set(line);
        set.recency.retain(|one| *one != way);
        set.recency.insert(0, way);
    }

    fn fill(&mut self, entry: Entry) -> Option<Entry> {
        let (line, ways) = (entry.line, self.ways);
        let set = self.set(line);
        let oldest_gap = set.recency.iter().rev().find(|way| set.ways[**way].is_none());
        let (way, evicted) = if let Some(gap) = oldest_gap {
            (*gap, None)
        } else if set.ways.len() < ways {
            set.ways.push(None);
            (set.ways.len() - 1, None)
        } else {
            let way = *set.recency.last().unwrap();
            (way, set.ways[way])
        };
        self.set(line).ways[way] = Some(entry);
        self.touched(line, way);
        evicted
    }

    fn remove(&mut self, line: u64) {
        if let Some(way) = self.way(line) {
            self.set(line).ways[way] = None;
        }
    }
}

/// The hierarchy.
pub struct Naive {
    l1: Level,
    l2: Option<Level>,
    llc: Option<Level>,
    /// The last line fetched from a page, by a hash of the page.
    fetched: HashMap<u64, u64>,
    pub tallies: Vec<SiteTally>,
}

fn tally(level: &mut LevelTally, outcome: Result<usize, FillClass>) {
    match outcome {
        Ok(depth) => level.hits[depth.min(DEPTHS - 1)] += 1,
        Err(FillClass::Unknown { age }) => {
            level.absent.unknown[usize::from(age).min(DEPTHS)] += 1;
        }
        Err(FillClass::Miss) => level.absent.misses += 1,
    }
}

impl Naive {
    pub fn new(config: &Config) -> Naive {
        Naive {
            l1: Level::new(config, config.l1),
            l2: config.l2.map(|geometry| Level::new(config, geometry)),
            llc: config.llc.map(|geometry| Level::new(config, geometry)),
            fetched: HashMap::new(),
            tallies: Vec::new(),
        }
    }

    pub fn access(&mut self, access: &Access) {
        let site = access.site.0 as usize;
        while self.tallies.len() <= site {
            self.tallies.push(SiteTally::default());
        }
        let tally = &mut self.tallies[site];
        tally.loads +=
            u64::from(matches!(access.kind, Kind::Read | Kind::ReadWrite | Kind::StreamingRead));
        tally.stores += u64::from(matches!(access.kind, Kind::Write | Kind::ReadWrite));
        if access.kind == Kind::StreamingWrite {
            tally.streaming_stores += 1;
            tally.streaming_bytes += u64::from(access.bytes);
        }
        let mut last = None;
        for byte in 0..u64::from(access.bytes) {
            let line = (access.address.0 + byte) / 64;
            if last != Some(line) {
                self.touch(line, access.kind, site);
            }
            last = Some(line);
        }
    }

    fn touch(&mut self, line: u64, kind: Kind, site: usize) {
        if matches!(kind, Kind::StreamingWrite | Kind::Flush) {
            let levels = [Some(&mut self.l1), self.l2.as_mut(), self.llc.as_mut()];
            levels.into_iter().flatten().for_each(|level| level.remove(line));
            return;
        }
        if kind == Kind::WriteBack {
            let levels = [Some(&mut self.l1), self.l2.as_mut(), self.llc.as_mut()];
            let copies = levels.into_iter().flatten().filter_map(|level| level.entry(line));
            copies.for_each(|entry| entry.dirtied = false);
            return;
        }
        let outcome = self.l1.look_up(line);
        tally(&mut self.tallies[site].l1, outcome);
        if let Err(class) = outcome {
            let entry = self.beyond_l1(line, site, class);
            if let Some(evicted) = self.l1.fill(entry) {
                left([&mut self.l2, &mut self.llc], evicted);
            }
        }
        if matches!(kind, Kind::Write | Kind::ReadWrite) {
            let entry = self.l1.entry(line).unwrap();
            if !entry.dirtied {
                let mut dirtied = LevelTally::default();
                tally(&mut dirtied, Err(entry.class));
                self.tallies[site].dirtied += &dirtied.absent;
            }
            entry.dirtied = true;
        }
    }

    /// What L1 gets.
    fn beyond_l1(&mut self, line: u64, site: usize, class: FillClass) -> Entry {
        let Some(l2) = &mut self.l2 else { return self.beyond_private(line, site, class) };
        let outcome = l2.look_up(line);
        tally(&mut self.tallies[site].l2, outcome);
        match outcome {
            Ok(_) => *l2.entry(line).unwrap(),
            Err(class) => {
                let entry = self.beyond_private(line, site, class);
                if let Some(evicted) = self.l2.as_mut().unwrap().fill(entry) {
                    left([&mut self.llc], evicted);
                }
                entry
            }
        }
    }

    fn beyond_private(&mut self, line: u64, site: usize, class: FillClass) -> Entry {
        let mut class = class;
        if let Some(llc) = &mut self.llc {
            let outcome = llc.look_up(line);
            tally(&mut self.tallies[site].llc, outcome);
            match outcome {
                Ok(_) => return *llc.entry(line).unwrap(),
                Err(known) => class = known,
            }
        }
        let mut fills = LevelTally::default();
        tally(&mut fills, Err(class));
        self.tallies[site].fills += &fills.absent;
        let page = line / 64;
        let before = self.fetched.insert(base::mixed(page) >> 58, line);
        let follows = |before: u64| before / 64 == page && before.abs_diff(line) <= 2;
        self.tallies[site].followed += u64::from(before.is_some_and(follows));
        let entry = Entry { line, class, dirtied: false };
        self.llc.as_mut().and_then(|llc| llc.fill(entry));
        entry
    }
}

/// The nearest outer level that has the line learns of a store to it.
fn left<const N: usize>(outer: [&mut Option<Level>; N], evicted: Entry) {
    let copy = outer.into_iter().flatten().find_map(|level| level.entry(evicted.line));
    if let Some(copy) = copy {
        copy.dirtied |= evicted.dirtied;
    }
}
