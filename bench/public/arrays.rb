# Hashes and sorting of arrays: for bench/public.py.
a=Array.new(200000){|i| (i*7919)%100003}
h=Hash.new(0)
30.times{ a.each{|x| h[x%3000]+=x }; a.sort_by!{|x| (x*31)%9973} }
s=0; 1.upto(30_000_000){|i| s=(s+i*3)%65537}
puts s,h[7]
