-- Which ranks of a job have more work than the others?
--
-- One row per job and program: the mean of a figure over its ranks, the rank with the most, and how far that is above the mean.
-- Pooling: the ranks' estimates are independent, so the variance of the mean is the sum of theirs by n squared. The interval of the
-- imbalance is that of a ratio (delta method); the largest is itself a part of the mean. `starts` is the time between the first and
-- the last start: how ranks were launched, and how far the clocks of their hosts differ.
--
-- @param figure name cpu_time The figure of the summary that is compared
-- @column job text - Job
-- @column program text - Program
-- @column runs count - Ranks
-- @column ranks count - Of
-- @column imbalance metric percent Imbalance
-- @column mean metric * Mean
-- @column largest metric * Largest
-- @column largest_rank count - Rank
-- @column largest_host text - On host
-- @column starts metric s Starts differ by
WITH part AS (
    SELECT COALESCE(r.job_name, '') AS job, r.program AS program, r.mpi_rank AS mpi_rank, r.mpi_ranks AS mpi_ranks,
        r.host_name AS host_name, r.started AS started, f.unit AS unit, f.value AS figure_value, f.variance AS figure_variance,
        f.evidence AS figure_evidence,
        ROW_NUMBER() OVER (PARTITION BY COALESCE(r.job_name, ''), r.program ORDER BY f.value DESC, r.mpi_rank) AS place
    FROM runs r JOIN figures f ON f.run = r.run
    WHERE r.state = 'complete' AND r.mpi_rank IS NOT NULL AND f.figure = {figure} AND f.value IS NOT NULL
),
pooled AS (
    SELECT job, program, COUNT(*) AS n, MAX(mpi_ranks) AS ranks, MIN(unit) AS unit, AVG(figure_value) AS mean,
        {all_of(figure_variance)} / (1E0 * COUNT(*) * COUNT(*)) AS mean_variance, {evidence(figure_evidence)} AS mean_evidence,
        MAX(started) - MIN(started) AS starts
    FROM part GROUP BY job, program
),
compared AS (
    SELECT p.job AS job, p.program AS program, p.n AS n, p.ranks AS ranks, p.unit AS unit, p.mean AS mean,
        p.mean_evidence AS mean_evidence, p.starts AS starts, SQRT(p.mean_variance) AS mean_error,
        m.figure_value AS largest, SQRT(m.figure_variance) AS largest_error, m.figure_evidence AS largest_evidence,
        m.mpi_rank AS largest_rank, m.host_name AS largest_host, m.figure_value / NULLIF(p.mean, 0) AS ratio,
        SQRT({at_least_0(m.figure_variance / NULLIF(m.figure_value * m.figure_value, 0) + p.mean_variance / NULLIF(p.mean * p.mean, 0) - 2.0 * m.figure_variance / p.n / NULLIF(m.figure_value * p.mean, 0))})
            AS relative_error
    FROM pooled p JOIN part m ON m.job = p.job AND m.program = p.program
    WHERE m.place = 1
)
SELECT NULLIF(job, '') AS job, program, n AS runs, ranks, unit,
    100.0 * (ratio - 1.0) AS imbalance,
    100.0 * (ratio - 1.0 - 1.96 * ratio * relative_error) AS imbalance_low,
    100.0 * (ratio - 1.0 + 1.96 * ratio * relative_error) AS imbalance_high,
    CASE WHEN ratio IS NOT NULL THEN 'estimated' END AS imbalance_evidence,
    mean, {low(mean; 1.96 * mean_error)} AS mean_low, mean + 1.96 * mean_error AS mean_high, mean_evidence,
    largest, {low(largest; 1.96 * largest_error)} AS largest_low, largest + 1.96 * largest_error AS largest_high, largest_evidence,
    largest_rank, largest_host, starts, starts AS starts_low, starts AS starts_high, 'counted' AS starts_evidence
FROM compared
ORDER BY imbalance DESC NULLS LAST, job, program
LIMIT {limit}
