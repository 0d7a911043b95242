//! A perf.data file by hand: what `perf record` would write of a few events.
//!
//! What not: branch stacks. Source: Linux, tools/perf/Documentation/perf.data-file-format.txt and
//! include/uapi/linux/perf_event.h.

#![allow(dead_code, reason = "each test uses a part of it")]

/// `PERF_SAMPLE_*` of the samples below: IP, TID, TIME, CALLCHAIN, ID, CPU, PERIOD.
pub const SAMPLE_TYPE: u64 = 1 | 2 | 4 | 32 | 64 | 128 | 256;
const ATTRIBUTE_BYTES: usize = 128;
/// With the place and size of its ids.
const WITH_IDS: usize = ATTRIBUTE_BYTES + 16;
/// PERF_SAMPLE_ADDR, WEIGHT and DATA_SRC.
pub const ADDRESS_WEIGHT_SOURCE: u64 = 8 | 16384 | 32768;
/// `freq` and `sample_id_all`.
const FLAGS: u64 = 1 << 10 | 1 << 18;

/// An event: type and config of `perf_event_attr`, its name and frequency.
pub struct Event {
    pub kind: u32,
    pub config: u64,
    pub name: &'static str,
}

/// The file.
pub struct File {
    events: Vec<Event>,
    records: Vec<u8>,
    host: String,
    /// Further feature sections, by number.
    pub features: Vec<(usize, Vec<u8>)>,
    /// Where each event's ids would be, as simpleperf has it, in place of descriptions of events.
    pub ids: Option<(u64, u64)>,
    /// More bits of `sample_type`, and `read_format` and `branch_sample_type`.
    pub further: (u64, u64, u64),
}

