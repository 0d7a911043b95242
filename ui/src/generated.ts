// Written by crates/web/tests/types.rs from docs/format/summary.schema.json and the names of the command line.

import type { Metric } from "./types";

export type ViewName = "summary" | "hotspots" | "callers" | "callees" | "source" | "faults" | "timeline" | "threads" | "accesses" | "bandwidth" | "latency" | "reuse" | "working-set" | "sharing" | "flushes" | "roofline" | "allocations" | "waits" | "kernel" | "findings" | "objects" | "nodes" | "pace" | "regions" | "events" | "cross-check" | "uarch" | "stacks" | "points" | "moments";
export type EvidenceName = "counted" | "sampled" | "timed" | "traced" | "simulated" | "estimated" | "calibrated" | "modelled";
/** What a page on its own can answer. */
export const EMBEDDED = ["summary", "stacks", "points", "moments", "hotspots?group=function&limit=400", "bandwidth", "latency", "timeline?limit=400", "timeline?group=thread&limit=60", "threads?limit=200", "objects?limit=250", "objects?group=object,function&limit=250", "objects?group=type,function&limit=250", "objects?group=object,field&limit=400", "objects?group=object,source-line&limit=400", "bandwidth?group=module,function&limit=250", "bandwidth?group=source-line&limit=400", "latency?group=module,function&limit=250", "latency?group=source-line&limit=400", "pace?limit=200", "regions?limit=200", "accesses?limit=300", "reuse?limit=60", "working-set", "sharing?limit=100", "flushes?group=object,function&limit=100", "roofline?limit=100", "roofline?group=loop&limit=100", "allocations?group=function&limit=250", "allocations?group=call-stack&limit=100", "faults?limit=200", "waits?limit=200", "kernel?limit=200", "kernel?group=time,cause&limit=60", "findings", "callers?limit=400", "callees?limit=400", "hotspots?group=source-line&limit=400", "hotspots?group=module&limit=200", "layout", "platform"] as const;
export type Embedded = (typeof EMBEDDED)[number];
export const VIEWS: [ViewName, string][] = [
  ["summary", "the whole recording on one page"],
  ["hotspots", "self and total time per function, line, module, thread, process or call stack"],
  ["callers", "functions with their callers, as a tree"],
  ["callees", "functions with their callees, as a tree"],
  ["source", "time per source line, with the text"],
  ["faults", "page faults per function, line, module, thread, process or call stack"],
  ["timeline", "CPU time, page faults and memory over time"],
  ["threads", "threads: lifetime, CPU time"],
  ["accesses", "traced memory accesses per instruction, function, line or module: pattern, cache lines"],
  ["bandwidth", "DRAM traffic over time, or per function, line, module or thread"],
  ["latency", "load latency, as a histogram or per function, line or module"],
  ["reuse", "miss ratio by cache size, block size and TLB reach, per function, line or module"],
  ["working-set", "pages that bursts touch, over time"],
  ["sharing", "cache lines shared by threads: false and true sharing"],
  ["flushes", "flushed cache lines and fences per function, line, module or object: rate, time, those for nothing"],
  ["roofline", "floating-point operations and bytes per function, line, module or loop, under the machine's roofs"],
  ["allocations", "heap blocks per function, line, module, thread, process, call stack, call, size or free stack, or over time: bytes, peak, leaks"],
  ["waits", "waits of threads, by reason and place: locks, barriers, I/O, sleep"],
  ["kernel", "kernel entries per cause, process, thread or CPU, or over time: count and time"],
  ["findings", "known reasons for slowness: place, advice, predicted saving"],
  ["objects", "loads, stores, traffic, latency and strides per memory object; by function, line, cache line, offset or field"],
  ["nodes", "what if: accesses to other NUMA nodes on another machine, as it is and with memory placed otherwise; by object"],
  ["pace", "loops: native iterations per second, time per iteration, trip count, and the register that shows it"],
  ["regions", "regions that the program marks in its code: passes, times, lengths of passes, traffic with memory"],
  ["events", "events of the hardware and the kernel that were counted (knob event-config)"],
  ["cross-check", "where bursts and counters or sampled accesses disagree, figure by figure"],
  ["uarch", "top-down tree of counted events: which part of the pipeline slots and cycles went where, and what to look at next"],
];

