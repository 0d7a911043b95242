-- Which functions take more since a day?
--
-- One row per program and function: the mean of a figure of one run since that day (UTC) against the mean before. Sorted by the
-- difference. A run whose samples do not show a function counts with nothing for it, as the estimate of its time is.
-- Pooling: runs are independent; the variance is that of the runs of a side (Welch), with the smaller number of degrees of freedom.
--
-- @param since date - The first day of the new side, as 2026-11-24
-- @param figure name cpu_time The figure of functions that is compared
-- @column function text - Function
-- @column program text - Program
-- @column verdict text - Verdict
-- @column difference metric * Difference
-- @column before metric * Before
-- @column after metric * Since
-- @column runs_before count - Runs before
-- @column runs count - Runs since
WITH chosen AS (
    SELECT run, program, analysis, CASE WHEN date >= {since} THEN 1 ELSE 0 END AS side FROM runs WHERE state = 'complete'
),
sides AS (
    SELECT program, analysis, SUM(1 - side) AS n_before, SUM(side) AS n_after FROM chosen GROUP BY program, analysis
),
by_run AS (
    SELECT c.run AS run, c.program AS program, c.analysis AS analysis, c.side AS side, f.function AS function_name, MIN(f.unit) AS unit,
        SUM(f.value) AS figure_value, {evidence(f.evidence)} AS run_evidence
    FROM chosen c JOIN functions f ON f.run = c.run
    WHERE f.figure = {figure} AND f.value IS NOT NULL
    GROUP BY c.run, c.program, c.analysis, c.side, f.function
),
sums AS (
    SELECT program, analysis, function_name, MIN(unit) AS unit, {evidence(run_evidence)} AS figure_evidence,
        SUM(CASE WHEN side = 0 THEN figure_value ELSE 0.0 END) AS sum_before,
        SUM(CASE WHEN side = 1 THEN figure_value ELSE 0.0 END) AS sum_after,
        SUM(CASE WHEN side = 0 THEN figure_value * figure_value ELSE 0.0 END) AS squares_before,
        SUM(CASE WHEN side = 1 THEN figure_value * figure_value ELSE 0.0 END) AS squares_after
    FROM by_run GROUP BY program, analysis, function_name
),
means AS (
    SELECT s.program AS program, s.function_name AS function_name, s.unit AS unit, s.figure_evidence AS figure_evidence,
        n.n_before AS n_before, n.n_after AS n_after, s.sum_before / n.n_before AS before, s.sum_after / n.n_after AS after,
        {at_least_0(s.squares_before - s.sum_before * s.sum_before / n.n_before)} / NULLIF(1E0 * n.n_before * (n.n_before - 1), 0)
            AS before_variance,
        {at_least_0(s.squares_after - s.sum_after * s.sum_after / n.n_after)} / NULLIF(1E0 * n.n_after * (n.n_after - 1), 0)
            AS after_variance,
        CASE WHEN n.n_before < n.n_after THEN n.n_before ELSE n.n_after END - 1 AS freedom
    FROM sums s JOIN sides n ON n.program = s.program AND n.analysis = s.analysis
    WHERE n.n_before > 0 AND n.n_after > 0
),
compared AS (
    SELECT *, after - before AS difference, {t95(freedom)} * SQRT(before_variance) AS before_reach,
        {t95(freedom)} * SQRT(after_variance) AS after_reach, {t95(freedom)} * SQRT(before_variance + after_variance) AS reach
    FROM means
)
SELECT function_name AS function, program,
    CASE WHEN difference - reach > 0.0 THEN 'more' WHEN difference + reach < 0.0 THEN 'less' ELSE 'not clear' END AS verdict,
    unit, difference, difference - reach AS difference_low, difference + reach AS difference_high, 'estimated' AS difference_evidence,
    before, {low(before; before_reach)} AS before_low, before + before_reach AS before_high, figure_evidence AS before_evidence,
    after, {low(after; after_reach)} AS after_low, after + after_reach AS after_high, figure_evidence AS after_evidence,
    n_before AS runs_before, n_after AS runs
FROM compared
ORDER BY difference DESC NULLS LAST, function, program
LIMIT {limit}
