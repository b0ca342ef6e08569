package vfs

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
)

// A log is written and synced before a second file says how long it is. No
// crash in the middle may find the second file ahead of the log: Crash sees
// all files at one moment.
func TestMem_CrashIsOneMoment(t *testing.T) {
	m := newMemWithDir(t, "/d")
	log, mark := create(t, m, "/d/log", ""), create(t, m, "/d/mark", "")
	must(t, m.SyncDir("/d"))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		var buf [8]byte
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			log.Write([]byte("record 16 bytes."))
			log.Sync()
			binary.LittleEndian.PutUint64(buf[:], i)
			mark.WriteAt(buf[:], 0)
		}
	})
	for seed := range uint64(500) {
		c := CrashConfig{Seed: seed}
		if seed%2 == 0 {
			c.Policy = KeepAll // of the mark: the log is synced
		}
		after := m.Crash(c)
		info, err := after.Stat("/d/log")
		must(t, err)
		data := readFile(t, after, "/d/mark")
		if len(data) == 8 && info.Size < 16*int64(binary.LittleEndian.Uint64([]byte(data))) {
			t.Errorf("%v: log of %d bytes, mark %x", c, info.Size, data)
		}
	}
	close(stop)
	wg.Wait()
}

// TestMem_Concurrency runs everything that may
// happen at the same time, for the race detector.
func TestMem_Concurrency(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := create(t, m, "/d/shared", "")
	must(t, f.Preallocate(1<<20))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			buf := make([]byte, 3000)
			for i := range 200 {
				name := fmt.Sprintf("/d/%d", w)
				writeFile(t, m, name, "x")
				f.ReadAt(buf, int64(i*100))
				f.Size()
				m.Rename(name, name+"r")
				m.List("/d")
				m.Stat(name)
				m.Open(name)
				m.SyncDir("/d")
				m.Remove(name + "r")
				f.Sync()
			}
		})
	}
	wg.Go(func() {
		for i := range 500 {
			f.WriteAt(make([]byte, 5000), int64(i*50))
		}
	})
	wg.Go(func() {
		for _, c := range CrashConfigs(1) {
			after := m.Crash(c)
			if g, err := after.OpenReadWrite("/d/shared"); err == nil {
				g.WriteAt([]byte("other"), 777)
				g.ReadAt(make([]byte, 9000), 0)
			}
		}
	})
	wg.Wait()
}
