// A target of the corpus in Go: goroutines on stacks that move, a collector that runs beside them, signals that the
// runtime sends to its own threads (SIGURG), panics that are recovered. Prints a checksum.
package main

import (
	"fmt"
	"sort"
	"sync"
)

func mixed(sum, value uint64) uint64 {
	sum = (sum ^ value) * 0x9e3779b97f4a7c15
	return sum ^ sum>>29
}

func deep(depth int, sum uint64) uint64 {
	var frame [64]uint64
	frame[depth%64] = sum
	if depth == 0 {
		return sum
	}
	return mixed(deep(depth-1, sum), frame[depth%64])
}

func work(number uint64) (sum uint64) {
	defer func() {
		if recover() != nil {
			sum = mixed(sum, 7)
		}
	}()
	sum = number
	kept := map[uint64][]uint64{}
	for step := uint64(0); step < 60000; step++ {
		sum = mixed(sum, step)
		kept[sum%509] = append(kept[sum%509], step)
	}
	keys := make([]uint64, 0, len(kept))
	for key := range kept {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(a, b int) bool { return keys[a] < keys[b] })
	for _, key := range keys {
		sum = mixed(sum, key+uint64(len(kept[key])))
	}
	sum = deep(2000, sum)
	var none *uint64
	return *none // a SIGSEGV that the runtime turns into a panic
}

func main() {
	sums := make([]uint64, 500)
	var all sync.WaitGroup
	for number := range sums {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			sums[number] = work(uint64(number))
		}(number)
	}
	all.Wait()
	sum := uint64(1)
	for _, part := range sums {
		sum = mixed(sum, part)
	}
	fmt.Printf("checksum=%016x\nEXIT-SUCCESS\n", sum)
}
