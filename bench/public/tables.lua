-- Sorting of tables, a histogram, a loop of numbers: for bench/public.py.
local s=42 local function r(n) s=(s*1103515245+12345)%2147483648 return s%n end
local t={} for i=1,200000 do t[i]={k=r(1000000),v=i} end
table.sort(t,function(a,b) return a.k<b.k end)
local h={} for p=1,60 do for i=1,#t do local k=t[i].k%5000 h[k]=(h[k] or 0)+t[i].v end end
local x=0 for i=1,60000000 do x=(x+i*i)%1000003 end print(x,h[17])
