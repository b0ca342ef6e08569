package main

import (
	"bytes"
	"os"
	"strconv"
)

// anonymous returns how many bytes of the process's memory do not belong to files. That is
// Go's heap, and what SQLite takes from the operating system, which Go's counters do not
// include. Only Linux reports it.
func anonymous() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return unknown
	}
	defer f.Close()    // opened for reading
	var buf [4096]byte // on the stack, so that measuring makes no garbage
	n, err := f.Read(buf[:])
	if err != nil {
		return unknown
	}
	_, after, ok := bytes.Cut(buf[:n], []byte("RssAnon:"))
	if !ok {
		return unknown
	}
	line, _, _ := bytes.Cut(after, []byte(" kB"))
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return unknown
	}
	return kib << 10
}