export type Cache = {
  bytes: number;
  instances: number;
  kind: "data" | "instruction" | "unified";
  level: number;
  line_bytes: number;
  shared_by: number;
  ways: number | null;
};

export type Finding = {
  advice: string;
  evidence: ({
    metric: Metric;
    what: string;
  })[];
  id: string;
  next_command: string;
  predicted_gain: Metric;
  severity: "info" | "low" | "medium" | "high";
  title: string;
  where: {
    file: string | null;
    function: string | null;
    line: number | null;
    object: string | null;
  };
};

export type Function = {
  cpu_time: Metric;
  file: string | null;
  function: string;
  line: number | null;
  module: string;
  self_percent: Metric;
  total_percent: Metric;
};

export type Host = {
  caches: (Cache)[];
  container: string | null;
  cores: number;
  cpu: string;
  kernel: string;
  logical_cpus: number;
  memory_bytes: number;
  numa_nodes: number;
  os: string;
  page_bytes: number;
  pmu: (string)[];
  sockets: number;
  virtualised: string | null;
};

export type LevelBandwidth = {
  of_reachable: Metric;
  rate: Metric;
  reachable: Metric;
};

export type Levels = {
  dram: Metric;
  l1: Metric;
  l2: Metric;
  l3: Metric;
};

export type Object = {
  dram_percent: Metric;
  dram_read: Metric;
  dram_write: Metric;
  element_type: string | null;
  latency: Metric;
  loads: Metric;
  object: string;
  object_bytes: Metric;
  object_kind: "heap" | "global" | "stack" | "mapping";
  stall_percent: Metric;
  stall_time: Metric;
  stores: Metric;
};

export type Roof = {
  like?: string;
  precision?: "double" | "single";
  rate: Metric;
  roof: "L1" | "L2" | "L3" | "DRAM" | "scalar" | "vector";
  threads: number;
};

