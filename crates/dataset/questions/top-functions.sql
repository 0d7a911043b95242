-- Which functions lose the most time to memory over the whole fleet?
--
-- One row per function: a figure summed over all runs, and what part that is of all CPU time of these runs. The default figure,
-- stall_time, is the CPU time at accesses that waited for memory, summed over objects.
-- Pooling: estimates of different runs are independent, so variances add up. Rows of one run come from the same samples and are
-- treated as independent, too: what is in one row is not in the other, so the interval is rather too wide. Where a row has no
-- variance, the sum has no interval.
--
-- @param figure name stall_time The figure of functions that is summed up
-- @column function text - Function
-- @column module text - Module
-- @column amount metric * Sum
-- @column share metric percent Of CPU time
-- @column runs count - Runs
-- @column hosts count - Hosts
-- @column programs count - -
-- @column file text - -
-- @column line count - -
WITH chosen AS (
    SELECT run, program, host_name FROM runs WHERE state = 'complete'
),
cpu AS (
    SELECT SUM(f.value) AS total FROM chosen c JOIN figures f ON f.run = c.run WHERE f.figure = 'cpu_time'
),
summed AS (
    SELECT f.function AS function_name, f.module AS module_name, MIN(f.file) AS file_name, MIN(f.line) AS line_number,
        MIN(f.unit) AS unit, SUM(f.value) AS amount, SQRT({all_of(f.variance)}) AS error, {evidence(f.evidence)} AS amount_evidence,
        COUNT(DISTINCT c.run) AS n, NULLIF(COUNT(DISTINCT c.host_name), 0) AS hosts, COUNT(DISTINCT c.program) AS programs
    FROM chosen c JOIN functions f ON f.run = c.run
    WHERE f.figure = {figure} AND f.value IS NOT NULL
    GROUP BY f.function, f.module
)
SELECT function_name AS function, module_name AS module, unit,
    amount, {low(amount; 1.96 * error)} AS amount_low, amount + 1.96 * error AS amount_high, amount_evidence,
    CASE WHEN unit = 's' THEN 100.0 * amount / NULLIF(total, 0) END AS share,
    CASE WHEN unit = 's' THEN 100.0 * {low(amount; 1.96 * error)} / NULLIF(total, 0) END AS share_low,
    CASE WHEN unit = 's' THEN 100.0 * (amount + 1.96 * error) / NULLIF(total, 0) END AS share_high,
    CASE WHEN unit = 's' AND total > 0 THEN 'estimated' END AS share_evidence,
    n AS runs, hosts, programs, file_name AS file, line_number AS line
FROM summed CROSS JOIN cpu
ORDER BY amount DESC NULLS LAST, function, module
LIMIT {limit}
