package bloom_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
)

// signatures are the forms that a method of this name may have. SELF is a pointer to the type
// itself. Where there are two forms of an addition, the one with an error is for types that
// can become full: full has these.
var signatures = map[string][]string{
	"Add":               {"func([]uint8) error"},
	"AddString":         {"func(string) error"},
	"AddKeys":           {"func([][]uint8) error"},
	"AddHash":           {"func(uint64)", "func(uint64, uint64)", "func(uint64) error", "func(uint64, uint64) error"},
	"AddMany":           {"func([]uint64)", "func([]uint64) error"},
	"MayContain":        {"func([]uint8) bool"},
	"MayContainString":  {"func(string) bool"},
	"MayContainKeys":    {"func([][]uint8, []bool)"},
	"MayContainHash":    {"func(uint64) bool", "func(uint64, uint64) bool"},
	"MayContainMany":    {"func([]uint64, []bool)"},
	"Remove":            {"func([]uint8) bool"},
	"RemoveHash":        {"func(uint64) bool"},
	"CheckAndAdd":       {"func([]uint8) bool", "func([]uint8) (bool, error)"},
	"CheckAndAddHash":   {"func(uint64) bool", "func(uint64, uint64) bool", "func(uint64, uint64) (bool, error)"},
	"Count":             {"func() uint64"},
	"SizeBytes":         {"func() int"},
	"FPR":               {"func() float64"},
	"FillRatio":         {"func() float64"},
	"EstimatedCount":    {"func() float64"},
	"Union":             {"func(SELF) error"},
	"Intersect":         {"func(SELF) error"},
	"UnionCount":        {"func(SELF) (float64, error)"},
	"IntersectionCount": {"func(SELF) (float64, error)"},
	"Clone":             {"func() SELF"},
	"Reset":             {"func()"},
	"Hasher":            {"func() bloom.Hasher"},
	"String":            {"func() string"},
	"AppendBinary":      {"func([]uint8) ([]uint8, error)"},
	"MarshalBinary":     {"func() ([]uint8, error)"},
	"UnmarshalBinary":   {"func([]uint8) error"},
	"MarshalText":       {"func() ([]uint8, error)"},
	"UnmarshalText":     {"func([]uint8) error"},
	"WriteTo":           {"func(io.Writer) (int64, error)"},
	"ReadFrom":          {"func(io.Reader) (int64, error)"},
}

// full are the types that can become full.
var full = map[string]bool{"sketch.Cuckoo": true, "sketch.Scalable": true, "redisbloom.Filter": true}

// gone are names that an operation of the scheme once had.
var gone = []string{
	"Check", "CheckString", "HasHash", "HasMany", "HasString", "Merge", "Test", "TestAndAdd", "SetAndTest", "Keys", "PredictedFPR", "Contains", "Insert", "Delete",
}

// values are filters of values of a Go type, or sets of numbers: they take no keys.
var values = map[string]bool{"sketch.Bitset": true, "guava.Of": true}

// Every method of the scheme has the agreed signature, on every type that has it.
func TestScheme_Signatures(t *testing.T) {
	used := make(map[string]bool)
	for _, f := range every {
		if f.name == "bundle.Bundle" {
			continue // of many filters
		}
		typ := reflect.TypeOf(f.full())
		for _, name := range gone {
			if _, found := typ.MethodByName(name); found {
				t.Errorf("%s has a method %s", f.name, name)
			}
		}
		for name, forms := range signatures {
			m, found := typ.MethodByName(name)
			if !found || values[f.name] && strings.Contains(signatures[name][0], "[]uint8") && !strings.Contains(name, "arshal") && name != "AppendBinary" {
				continue
			}
			used[name] = true
			got := signature(m.Type, typ)
			if !agreed(got, forms) {
				t.Errorf("%s.%s is %s, want one of %v", f.name, name, got, forms)
			}
			if strings.Contains(name, "Add") && len(forms) > 1 && strings.Contains(got, "error") != full[f.name] {
				t.Errorf("%s.%s is %s; only types that can become full return an error here", f.name, name, got)
			}
		}
	}
	for name := range signatures {
		if !used[name] && !strings.HasSuffix(name, "Count") {
			t.Errorf("no type has %s", name)
		}
	}
}

func agreed(got string, forms []string) bool {
	for _, form := range forms {
		if got == form {
			return true
		}
	}
	return false
}

// signature returns the type of a method without its receiver, which is self.
func signature(method, self reflect.Type) string {
	var in, out []reflect.Type
	for i := 1; i < method.NumIn(); i++ {
		in = append(in, method.In(i))
	}
	for i := range method.NumOut() {
		out = append(out, method.Out(i))
	}
	return strings.ReplaceAll(reflect.FuncOf(in, out, method.IsVariadic()).String(), self.String(), "SELF")
}

