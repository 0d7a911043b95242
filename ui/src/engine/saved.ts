// Questions in SQL that the view Ask offers: those of the guide, and what only a query can say. Each runs on the result of every
// analysis; where the analysis did not observe something, its tables are empty.

/** `served`: it asks stored facts, which only a server has. */
export const SAVED: { asks: string; sql: string; served?: true }[] = [
  { asks: "Where does the CPU time go?", sql: `SELECT function, module, file, line,
  cpu_time, cpu_time_low, cpu_time_high, self_percent, self_percent_low, self_percent_high
FROM hotspots_by_function
ORDER BY cpu_time DESC
LIMIT 20` },
  { asks: "What is slow for a known reason, and what would a fix save?", sql: `SELECT severity, title, function, file, line, object,
  predicted_gain, predicted_gain_low, predicted_gain_high, advice
FROM findings
ORDER BY predicted_gain DESC` },
  { asks: "Which hot functions has no finding named?", sql: `SELECT function, module, cpu_time, cpu_time_low, cpu_time_high
FROM hotspots_by_function
WHERE function NOT IN (SELECT function FROM findings WHERE function IS NOT NULL)
ORDER BY cpu_time DESC
LIMIT 20` },
  { asks: "Which data structure waits most, and how is it accessed?", sql: `SELECT object, object_kind, stall_time, stall_time_low, stall_time_high,
  dram_read, dram_read_low, dram_read_high, latency, latency_low, latency_high, stride, line_use_percent
FROM objects
ORDER BY stall_time DESC, dram_read DESC
LIMIT 20` },
  { asks: "Which members of it?", sql: `SELECT object, field, loads, loads_low, loads_high, stores, stores_low, stores_high
FROM objects_by_object_field
ORDER BY loads + stores DESC
LIMIT 30` },
  { asks: "Which lines move the most bytes of memory for their CPU time?", sql: `SELECT b.file, b.line, b.dram_read, b.dram_read_low, b.dram_read_high,
  b.dram_write, b.dram_write_low, b.dram_write_high, h.cpu_time, h.cpu_time_low, h.cpu_time_high,
  (b.dram_read + b.dram_write) / h.cpu_time / 1e9 AS "GB per second of CPU"
FROM bandwidth_by_source_line b JOIN hotspots_by_source_line h USING (file, line)
ORDER BY b.dram_read + b.dram_write DESC
LIMIT 20` },
  { asks: "Which flushes of cache lines are for nothing?", sql: `SELECT object, function, flush_time, flush_time_low, flush_time_high,
  flushes_per_second, flushes_per_second_low, flushes_per_second_high, redundant_percent, redundant_percent_low, redundant_percent_high,
  fences_per_second, fences_per_second_low, fences_per_second_high, alone_percent, alone_percent_low, alone_percent_high
FROM flushes_by_object_function
ORDER BY flush_time DESC
LIMIT 20` },
  { asks: "When was memory busiest?", sql: `SELECT start, "end", total, total_low, total_high, reachable, reachable_low, reachable_high
FROM bandwidth
ORDER BY total DESC
LIMIT 20` },
  { asks: "Who allocates, and what is left at the end?", sql: `SELECT function, file, line, allocations, bytes_allocated, peak_bytes, peak_bytes_low, peak_bytes_high,
  live_at_end, live_at_end_low, live_at_end_high
FROM allocations_by_function
ORDER BY bytes_allocated DESC
LIMIT 20` },
  { asks: "What do threads wait for?", sql: `SELECT reason, object, function, file, line, waker, waker_function, wait_time, wait_time_low, wait_time_high, waits
FROM waits
ORDER BY wait_time DESC
LIMIT 20` },
  { asks: "Which threads had how much of the CPU time?", sql: `SELECT thread, process, cpu_time, cpu_time_low, cpu_time_high,
  100.0 * cpu_time / (SELECT sum(cpu_time) FROM threads) AS "Percent of all"
FROM threads
ORDER BY cpu_time DESC` },
  { asks: "What does the kernel do meanwhile?", sql: `SELECT cause, name, entries, time, time_low, time_high, mean_time, mean_time_low, mean_time_high
FROM kernel
ORDER BY time DESC
LIMIT 20` },
  { asks: "Which figures of the summary are least certain?", sql: `SELECT figure, value, unit, low, high, evidence, (high - low) / value AS "Interval / value"
FROM summary
WHERE value > 0 AND high > low AND figure NOT LIKE 'top_%'
ORDER BY 7 DESC
LIMIT 30` },
  { asks: "How are samples spread over threads and time?", served: true, sql: `SELECT tid, count(*) AS samples, min(time_ns) / 1e9 AS first_second, max(time_ns) / 1e9 AS last_second,
  sum(weight_ns) / 1e9 AS seconds
FROM stored_samples
GROUP BY tid
ORDER BY samples DESC` },
];