impl File {
    pub fn new(events: Vec<Event>) -> File {
        File {
            events,
            records: Vec::new(),
            host: "elsewhere".to_owned(),
            features: Vec::new(),
            ids: None,
            further: (0, 0, 0),
        }
    }

    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        self.records.extend(kind.to_le_bytes());
        self.records.extend(misc.to_le_bytes());
        self.records.extend(u16::try_from(body.len() + 8).expect("a short record").to_le_bytes());
        self.records.extend(body);
    }

    /// The end of each record that is no sample: TID, TIME, ID, CPU.
    fn identity(pid: u32, time: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = [pid, pid].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(time.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes
    }

    pub fn executed(&mut self, time: u64, pid: u32, name: &str) {
        let mut body: Vec<u8> = [pid, pid].iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(padded(name));
        body.extend(File::identity(pid, time));
        // PERF_RECORD_COMM with PERF_RECORD_MISC_COMM_EXEC.
        self.record(3, 1 << 13, &body);
    }

    pub fn mapped(&mut self, time: u64, pid: u32, range: (u64, u64), path: &str) {
        // PERF_RECORD_MISC_USER: executable.
        self.map(time, pid, range, path, 2);
    }

    pub fn mapped_data(&mut self, time: u64, pid: u32, range: (u64, u64), path: &str) {
        // PERF_RECORD_MISC_MMAP_DATA besides.
        self.map(time, pid, range, path, 2 | 1 << 13);
    }

    /// PERF_RECORD_MMAP2, with its protection.
    pub fn mapped_as(
        &mut self,
        pid: u32,
        (start, length, offset): (u64, u64, u64),
        path: &str,
        protection: u32,
    ) {
        let mut body: Vec<u8> = [pid, pid].iter().flat_map(|word| word.to_le_bytes()).collect();
        // Device, inode and its generation: none.
        body.extend([start, length, offset, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
        body.extend([protection, 2].iter().flat_map(|word| word.to_le_bytes()));
        body.extend(padded(path));
        body.extend(File::identity(pid, 0));
        self.record(10, 2, &body);
    }

    /// Moves the records so far out of the file.
    pub fn take_records(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.records)
    }

    pub fn map(&mut self, time: u64, pid: u32, (start, length): (u64, u64), path: &str, misc: u16) {
        let mut body: Vec<u8> = [pid, pid].iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend([start, length, 0].iter().flat_map(|word| word.to_le_bytes()));
        body.extend(padded(path));
        body.extend(File::identity(pid, time));
        self.record(1, misc, &body);
    }

    pub fn lost(&mut self, time: u64, count: u64) {
        let mut body: Vec<u8> =
            [1, count].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        body.extend(File::identity(0, time));
        self.record(2, 0, &body);
    }

    /// A sample of event number `event`, with its call chain, innermost first.
    pub fn sample(&mut self, event: usize, time: u64, pid: u32, period: u64, chain: &[u64]) {
        let user = chain.iter().find(|address| **address < 1 << 63).copied().unwrap_or(0);
        let in_kernel = chain.first().is_some_and(|mark| *mark == (-128_i64).cast_unsigned());
        let ip = if in_kernel { chain[1] } else { user };
        let mut body = ip.to_le_bytes().to_vec();
        body.extend([pid, pid].iter().flat_map(|word| word.to_le_bytes()));
        let words = [time, event as u64 + 1, 0, period, chain.len() as u64];
        body.extend(words.iter().chain(chain).flat_map(|word| word.to_le_bytes()));
        self.record(9, if in_kernel { 1 } else { 2 }, &body);
    }

    /// The same with the words that follow the period, and one address.
    pub fn sample_of(
        &mut self,
        event: usize,
        time: u64,
        pid: u32,
        period: u64,
        ip: u64,
        rest: &[u64],
    ) {
        let mut body = ip.to_le_bytes().to_vec();
        body.extend([pid, pid].iter().flat_map(|word| word.to_le_bytes()));
        let words = [time, event as u64 + 1, 0, period];
        body.extend(words.iter().chain(rest).flat_map(|word| word.to_le_bytes()));
        self.record(9, 2, &body);
    }

    /// A sampled access, with its latency and `perf_mem_data_src`. [`File::further`] has ADDR, WEIGHT and DATA_SRC.
    pub fn accessed(
        &mut self,
        (time, pid, tid, cpu): (u64, u32, u32, u64),
        (ip, address): (u64, u64),
        (latency, source): (u64, u64),
    ) {
        assert_eq!(self.further.0, ADDRESS_WEIGHT_SOURCE);
        let mut body = ip.to_le_bytes().to_vec();
        body.extend([pid, tid].iter().flat_map(|word| word.to_le_bytes()));
        // Of event 0, with a period of 1000 and no call chain.
        let words = [time, address, 1, cpu, 1000, 0, latency, source];
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.record(9, 2, &body);
    }

    /// HEADER_NRCPUS and HEADER_NUMA_TOPOLOGY: nodes with their CPUs.
    pub fn has_nodes(&mut self, cpus: u32, nodes: &[&str]) {
        let words = [cpus, cpus];
        self.features.push((7, words.iter().flat_map(|word| word.to_le_bytes()).collect()));
        let mut body = (nodes.len() as u32).to_le_bytes().to_vec();
        for (number, list) in (0_u32..).zip(nodes) {
            body.extend(number.to_le_bytes());
            body.extend([1_u64 << 20; 2].iter().flat_map(|word| word.to_le_bytes()));
            body.extend(string(list));
        }
        self.features.push((14, body));
    }

    /// PERF_RECORD_SWITCH: the thread came onto CPU 0.
    pub fn switched_in(&mut self, time: u64, pid: u32) {
        self.record(14, 0, &File::identity(pid, time));
    }

    /// PERF_RECORD_AUX: a part of the trace is there.
    pub fn announced(&mut self, time: u64, pid: u32, (offset, size): (u64, u64), flags: u64) {
        let words = [offset, size, flags];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(File::identity(pid, time));
        self.record(11, 0, &body);
    }

    /// PERF_RECORD_AUXTRACE_INFO of Arm SPE, version 2 of its words, for CPU 0; and PERF_RECORD_TIME_CONV with a shift of 10.
    pub fn spe(&mut self, midr: u64, multiplier: u64, zero: u64) {
        let words = [4, 2, 4, 9, 1, 0x1010_1010_1010_1010, 0, 3, midr, 9, 1024];
        let body: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        self.record(70, 0, &body);
        let words = [10, multiplier, zero, 0, 0, 1];
        let body: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        self.record(79, 0, &body);
    }

    /// PERF_RECORD_AUXTRACE: its bytes follow the record. No CPU or no thread: -1.
    pub fn traced(&mut self, offset: u64, (tid, cpu): (u32, u32), bytes: &[u8]) {
        let words = [bytes.len() as u64, offset, 0];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend([0, tid, cpu, 0].iter().flat_map(|word: &u32| word.to_le_bytes()));
        self.record(71, 0, &body);
        self.records.extend(bytes);
    }

    pub fn bytes(&self) -> Vec<u8> {
        const HEADER: usize = 104;
        let attributes: Vec<u8> = self
            .events
            .iter()
            .flat_map(|event| {
                let mut attribute = Vec::new();
                attribute.extend(event.kind.to_le_bytes());
                attribute.extend((ATTRIBUTE_BYTES as u32).to_le_bytes());
                attribute.extend(event.config.to_le_bytes());
                attribute.extend(1000_u64.to_le_bytes());
                let (samples, read, branches) = self.further;
                attribute.extend((SAMPLE_TYPE | samples).to_le_bytes());
                attribute.extend(read.to_le_bytes());
                attribute.extend(FLAGS.to_le_bytes());
                // wakeup_events and bp_type, config1 and config2, then branch_sample_type.
                attribute.extend([0; 24]);
                attribute.extend(branches.to_le_bytes());
                attribute.resize(ATTRIBUTE_BYTES, 0);
                let (offset, size) = self.ids.unwrap_or((0, 0));
                attribute.extend([offset, size].iter().flat_map(|word| word.to_le_bytes()));
                attribute
            })
            .collect();
        let mut described = Vec::new();
        described.extend((self.events.len() as u32).to_le_bytes());
        described.extend((ATTRIBUTE_BYTES as u32).to_le_bytes());
        for (number, event) in self.events.iter().enumerate().filter(|_| self.ids.is_none()) {
            described.extend(&attributes[number * WITH_IDS..][..ATTRIBUTE_BYTES]);
            described.extend(1_u32.to_le_bytes());
            described.extend(string(event.name));
            described.extend((number as u64 + 1).to_le_bytes());
        }
        let mut command = 3_u32.to_le_bytes().to_vec();
        for word in ["perf", "--", "./solver"] {
            command.extend(string(word));
        }
        // HEADER_HOSTNAME, HEADER_CMDLINE, HEADER_EVENT_DESC.
        let mut features = vec![(3, string(&self.host)), (11, command)];
        features.extend(self.ids.is_none().then_some((12, described)));
        features.extend(self.features.iter().cloned());
        features.sort_by_key(|(number, _)| *number);
        let data = HEADER + attributes.len();
        let table = data + self.records.len();
        let mut at = table + features.len() * 16;
        let mut bytes = b"PERFILE2".to_vec();
        let mut bits = [0_u64; 4];
        features.iter().for_each(|(number, _)| bits[number / 64] |= 1 << (number % 64));
        let numbers = [HEADER, WITH_IDS, HEADER, attributes.len(), data, self.records.len(), 0, 0];
        bytes.extend(numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()));
        bytes.extend(bits.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(attributes);
        bytes.extend(&self.records);
        for (_, section) in &features {
            bytes.extend((at as u64).to_le_bytes());
            bytes.extend((section.len() as u64).to_le_bytes());
            at += section.len();
        }
        bytes.extend(features.iter().flat_map(|(_, section)| section));
        bytes
    }
}

/// A table of functions as simpleperf writes it (feature 132, `FileFeature` of record_file.proto): path, kind, lowest
/// address and its offset (in the file, or in memory), then start, length and name of each function.
pub fn functions(
    path: &str,
    kind: u64,
    (address, offset): (u64, u64),
    list: &[(u64, u64, &str)],
) -> Vec<u8> {
    fn number(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 128 {
            bytes.push(value as u8 | 128);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }
    let field = |at: u64, value: u64| [number(at << 3), number(value)].concat();
    // A field of bytes has the wire type 2.
    let text =
        |at: u64, bytes: &[u8]| [&number(at << 3 | 2), &number(bytes.len() as u64), bytes].concat();
    let mut message = [text(1, path.as_bytes()), field(2, kind), field(3, address)].concat();
    for (start, length, name) in list {
        let one = [field(1, *start), field(2, *length), text(3, name.as_bytes())].concat();
        message.extend(text(4, &one));
    }
    // Of modules of the kernel, 7.
    message.extend(text(if kind == 1 { 7 } else { 6 }, &field(1, offset)));
    [&(message.len() as u32).to_le_bytes()[..], &message].concat()
}

/// A name with its end, in whole words.
fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 8) / 8 * 8, 0);
    bytes
}

/// `perf_header_string`.
fn string(text: &str) -> Vec<u8> {
    let mut bytes = padded(text);
    let length = u32::try_from(bytes.len()).expect("a short text").to_le_bytes();
    bytes.splice(0..0, length);
    bytes
}
