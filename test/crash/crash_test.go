// Package crash crashes the disk of stores at its operations, in all ways to crash, and opens what
// is left each time: no durable write is lost, whole commits survive, up to some point and none
// beyond, and the store goes on.
package crash

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// scripts are lives that come by all that a store does to its disk.
var scripts = map[string]func(s *harness.Script){
	"flush": func(s *harness.Script) {
		for range 4 {
			s.Write(12, 5)
			s.Flush()
		}
		s.Write(5, 0)
	},
	"compaction": func(s *harness.Script) {
		for range 7 {
			s.Write(30, 11)
			s.Flush()
			s.Idle()
		}
		s.Compact()
		s.Write(10, 3)
		s.Compact()
	},
	"compaction in parts": func(s *harness.Script) {
		s.Reopen(func(o *shale.Options) {
			o.CompactionWorkers, o.TableSize, o.MemtableSize, o.BlockSize = 4, 4<<10, 8<<10, 512
		})
		for range 3 {
			s.Write(120, 17)
			s.Compact()
		}
		s.Write(10, 3)
	},
	"rotation": func(s *harness.Script) {
		s.Reopen(func(o *shale.Options) { o.MemtableSize = 4 << 10 })
		s.Write(120, 7)
		s.Write(40, 0)
		s.Sync()
		s.Write(60, 1)
	},
	"rotation without mapping": func(s *harness.Script) {
		s.Reopen(func(o *shale.Options) { *harness.KnobsOf(o).NoMap, o.MemtableSize = true, 4<<10 })
		s.Write(120, 7)
		s.Sync()
		s.Write(60, 2)
	},
	"manifest roll": func(s *harness.Script) {
		for range 8 {
			s.Write(8, 3)
			s.RollManifest()
			s.Flush()
		}
	},
	"open and close": func(s *harness.Script) {
		for range 12 {
			s.Reopen(nil)
			s.Write(4, 3)
		}
	},
	"checkpoint": func(s *harness.Script) {
		s.Write(40, 9)
		s.Flush()
		s.Write(10, 0)
		s.Checkpoint()
		s.Write(30, 4)
		s.Checkpoint()
		s.Compact()
		s.Write(10, 0)
	},
	"filters beside tables": func(s *harness.Script) {
		hash := shale.FilterHash(s.IntN(3))
		filters := func(bits float64, hash shale.FilterHash, workers int) {
			s.Reopen(func(o *shale.Options) {
				o.FilterBits, o.FilterMemory, o.Tuning.FilterHash, o.CompactionWorkers = bits, 0, hash, workers
			})
		}
		filters(-1, hash, 1)
		for range 3 {
			s.Write(24, 7)
			s.Flush()
			s.Idle()
		}
		for i := range shale.FilterHash(2) {
			filters(20, (hash+i)%(shale.SipHash+1), -1) // no worker merges the tables that lack filters
			s.RebuildFilters()
			s.Write(10, 3)
			s.Flush()
			s.RollManifest()
			s.Checkpoint()
		}
		filters(20, hash, -1)
		s.RebuildFilters()
		filters(20, hash, 1)
		s.Idle()
		s.Compact()
		s.Kill()
	},
	"ingest": func(s *harness.Script) {
		for round := range 6 {
			s.Write(3, 2)
			s.Ingest()
			s.Write(3, 0)
			if round%2 == 1 {
				s.RollManifest()
			}
			s.Ingest()
			s.Idle()
		}
		s.Write(2, 0)
		s.Kill()
		s.Write(1, 0)
		s.Ingest()
		s.Checkpoint()
		s.Compact()
	},
	"expiry": func(s *harness.Script) {
		for _, jump := range []time.Duration{0, 2 * time.Hour, -time.Hour, 25 * time.Hour, -26 * time.Hour} {
			s.Jump(jump)
			s.Write(20, 6)
			s.Flush()
			s.Jump(time.Hour)
			s.Write(8, 3)
			s.Flush()
			s.Jump(-90 * time.Minute)
			s.Compact()
			s.Reopen(nil)
			s.Idle()
		}
		s.Checkpoint()
		s.Jump(48 * time.Hour)
		s.Idle()
		s.Write(4, 3)
		s.Compact()
	},
	"death of the process": func(s *harness.Script) {
		for range 8 {
			s.Write(11, 5)
			s.Kill()
		}
	},
	"crash after crash": func(s *harness.Script) {
		configs := vfs.CrashConfigs(s.Seed)
		for i := range 10 {
			s.Write(9, 4)
			s.Crash(configs[s.IntN(len(configs))])
			s.Write(3, 2)
			if i%3 == 2 {
				s.Flush()
			}
		}
	},
}

// drawn returns a drawn program. It leaves the checkpoints as they are, so that each can be compared.
func drawn(seed uint64) harness.Program {
	operations := slices.DeleteFunc(slices.Clone(harness.Operations), func(o harness.Operation) bool { return o.Name == "useCopy" })
	return harness.DrawProgram(seed, 40, harness.NewSource(harness.ShortKeys), operations, harness.LifeOperations)
}

func TestCrash_AtEveryOperation(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	begin := time.Now()
	var states, ops int64
	share := testenv.ShareOf(t, seed, 1./160)
	// Each life is lived with several options, if not all of its states are tried.
	rounds := uint64(1)
	if share.Part < 1 {
		rounds = 3
		share.Part /= 3
	}
	lives := slices.Sorted(maps.Keys(scripts))
	for round := uint64(0); round < rounds || time.Since(begin) < long; round++ {
		for i, name := range append(slices.Clone(lives), "drawn") {
			p := drawn(seed + round)
			if script := scripts[name]; script != nil {
				s := harness.NewScript(seed + round)
				s.Timed = true
				script(s)
				p = s.All()
			}
			c := &harness.Crashes{Life: harness.NewLife(seed + round<<8 + uint64(i)), Name: name, Seed: seed + round, Share: share}
			c.Encrypted = (round+uint64(i))%4 == 1
			options := c.Options
			c.Options = func(n int) shale.Options {
				o := options(n)
				if script := scripts[name]; script != nil {
					o.CompactionWorkers = 1 // the scripts wait for compactions
				}
				return o
			}
			var failed atomic.Int64
			c.Run(p, func(err error) {
				if failed.Add(1) <= 3 {
					t.Errorf("seed %d, %v; written last with %s", seed+round, err, harness.OptionsText(&c.Opts))
				}
			})
			states, ops = states+c.States.Load(), ops+c.Ops.Load()
			if failed.Load() > 0 {
				return
			}
		}
	}
	t.Logf("%d states at %d operations of %d lives, each with other options %d times or more, in %v; %v",
		states, ops, len(lives)+1, rounds, time.Since(begin).Round(time.Millisecond), share)
	if states == 0 {
		t.Error("no state was tried")
	}
}
