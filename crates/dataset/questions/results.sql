-- Which results are there, and how much of their CPU time does memory take?
--
-- One row per result, the latest first, incomplete ones included. Memory time is CPU time x (1 - time without misses / elapsed
-- time): the summary's `memory_bound` of the program's own code. Its interval is that of the time without misses; CPU and elapsed time are
-- known far better. Pooling: none.
--
-- @column result text - Result
-- @column program text - Program
-- @column host text - Host
-- @column day text - Day
-- @column analysis text - Analysis
-- @column rank count - -
-- @column labels text - -
-- @column state text - State
-- @column classification text - Limited by
-- @column elapsed metric s Elapsed
-- @column cpu_time metric s CPU time
-- @column memory_time metric s Memory time
-- @column bandwidth metric GB/s DRAM
-- @column started count - -
-- @column runs count - -
WITH wide AS (
    SELECT r.run AS run_id, MIN(r.result) AS result_name, MIN(r.program) AS program_name, MIN(r.host_name) AS on_host,
        MIN(r.date) AS day, MIN(r.analysis) AS analysis_name, MIN(r.mpi_rank) AS mpi_rank, MIN(r.labels) AS label_list,
        MIN(r.state) AS run_state, MIN(r.classification) AS class_name, MIN(r.started) AS started_at, MIN(r.times) AS n,
        MAX(CASE WHEN f.figure = 'elapsed' THEN f.value END) AS elapsed,
        MAX(CASE WHEN f.figure = 'elapsed' THEN f.low END) AS elapsed_low,
        MAX(CASE WHEN f.figure = 'elapsed' THEN f.high END) AS elapsed_high,
        MAX(CASE WHEN f.figure = 'elapsed' THEN f.evidence END) AS elapsed_evidence,
        MAX(CASE WHEN f.figure = 'cpu_time' THEN f.value END) AS cpu_time,
        MAX(CASE WHEN f.figure = 'cpu_time' THEN f.low END) AS cpu_time_low,
        MAX(CASE WHEN f.figure = 'cpu_time' THEN f.high END) AS cpu_time_high,
        MAX(CASE WHEN f.figure = 'cpu_time' THEN f.evidence END) AS cpu_time_evidence,
        MAX(CASE WHEN f.figure = 'elapsed_without_misses' THEN f.value END) AS quick,
        MAX(CASE WHEN f.figure = 'elapsed_without_misses' THEN f.low END) AS quick_low,
        MAX(CASE WHEN f.figure = 'elapsed_without_misses' THEN f.high END) AS quick_high,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.value END) AS bandwidth,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.low END) AS bandwidth_low,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.high END) AS bandwidth_high,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.evidence END) AS bandwidth_evidence
    FROM runs r JOIN figures f ON f.run = r.run
    WHERE f.figure IN ('elapsed', 'cpu_time', 'elapsed_without_misses', 'dram_bandwidth.average')
    GROUP BY r.run
)
SELECT result_name AS result, program_name AS program, on_host AS host, day, analysis_name AS analysis, mpi_rank AS rank,
    label_list AS labels, run_state AS state, class_name AS classification,
    elapsed, elapsed_low, elapsed_high, elapsed_evidence, cpu_time, cpu_time_low, cpu_time_high, cpu_time_evidence,
    {at_least_0(cpu_time * (1.0 - quick / NULLIF(elapsed, 0)))} AS memory_time,
    {at_least_0(cpu_time * (1.0 - quick_high / NULLIF(elapsed, 0)))} AS memory_time_low,
    {at_least_0(cpu_time * (1.0 - quick_low / NULLIF(elapsed, 0)))} AS memory_time_high,
    CASE WHEN quick IS NOT NULL AND elapsed > 0 THEN 'estimated' END AS memory_time_evidence,
    bandwidth, bandwidth_low, bandwidth_high, bandwidth_evidence, started_at AS started, COALESCE(n, 1) AS runs
FROM wide
ORDER BY started_at DESC NULLS LAST, result_name
LIMIT {limit}
