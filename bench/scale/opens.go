package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/offheap"
)

// childVariable names the environment variable that makes the program open the store in a
// directory, and print what it has found. The store is closed at once.
const childVariable = "SHALE_SCALE_OPEN"

// An opening is what a process says that has opened a store.
type opening struct {
	Open, Loaded  float64 // seconds until Open returned, and until filters and indexes were there
	Close         float64 // seconds
	Heap, Outside float64 // bytes in use: on the Go heap, and allocated outside of it
	Resident      float64 // bytes of the process in memory; 0: not known
	Filters       float64 // bytes
	Indexes       float64 // bytes
}

// runChild opens the store in dir as a program does that was just started, and writes an
// opening to out. If there is no store, it makes an empty one.
func runChild(dir string, out io.Writer) error {
	opts := spec{}.reading()
	opts.Exist = shale.MayExist
	begin := time.Now()
	db, err := shale.Open(dir, opts)
	if err != nil {
		return err
	}
	o := opening{Open: time.Since(begin).Seconds()}
	awaitLoaded(db)
	o.Loaded = time.Since(begin).Seconds()
	runtime.GC()
	runtime.GC() // the first one may have left objects to cleanups
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	m := db.Metrics()
	o.Heap, o.Outside = float64(heap.HeapAlloc), float64(offheap.InUse())
	o.Filters, o.Indexes = float64(m.FilterMemory), float64(m.IndexMemory)
	o.Resident = residentBytes()
	begin = time.Now()
	if err := db.Close(); err != nil {
		return err
	}
	o.Close = time.Since(begin).Seconds()
	return json.NewEncoder(out).Encode(o)
}

// awaitLoaded waits until the filters and indexes that Open has left for later are in memory.
func awaitLoaded(db *shale.DB) {
	for db.Metrics().Loading {
		time.Sleep(5 * time.Millisecond)
	}
}

// residentBytes returns how many bytes of this process are in memory, or 0 if the system
// does not say so in the way of Linux.
func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * float64(os.Getpagesize())
}

// openInChild has another process open the store in dir.
func (s *session) openInChild(dir string) (o opening, err error) {
	program, err := os.Executable()
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(s.ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return o, fmt.Errorf("open %s in a new process: %w: %s", dir, err, bytes.TrimSpace(problem.Bytes()))
	}
	return o, json.Unmarshal(out.Bytes(), &o)
}

// opens measures the opening of the store in new processes, with the files in the page
// cache. The memory is that of the store less that of an empty one.
func (s *session) opens() ([]float64, error) {
	empty, err := s.openEmpty()
	if err != nil {
		return nil, err
	}
	if _, err := s.openInChild(s.path); err != nil { // so that the files are in the page cache
		return nil, err
	}
	tables, err := s.count()
	if err != nil {
		return nil, err
	}
	keys := float64(s.keys)
	return s.each(func() ([]float64, error) {
		o, err := s.openInChild(s.path)
		heap, outside := o.Heap-empty.Heap, o.Outside-empty.Outside
		return []float64{
			o.Open, o.Loaded, o.Close, o.Resident, heap / tables, outside / tables,
			(heap + outside) / keys, o.Filters / keys, o.Indexes / keys,
		}, err
	})
}

// openEmpty has another process make an empty store.
func (s *session) openEmpty() (opening, error) {
	dir := filepath.Join(filepath.Dir(s.path), "empty")
	if err := os.RemoveAll(dir); err != nil {
		return opening{}, err
	}
	o, err := s.openInChild(dir)
	return o, errors.Join(err, os.RemoveAll(dir))
}
