-- Which hosts run the same program slower than the other hosts?
--
-- One row per program and host: the mean of a figure there against the mean of all other hosts.
-- Pooling: runs are independent, and runs of one program differ alike on every host: the variance is that of the runs within their
-- hosts, pooled over hosts. So a host with one run has an interval, too. Intervals are those of Student's t with as many degrees of
-- freedom. The measurement's own variance is a part of the spread and is not added again.
--
-- @param figure name elapsed The figure of the summary that is compared; larger is slower
-- @column host text - Host
-- @column rack text - Rack
-- @column program text - Program
-- @column runs count - Runs
-- @column hosts count - Of hosts
-- @column slower metric percent Slower by
-- @column mean metric * Mean
-- @column others metric * Other hosts
WITH part AS (
    SELECT r.program AS program, r.analysis AS analysis, COALESCE(r.host_name, '') AS host_name, r.rack AS rack, f.unit AS unit,
        f.value AS figure_value, f.evidence AS figure_evidence
    FROM runs r JOIN figures f ON f.run = r.run
    WHERE r.state = 'complete' AND f.figure = {figure} AND f.value IS NOT NULL
),
by_host AS (
    SELECT program, analysis, host_name, MAX(rack) AS rack, MIN(unit) AS unit, COUNT(*) AS n, AVG(figure_value) AS mean,
        {evidence(figure_evidence)} AS mean_evidence,
        CASE WHEN COUNT(*) > 1 THEN (COUNT(*) - 1) * VAR_SAMP(figure_value) ELSE 0.0 END AS squares
    FROM part GROUP BY program, analysis, host_name
),
by_program AS (
    SELECT program, analysis, COUNT(*) AS hosts, SUM(n) AS all_runs, SUM(n * mean) AS total, SUM(n) - COUNT(*) AS freedom,
        SUM(squares) / NULLIF(SUM(n) - COUNT(*), 0) AS spread
    FROM by_host GROUP BY program, analysis
),
compared AS (
    SELECT h.host_name AS host_name, h.rack AS rack, h.program AS program, h.n AS n, p.hosts AS hosts, h.unit AS unit, h.mean AS mean,
        h.mean_evidence AS mean_evidence, (p.total - h.n * h.mean) / (p.all_runs - h.n) AS others,
        {t95(p.freedom)} * SQRT(p.spread / h.n) AS mean_reach, {t95(p.freedom)} * SQRT(p.spread / (p.all_runs - h.n)) AS others_reach
    FROM by_host h JOIN by_program p ON p.program = h.program AND p.analysis = h.analysis
    WHERE p.hosts > 1
),
related AS (
    SELECT *, mean / NULLIF(others, 0) AS ratio,
        SQRT(mean_reach * mean_reach / NULLIF(mean * mean, 0) + others_reach * others_reach / NULLIF(others * others, 0)) AS relative_reach
    FROM compared
)
SELECT NULLIF(host_name, '') AS host, rack, program, n AS runs, hosts, unit,
    100.0 * (ratio - 1.0) AS slower,
    100.0 * (ratio - 1.0 - ratio * relative_reach) AS slower_low,
    100.0 * (ratio - 1.0 + ratio * relative_reach) AS slower_high,
    CASE WHEN ratio IS NOT NULL THEN 'estimated' END AS slower_evidence,
    mean, {low(mean; mean_reach)} AS mean_low, mean + mean_reach AS mean_high, mean_evidence,
    others, {low(others; others_reach)} AS others_low, others + others_reach AS others_high, mean_evidence AS others_evidence
FROM related
ORDER BY slower DESC NULLS LAST, host, program
LIMIT {limit}
