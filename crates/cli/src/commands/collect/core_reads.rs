//! The events of the cores that bound what is read from memory, for machines whose memory controllers cannot be counted.
//!
//! What for: which of them this processor has. What not: the bounds (`analysis::core_traffic`), opening events (`collect::counting`).

use collect::counting::Choice;
use facts::NoteSubject;
use facts::host::Host;
use machine::event_names::written;
use machine::pmu::{Pmu, PmuKind};

use crate::knobs::choice;

/// A group of them; nothing without a PMU of the cores, or where it has no such events.
pub(super) fn groups(host: &Host, pmus: &[Pmu], notes: &mut Vec<String>) -> Vec<Vec<Choice>> {
    let cores: Vec<&Pmu> = pmus.iter().filter(|pmu| pmu.kind == PmuKind::Core).collect();
    let named = |name: &str| -> Vec<Choice> {
        // Each kind of cores counts its own.
        let of = |pmu: &&Pmu| {
            let full =
                if cores.len() > 1 { format!("{}/{name}/", pmu.name) } else { name.to_owned() };
            choice(&full, &written(&full, host, pmus)?, pmus)
        };
        cores.iter().filter_map(of).collect()
    };
    for (needed, besides) in analysis::core_traffic::events() {
        let found: Vec<Vec<Choice>> = needed.iter().map(|name| named(name)).collect();
        if found.iter().any(|one| one.len() != cores.len().max(1)) {
            continue;
        }
        let all = found.into_iter().flatten().chain(besides.into_iter().flat_map(named));
        notes.push(NoteSubject::MachineTraffic.note(
            "no memory controller can be counted here: what the cores read is estimated from their misses, and what is written is \
             not known",
        ));
        // A group of each PMU.
        let mut groups: Vec<Vec<Choice>> = Vec::new();
        for one in all {
            match groups.iter_mut().find(|group| group[0].pmu == one.pmu) {
                Some(group) => group.push(one),
                None => groups.push(vec![one]),
            }
        }
        return groups;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use analysis::core_traffic::CoreTraffic;
    use base::{Nanos, Pid};
    use collect::counting::Counting;
    use collect::recorder::Recorder;
    use facts::{Fact, Recording};
    use machine::pmu::{Bits, Field};

    use super::*;

    fn field(name: &str, first: u8, last: u8) -> Field {
        Field { name: name.to_owned(), bits: vec![Bits { word: 0, first, last }] }
    }

    fn cores(name: &str, number: u32) -> Pmu {
        Pmu {
            name: name.to_owned(),
            number,
            kind: PmuKind::Core,
            cpus: None,
            fields: vec![field("event", 0, 7), field("umask", 8, 15), field("cmask", 24, 31)],
            events: Vec::new(),
            capabilities: Vec::new(),
        }
    }

    fn host(vendor: &str, model: &str) -> Host {
        Host {
            vendor: vendor.to_owned(),
            family_model_stepping: model.to_owned(),
            ..Host::default()
        }
    }

    fn shown(host: &Host, pmus: &[Pmu]) -> Vec<Vec<(String, u64)>> {
        let groups = groups(host, pmus, &mut Vec::new()).into_iter();
        let of =
            |group: Vec<Choice>| group.into_iter().map(|one| (one.name, one.config[0])).collect();
        groups.map(of).collect()
    }

    #[test]
    fn each_maker_has_its_events() {
        let one = |name: &str, config| (name.to_owned(), config);
        let server =
            [one("longest_lat_cache.miss", 0x412e), one("offcore_requests.all_requests", 0x8021)];
        assert_eq!(shown(&host("GenuineIntel", "6/143/8"), &[cores("cpu", 4)]), [server]);
        let zen = [
            one("ls_any_fills_from_sys.dram_io_near", 0x844),
            one("ls_any_fills_from_sys.dram_io_far", 0x4044),
            one("l2_pf_miss_l2_l3.all", 0xff72),
        ];
        assert_eq!(shown(&host("AuthenticAMD", "25/17/1"), &[cores("cpu", 4)]), [zen]);
        assert!(shown(&host("AuthenticAMD", "25/17/1"), &[]).is_empty());
        assert!(shown(&host("", ""), &[cores("cpu", 4)]).is_empty());
        let hybrid = host("GenuineIntel", "6/151/2");
        let kinds = [cores("cpu_core", 4), cores("cpu_atom", 10)];
        let names: Vec<Vec<String>> = shown(&hybrid, &kinds)
            .into_iter()
            .map(|group| group.into_iter().map(|(name, _)| name).collect())
            .collect();
        let of_core =
            ["cpu_core/longest_lat_cache.miss/", "cpu_core/offcore_requests.all_requests/"];
        assert_eq!(names, [&of_core[..], &["cpu_atom/longest_lat_cache.miss/"]]);
    }

    /// A kernel with the PMU of the cores alone, whose group gives 100 misses and 300 requests in 10 ns.
    #[test]
    fn what_a_made_up_kernel_counts_is_an_estimate_of_reads() {
        let wanted = groups(&host("GenuineIntel", "6/143/8"), &[cores("cpu", 4)], &mut Vec::new());
        sys::perf::fake_open(Some(|_, _| {
            let (ours, mut theirs) = UnixStream::pair()?;
            for word in [2_u64, 10, 10, 100, 300] {
                theirs.write_all(&word.to_ne_bytes())?;
            }
            Ok(ours.into())
        }));
        let counting = Counting::on_launch(Pid(7), &wanted);
        sys::perf::fake_open(None);
        let mut facts: Vec<Fact> = Vec::new();
        let notes = counting.finish(Nanos(64), &mut Recorder::new(&mut facts));
        assert_eq!(notes.expect("a sink that takes all"), [""; 0]);
        let mut recording = Recording::default();
        recording.run.elapsed_ns = 64;
        for fact in facts {
            match fact {
                Fact::CountedEvent(event) => recording.counted_events.push(event),
                Fact::EventCount(count) => recording.event_counts.push(count),
                _ => {}
            }
        }
        let read = CoreTraffic::new(&recording).expect("it was counted").domain().read;
        let ends = [read.value, read.low, read.high].map(|end| end.map(f64::round));
        assert_eq!(ends, [100.0, 100.0, 300.0].map(Some));
    }
}
