package bbolt

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/shaledb/shale"
)

// This file has Options, and how they become those of a store.

// Options are those of bbolt. The fields below HasNoEffect change nothing.
type Options struct {
	// Timeout is how long Open waits for another process, or another handle of this one, to give the store up.
	// 0: as long as it takes.
	Timeout time.Duration

	// ReadOnly opens the store as it is at this moment. It takes no lock.
	ReadOnly bool

	// NoSync is the initial value of DB.NoSync.
	NoSync bool

	// Logger gets what the store reports.
	Logger Logger

	// NoStatistics makes DB.Stats return zeros.
	NoStatistics bool

	// Store has options of the store itself, such as CacheSize, MemtableSize and FS; nil: the defaults. What the other
	// fields say goes before it.
	Store *shale.Options

	// MaxSize and OpenFile are refused by Open.
	MaxSize  int
	OpenFile func(string, int, os.FileMode) (*os.File, error)

	// These have no effect: they are about pages, and memory that files are mapped to.
	NoGrowSync, NoFreelistSync, PreLoadFreelist, Mlock bool
	FreelistType                                       FreelistType
	MmapFlags, InitialMmapSize, PageSize               int
}

// DefaultOptions are used by Open if its options are nil.
var DefaultOptions = &Options{FreelistType: FreelistArrayType}

// A FreelistType has no effect.
type FreelistType string

// The values of Options.FreelistType.
const (
	FreelistArrayType = FreelistType("array")
	FreelistMapType   = FreelistType("hashmap")
)

// DefaultFillPercent is the initial value of Bucket.FillPercent, which has no effect.
const DefaultFillPercent = 0.5

// The initial values of DB.MaxBatchSize, DB.MaxBatchDelay and DB.AllocSize.
const (
	DefaultMaxBatchSize  int = 1000
	DefaultMaxBatchDelay     = 10 * time.Millisecond
	DefaultAllocSize         = 16 << 20
)

// String returns the options that have an effect.
func (o *Options) String() string {
	if o == nil {
		return "{}"
	}
	return fmt.Sprintf("{Timeout: %s, ReadOnly: %t, NoSync: %t, NoStatistics: %t}", o.Timeout, o.ReadOnly, o.NoSync, o.NoStatistics)
}

// forEver is longer than any program waits.
const forEver = 100 * 365 * 24 * time.Hour

// store returns the options of the store.
func (o *Options) store() *shale.Options {
	var s shale.Options
	if o.Store != nil {
		s = *o.Store
	}
	s.ReadOnly, s.LockTimeout = o.ReadOnly, o.Timeout
	if o.Timeout == 0 {
		s.LockTimeout = forEver
	}
	if o.Logger != nil {
		s.Logger = slog.New(logHandler{o.Logger, ""})
	}
	return &s
}

// refused returns an error if there is an option that can't be kept.
func (o *Options) refused() error {
	if o.MaxSize > 0 {
		return notSupported("Options.MaxSize", "the size of a store has no limit; leave it 0")
	}
	if o.OpenFile != nil {
		return notSupported("Options.OpenFile", "a store has many files; set Options.Store.FS")
	}
	return nil
}

// A Logger is what bbolt calls a Logger.
type Logger interface {
	Debug(v ...any)
	Debugf(format string, v ...any)

	Error(v ...any)
	Errorf(format string, v ...any)

	Info(v ...any)
	Infof(format string, v ...any)

	Warning(v ...any)
	Warningf(format string, v ...any)

	Fatal(v ...any)
	Fatalf(format string, v ...any)

	Panic(v ...any)
	Panicf(format string, v ...any)
}

// A logHandler gives a Logger what the store reports.
type logHandler struct {
	to    Logger
	attrs string
}

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h logHandler) WithGroup(string) slog.Handler            { return h }

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += " " + a.String()
	}
	return h
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	switch {
	case r.Level >= slog.LevelError:
		h.to.Error(text)
	case r.Level >= slog.LevelWarn:
		h.to.Warning(text)
	case r.Level >= slog.LevelInfo:
		h.to.Info(text)
	default:
		h.to.Debug(text)
	}
	return nil
}
