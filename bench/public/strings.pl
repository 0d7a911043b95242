# Hash of strings, split and sort: for bench/public.py.
my %h; my $s=12345; for my $i (1..4000000){ $s=($s*1103515245+12345)%2147483648; my $k="k".($s%50000); $h{$k}.=chr(65+$i%26); if(length($h{$k})>40){ $h{$k}=reverse substr($h{$k},0,10);} }
my $t=0; for(1..12){ for my $k (sort keys %h){ my @p=split //,$h{$k}; $t+=scalar(@p); $t+=($h{$k}=~tr/A-M//); } } print "$t\n";
