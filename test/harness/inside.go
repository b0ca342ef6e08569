package harness

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/scheduler"
	"github.com/shaledb/shale/internal/tree"
)

// This file is the only place that reaches behind the API of package shale. Production code has no
// hooks for tests, and tests outside its package can't name its fields, so they are found by
// reflection. A field that is renamed makes each test panic with its name.

// hidden returns a pointer to an unexported field, given by its path.
func hidden[T any](of any, path ...string) *T {
	v := reflect.ValueOf(of).Elem()
	for _, name := range path {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		v = v.FieldByName(name)
		if !v.IsValid() {
			panic(fmt.Sprintf("harness: %T has no field %q", of, path))
		}
	}
	if want := reflect.TypeFor[T](); v.Type() != want {
		panic(fmt.Sprintf("harness: field %q of %T is a %v, not a %v", path, of, v.Type(), want))
	}
	return (*T)(unsafe.Pointer(v.UnsafeAddr()))
}

// Knobs are the settings of a store that only tests turn.
type Knobs struct {
	MinPrepared *int64 // the least memtable size with which the next log is prepared
	NoMap       *bool  // logs are written by calls even where they could be mapped
	Now         *func() time.Time
	Seed        *uint64        // of the store's identity
	Session     *func() uint64 // returns the id of the next session
	BaseSize    *int64         // of the first level below level 0
	Runs        *int           // that a level may hold
	Level0      *int           // runs at which level 0 is compacted
	TailChunk   *int           // bytes of a chunk of the tail with which transactions are compared
}

// KnobsOf returns the knobs of o.
func KnobsOf(o *shale.Options) Knobs {
	return Knobs{
		MinPrepared: hidden[int64](o, "testing", "minPrepared"),
		NoMap:       hidden[bool](o, "testing", "noMap"),
		Now:         hidden[func() time.Time](o, "testing", "now"),
		Seed:        hidden[uint64](o, "testing", "seed"),
		Session:     hidden[func() uint64](o, "testing", "session"),
		BaseSize:    hidden[int64](o, "testing", "baseSize"),
		Runs:        hidden[int](o, "testing", "runs"),
		Level0:      hidden[int](o, "testing", "level0"),
		TailChunk:   hidden[int](o, "testing", "tailChunk"),
	}
}

// optionsOf returns the options of an open store, with the defaults filled in.
func optionsOf(db *shale.DB) *shale.Options { return hidden[shale.Options](db, "opts") }

// TreeOf returns the tables of an open store.
func TreeOf(db *shale.DB) *tree.Tree { return *hidden[*tree.Tree](db, "tree") }

// LogsOf returns the logs of an open store.
func LogsOf(db *shale.DB) *logset.Set { return *hidden[*logset.Set](db, "logs") }

// SchedulerOf returns what chooses the compactions of an open store.
func SchedulerOf(db *shale.DB) *scheduler.Scheduler {
	return *hidden[*scheduler.Scheduler](db, "scheduler")
}

// unflushed reports whether a memtable waits to be flushed. Nothing may be flushing it yet.
func unflushed(db *shale.DB) bool {
	return (*hidden[func() bool](SchedulerOf(db), "env", "Flushing"))()
}
