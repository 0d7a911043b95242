-- How much memory bandwidth do the hosts use, by rack?
--
-- One row per host: DRAM traffic per second, averaged over the elapsed time of all its runs; the busiest moment (bin of the view
-- `bandwidth`) of any run; and what the machine can deliver. The rack is the label `rack` of `fathom dataset add`.
-- Pooling: a mean weighted by elapsed time; estimates of different runs are independent, so that its variance is the sum of the
-- weights squared times theirs. Errors that all runs of a host share (its cache sizes, its measured peak) are not in it.
--
-- @column rack text - Rack
-- @column host text - Host
-- @column runs count - Runs
-- @column average metric GB/s Average
-- @column busiest metric GB/s Busiest
-- @column peak metric GB/s Peak here
-- @column used metric percent Used of it
WITH wide AS (
    SELECT r.run AS run, COALESCE(r.host_name, '') AS host_name, MAX(r.rack) AS rack,
        MAX(CASE WHEN f.figure = 'elapsed' THEN f.value END) AS elapsed,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.value END) AS rate,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.variance END) AS rate_variance,
        MAX(CASE WHEN f.figure = 'dram_bandwidth.average' THEN f.evidence END) AS rate_evidence,
        MAX(CASE WHEN f.figure = 'machine.dram_bandwidth_peak' THEN f.value END) AS peak
    FROM runs r JOIN figures f ON f.run = r.run
    WHERE r.state = 'complete'
    GROUP BY r.run, COALESCE(r.host_name, '')
),
bins AS (
    SELECT run, start, SUM(value) AS rate, COUNT(*) AS parts FROM bandwidth WHERE value IS NOT NULL GROUP BY run, start
),
busiest AS (
    SELECT w.host_name AS host_name, MAX(b.rate) AS busiest FROM wide w JOIN bins b ON b.run = w.run WHERE b.parts = 2 GROUP BY w.host_name
),
pooled AS (
    SELECT host_name, MAX(rack) AS rack, COUNT(*) AS n, SUM(elapsed * rate) / NULLIF(SUM(elapsed), 0) AS average,
        SQRT({all_of(elapsed * elapsed * rate_variance)}) / NULLIF(SUM(elapsed), 0) AS error, {evidence(rate_evidence)} AS average_evidence,
        MAX(peak) AS peak
    FROM wide WHERE elapsed IS NOT NULL AND rate IS NOT NULL GROUP BY host_name
)
SELECT p.rack AS rack, NULLIF(p.host_name, '') AS host, p.n AS runs,
    p.average AS average, {low(p.average; 1.96 * p.error)} AS average_low, p.average + 1.96 * p.error AS average_high,
    p.average_evidence AS average_evidence,
    b.busiest AS busiest, CASE WHEN b.busiest IS NOT NULL THEN 'estimated' END AS busiest_evidence,
    p.peak AS peak, CASE WHEN p.peak IS NOT NULL THEN 'calibrated' END AS peak_evidence,
    100.0 * p.average / NULLIF(p.peak, 0) AS used,
    100.0 * {low(p.average; 1.96 * p.error)} / NULLIF(p.peak, 0) AS used_low,
    100.0 * (p.average + 1.96 * p.error) / NULLIF(p.peak, 0) AS used_high,
    CASE WHEN p.peak > 0 THEN 'estimated' END AS used_evidence
FROM pooled p LEFT JOIN busiest b ON b.host_name = p.host_name
ORDER BY rack NULLS LAST, average DESC NULLS LAST, host
LIMIT {limit}
