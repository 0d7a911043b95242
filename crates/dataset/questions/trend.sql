-- How does a program develop from day to day, and when did it change?
--
-- One row per program and day (UTC): the mean of a figure, and how the days from there on (`window` of them) differ from as many days
-- before. A day is a change point where that difference is at least `threshold` standard errors, and larger than that of the days
-- next to it, a window to either side.
-- Pooling: runs are independent, and runs of one day differ alike on all days: the variance is that of the runs within their days,
-- pooled over the days of a program. Intervals are those of Student's t.
--
-- @param figure name elapsed The figure of the summary that is followed
-- @param window whole 3 Days on either side, of those that have runs
-- @param threshold number 4 Standard errors from which on a change is one
-- @column program text - Program
-- @column day text - Day
-- @column runs count - Runs
-- @column mean metric * Mean
-- @column change metric percent Change
-- @column point text - Change point
WITH part AS (
    SELECT r.program AS program, r.analysis AS analysis, r.date AS day, f.unit AS unit, f.value AS figure_value,
        f.evidence AS figure_evidence
    FROM runs r JOIN figures f ON f.run = r.run
    WHERE r.state = 'complete' AND f.figure = {figure} AND f.value IS NOT NULL
),
by_day AS (
    SELECT program, analysis, day, MIN(unit) AS unit, COUNT(*) AS n, AVG(figure_value) AS mean, SUM(figure_value) AS total,
        {evidence(figure_evidence)} AS mean_evidence,
        CASE WHEN COUNT(*) > 1 THEN (COUNT(*) - 1) * VAR_SAMP(figure_value) ELSE 0.0 END AS squares
    FROM part GROUP BY program, analysis, day
),
by_program AS (
    SELECT program, analysis, SUM(n) - COUNT(*) AS freedom, SUM(squares) / NULLIF(SUM(n) - COUNT(*), 0) AS spread
    FROM by_day GROUP BY program, analysis
),
windows AS (
    SELECT program, analysis, day, unit, n, mean, mean_evidence,
        SUM(n) OVER (PARTITION BY program, analysis ORDER BY day ROWS BETWEEN {window} PRECEDING AND 1 PRECEDING) AS n_before,
        SUM(total) OVER (PARTITION BY program, analysis ORDER BY day ROWS BETWEEN {window} PRECEDING AND 1 PRECEDING) AS total_before,
        SUM(n) OVER (PARTITION BY program, analysis ORDER BY day ROWS BETWEEN CURRENT ROW AND {window - 1} FOLLOWING) AS n_after,
        SUM(total) OVER (PARTITION BY program, analysis ORDER BY day ROWS BETWEEN CURRENT ROW AND {window - 1} FOLLOWING) AS total_after
    FROM by_day
),
compared AS (
    SELECT w.program AS program, w.analysis AS analysis, w.day AS day, w.unit AS unit, w.n AS n, w.mean AS mean,
        w.mean_evidence AS mean_evidence, {t95(p.freedom)} * SQRT(p.spread / w.n) AS mean_reach,
        w.total_before / NULLIF(w.n_before, 0) AS before, w.total_after / NULLIF(w.n_after, 0) AS after,
        SQRT(p.spread / NULLIF(w.n_before, 0) + p.spread / w.n_after) AS error, {t95(p.freedom)} AS reach
    FROM windows w JOIN by_program p ON p.program = w.program AND p.analysis = w.analysis
),
judged AS (
    SELECT *, ABS(after - before) / NULLIF(error, 0) AS score,
        MAX(ABS(after - before) / NULLIF(error, 0)) OVER (
            PARTITION BY program, analysis ORDER BY day ROWS BETWEEN {window - 1} PRECEDING AND {window - 1} FOLLOWING) AS highest
    FROM compared
)
SELECT program, day, n AS runs, unit, mean, {low(mean; mean_reach)} AS mean_low, mean + mean_reach AS mean_high, mean_evidence,
    100.0 * (after - before) / NULLIF(before, 0) AS change,
    100.0 * (after - before - reach * error) / NULLIF(before, 0) AS change_low,
    100.0 * (after - before + reach * error) / NULLIF(before, 0) AS change_high,
    CASE WHEN before <> 0 THEN 'estimated' END AS change_evidence,
    CASE WHEN score >= {threshold} AND score >= highest THEN CASE WHEN after > before THEN 'more' ELSE 'less' END END AS point
FROM judged
ORDER BY program, analysis, day
LIMIT {limit}
