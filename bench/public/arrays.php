<?php // Arrays with random keys, sorting, digests: for bench/public.py.
mt_srand(4);$a=[];for($i=0;$i<6000000;$i++){$k=mt_rand(0,40000);$a[$k]=($a[$k]??0)+$i;}
$s=0;for($r=0;$r<90;$r++){foreach($a as $k=>$v){$s=($s+$v*$k)%1000003;}$b=array_slice(array_keys($a),0,8000);usort($b,fn($x,$y)=>($x*31%997)<=>($y*31%997));}
$t='';for($i=0;$i<4000000;$i++){$t.=md5((string)$i)[0];}echo $s,' ',crc32($t),"\n";
