package monitor

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// notShown are the fields of Metrics and LevelMetrics that no family shows, each with its reason.
var notShown = map[string]string{
	"GetMisses":     "may fall: it is the difference of gets and hits",
	"StallTime":     "the sum of its causes",
	"MemtableBytes": "the memory of the memtables is shown",
	"KeyShare":      "a part of the predicted false positives",
	"MeasuredFPR":   "the ratio of two counters, which are shown",
}

// values returns what the families show of s, by name and label.
func values(s *State) map[string]float64 {
	all := map[string]float64{}
	for _, f := range Families {
		for at, v := range f.All(s) {
			all[f.Name+"{"+at+"}"] = v
		}
	}
	return all
}

// TestFamilies_EveryField sets each field alone, so that a new one is shown, or its absence explained.
func TestFamilies_EveryField(t *testing.T) {
	none := values(&State{Metrics: shale.Metrics{Levels: make([]shale.LevelMetrics, 1)}})
	check := func(field string, s *State) {
		t.Helper()
		shown := !maps.Equal(values(s), none)
		if _, exempt := notShown[field]; shown == exempt {
			t.Errorf("%s: shown is %v, want %v", field, shown, !exempt)
		}
	}
	for i := range reflect.TypeFor[shale.Metrics]().NumField() {
		s := State{Metrics: shale.Metrics{Levels: make([]shale.LevelMetrics, 1)}}
		if f := reflect.ValueOf(&s.Metrics).Elem().Field(i); setOne(f) {
			check(reflect.TypeFor[shale.Metrics]().Field(i).Name, &s)
		}
	}
	for i := range reflect.TypeFor[shale.LevelMetrics]().NumField() {
		s := State{Metrics: shale.Metrics{Levels: make([]shale.LevelMetrics, 1)}}
		if f := reflect.ValueOf(&s.Levels[0]).Elem().Field(i); setOne(f) {
			check(reflect.TypeFor[shale.LevelMetrics]().Field(i).Name, &s)
		}
	}
	check("Writable", &State{Metrics: shale.Metrics{Levels: make([]shale.LevelMetrics, 1)}, Writable: true})
}

// setOne sets a field to 1 or true, and reports whether it could.
func setOne(f reflect.Value) bool {
	switch {
	case f.CanInt():
		f.SetInt(1)
	case f.CanUint():
		f.SetUint(1)
	case f.CanFloat():
		f.SetFloat(1)
	case f.Kind() == reflect.Bool:
		f.SetBool(true)
	default:
		return false
	}
	return true
}

func TestFamilies_Names(t *testing.T) {
	var names []string
	for _, f := range Families {
		names = append(names, f.Name)
		if f.Counter != strings.HasSuffix(f.Name, "_total") || !strings.HasPrefix(f.Name, "shale_") {
			t.Errorf("%s: counter is %v", f.Name, f.Counter)
		}
		if !strings.HasSuffix(f.Help, ".") || strings.ContainsAny(f.Help, "\n\\\"") {
			t.Errorf("%s: help %q is no sentence, or has characters that Prometheus' text format escapes", f.Name, f.Help)
		}
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names) {
		t.Errorf("a name stands twice among %q", names)
	}
}

func TestStateOf(t *testing.T) {
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put([]byte("k"), nil); err != nil {
		t.Fatal(err)
	}
	s, err := StateOf(db)
	if v := values(&s); err != nil || v["shale_writes_total{}"] != 1 || v["shale_writable{}"] != 1 || v["shale_level_tables{6}"] != 0 || v["shale_open_snapshots{}"] != 0 {
		t.Errorf("StateOf = %v, %v", v, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := StateOf(db); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("StateOf of a closed store = %v, want ErrClosed", err)
	}
}
