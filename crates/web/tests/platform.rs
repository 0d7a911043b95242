//! The platform in real Chromium, of machines that this one is not: `tests/ui/platform.mjs` compares what is drawn with what
//! they have. What not: reading the description of a machine (`machine`).

#[allow(
    dead_code,
    unused_imports,
    reason = "the recordings of report's golden tests; here two of them are used"
)]
#[path = "../../report/tests/recordings/mod.rs"]
mod recordings;
mod support;

use facts::Recording;
use facts::host::{Cache, CacheKind, CpuGroup, CpuPart, Host, NumaNode};
use web::Subject;

use self::support::click_through;

/// Builds hosts from sets of CPUs.
struct Machine(Host);

impl Machine {
    fn new(cpus: u32, cores: u32, sockets: u32) -> Machine {
        let host = Host {
            cpu: "A processor".into(),
            logical_cpus: cpus,
            cores,
            sockets,
            ..Host::default()
        };
        Machine(host)
    }

    fn group(mut self, part: CpuPart, all: impl IntoIterator<Item = Vec<u32>>) -> Machine {
        self.0.cpu_groups.extend(all.into_iter().map(|cpus| CpuGroup { part, cpus }));
        self
    }

    fn cache(mut self, (level, kind, kib): (u32, CacheKind, u64), all: Vec<Vec<u32>>) -> Machine {
        let (shared_by, instances) = (all[0].len() as u32, all.len() as u32);
        let bytes = kib << 10;
        self.0.caches.push(Cache {
            level,
            kind,
            bytes,
            line_bytes: 64,
            ways: None,
            shared_by,
            instances,
        });
        let part = CpuPart::Cache(self.0.caches.len() - 1);
        self.group(part, all)
    }

    fn node(mut self, cpus: Vec<u32>, distances: Vec<u32>) -> Machine {
        let id = self.0.numa_nodes.len() as u32;
        self.0.numa_nodes.push(NumaNode { id, cpus, memory_bytes: 64 << 30, distances });
        self
    }
}

/// CPUs in parts of the same size.
fn parts(from: u32, to: u32, size: u32) -> Vec<Vec<u32>> {
    (from..to).step_by(size as usize).map(|first| (first..first + size).collect()).collect()
}

const DATA: CacheKind = CacheKind::Data;
const UNIFIED: CacheKind = CacheKind::Unified;

fn one_cpu() -> Host {
    let machine =
        Machine::new(1, 1, 1).group(CpuPart::Package, [vec![0]]).group(CpuPart::Core, [vec![0]]);
    machine
        .cache((1, DATA, 32), vec![vec![0]])
        .cache((3, UNIFIED, 32 << 10), vec![vec![0]])
        .node(vec![0], vec![10])
        .0
}

/// As a virtual machine describes itself whose result an earlier version recorded: numbers only.
fn two_cpus() -> Host {
    let machine = Machine::new(2, 2, 1)
        .cache((1, DATA, 48), parts(0, 2, 1))
        .cache((2, UNIFIED, 2048), parts(0, 2, 1));
    let machine = machine.cache((3, UNIFIED, 256 << 10), parts(0, 2, 2)).node(vec![0, 1], vec![10]);
    Host { cpu_groups: Vec::new(), ..machine.0 }
}

/// Two sockets of 36 cores with two threads each, numbered as Linux does: second threads come last.
fn two_sockets() -> Host {
    let threads = |core: u32| vec![core, core + 72];
    let cores = || (0..72).map(threads).collect::<Vec<_>>();
    let socket =
        |of: u32| (of * 36..of * 36 + 36).chain(72 + of * 36..108 + of * 36).collect::<Vec<u32>>();
    let machine = Machine::new(144, 72, 2)
        .group(CpuPart::Package, [socket(0), socket(1)])
        .group(CpuPart::Core, cores());
    let machine = machine.cache((1, DATA, 48), cores()).cache((2, UNIFIED, 1280), cores());
    let machine = machine.cache((3, UNIFIED, 54 << 10), vec![socket(0), socket(1)]);
    machine.node(socket(0), vec![10, 21]).node(socket(1), vec![21, 10]).0
}

/// Six cores with two threads, and eight with one, of which four share a second-level cache.
fn hybrid() -> Host {
    let all = || vec![(0..20).collect::<Vec<u32>>()];
    let machine = Machine::new(20, 14, 1).group(CpuPart::Package, all());
    let machine =
        machine.group(CpuPart::Core, parts(0, 12, 2)).group(CpuPart::Core, parts(12, 20, 1));
    let machine =
        machine.cache((1, DATA, 48), parts(0, 12, 2)).cache((1, DATA, 32), parts(12, 20, 1));
    let machine = machine
        .cache((2, UNIFIED, 1280), parts(0, 12, 2))
        .cache((2, UNIFIED, 2048), parts(12, 20, 4));
    machine.cache((3, UNIFIED, 24 << 10), all()).node((0..20).collect(), vec![10]).0
}

fn recording(host: Host) -> Recording {
    let mut recording = recordings::objects();
    recording.run.calibration = recordings::triad().run.calibration;
    recording.run.host = host;
    recording
}

/// What a level gives is one fact: the platform and the roofline name the same rate, and what it was measured with.
#[test]
fn levels_give_what_their_roofs_say() {
    let recording = recordings::triad();
    let site = web::Site::new(&recording, "r", Vec::new(), &|_| None);
    let ask = |question: &str| -> serde_json::Value {
        serde_json::from_str(&site.answer(question).expect("an answer")).expect("JSON")
    };
    let (summary, platform) = (ask("summary"), ask("platform"));
    let roofs = summary["machine"]["roofs"].as_array().expect("roofs");
    let mut compared = 0;
    for level in platform["levels"].as_array().expect("levels") {
        let mut of: Vec<_> = roofs.iter().filter(|roof| roof["roof"] == level["name"]).collect();
        of.sort_by_key(|roof| roof["threads"].as_u64());
        let (Some(one), Some(all)) = (of.first(), of.last()) else { continue };
        assert_eq!(
            (&level["one_thread"]["value"], &level["all_threads"]["value"], &level["like"]),
            (&one["rate"]["value"], &all["rate"]["value"], &all["like"]),
            "{}",
            level["name"]
        );
        compared += usize::from(!level["all_threads"]["value"].is_null());
    }
    assert!(compared > 0);
}

#[test]
fn other_machines_are_drawn_as_they_are() {
    let folder = std::env::temp_dir().join(format!("fathom-platform-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable temporary folder");
    let machines =
        [("one", one_cpu()), ("two", two_cpus()), ("sockets", two_sockets()), ("hybrid", hybrid())];
    for (name, host) in machines {
        let mut recording = recording(host);
        if name == "sockets" {
            let measured = recordings::with_nodes(recordings::triad()).run.calibration;
            recording.run.calibration = measured;
        }
        let page = web::page(&web::Site::new(&recording, name, Vec::new(), &|_| None));
        std::fs::write(folder.join(format!("{name}.html")), page).expect("our own folder");
    }
    click_through("platform.mjs", &format!("file://{}/", folder.display()), &[]);
    std::fs::remove_dir_all(&folder).expect("our own folder");
}
