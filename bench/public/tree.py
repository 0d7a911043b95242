# A binary tree of objects, and a counter: for bench/public.py.
import random,collections
random.seed(3)
class N:
    __slots__=('k','l','r')
    def __init__(s,k): s.k=k;s.l=None;s.r=None
root=N(0.5)
for i in range(500000):
    k=random.random();n=root
    while True:
        if k<n.k:
            if n.l is None: n.l=N(k);break
            n=n.l
        else:
            if n.r is None: n.r=N(k);break
            n=n.r
c=collections.Counter()
for i in range(4000000): c[(i*7919)%10007]+=i
print(c[5])