// Keys, strings, hashes, many keys and many hashes are answered alike. The rest of a long
// answer is "maybe", and a short one is answered as far as it goes.
func TestScheme_SameAnswers(t *testing.T) {
	for _, f := range every {
		set, ok := f.full().(bloom.Set)
		if !ok {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			keys := make([][]byte, 50)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "key-%d", i)
			}
			if adder, ok := set.(bloom.Adder); ok {
				for i, add := range []error{adder.Add(keys[0]), adder.AddString(string(keys[1])), adder.AddKeys(keys[2:9])} {
					if add != nil {
						t.Fatalf("addition %d: %v", i, add)
					}
				}
			}
			checkAnswers(t, set, keys)
		})
		zero := f.zero().(bloom.Set)
		long := make([]bool, 3)
		if zero.MayContainKeys([][]byte{[]byte("a")}, long); !long[0] || !long[1] || !long[2] || !zero.MayContainString("a") {
			t.Errorf("the zero %s: %v", f.name, long)
		}
		if adder, ok := zero.(bloom.Adder); ok && (adder.Add(nil) == nil || adder.AddString("a") == nil || adder.AddKeys([][]byte{nil}) == nil) {
			t.Errorf("the zero %s takes a key", f.name)
		}
	}
}

func checkAnswers(t *testing.T, set bloom.Set, keys [][]byte) {
	t.Helper()
	out := make([]bool, len(keys)+3)
	set.MayContainKeys(keys, out)
	for i, key := range keys {
		if got, str := set.MayContain(key), set.MayContainString(string(key)); got != out[i] || got != str {
			t.Errorf("%q: MayContain %v, MayContainString %v, MayContainKeys %v", key, got, str, out[i])
		}
	}
	if _, adds := set.(bloom.Adder); adds {
		for i := range 9 {
			if !out[i] {
				t.Errorf("%q was added and is denied", keys[i])
			}
		}
	}
	if !out[len(keys)] || !out[len(keys)+2] {
		t.Error("MayContainKeys: the rest is no")
	}
	short := make([]bool, 5)
	set.MayContainKeys(keys, short)
	set.MayContainKeys(nil, nil)
	for i := range short {
		if short[i] != out[i] {
			t.Errorf("MayContainKeys of five answers: the answer %d is %v", i, short[i])
		}
	}
	checkHashes(t, set, keys, out)
}

// A hash64 and a hash128 are filters that are asked for hashes of that width.
type (
	hash64 interface {
		MayContainHash(h uint64) bool
		MayContainMany(hashes []uint64, out []bool)
	}
	hash128 interface {
		Hash(key []byte) (h1, h2 uint64)
		MayContainHash(h1, h2 uint64) bool
		MayContainMany(hashes []uint64, out []bool)
	}
)

// checkHashes compares the answers for hashes with want, those for keys.
func checkHashes(t *testing.T, set bloom.Set, keys [][]byte, want []bool) {
	t.Helper()
	out := make([]bool, len(want))
	var hashes []uint64
	switch f := set.(type) {
	case hash128:
		for i, key := range keys {
			h1, h2 := f.Hash(key)
			if f.MayContainHash(h1, h2) != want[i] {
				t.Errorf("MayContainHash of %q is not %v", key, want[i])
			}
			hashes = append(hashes, h1, h2)
		}
		f.MayContainMany(append(hashes, 7), out) // a word without a second
	case hash64:
		hasher := func(key []byte) uint64 { return bloom.Hash(key) }
		if h, ok := set.(interface{ Hasher() bloom.Hasher }); ok {
			hasher = h.Hasher().Hash
		}
		if strings.HasPrefix(fmt.Sprintf("%T", set), "*parquet.") {
			return // of a hash function of its own
		}
		for i, key := range keys {
			if f.MayContainHash(hasher(key)) != want[i] {
				t.Errorf("MayContainHash of %q is not %v", key, want[i])
			}
			hashes = append(hashes, hasher(key))
		}
		f.MayContainMany(hashes, out)
	default:
		return
	}
	for i := range out {
		if out[i] != want[i] {
			t.Errorf("MayContainMany: the answer %d is %v", i, out[i])
		}
	}
}

// Hashes added many at once are there, and CheckAndAdd says what MayContain says before.
func TestScheme_AddMany(t *testing.T) {
	for _, f := range every {
		set := f.full()
		switch s := set.(type) {
		case interface{ AddMany(hashes []uint64) }:
			s.AddMany([]uint64{1 << 60, 2 << 60, 3 << 60})
		case interface{ AddMany(hashes []uint64) error }:
			if err := s.AddMany([]uint64{1 << 60, 2 << 60, 3 << 60}); err != nil {
				t.Errorf("%s: AddMany: %v", f.name, err)
			}
		}
		switch s := set.(type) {
		case hash128:
			if !s.MayContainHash(1<<60, 2<<60) || s.MayContainHash(3<<60, 0) {
				t.Errorf("%s: AddMany does not take pairs", f.name)
			}
		case interface {
			hash64
			AddHash(h uint64)
		}:
			if !s.MayContainHash(1<<60) || !s.MayContainHash(3<<60) {
				t.Errorf("%s: AddMany does not add", f.name)
			}
		}
	}
}
