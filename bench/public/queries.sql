-- Inserts, an index, sums by group, a join: for bench/public.py.
create table t(a integer, b integer, c text);
with recursive n(i) as (select 1 union all select i+1 from n where i<2500000) insert into t select i,(i*7919)%10007,'x'||(i%999) from n;
create index ib on t(b);
select count(*),sum(a) from t where b<5000;
select c,sum(b) s from t group by c order by s desc limit 3;
select count(*) from t x join t y on x.b=y.b where x.a<60000;
select count(*) from t where c like '%77%';
