-- Which data structures wait for memory of another NUMA node?
--
-- One row per program and object: the CPU time at its accesses, and the part of it that waited for another node.
-- Pooling: the part is weighted by that time; estimates of different runs are independent; the weights count as known, so that the
-- interval is rather too narrow where they are not. Results of machines with one node say nothing here and are left out.
--
-- @column object text - Object
-- @column object_kind text - Kind
-- @column program text - Program
-- @column remote metric percent Remote
-- @column stall_time metric s Time at accesses
-- @column runs count - Runs
-- @column hosts count - Hosts
WITH wide AS (
    SELECT r.run AS run, r.program AS program, r.host_name AS host_name, o.object AS object_name, o.object_kind AS kind,
        SUM(CASE WHEN o.figure = 'stall_time' THEN o.value END) AS stall,
        SUM(CASE WHEN o.figure = 'stall_time' THEN o.variance END) AS stall_variance,
        MAX(CASE WHEN o.figure = 'stall_time' THEN o.evidence END) AS stall_evidence,
        MAX(CASE WHEN o.figure = 'remote_percent' THEN o.value END) AS remote,
        MAX(CASE WHEN o.figure = 'remote_percent' THEN o.variance END) AS remote_variance,
        MAX(CASE WHEN o.figure = 'remote_percent' THEN o.evidence END) AS remote_evidence
    FROM runs r JOIN objects o ON o.run = r.run
    WHERE r.state = 'complete' AND o.figure IN ('stall_time', 'remote_percent')
    GROUP BY r.run, r.program, r.host_name, o.object, o.object_kind
),
pooled AS (
    SELECT object_name, kind, program, COUNT(*) AS n, NULLIF(COUNT(DISTINCT host_name), 0) AS hosts, SUM(stall) AS stall,
        SQRT({all_of(stall_variance)}) AS stall_error, {evidence(stall_evidence)} AS stall_evidence,
        SUM(stall * remote) / NULLIF(SUM(stall), 0) AS remote,
        SQRT({all_of(stall * stall * remote_variance)}) / NULLIF(SUM(stall), 0) AS remote_error,
        {evidence(remote_evidence)} AS remote_evidence
    FROM wide WHERE stall IS NOT NULL AND remote IS NOT NULL
    GROUP BY object_name, kind, program
)
SELECT object_name AS object, kind AS object_kind, program,
    remote, {low(remote; 1.96 * remote_error)} AS remote_low, remote + 1.96 * remote_error AS remote_high, remote_evidence,
    stall AS stall_time, {low(stall; 1.96 * stall_error)} AS stall_time_low, stall + 1.96 * stall_error AS stall_time_high,
    stall_evidence AS stall_time_evidence, n AS runs, hosts
FROM pooled
ORDER BY stall * remote DESC NULLS LAST, object, program
LIMIT {limit}
