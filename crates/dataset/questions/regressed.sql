-- Which programs got slower since a day?
--
-- One row per program: the mean of a figure since that day (UTC) against the mean before, on the hosts that have runs on both sides.
-- A host counts as often before as it does since, so that a faster or slower host that came or went changes nothing.
-- Pooling: runs are independent, and the variance is that of the runs of one host and side, pooled. Intervals are those of Student's
-- t. The measurement's own variance is a part of the spread and is not added again.
--
-- @param since date - The first day of the new side, as 2026-11-24
-- @param figure name elapsed The figure of the summary that is compared
-- @column program text - Program
-- @column verdict text - Verdict
-- @column change metric percent Change
-- @column before metric * Before
-- @column after metric * Since
-- @column hosts count - Hosts
-- @column runs_before count - Runs before
-- @column runs count - Runs since
WITH part AS (
    SELECT r.program AS program, r.analysis AS analysis, COALESCE(r.host_name, '') AS host_name, f.unit AS unit,
        CASE WHEN r.date >= {since} THEN 1 ELSE 0 END AS side, f.value AS figure_value, f.evidence AS figure_evidence
    FROM runs r JOIN figures f ON f.run = r.run
    WHERE r.state = 'complete' AND f.figure = {figure} AND f.value IS NOT NULL
),
by_side AS (
    SELECT program, analysis, host_name, side, MIN(unit) AS unit, COUNT(*) AS n, AVG(figure_value) AS mean,
        {evidence(figure_evidence)} AS side_evidence,
        CASE WHEN COUNT(*) > 1 THEN (COUNT(*) - 1) * VAR_SAMP(figure_value) ELSE 0.0 END AS squares
    FROM part GROUP BY program, analysis, host_name, side
),
paired AS (
    SELECT b.program AS program, b.analysis AS analysis, b.unit AS unit, b.n AS n_before, a.n AS n_after, b.mean AS mean_before,
        a.mean AS mean_after, b.squares + a.squares AS squares, b.side_evidence AS before_evidence, a.side_evidence AS after_evidence
    FROM by_side b JOIN by_side a ON a.program = b.program AND a.analysis = b.analysis AND a.host_name = b.host_name
    WHERE b.side = 0 AND a.side = 1
),
pooled AS (
    SELECT program, analysis, MIN(unit) AS unit, COUNT(*) AS hosts, SUM(n_before) AS runs_before, SUM(n_after) AS runs_after,
        SUM(n_after * mean_before) / SUM(n_after) AS before, SUM(n_after * mean_after) / SUM(n_after) AS after,
        SUM(n_before + n_after) - 2 * COUNT(*) AS freedom,
        SUM(squares) / NULLIF(SUM(n_before + n_after) - 2 * COUNT(*), 0) AS spread,
        SUM(1E0 * n_after * n_after / n_before) / (1E0 * SUM(n_after) * SUM(n_after)) AS part_before,
        {evidence(before_evidence)} AS before_evidence, {evidence(after_evidence)} AS after_evidence
    FROM paired GROUP BY program, analysis
),
compared AS (
    SELECT *, after / NULLIF(before, 0) AS ratio, {t95(freedom)} * SQRT(spread * part_before) AS before_reach,
        {t95(freedom)} * SQRT(spread / runs_after) AS after_reach
    FROM pooled
),
related AS (
    SELECT *, SQRT(before_reach * before_reach / NULLIF(before * before, 0) + after_reach * after_reach / NULLIF(after * after, 0))
            AS relative_reach
    FROM compared
)
SELECT program,
    CASE WHEN ratio * (1.0 - relative_reach) > 1.0 THEN 'more' WHEN ratio * (1.0 + relative_reach) < 1.0 THEN 'less' ELSE 'not clear' END
        AS verdict,
    unit, 100.0 * (ratio - 1.0) AS change,
    100.0 * (ratio - 1.0 - ratio * relative_reach) AS change_low, 100.0 * (ratio - 1.0 + ratio * relative_reach) AS change_high,
    CASE WHEN ratio IS NOT NULL THEN 'estimated' END AS change_evidence,
    before, {low(before; before_reach)} AS before_low, before + before_reach AS before_high, before_evidence,
    after, {low(after; after_reach)} AS after_low, after + after_reach AS after_high, after_evidence,
    hosts, runs_before, runs_after AS runs
FROM related
ORDER BY change DESC NULLS LAST, program
LIMIT {limit}