export type Summary = {
  analysis: "memory-access" | "hotspots" | "memory-consumption" | "threading" | "system-overview" | "uarch-exploration";
  arithmetic_intensity: Metric;
  average_load_latency: Metric;
  bandwidth_level: "DRAM" | "L3" | "L2" | null;
  cache_bandwidth: {
    l2: LevelBandwidth;
    l3: LevelBandwidth;
  };
  classification: "bandwidth-bound" | "latency-bound" | "tlb-bound" | "core-bound" | null;
  classification_certainty: "is" | "probably" | "mixed" | "undecided" | null;
  classification_reason: string;
  command: (string)[];
  context_switches: Metric;
  core_limit: {
    bound: Metric;
    cause: "dependency-chain" | "divider" | "loads" | "stores" | "arithmetic" | "front-end" | "mispredictions";
    file: string | null;
    function: string | null;
    instruction: string | null;
    iteration_time: Metric;
    line: number | null;
    percent: Metric;
  } | null;
  coverage: {
    bursts: Metric;
    cpu_time: Metric;
    records: Metric;
    refused: ({
      percent: Metric;
      reason: string;
    })[];
    stretches: Metric;
    traced: Metric;
  };
  cpu_time: Metric;
  cpu_utilisation: Metric;
  dram_bandwidth: {
    average: Metric;
    bound_time_percent: Metric;
    high_from: number | null;
    histogram: ({
      from: number;
      time: Metric;
      to: number;
    })[];
    medium_from: number | null;
    observed_max: Metric;
    of_reachable: Metric;
    reachable: Metric;
    read: Metric;
    write: Metric;
  };
  dtlb: {
    misses: Metric;
    walk_time_percent: Metric;
  };
  elapsed: Metric;
  elapsed_without_bandwidth_limit: Metric;
  elapsed_without_misses: Metric;
  exit: string;
  exit_code: number | null;
  exposed_load_latency: Metric;
  fathom_version: string;
  findings: (Finding)[];
  first_checks: {
    clock_throttles: Metric;
    demoted_pages: Metric;
    io_wait_percent: Metric;
    moved_pages: Metric;
    promoted_pages: Metric;
    quota_throttled: Metric;
    reclaimed_pages: Metric;
    swapped_pages: Metric;
  };
  flops: Metric;
  heap: {
    allocations: Metric;
    bytes_allocated: Metric;
    huge_page_share: Metric;
    huge_pages_1gb: Metric;
    huge_pages_2mb: Metric;
    peak_bytes: Metric;
  };
  host: Host;
  huge_page_share: Metric;
  kernel_entries: {
    count: Metric;
    per_second: Metric;
    ready_without_cpu: Metric;
    switches: Metric;
    time: Metric;
    time_percent: Metric;
  };
  kernel_time_percent: Metric;
  levels: Levels;
  loads: Metric;
  machine: {
    dram_bandwidth_peak: Metric;
    flops_peak: Metric;
    load_latency: Levels;
    page_fault_2m: Metric;
    page_fault_4k: Metric;
    roofs?: (Roof)[];
  };
  memory_bound: Metric;
  notes: (string)[];
  other_cpu_percent: Metric;
  overhead: Metric;
  overhead_parts: {
    burst_time: Metric;
    consumer_cpu: Metric;
    cpu_time: Metric;
    heap_library: Metric;
    slowdown: Metric;
    stand_still: Metric;
  };
  page_faults: {
    major: Metric;
    minor: Metric;
    time: Metric;
    time_percent: Metric;
  };
  paused?: Metric;
  peak_resident: Metric;
  processes: Metric;
  regions?: (string)[];
  remote_accesses: Metric;
  result: string;
  runs: number;
  sampling: {
    kernel_functions: boolean;
    lost_blocks: number;
    lost_events: number;
    lost_faults: number;
    lost_regions: number;
    lost_samples: number;
    method: "perf-events" | "ptrace" | "proc-only" | "imported";
    period_seconds: number;
    samples: number;
    thinned_samples: number;
  };
  sampling_cost: Metric;
  schema: 1;
  source: {
    events: ({
      name: string;
      samples: number;
      used_as: "cpu-time" | "page-faults" | "memory-accesses" | "cpu-time-and-memory-accesses" | "branches" | "counts" | "nothing";
    })[];
    file: string;
    tool: string;
  } | null;
  spread: {
    deviation: Metric;
    fastest: Metric;
    slowest: Metric;
  };
  state: "complete" | "incomplete";
  stolen_percent: Metric;
  stores: Metric;
  target: "launched" | "attached" | "machine" | "imported";
  threading?: {
    at_once: ({
      percent: Metric;
      threads: number;
    })[];
    effective_cpus: Metric;
    ready_percent: Metric;
    running_percent: Metric;
    spinning_percent: Metric;
    unknown_percent: Metric;
    verdicts: ({
      id: "balanced" | "single-threaded" | "in-turn" | "imbalanced" | "contended" | "oversubscribed" | "crowded-out" | "waits-outside" | "unexplained";
      percent: number;
      sentence: string;
    })[];
    waiting: ({
      percent: Metric;
      reason: string;
    })[];
    waiting_percent: Metric;
  };
  threads: Metric;
  time_split: {
    kernel: Metric;
    mpi_calls?: Metric;
    mpi_moving?: Metric;
    mpi_wait?: Metric;
    page_faults: Metric;
    spinning: Metric;
    thread_time: Metric;
    user: Metric;
    waiting: Metric;
  };
  top_functions: (Function)[];
  top_objects: (Object)[];
  undecided: ({
    decided_by: string | null;
    elsewhere: boolean;
    reason: string;
    rules: (string)[];
  })[];
  verdict: string;
  verdict_decided_by: string | null;
};
