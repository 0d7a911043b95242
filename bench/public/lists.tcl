# Recursion, sorting of lists, an array: for bench/public.py.
proc fib n {expr {$n<2?$n:[fib [expr {$n-1}]]+[fib [expr {$n-2}]]}}
puts [fib 29]
set l {}; for {set i 0} {$i<150000} {incr i} {lappend l [expr {($i*7919)%100003}]}
for {set j 0} {$j<30} {incr j} {set l2 [lsort -integer $l]; foreach x $l2 {incr a([expr {$x%2000}]) $x}}
puts $a(7)
