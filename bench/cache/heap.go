package main

import (
	"runtime"
	"time"
)

// heapWhenFull is what a full cache keeps alive.
func heapWhenFull(c contestant) float64 {
	before := liveHeap()
	for i := range uint64(4 * capacity / blockSize) {
		c.insert(1<<41 + i)
	}
	time.Sleep(200 * time.Millisecond) // Otter works in the background
	after := liveHeap()
	runtime.KeepAlive(c)
	return (after - before) / capacity
}

// highestHeap is what the process must find room for, garbage included, while
// each lookup misses a full cache.
func highestHeap(c contestant) float64 {
	before := liveHeap()
	highest := before
	for i := range uint64(16 * capacity / blockSize) {
		c.insert(1<<41 + i)
		if i%1024 == 0 {
			highest = max(highest, heap())
		}
	}
	runtime.KeepAlive(c)
	return (highest - before) / capacity
}

func heap() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// liveHeap collects twice, because pools give up in the second collection only.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	return heap()
}
